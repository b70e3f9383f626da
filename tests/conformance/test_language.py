"""The language of the scripts: what each notation means, and that nothing is passed over."""

import math

import pytest

from quarterdeck.metrics.promql.histograms.buckets import run_of
from quarterdeck.metrics.promql.histograms.hints import ResetHint
from quarterdeck.metrics.promql.histograms.native import NativeHistogram
from quarterdeck.metrics.promql.labels import from_mapping
from quarterdeck.metrics.promql.syntax.ast import Matcher, MatchOp
from tests.conformance import notation
from tests.conformance.histogram_text import HistogramText, from_classic
from tests.conformance.language import parse
from tests.conformance.notation import Mark
from tests.conformance.samples import Samples
from tests.conformance.script import (
    Clear,
    Eval,
    ExpectedFailure,
    ExpectedScalar,
    ExpectedSeries,
    ExpectedString,
    Instant,
    Load,
    Notices,
    ScriptError,
    Steps,
    Wording,
)
from tests.conformance.stored_histograms import as_stored

UP = from_mapping({"__name__": "up"})


def only_eval(text: str) -> Eval:
    (command,) = parse(text).commands
    assert isinstance(command, Eval)
    return command


def only_load(text: str) -> Load:
    (command,) = parse(text).commands
    assert isinstance(command, Load)
    return command


@pytest.mark.parametrize(
    ("text", "duration_ms"),
    [
        ("0", 0),
        ("5m", 300_000),
        ("1h30m", 5_400_000),
        ("1ms", 1),
        ("1m1ms", 60_001),
        ("9m10s", 550_000),
        ("1d", 86_400_000),
    ],
)
def test_durations_are_read_in_milliseconds(text: str, duration_ms: int) -> None:
    assert notation.duration_ms(text) == duration_ms


@pytest.mark.parametrize("text", ["", "5", "m", "1s1m", "1.5m", "-5m", "5mm"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is no duration"):
        notation.duration_ms(text)


@pytest.mark.parametrize(
    ("text", "points"),
    [
        ("1 2.5 -3 .5 1e3 -1.5E-2", (1.0, 2.5, -3.0, 0.5, 1000.0, -0.015)),
        ("Inf -Inf +Inf", (math.inf, -math.inf, math.inf)),
        ("1+2x3", (1.0, 3.0, 5.0, 7.0)),
        ("1-2x2", (1.0, -1.0, -3.0)),
        ("-1--2x2", (-1.0, 1.0, 3.0)),
        ("0x2", (0.0, 0.0, 0.0)),
        ("_ 1 _x2 2", (Mark.OMITTED, 1.0, Mark.OMITTED, Mark.OMITTED, 2.0)),
        ("1 stale 2", (1.0, Mark.STALE, 2.0)),
        ("stalex1", (Mark.STALE, Mark.STALE)),
        ("1 2 # and no more", (1.0, 2.0)),
    ],
)
def test_values_are_written_in_many_ways(text: str, points: tuple[notation.Point, ...]) -> None:
    assert notation.series(f"up {text}") == (UP, points)


def test_not_a_number_is_a_value() -> None:
    _, (one, two) = notation.series("up NaN nan")
    assert isinstance(one, float)
    assert isinstance(two, float)
    assert math.isnan(one)
    assert math.isnan(two)


@pytest.mark.parametrize("text", ["", "1+2", "1x", "x3", "hello", "1,2", "{{sum:1}}+2x3", "{{sum}}", "{{bad:1}}"])
def test_what_is_no_value_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"\S"):
        notation.series(f"up {text}")


@pytest.mark.parametrize(
    ("text", "labels"),
    [
        ("up", {"__name__": "up"}),
        ("a:b{}", {"__name__": "a:b"}),
        ("{}", {}),
        ('{a="1"}', {"a": "1"}),
        ("up{a='1', b=`2`,}", {"__name__": "up", "a": "1", "b": "2"}),
        ('{"a metric", "a label"="1"}', {"__name__": "a metric", "a label": "1"}),
        (r'{a="say \"hi\", {b}\n\u00e9\xc3\xa9"}', {"a": 'say "hi", {b}\néé'}),
        (r"{a=`\n`}", {"a": r"\n"}),
        ('{a=""}', {}),
    ],
)
def test_labels_are_written_in_many_ways(text: str, labels: dict[str, str]) -> None:
    assert notation.series(f"{text} 1") == (from_mapping(labels), (1.0,))


@pytest.mark.parametrize("text", ["{", "{a}", "{a=}", "{a=1}", '{a="1" b="2"}', '{a="1",a="2"}', '{a="1', "5"])
def test_what_are_no_labels_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"\S"):
        notation.metric(text)


