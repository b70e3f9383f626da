"""A chart: which dots are lit for known samples, the labels of its axes, its legend."""

import math
import re
import time
from collections.abc import Iterator, Sequence

import pytest
from rich.console import Console
from rich.text import Text

from quarterdeck.metrics.commands.chart_axes import time_ticks, value_axis
from quarterdeck.metrics.commands.chart_canvas import BrailleCanvas
from quarterdeck.metrics.commands.query_answer import SeriesAnswer
from quarterdeck.metrics.commands.query_chart import chart
from quarterdeck.metrics.commands.query_times import Range
from tests.cli.answers import START_S

NAN, INF = math.nan, math.inf
LEFT = 4
"""Columns before the lines where the labels of values have two signs."""


@pytest.fixture(autouse=True)
def local_time(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Local time is that of Berlin, by its rules and not by a data base that may be missing."""
    monkeypatch.setenv("TZ", "CET-1CEST,M3.5.0,M10.5.0/3")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def series(numbers: Sequence[float | None], **labels: str) -> SeriesAnswer:
    """A sample every second from `START_S` on; None is none."""
    known = [(float(START_S + at), number) for at, number in enumerate(numbers) if number is not None]
    return SeriesAnswer(labels, [at for at, _ in known], [str(n) for _, n in known], [n for _, n in known])


def drawn(*curves: SeriesAnswer, columns: int = 20, rows: int = 4, colours: bool = False) -> list[str]:
    """The lines of a chart over 40 s, whose lines are `columns` wide: a dot for each second with 20 of them."""
    console = Console(width=200, color_system=None)
    with console.capture() as captured:
        width = columns + LEFT + (0 if colours else 2)
        console.print(chart(curves, Range(START_S, START_S + 39, 1), width=width, rows=rows, colours=colours))
    return captured.get().splitlines()


# Dots


def test_dots_light_their_part_of_a_sign() -> None:
    canvas = BrailleCanvas(2, 1)
    for x, y in ((0, 0), (1, 3), (2, 1), (9, 0), (0, -1)):
        canvas.dot(x, y, 0)
    assert list(canvas.runs(0)) == [("⢁⠂", 0)]


def test_what_is_empty_is_a_space_without_ink_and_runs_end_where_the_ink_changes() -> None:
    canvas = BrailleCanvas(4, 1)
    canvas.line(0, 0, 3, 0, 5)
    canvas.dot(6, 0, 7)
    assert list(canvas.runs(0)) == [("⠉⠉", 5), (" ", -1), ("⠁", 7)]


def test_the_ink_of_a_sign_is_that_of_the_last_dot() -> None:
    canvas = BrailleCanvas(1, 1)
    canvas.dot(0, 0, 1)
    canvas.dot(1, 0, 2)
    assert list(canvas.runs(0)) == [("⠉", 2)]


def test_a_line_goes_the_shortest_way() -> None:
    canvas = BrailleCanvas(2, 2)
    canvas.line(0, 7, 3, 4, 0)
    canvas.line(3, 0, 3, 3, 0)
    assert [text for row in (0, 1) for text, ink in canvas.runs(row) if ink == 0] == ["⢸", "⡠⠊"]


@pytest.mark.parametrize(("to_x", "to_y"), [(0, 31), (1, 31), (3, 31), (15, 31), (31, 31), (31, 15), (31, 3), (31, 0)])
def test_a_line_is_one_dot_thick_in_any_direction(to_x: int, to_y: int) -> None:
    for turned in (False, True):
        canvas = BrailleCanvas(16, 8)
        if turned:
            canvas.line(to_x, 31 - to_y, 0, 31, 0)
        else:
            canvas.line(0, 0, to_x, to_y, 0)
        signs = "".join(text for row in range(8) for text, ink in canvas.runs(row) if ink == 0)
        assert sum((ord(sign) - 0x2800).bit_count() for sign in signs) == 32


def test_what_is_outside_is_left_out_of_a_line() -> None:
    canvas = BrailleCanvas(1, 1)
    canvas.line(-5, -50, 5, 50, 0)
    canvas.line(0, -9, 0, -7, 0)
    assert [ink for _, ink in canvas.runs(0)] == [0]


# Lines


def test_a_rising_line_goes_from_corner_to_corner() -> None:
    assert drawn(series([at / 39 * 40 for at in range(40)])) == [
        "40 ┤               ⣀⡠⠤⠒⠉ a",
        "   │          ⣀⡠⠔⠒⠉",
        "20 ┤     ⣀⠤⠔⠊⠉",
        " 0 ┤⣀⠤⠒⠊⠉",
        "   └─────┬──────────────",
        "     23:13:30",
        "2023-11-14 23:13:20 to 23:13:59 CET, a point every 1s",
        "       last  min  max",
        "a  {}    40    0   40",
    ]


@pytest.mark.parametrize(
    ("number", "labels"), [(10, ["20", "10", "0"]), (-10, ["0", "-10", "-20"]), (0, ["1", "0", "-1"])]
)
def test_a_constant_is_in_the_middle(number: float, labels: list[str]) -> None:
    lines = drawn(series([number] * 40))
    assert [line.split("┤")[0].strip() for line in lines if "┤" in line] == labels
    assert [row for row in range(4) if "⠉" * 20 in lines[row]] == [2]


def test_noise_of_floats_is_a_constant() -> None:
    assert len(value_axis(1e9, 1e9 + 1e-6, 4).ticks) == len(value_axis(1e9, 1e9, 4).ticks)


def test_a_single_sample_is_seen() -> None:
    assert drawn(series([None] * 20 + [10]))[:4] == ["20 ┤", "   │", "10 ┤          ⠛          a", " 0 ┤"]


def test_a_nan_and_a_missing_sample_are_gaps() -> None:
    assert drawn(series([20, 20, NAN, 20, 20, None, *[20] * 34]))[2] == f"20 ┤⠉⠈⠁{'⠉' * 17} a"


def test_an_infinity_is_a_dot_at_the_edge_and_not_in_the_scale() -> None:
    assert drawn(series([10] * 10 + [INF] + [20] * 10 + [-INF] + [20] * 18))[:4] == [
        "20 ┤     ⠛⠉⠉⠉⠉⠁⠉⠉⠉⠉⠉⠉⠉⠉⠉ a",
        "   │",
        "15 ┤",
        "10 ┤⣀⣀⣀⣀⣀     ⣤",
    ]


@pytest.mark.parametrize("number", [NAN, INF, -INF, 1.7e308, -1.7e308, 5e-324])
def test_whatever_a_float_can_be_has_a_chart(number: float) -> None:
    assert len(drawn(series([number] * 40))) == 9


def test_the_longest_axis_has_no_overflow() -> None:
    axis = value_axis(-1.7e308, 1.7e308, 4)
    assert (axis.fraction(axis.low), axis.fraction(0.0), axis.fraction(axis.high)) == (0.0, 0.5, 1.0)


def test_samples_further_apart_than_the_step_are_not_joined() -> None:
    apart = SeriesAnswer({}, [START_S, START_S + 20], ["10", "10"], [10, 10])
    assert drawn(apart)[2] == "10 ┤⠛         ⠛          a"


def test_a_range_of_one_moment_has_its_sample_in_the_middle() -> None:
    console = Console(width=80, color_system=None)
    with console.capture() as captured:
        console.print(chart([series([10])], Range(START_S, START_S, 1), width=26, rows=4, colours=False))
    assert captured.get().splitlines()[2] == "10 ┤          ⠛          a"


# Axes


@pytest.mark.parametrize(
    ("low", "high", "labels"),
    [
        (0, 1, ["0", "0.25", "0.5", "0.75", "1"]),
        (130, 980, ["0", "250", "500", "750", "1000"]),
        (900, 980, ["900", "920", "940", "960", "980"]),
        (-3e6, 5e6, ["-4M", "-2M", "0", "2M", "4M", "6M"]),
        (0, 0.003, ["0", "1m", "2m", "3m"]),
        (0, 7e-6, ["0", "2µ", "4µ", "6µ", "8µ"]),
        (0, 3e9, ["0", "1G", "2G", "3G"]),
        (1_000_001, 1_000_003, ["1.000001M", "1.0000015M", "1.000002M", "1.0000025M", "1.000003M"]),
        (0.1, 0.3, ["0", "0.1", "0.2", "0.3"]),
    ],
)
def test_values_have_round_labels(low: float, high: float, labels: list[str]) -> None:
    assert [label for _, label in value_axis(low, high, 4).ticks] == labels


def times(start: str, hours: float, columns: int = 80) -> list[str]:
    start_s = time.mktime(time.strptime(start, "%Y-%m-%d %H:%M:%S"))
    return [label for _, label in time_ticks(start_s, start_s + hours * 3600, columns)]


def test_times_are_local_and_round() -> None:
    assert times("2026-01-05 10:07:00", 6) == ["11:00", "12:00", "13:00", "14:00", "15:00", "16:00"]
    assert times("2026-01-05 10:00:03", 0.01, 50) == ["10:00:10", "10:00:20", "10:00:30"]


def test_a_range_of_more_than_a_day_has_dates() -> None:
    assert times("2026-01-05 10:00:00", 36, 60) == ["Jan 05 12:00", "Jan 06 00:00", "Jan 06 12:00"]
    assert times("2026-01-05 10:00:00", 24 * 5) == ["Jan 06", "Jan 07", "Jan 08", "Jan 09", "Jan 10"]
    assert times("2026-01-05 10:00:00", 24 * 800, 50) == ["2026-12-18", "2027-12-18"]


def test_labels_are_those_of_the_clock_when_the_clocks_change() -> None:
    assert times("2026-03-29 00:30:00", 5, 50) == ["01:00", "03:00", "04:00", "05:00", "06:00"]
    assert times("2026-03-28 23:00:00", 10, 30) == ["00:00", "03:00", "06:00", "09:00"]
    assert times("2026-03-27 12:00:00", 24 * 5) == ["Mar 28", "Mar 29", "Mar 30", "Mar 31", "Apr 01"]


@pytest.mark.parametrize("columns", [20, 33, 80, 250])
@pytest.mark.parametrize("hours", [0.01, 0.3, 1, 5, 23, 30, 100, 1000, 30_000])
def test_labels_of_times_never_touch(columns: int, hours: float) -> None:
    console = Console(width=400, color_system=None)
    span = Range(START_S, START_S + hours * 3600, 1)
    with console.capture() as captured:
        console.print(chart([series([10])], span, width=columns + LEFT, rows=4, colours=True))
    axis, labels = captured.get().splitlines()[4:6]
    assert len(labels) <= columns + LEFT
    form = r" +".join([r"(?:\w{3} \d\d(?: \d\d:\d\d)?|[\d:-]+)"] * axis.count("┬"))
    assert axis.count("┬") == 0 or re.fullmatch(rf" *{form}", labels)


# Legend and colours


def inks(*curves: SeriesAnswer, rows: int = 4) -> list[str]:
    """The colours of the lines, from the top."""
    group = chart(curves, Range(START_S, START_S + 39, 1), width=24, rows=rows, colours=True)
    console = Console(width=100, force_terminal=True, color_system="256")
    lines = [line for line in console.render_lines(group) if any("⠉" <= part.text[:1] <= "⣿" for part in line)]
    return [str(part.style) for line in lines for part in line if "⠉" <= part.text[:1] <= "⣿"]


def test_the_largest_last_value_has_the_first_colour() -> None:
    assert inks(series([0] * 40, job="a"), series([40] * 40, job="b")) == ["cyan", "yellow"]


def test_the_first_of_the_legend_is_on_top() -> None:
    assert inks(series([10] * 40, job="a"), series([10] * 40, job="b")) == ["cyan"]


def test_many_series_are_drawn_in_turning_colours_and_the_largest_are_listed() -> None:
    many = [series([number] * 40, pod=f"p{number}") for number in range(12)]
    assert inks(*many, rows=12)[:2] == ["cyan", "yellow"]
    assert set(inks(*many[:1], *many[-1:])) == {"cyan", "yellow"}
    lines = drawn(*many, rows=12, colours=True)
    assert [line.split()[1] for line in lines if line.startswith("━━")] == [f"p{n}" for n in range(11, 1, -1)]
    assert lines[-1] == "… and 2 more series; --format table lists all"
    assert sum("⠉" <= sign <= "⣿" for line in lines[:12] for sign in line) >= 12 * 20 // 2


def test_without_colours_a_letter_is_at_the_end_of_each_line() -> None:
    lines = drawn(series([0] * 40, job="x"), series([40] * 40, job="y"), series([40] * 40, job="z"))
    assert lines[0].endswith("⠉ ab")
    assert lines[3].endswith("⣀ c")
    assert [line.split()[:2] for line in lines[-3:]] == [["a", "y"], ["b", "z"], ["c", "x"]]


def test_the_legend_says_once_what_all_have_in_common() -> None:
    lines = drawn(series([0] * 40, __name__="up", job="x", env="p"), series([1] * 40, __name__="up", job="y", env="p"))
    assert lines[-4:] == [
        'up{env="p"}',
        "   job  last  min  max",
        "a  y       1    1    1",
        "b  x       0    0    0",
    ]


def test_the_legend_has_the_digits_that_tell_the_lowest_from_the_highest() -> None:
    assert drawn(series([1e9] * 39 + [1e9 + 16]))[-1].split()[-3:] == ["1.00000002G", "1G", "1.00000002G"]


def test_a_series_that_ends_in_nan_is_listed_last() -> None:
    lines = drawn(series([50] * 39 + [NAN], job="x"), series([1] * 40, job="y"))
    assert [line.split()[1:] for line in lines[-2:]] == [["y", "1", "1", "1"], ["x", "NaN", "50", "50"]]


def test_what_looks_like_markup_in_a_label_is_shown_as_it_is() -> None:
    assert Text("[bold]x").plain in drawn(series([1] * 40, job="[bold]x"), series([2] * 40, job="y"))[-1]
