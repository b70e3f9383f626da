"""The runner itself: a wrong answer must be found, whichever of the runs it is in. The engine here is played."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pytest

from quarterdeck.metrics.promql.blocks import STALE_BITS, Axis, SeriesBlock
from quarterdeck.metrics.promql.errors import ExecutionError, ParseError
from quarterdeck.metrics.promql.histograms.hints import ResetHint
from quarterdeck.metrics.promql.histograms.native import NativeHistogram
from quarterdeck.metrics.promql.labels import Labels, from_mapping
from quarterdeck.metrics.promql.result import Result, Scalar, String, Value, Vector
from quarterdeck.metrics.promql.source import Source
from quarterdeck.metrics.promql.spans import Span
from tests.conformance.comparison import almost_equal
from tests.conformance.language import parse
from tests.conformance.pinning import pinned
from tests.conformance.runner import Outcome, Verdict, run, stages
from tests.conformance.script import ScriptError

UP = from_mapping({"__name__": "up"})
A = from_mapping({"a": "1"})
B = from_mapping({"a": "2"})


def vector(rows: Mapping[Labels, float]) -> Vector:
    return Vector(0, tuple(rows), np.array(list(rows.values()), dtype=np.float64))


def block(rows: Mapping[Labels, Mapping[int, float]]) -> SeriesBlock:
    counts = [0, *(len(samples) for samples in rows.values())]
    return SeriesBlock(
        Axis.of(list(rows)),
        np.cumsum(counts, dtype=np.int64),
        np.array([time for samples in rows.values() for time in samples], dtype=np.int64),
        np.array([value for samples in rows.values() for value in samples.values()], dtype=np.float64),
    )


def same_at_every_step(value: Value, times: Sequence[int]) -> SeriesBlock:
    """What an honest engine answers to a range query, when the instant query answers with `value` at any time."""
    if isinstance(value, Scalar):
        return block({(): dict.fromkeys(times, value.value)})
    assert isinstance(value, Vector)
    rows = sorted(zip(value.labels, value.values.tolist(), strict=True))
    return block({labels: dict.fromkeys(times, float(one)) for labels, one in rows})


@dataclass
class Played:
    """An engine that answers every instant query with `answer`, or as `at` says for a query with an `@`."""

    answer: Value
    at: Value | None = None
    ranged: Value | None = None
    warnings: tuple[str, ...] = ()
    infos: tuple[str, ...] = ()
    asked: list[tuple[str, int, int]] = field(default_factory=list[tuple[str, int, int]])
    series: list[int] = field(default_factory=list[int])

    def instant(self, sources: Sequence[Source], text: str, time_ms: int) -> Result:
        self.asked.append((text, time_ms, time_ms))
        self.series = [len(source.select([], -(10**9), 10**9).axis) for source in sources]
        return Result(self.at if self.at is not None and "@" in text else self.answer, self.warnings, self.infos)

    def range(self, sources: Sequence[Source], text: str, start_ms: int, end_ms: int, step_ms: int) -> Result:
        self.asked.append((text, start_ms, end_ms))
        times = range(start_ms, end_ms + 1, step_ms)
        return Result(self.ranged or same_at_every_step(self.answer, times), self.warnings, self.infos)


@dataclass
class Refusing:
    """An engine that raises."""

    error: Exception

    def instant(self, sources: Sequence[Source], text: str, time_ms: int) -> Result:
        raise self.error

    def range(self, sources: Sequence[Source], text: str, start_ms: int, end_ms: int, step_ms: int) -> Result:
        raise self.error


def only(text: str, engine: Played | Refusing) -> Outcome:
    (outcome,) = run(parse(text, "shop.test"), engine)
    return outcome


def failure(text: str, engine: Played | Refusing) -> str:
    outcome = only(text, engine)
    assert outcome.verdict is Verdict.FAILED
    return outcome.why


def passes(text: str, engine: Played | Refusing) -> bool:
    outcome = only(text, engine)
    return outcome.verdict is Verdict.PASSED


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (1.0, 1.0 + 1e-6, True),
        (1.0, 1.0 + 3e-6, False),
        (1e300, 1e300 * (1 + 1e-7), True),
        (1.7e308, -1.7e308, False),
        (0.0, 1e-300, False),
        (0.0, -0.0, True),
        (math.nan, math.nan, True),
        (math.nan, 1.0, False),
        (math.inf, math.inf, True),
        (math.inf, -math.inf, False),
        (math.inf, 1e308, False),
    ],
)
def test_numbers_may_differ_by_a_millionth(one: float, other: float, same: bool) -> None:
    assert almost_equal(one, other) is same
    assert almost_equal(other, one) is same


def test_a_right_answer_passes_and_is_asked_for_in_every_way() -> None:
    engine = Played(vector({UP: 5.0}))
    assert passes("eval instant at 5m up\n up 5", engine)
    text = pinned("up", 300_000)
    assert text is not None
    expected = [("up", 300_000), *((text, time) for time in (-3_000_000, 0, 60_000, 300_000, 3_000_000))]
    assert engine.asked == [
        asked for query, time in expected for asked in ((query, time, time), (query, time - 60_000, time + 60_000))
    ]


def test_a_failure_is_reported_with_place_query_expectation_and_answer() -> None:
    assert failure("\n\neval instant at 5m up\n up 5", Played(vector({UP: 6.0}))) == (
        "shop.test:3: up  at 300s\n"
        '  {__name__="up"} has 6, expected was 5\n'
        "  expected:\n"
        '    {__name__="up"} 5\n'
        "  came:\n"
        '    {__name__="up"} 6'
    )


def test_a_report_can_be_printed_whatever_bytes_the_labels_hold() -> None:
    odd = from_mapping({"a": b"\xc5".decode("utf-8", "surrogateescape")})
    assert r'{a="\udcc5"}' in failure("eval instant at 5m up", Played(vector({odd: 6.0}))).encode("utf-8").decode()


@pytest.mark.parametrize(
    ("answer", "complaint"),
    [
        ({A: 1.0, B: 2.0}, None),
        ({B: 2.0, A: 1.0}, None),
        ({A: 1.0}, '{a="2"} is missing'),
        ({A: 1.0, B: 2.0, UP: 3.0}, '{__name__="up"} was not expected'),
        ({A: 1.0, B: math.nan}, '{a="2"} has nan, expected was 2'),
        ({}, '{a="1"} is missing'),
    ],
)
def test_every_expected_series_must_be_there_and_no_other(answer: dict[Labels, float], complaint: str | None) -> None:
    outcome = only('eval instant at 5m x\n {a="1"} 1\n {a="2"} 2', Played(vector(answer)))
    assert outcome.verdict is (Verdict.FAILED if complaint else Verdict.PASSED)
    assert (complaint or "") in outcome.why


def test_a_series_that_is_there_twice_is_found() -> None:
    twice = Vector(0, (UP, UP), np.array([5.0, 5.0]))
    assert "twice" in failure("eval instant at 5m up\n up 5", Played(twice))


def test_nothing_expected_means_nothing_may_come() -> None:
    assert passes("eval instant at 5m up", Played(vector({})))
    assert "was not expected" in failure("eval instant at 5m up", Played(vector({UP: 1.0})))


def test_a_staleness_marker_is_not_just_not_a_number() -> None:
    stale = Vector(0, (UP,), np.array([STALE_BITS], dtype=np.uint64).view(np.float64))
    assert "has stale, expected was nan" in failure("eval instant at 5m up\n up NaN", Played(stale))


def test_the_order_counts_only_when_it_is_expected() -> None:
    text = 'eval instant at 5m x\n expect ordered\n {a="2"} 2\n {a="1"} 1'
    assert passes(text, Played(vector({B: 2.0, A: 1.0})))
    assert "is at place 1, expected was place 2" in failure(text, Played(vector({A: 1.0, B: 2.0})))


def test_a_wrong_answer_to_the_query_with_an_at_is_found() -> None:
    report = failure("eval instant at 5m up\n up 5", Played(vector({UP: 5.0}), at=vector({UP: 6.0})))
    assert "run as: up @ 300.000  at -3000s" in report


@pytest.mark.parametrize(
    ("ranged", "complaint"),
    [
        ({UP: {240_000: 5.0, 300_000: 6.0}}, "has 6, expected was 5"),
        ({UP: {240_000: 5.0, 360_000: 5.0}}, "is missing"),
        ({A: {300_000: 5.0}, UP: {300_000: 5.0}}, "must be sorted"),
        ({UP: {300_000: 5.0}, B: {300_000: 5.0}}, "was not expected"),
    ],
)
def test_a_wrong_middle_step_of_the_range_query_is_found(
    ranged: dict[Labels, dict[int, float]], complaint: str
) -> None:
    report = failure("eval instant at 5m up\n up 5", Played(vector({UP: 5.0}), ranged=block(ranged)))
    assert complaint in report
    assert "run as: up  from 240s to 360s step 60s, the step at 300s alone" in report


def test_other_steps_of_that_range_query_do_not_matter() -> None:
    ranged = block({UP: {240_000: 7.0, 300_000: 5.0}, B: {360_000: 1.0}})
    assert only("eval instant at 5m time() * up\n up 5", Played(vector({UP: 5.0}), ranged=ranged)).verdict == "passed"


@pytest.mark.parametrize("query", ["step() + up", "up @ end()"])
def test_a_query_that_asks_for_its_own_range_is_not_run_as_a_range_query(query: str) -> None:
    engine = Played(vector({UP: 5.0}))
    assert passes(f"eval instant at 5m {query}\n up 5", engine)
    assert not [asked for asked in engine.asked if asked[0] == query and asked[1] < asked[2]]


def test_scalars_and_strings_are_compared() -> None:
    assert passes("eval instant at 5m 1 + 1\n 2", Played(Scalar(0, 2.0)))
    assert "3 is not 2" in failure("eval instant at 5m 1 + 1\n 2", Played(Scalar(0, 3.0)))
    assert "a scalar, expected was series" in failure("eval instant at 5m 1\n {} 1", Played(Scalar(0, 1.0)))
    assert "a vector, expected was a scalar" in failure("eval instant at 5m 1\n 1", Played(vector({(): 1.0})))
    assert passes('eval instant at 5m "a"\n expect string "a"', Played(String(0, "a")))
    assert "'b' is not 'a'" in failure('eval instant at 5m "a"\n expect string "a"', Played(String(0, "b")))
    assert "a string, expected was series" in failure('eval instant at 5m ""', Played(String(0, "")))


RANGED = "eval range from 0 to 2m step 1m up\n up 1 _ 3"


@pytest.mark.parametrize(
    ("samples", "complaint"),
    [
        ({0: 1.0, 120_000: 3.0}, None),
        ({0: 1.0, 60_000: 2.0, 120_000: 3.0}, "has 2 at 60s, expected was nothing"),
        ({0: 1.0}, "has nothing at 120s, expected was 3"),
        ({0: 1.0, 120_000: 4.0}, "has 4 at 120s, expected was 3"),
        ({0: 1.0, 119_999: 3.0}, "has 3 at 119.999s, expected was nothing"),
    ],
)
def test_a_range_is_compared_step_by_step(samples: dict[int, float], complaint: str | None) -> None:
    outcome = only(RANGED, Played(vector({}), ranged=block({UP: samples})))
    assert outcome.verdict is (Verdict.FAILED if complaint else Verdict.PASSED)
    assert (complaint or "") in outcome.why


def test_more_values_than_steps_cannot_be_expected() -> None:
    engine = Played(vector({}), ranged=block({UP: {0: 1.0, 60_000: 2.0}}))
    assert "not as many steps" in failure("eval range from 0 to 1m step 1m up\n up 1 2 3", engine)


def test_a_range_vector_is_compared_at_the_times_that_are_expected() -> None:
    text = "eval instant at 1m up[1m]\n expect range vector from 30s to 1m step 30s\n up 1 2"
    engine = Played(block({UP: {30_000: 1.0, 60_000: 2.0}}))
    assert passes(text, engine)
    assert all(start == end for _, start, end in engine.asked)
    assert "has 2 at 59s" in failure(text, Played(block({UP: {30_000: 1.0, 59_000: 2.0}})))


def test_a_range_vector_whose_steps_stand_still_has_one_value() -> None:
    text = "eval instant at 1m up[1m]\n expect range vector from 30s to 1m step 0\n up 1{}"
    engine = Played(block({UP: {30_000: 1.0}}))
    assert passes(text.format(""), engine)
    assert "not as many steps" in failure(text.format(" 1"), engine)


LIFTED = ", from buckets 1 to +Inf, with a max diff of 2.5, over 3 samples from 1970-01-01T00:00Z to 1970-01-01T00:02Z"
WARNED = "eval instant at 5m up\n expect {}\n up 5"


@pytest.mark.parametrize(
    ("expect", "warnings", "complaint"),
    [
        ("no_info", ("so",), None),
        ("no_warn", (), None),
        ("no_warn", ("so",), "expected was none"),
        ("warn", ("so",), None),
        ("warn", (), "there is no warning"),
        ("warn msg: so (1:1)", ("so (1:1)",), None),
        ("warn msg: so (1:1)", ("so (1:2)",), "no warning reads: so (1:1)"),
        ("warn msg: so", ("so (1:2)",), None),
        ("warn msg: so", ("so (1:2) la",), "no warning reads: so"),
        ("warn msg: so", (f"so{LIFTED} (1:2)",), None),
        ("warn msg: so", (f"so{LIFTED}",), "no warning reads: so"),
        ("warn msg: so", ("so, from buckets 1 to 2 (1:2)",), "no warning reads: so"),
        (f"warn msg: so{LIFTED} (1:2)", ("so (1:2)",), "no warning reads: so, from"),
        ("warn msg: so", ("so", "and so"), "'and so' was not expected"),
        ("warn regex: ^s.$", ("so",), None),
        ("warn regex: ^s$", ("so",), "no warning reads: /^s$/"),
        ("warn regex: ^so \ufffd$", ("so \udc80",), None),
        ("warn regex: ^so \ufffd$", ("so \udc80\udc80",), "no warning reads: /^so \ufffd$/"),
    ],
)
def test_warnings_are_compared_when_the_script_speaks_of_them(
    expect: str, warnings: tuple[str, ...], complaint: str | None
) -> None:
    outcome = only(WARNED.format(expect), Played(vector({UP: 5.0}), warnings=warnings))
    assert outcome.verdict is (Verdict.FAILED if complaint else Verdict.PASSED)
    assert (complaint or "") in outcome.why


def test_infos_are_compared_as_warnings_are_and_silence_allows_both() -> None:
    engine = Played(vector({UP: 5.0}), warnings=("so",), infos=("la",))
    assert passes("eval instant at 5m up\n up 5", engine)
    assert passes(WARNED.format("info msg: la"), engine)
    assert "expected was none" in failure(WARNED.format("no_info"), engine)


@pytest.mark.parametrize(
    ("expect", "complaint"),
    [
        ("expect fail", None),
        ("expect fail msg: oh no", None),
        ("expect fail regex: n.$", None),
        ("expect fail msg: oh", "not what was expected: oh no"),
        ("up 1", "there is an error: oh no"),
    ],
)
def test_an_error_is_compared_with_the_one_expected(expect: str, complaint: str | None) -> None:
    outcome = only(f"eval instant at 5m up\n {expect}", Refusing(ExecutionError("oh no")))
    assert outcome.verdict is (Verdict.FAILED if complaint else Verdict.PASSED)
    assert (complaint or "") in outcome.why


def test_a_result_instead_of_an_error_is_found() -> None:
    assert "expected was an error" in failure("eval instant at 5m up\n expect fail", Played(vector({})))


@pytest.mark.parametrize("expect", ["expect fail", "up 1"])
def test_a_bug_of_the_engine_is_a_failure_even_where_an_error_is_expected(expect: str) -> None:
    assert "ZeroDivisionError: oops" in failure(
        f"eval instant at 5m up\n {expect}", Refusing(ZeroDivisionError("oops"))
    )


def test_a_query_that_cannot_be_parsed_is_expected_by_its_words_only() -> None:
    refusing = Refusing(ParseError("oh no", "up{", Span(3, 3)))
    assert passes("eval instant at 5m up{\n expect fail msg: 1:4: parse error: oh no", refusing)
    assert "this does not parse" in failure("eval instant at 5m up{\n expect fail", refusing)


@pytest.mark.parametrize(
    ("expected", "complaint"),
    [
        ("{{schema:1 count:3 sum:4 buckets:[1 0 2]}}", None),
        ("{{schema:1 count:3 sum:4.000001 buckets:[1 0 2 0]}}", None),
        ("{{schema:1 count:3 sum:4 buckets:[1 0 2] counter_reset_hint:gauge}}", None),
        ("{{schema:1 count:3 sum:4 buckets:[1 0 2] counter_reset_hint:reset}}", "hint:gauge at 0s, expected was"),
        ("{{schema:0 count:3 sum:4 buckets:[1 0 2]}}", "expected was"),
        ("{{schema:1 count:3 sum:4 buckets:[1 2]}}", "expected was"),
        ("{{schema:1 count:3 sum:5 buckets:[1 0 2]}}", "expected was"),
        ("{{schema:1 count:3 sum:4 z_bucket_w:1 buckets:[1 0 2]}}", "expected was"),
        ("3", "expected was 3"),
    ],
)
def test_a_histogram_is_compared_by_its_buckets_and_by_its_hint_if_that_is_named(
    expected: str, complaint: str | None
) -> None:
    histogram = NativeHistogram(1, count=3, total=4, positive=((0, 1.0), (2, 2.0)), hint=ResetHint.GAUGE)
    histograms = np.array([histogram], dtype=np.object_)
    ranged = SeriesBlock(Axis.of((UP,)), np.array([0, 1]), np.zeros(1, np.int64), np.zeros(1), histograms)
    outcome = only(f"eval range from 0 to 0 step 1m up\n up {expected}", Played(vector({}), ranged=ranged))
    assert outcome.verdict is (Verdict.FAILED if complaint else Verdict.PASSED)
    assert (complaint or "") in outcome.why


def test_starts_of_samples_are_loaded_and_those_that_have_none_have_0() -> None:
    script = parse("""