def test_histograms_are_read_and_grow() -> None:
    step = "{{sum:1 count:3 offset:2 buckets:[1 2]}}"
    _, points = notation.series(f"h {{{{schema:0 sum:5 count:4 buckets:[1 2 1] counter_reset_hint:gauge}}}}+{step}x1")
    first, second = points
    assert isinstance(first, HistogramText)
    assert isinstance(second, HistogramText)
    assert first.histogram == NativeHistogram(count=4.0, total=5.0, positive=run_of(0, (1.0, 2.0, 1.0)))
    assert second.histogram == NativeHistogram(count=7.0, total=6.0, positive=run_of(0, (1.0, 2.0, 2.0, 2.0)))
    assert second.histogram.hint is ResetHint.GAUGE
    assert not second.has_hint


def test_what_a_histogram_grows_by_says_whether_its_hint_is_expected() -> None:
    _, named = notation.series("h {{count:1}}+{{count:1 counter_reset_hint:unknown}}x1")
    _, unnamed = notation.series("h {{count:1 counter_reset_hint:gauge}}-{{count:1}}x1")
    assert [point.has_hint for point in (*named, *unnamed) if isinstance(point, HistogramText)] == [
        True,
        True,
        False,
        False,
    ]


def test_a_native_histogram_made_of_a_classic_one_has_no_empty_buckets() -> None:
    made = from_classic([(1.0, 2.0), (2.0, 2.0), (math.inf, 5.0)], None, 1.0)
    assert made.histogram.positive == ((0, 2.0), (2, 3.0))


def test_all_fields_of_a_histogram_are_read() -> None:
    text = "schema:-1 sum:1 count:9 z_bucket:2 z_bucket_w:0.5 buckets:[1 2] offset:-3 n_buckets:[4] n_offset:1"
    assert HistogramText.parse(text) == HistogramText(
        NativeHistogram(-1, 0.5, 2.0, 9.0, 1.0, ((-3, 1.0), (-2, 2.0)), ((1, 4.0),)), has_hint=False
    )
    custom = HistogramText.parse("schema:-53 custom_values:[1 2]")
    assert custom.histogram == NativeHistogram(-53, custom_bounds=(1.0, 2.0))


@pytest.mark.parametrize("text", ["sum:[1]", "buckets:1", "what:1", "sum:1 sum:1", "sum 1", "counter_reset_hint:no"])
def test_what_is_no_histogram_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"\S"):
        HistogramText.parse(text)


def test_a_classic_histogram_becomes_one_with_custom_bounds() -> None:
    made = from_classic([(math.inf, 9.0), (0.1, 2.0), (0.5, 5.0)], None, 3.0)
    assert made.histogram == NativeHistogram(
        -53, count=9.0, total=3.0, positive=run_of(0, (2.0, 3.0, 4.0)), custom_bounds=(0.1, 0.5)
    )


def test_the_storage_knows_of_resets_only_within_a_chunk() -> None:
    plain = [NativeHistogram(count=count) for count in (1.0, 2.0, 1.0, 1.0)]
    gauge = NativeHistogram(count=0.0, hint=ResetHint.GAUGE)
    claimed = NativeHistogram(count=5.0, hint=ResetHint.RESET)
    finer = NativeHistogram(1, count=9.0)
    found = as_stored([*plain, None, plain[1], gauge, plain[1], claimed, claimed, finer, finer])
    assert [None if one is None else one.hint.value for one in found] == [
        "unknown",
        "not_reset",
        "unknown",
        "not_reset",
        None,
        "unknown",
        "gauge",
        "unknown",
        "unknown",
        "unknown",
        "unknown",
        "not_reset",
    ]


def test_the_storage_gives_the_histograms_of_a_chunk_the_same_buckets() -> None:
    first = NativeHistogram(count=2.0, positive=((0, 2.0),))
    second = NativeHistogram(count=5.0, positive=((0, 2.0), (3, 1.0)), negative=((1, 2.0),))
    fallen = NativeHistogram(count=6.0, positive=((3, 6.0),))
    assert list(as_stored([first, second, fallen])) == [
        NativeHistogram(count=2.0, positive=((0, 2.0), (3, 0.0)), negative=((1, 0.0),)),
        second,
        fallen,
    ]


def test_load_with_nhcb_adds_the_native_histogram_beside_the_classic_one() -> None:
    samples = Samples()
    samples.load(
        only_load("""
        load_with_nhcb 1m
          h_bucket{le="1", a="b"}    1 2
          h_bucket{le="+Inf", a="b"} 3 5
          h_sum{a="b"}               9 9
        """)
    )
    block = samples.source().select([Matcher("__name__", MatchOp.EQUAL, "h")], 0, 60_000)
    assert block.axis.labels == (from_mapping({"__name__": "h", "a": "b"}),)
    assert block.timestamps.tolist() == [0, 60_000]
    assert block.histograms is not None
    assert block.histograms[1] == NativeHistogram(
        -53, count=5.0, total=9.0, positive=run_of(0, (2.0, 3.0)), custom_bounds=(1.0,)
    )
    assert len(samples.source()) == 4


def test_loads_add_up_until_they_contradict_each_other() -> None:
    samples = Samples()
    samples.load(only_load("load 1m\n up 1 2"))
    samples.load(only_load("load 2m\n up 1 _ 3"))
    assert samples.source().select([], 0, 600_000).timestamps.tolist() == [0, 60_000, 240_000]
    with pytest.raises(ValueError, match="two samples at 60000 ms"):
        samples.load(only_load("load 1m\n up 1 5"))


def test_of_two_lines_for_one_series_within_a_load_the_last_one_counts() -> None:
    samples = Samples()
    samples.load(only_load("load 1m\n up 1 2\n up NaN"))
    samples.load(only_load("load 1m\n up NaN"))
    assert samples.source().select([], 0, 600_000).timestamps.tolist() == [0]


def test_commands_stand_in_blocks_and_know_their_lines() -> None:
    script = parse("""
# a comment
load 30s
  up 1 2
  down{a="b"} 3

clear
  eval instant at 1m 1 + 1
    2
eval range from 0 to 1m step 30s up
""")
    assert [(type(command), command.line) for command in script.commands] == [
        (Load, 3),
        (Clear, 7),
        (Eval, 8),
        (Eval, 10),
    ]
    load = script.commands[0]
    assert isinstance(load, Load)
    assert load.interval_ms == 30_000
    assert [series.line for series in load.series] == [4, 5]


def test_an_instant_eval_has_a_time_a_query_and_series() -> None:
    command = only_eval('eval instant at 1h5m sum(up{a="b # c"})  \n {a="1"} 5\n up 6')
    assert command.at == Instant(3_900_000)
    assert command.query == 'sum(up{a="b # c"})'
    assert command.expected == ExpectedSeries(((from_mapping({"a": "1"}), (5.0,)), (UP, (6.0,))))
    assert command.warnings == command.infos == Notices()


def test_a_range_eval_has_times_and_a_value_for_each() -> None:
    command = only_eval("eval range from 10s to 1m step 10s up\n up 1+1x5")
    assert command.at == Steps(10_000, 60_000, 10_000)
    assert command.expected == ExpectedSeries(((UP, (1.0, 2.0, 3.0, 4.0, 5.0, 6.0)),))


@pytest.mark.parametrize(
    ("line", "value"), [("5", 5.0), ("-0.5", -0.5), ("+Inf", math.inf), ("0x10", 16.0), ("1e3", 1e3)]
)
def test_a_bare_number_is_a_scalar(line: str, value: float) -> None:
    assert only_eval(f"eval instant at 0 x\n {line}").expected == ExpectedScalar(value)


def test_expect_lines_say_what_else_must_hold() -> None:
    command = only_eval("""
eval instant at 0 x
    expect ordered
    expect warn msg: PromQL warning: so so (1:5)
    expect warn regex: some.*
    expect no_info
    up 1
""")
    assert command.expected == ExpectedSeries(((UP, (1.0,)),), ordered=True)
    assert command.warnings == Notices((Wording(text="PromQL warning: so so (1:5)"), Wording(pattern="some.*")))
    assert command.infos == Notices(none=True)


@pytest.mark.parametrize(
    ("text", "wording"),
    [
        ("eval instant at 0 x\n expect fail", Wording()),
        ("eval instant at 0 x\n expect fail msg:no space", Wording(text="no space")),
        ("eval instant at 0 x\n expect fail regex: a.c", Wording(pattern="a.c")),
        ("eval_fail instant at 0 x", Wording()),
        ("eval_fail instant at 0 x\n expected_fail_message oh no", Wording(text="oh no")),
        ("eval_fail range from 0 to 1m step 1m x\n expected_fail_regexp o.*", Wording(pattern="o.*")),
        ("eval_fail instant at 0 x\n expect fail", Wording()),
        ("eval_fail instant at 0 x\n expect fail msg: oh no", Wording(text="oh no")),
    ],
)
def test_a_failure_is_expected_in_old_words_and_new(text: str, wording: Wording) -> None:
    assert only_eval(text).expected == ExpectedFailure(wording)