load 1m
  up@st   _ -30s _ 1ms
  up      1 2    _ 4
  other   1 2    3 4

eval instant at 0 up
""")
    [stage] = stages(script)
    up, other = stage.series
    assert up.starts is not None
    assert up.starts.tolist() == [0, 30_000, 180_001]
    assert other.starts is None


def test_series_are_spread_over_the_shards_and_cleared() -> None:
    load = "load 1m\n" + "\n".join(f' up{{i="{i}"}} 1' for i in range(20))
    engine = Played(vector({}))
    list(run(parse(f"{load}\n\neval instant at 5m up"), engine, shards=7))
    assert len(engine.series) == 7
    assert sum(engine.series) == 20
    list(run(parse(f"{load}\n\nclear\n\neval instant at 5m up"), engine, shards=2))
    assert engine.series == [0, 0]


def test_a_run_that_is_not_thorough_pins_the_query_to_one_time_only() -> None:
    engine = Played(vector({UP: 5.0}))
    list(run(parse("eval instant at 5m up\n up 5"), engine, thorough=False))
    assert [asked for asked in engine.asked if "@" in asked[0] and asked[1] == asked[2]] == [
        ("up @ 300.000", 3_000_000, 3_000_000)
    ]


def test_only_the_wanted_evals_are_run() -> None:
    script = parse("eval instant at 0 up\n\neval instant at 1m up")
    (outcome,) = run(script, Played(vector({})), wanted=lambda command: command.line == 3)
    assert outcome.eval.line == 3


def test_a_load_that_contradicts_another_is_an_error_with_its_place() -> None:
    script = parse("load 1m\n up 1\n\nload 1m\n up 2", "shop.test")
    with pytest.raises(ScriptError, match=r"shop\.test:4: .*two samples"):
        list(run(script, Played(vector({}))))