def test_old_words_for_order_and_notices_still_work() -> None:
    assert only_eval("eval_ordered instant at 0 x").expected == ExpectedSeries((), ordered=True)
    assert only_eval("eval_warn instant at 0 x").warnings == Notices((Wording(),))
    assert only_eval("eval_info range from 0 to 0 step 1m x").infos == Notices((Wording(),))


def test_of_two_lines_that_expect_one_series_the_last_one_counts() -> None:
    command = only_eval('eval_ordered instant at 0 up\n up 1\n {a="1"} 2\n up 3')
    assert command.expected == ExpectedSeries(((from_mapping({"a": "1"}), (2.0,)), (UP, (3.0,))), ordered=True)


def test_a_string_is_expected_in_quotes() -> None:
    assert only_eval('eval instant at 0 "a"\n expect string " a\\t"').expected == ExpectedString(" a\t")


def test_a_range_vector_is_expected_with_the_times_of_its_samples() -> None:
    command = only_eval("eval instant at 1m up[1m]\n expect range vector from 10s to 1m step 10s\n up 1 2 _ 4")
    assert command.at == Instant(60_000)
    assert command.range_vector == Steps(10_000, 60_000, 10_000)


@pytest.mark.parametrize("time", ["0", "50s", "1m", "5m"])
def test_the_time_of_an_eval_is_the_end_of_the_range_vector_that_is_expected(time: str) -> None:
    command = only_eval(f"eval instant at {time} up[1m]\n expect range vector from 10s to 1m step 10s\n up 1 2 _ 4")
    assert command.at == Instant(60_000)


def test_a_range_vector_of_one_sample_needs_no_step() -> None:
    command = only_eval("eval instant at 1m up[1m]\n expect range vector from 1m to 1m step 0\n up 1")
    assert command.range_vector == Steps(60_000, 60_000, 0)


def test_starts_of_samples_are_read_and_a_line_without_a_name_is_for_all_below() -> None:
    load = only_load("""
load 1m
  up{a="b"}@st  _ -30s-1mx2 +1ms
  up{a="b"}     1 2 3 4 5
  @st           -1m *x1 _
  down          1 2 3 4 5
""")
    first, second = load.series
    assert first.start_offsets_ms == (None, -30_000, -90_000, -150_000, 1)
    assert second.start_offsets_ms == (-60_000, -60_000, -60_000, None, -60_000)


@pytest.mark.parametrize(
    ("text", "line", "why"),
    [
        ("lead 5m\n up 1", 1, "is no command"),
        ("\n\nload\n up 1", 3, "this is no load"),
        ("load 5x\n up 1", 2, "is no duration"),
        ("load 5m\n up 1\n up{ 1", 3, "label's name"),
        ("eval at 5m up", 1, "this is no eval"),
        ("eval instant at 5m", 1, "this is no eval"),
        ("eval_ordered range from 0 to 1m step 1m up", 1, "this is no eval"),
        ("eval range from 1m to 0 step 1m up", 1, "before the start"),
        ("eval range from 0 to 1m step 0 up", 1, "longer than nothing"),
        ("eval instant at 0 up\n expect nothing", 2, "this expect is unknown"),
        ("eval instant at 0 up\n expect warn text: x", 2, "this expect is unknown"),
        ("eval instant at 0 up\n expect warn regex: (", 2, "is no regular expression"),
        ("eval instant at 0 up\n expect warn\n expect no_warn", 3, "cannot both be expected"),
        ("eval instant at 0 up\n expect fail\n expect fail", 3, "expected twice"),
        ("eval instant at 0 up\n expect fail\n up 1", 3, "expect one of these"),
        ("eval instant at 0 up\n expect string bare", 2, "is no quoted string"),
        ("eval instant at 0 up\n up 1 2", 2, "one value a series"),
        ("eval range from 0 to 1m step 1m up\n expect range vector from 0 to 1m step 1m", 2, "is for instant ones"),
        ("eval range from 0 to 1m step 1m up\n expect ordered", 2, "ordered says nothing"),
        ("eval instant at 0 up\neval instant at 1m up", 2, "starts with no value"),
        ("load 1m\n up@st -1m\n down 1", 3, "another series"),
        ("load 1m\n up@st -1m\n up 1 2", 3, "has 1 values, and this one 2"),
        ("load 1m\n up@st -1m", 2, "no series below"),
        ("load 1m\n up@st soon\n up 1", 2, "is no start"),
    ],
)
def test_what_is_not_understood_is_an_error_with_file_and_line(text: str, line: int, why: str) -> None:
    with pytest.raises(ScriptError, match=why) as raised:
        parse(text, "shop.test")
    assert (raised.value.file, raised.value.line) == ("shop.test", line)
    assert str(raised.value).startswith(f"shop.test:{line}: ")
