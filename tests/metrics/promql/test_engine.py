"""The engine as a program uses it: answers, streams, limits, and questions that it refuses."""

import time
import tracemalloc
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from quarterdeck.core.errors import ErrorCode, QuarterdeckError
from quarterdeck.metrics.promql.blocks import SeriesBlock, VectorBlock
from quarterdeck.metrics.promql.engine import Engine, EngineOptions
from quarterdeck.metrics.promql.errors import ExecutionError, LimitExceeded, ParseError
from quarterdeck.metrics.promql.histograms.native import NativeHistogram
from quarterdeck.metrics.promql.kernels.threads import Stopped
from quarterdeck.metrics.promql.kernels.warm import warm
from quarterdeck.metrics.promql.limits import Limits
from quarterdeck.metrics.promql.memory import MemorySource, Series
from quarterdeck.metrics.promql.result import Scalar, String, Vector
from tests.metrics.promql.samples import labels, many, source

HOUR_MS = 3_600_000
DECADE_MS = 10 * 365 * 24 * HOUR_MS
MINUTES_MS = np.arange(61, dtype=np.int64) * 60_000
HISTOGRAM = NativeHistogram(count=3, total=4, positive=((0, 1.0), (1, 2.0)))


@pytest.fixture(autouse=True, scope="module")
def compiled() -> None:
    """Loading compiled code takes time and memory that no query is to be blamed for."""
    warm()


@pytest.fixture
def engine() -> Iterator[Engine]:
    with Engine() as engine:
        yield engine


def small(block_cells: int = 2_000_000, memory_bytes: int = 1 << 30) -> Engine:
    return Engine(EngineOptions(limits=Limits(memory_bytes=memory_bytes, block_cells=block_cells)), threads=1)


def test_an_instant_query_answers_with_what_its_type_says(engine: Engine) -> None:
    up = source({"up job=a": [1, 1], "up job=b": [1, 0]})
    assert engine.instant([up], "1 + 1", 4000).value == Scalar(4000, 2.0)
    assert engine.instant([up], '"hello"', 4000).value == String(4000, "hello")
    vector = engine.instant([up], "up == 0", 60_000).value
    assert isinstance(vector, Vector)
    assert vector.labels == (labels("up job=b"),)
    samples = engine.instant([up], "up[2m]", 60_000).value
    assert isinstance(samples, SeriesBlock)
    assert samples.values.tolist() == [1, 1, 1, 0]


def test_a_range_query_answers_with_series_sorted_by_labels(engine: Engine) -> None:
    block = engine.range([source({"b": [1, 2], "a": [3, 4]})], '{__name__=~"a|b"}', 0, 60_000, 60_000).value
    assert isinstance(block, SeriesBlock)
    assert block.axis.labels == (labels("a"), labels("b"))
    assert block.timestamps.tolist() == [0, 60_000, 0, 60_000]
    assert block.values.tolist() == [3, 4, 1, 2]


QUERIES = [
    "m",
    "sum by (job) (rate(m[5m]))",
    "m / on(i) group_left sum by (i) (m)",
    "max_over_time(sum(m)[10m:2m])",
    "count_over_time(sum by (job) (max_over_time(m[10s:1m]))[2m:20s])",
    "count_over_time(stddev(last_over_time(m[10s:1m] offset 20s))[2m:20s])",
    "m * scalar(count(m)) + m @ 600",
    "topk(2, m)",
    'count_values("v", m % 3)',
    "quantile(0.3, m)",
    "m or vector(1)",
    'label_replace(m, "x", "$1", "i", "(.*)")',
    "stddev(m) + avg(m) + min(m) + max(m) + count(m) + group(m)",
    "time()",
]


@pytest.mark.parametrize("query", QUERIES)
def test_the_size_of_blocks_changes_nothing(query: str, engine: Engine) -> None:
    samples = [many(7)]
    whole = engine.range(samples, query, 0, HOUR_MS, 60_000).value
    assert isinstance(whole, SeriesBlock)
    for cells in (1, 50):
        with small(block_cells=cells) as other:
            pieces = other.range(samples, query, 0, HOUR_MS, 60_000).value
            assert isinstance(pieces, SeriesBlock)
            assert pieces.axis.labels == whole.axis.labels
            np.testing.assert_array_equal(pieces.offsets, whole.offsets)
            np.testing.assert_array_equal(pieces.timestamps, whole.timestamps)
            np.testing.assert_array_equal(pieces.values, whole.values)


@pytest.mark.parametrize("query", QUERIES)
@pytest.mark.parametrize("shards", [2, 7])
def test_the_number_of_shards_changes_nothing(query: str, shards: int, engine: Engine) -> None:
    samples = many(9)
    whole = engine.range([samples], query, 0, HOUR_MS, 60_000).value
    parts = engine.range(samples.shards(shards), query, 0, HOUR_MS, 60_000).value
    assert isinstance(whole, SeriesBlock)
    assert isinstance(parts, SeriesBlock)
    assert parts.axis.labels == whole.axis.labels
    np.testing.assert_array_equal(parts.timestamps, whole.timestamps)
    np.testing.assert_allclose(parts.values, whole.values, rtol=1e-14)


def test_a_long_range_streams_out_block_by_block() -> None:
    with small(block_cells=70) as engine:
        seen = 0
        for grid, block in engine.stream([many(7)], "m", 0, HOUR_MS, 60_000):
            assert isinstance(block, VectorBlock)
            assert grid.start_ms == seen * 60_000
            assert grid.count <= 10
            seen += grid.count
        assert seen == 61


def test_the_first_block_comes_before_the_last_is_computed() -> None:
    with small(block_cells=7) as engine:
        stream = engine.stream([many(7)], "m + on(i) m", 0, HOUR_MS, 60_000)
        grid, _ = next(stream)
        assert (grid.start_ms, grid.count) == (0, 1)
        stream.close()


@pytest.mark.parametrize(
    "query", ["m", "rate(m[1h])", "sum(m)", "m + m", "sum_over_time(m[1h:1s])", "max_over_time(sum(m)[1h:1s])"]
)
def test_a_query_that_needs_too_much_memory_is_stopped_and_names_the_limit(query: str) -> None:
    with (
        small(memory_bytes=100_000) as engine,
        pytest.raises(LimitExceeded, match="limit of a query is 0 MiB") as caught,
    ):
        engine.range([many(200)], query, 0, HOUR_MS, 60_000)
    assert caught.value.code is ErrorCode.RESOURCE_EXHAUSTED
    assert not caught.value.retryable


def test_memory_is_given_back_while_a_range_streams() -> None:
    samples = many(50)
    with small(block_cells=50, memory_bytes=150_000) as engine:
        assert sum(grid.count for grid, _ in engine.stream([samples], "rate(m[5m]) + m", 0, HOUR_MS, 60_000)) == 61


@pytest.mark.parametrize(
    ("start_ms", "end_ms", "step_ms", "words"),
    [
        (0, DECADE_MS, 1, "exceeded maximum resolution of 11,000 points"),
        (0, 11_001, 1, "exceeded maximum resolution of 11,000 points"),
        (1000, 0, 60_000, "end timestamp must not be before start time"),
        (0, 1000, 0, "zero or negative query resolution step"),
        (0, 1000, -1, "zero or negative query resolution step"),
    ],
)
def test_times_that_make_no_sense_are_refused(
    start_ms: int, end_ms: int, step_ms: int, words: str, engine: Engine
) -> None:
    with pytest.raises(QuarterdeckError, match=words):
        engine.range([many(1)], "m", start_ms, end_ms, step_ms)


BAD_INPUT = {
    "a megabyte of text": "m" * (1 << 20),
    "a megabyte of operators": "+".join(["1"] * (1 << 19)),
    "ten thousand parentheses": "(" * 10_000 + "m" + ")" * 10_000,
    "ten thousand open parentheses": "(" * 10_000,
    "ten thousand signs": "-" * 10_000 + "m",
    "ten thousand calls": "abs(" * 10_000 + "m" + ")" * 10_000,
    "a regular expression that explodes": 'm{i=~"((((((a{1,100}){1,100}){1,100}){1,100}){1,100}){1,100})"}',
    "an unfinished string": 'm{i="' + "x" * 100_000,
    "garbage": "\x00\x01\ufffd\u202e{}[]@@@!!!",
    "nothing": "",
}


@pytest.mark.parametrize("query", BAD_INPUT.values(), ids=BAD_INPUT.keys())
def test_bad_text_is_refused_at_once_and_in_little_memory(query: str, engine: Engine) -> None:
    tracemalloc.start()
    begun = time.process_time()
    with pytest.raises(ParseError) as caught:
        engine.range([many(1)], query, 0, HOUR_MS, 60_000)
    seconds = time.process_time() - begun
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert seconds < 1
    assert peak < 64 << 20
    assert len(str(caught.value)) < 1500
    assert engine.instant([many(1)], "1", 0).value == Scalar(0, 1.0)


def test_a_regular_expression_that_backtracks_elsewhere_takes_no_time(engine: Engine) -> None:
    samples = source({f"m i={'a' * 5000}": [1.0]})
    begun = time.process_time()
    engine.instant([samples], 'm{i=~"(a+)+(a+)+(a+)+b"}', 0)
    assert time.process_time() - begun < 1


@pytest.mark.parametrize(
    "query",
    ["sum_over_time(m[10y:1ms])", "sum_over_time(sum(m)[10y:1ms])", "m[10y:1ms]", "max_over_time(vector(1)[99y:1ms])"],
)
def test_a_subquery_with_more_steps_than_fit_is_refused_at_once(query: str, engine: Engine) -> None:
    tracemalloc.start()
    begun = time.process_time()
    with pytest.raises(LimitExceeded, match="MiB of memory"):
        engine.instant([many(1)], query, DECADE_MS)
    assert time.process_time() - begun < 1
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 64 << 20


@pytest.mark.parametrize(
    ("query", "place"),
    [
        ("rate(m[5m]) + rate(m[5m])", "1:20"),
        ("rate(m[5m]) + rate(m[6m])", "1:20"),
        ("rate(rate(m[5m])[9m:])", "1:6"),
        ("quantile(scalar(rate(m{i='1'}[5m])) * 0, rate(m[5m]))", "1:47"),
        ("scalar(rate(m{i='1'}[5m])) * rate(m[5m])", "1:35"),
        ("rate(m[5m]) * scalar(rate(m{i='1'}[5m]))", "1:27"),
    ],
)
def test_a_text_is_told_once_and_names_its_last_place(query: str, place: str, engine: Engine) -> None:
    result = engine.range([many(2)], query, 0, HOUR_MS, 60_000)
    text = 'PromQL info: metric might not be a counter, name does not end in _total/_sum/_count/_bucket: "m"'
    assert result.infos == (f"{text} ({place})",)


@pytest.mark.parametrize(
    "query",
    [
        "quantile(time() / 600 - 2, m)",
        "quantile(time() / 600 - 2 + 0 * scalar(m @ 0), m)",
        "limit_ratio(time() / 600 - 2, m)",
        "histogram_quantile(time() / 3600, label_replace(m % 5, 'le', '$1', 'i', '(.*)') or vector(7))",
        "sort(m)",
    ],
)
def test_the_size_of_blocks_changes_no_notes(query: str, engine: Engine) -> None:
    whole = engine.range([many(7)], query, 0, HOUR_MS, 60_000)
    with small(block_cells=50) as other:
        pieces = other.range([many(7)], query, 0, HOUR_MS, 60_000)
    assert whole.warnings + whole.infos
    assert (pieces.warnings, pieces.infos) == (whole.warnings, whole.infos)


def test_histograms_that_are_there_in_some_blocks_only_are_aggregated() -> None:
    samples = np.array([None, *[HISTOGRAM] * 60], object)
    series = [Series(labels(f"h i={i}"), MINUTES_MS, np.zeros(61), samples) for i in range(3)]
    with small(block_cells=3) as engine:
        value = engine.range(
            [MemorySource.of(series)], "max_over_time(sum(histogram_count(h))[2m:1m])", 0, HOUR_MS, 60_000
        ).value
    assert isinstance(value, SeriesBlock)
    np.testing.assert_array_equal(value.timestamps, MINUTES_MS[1:])
    np.testing.assert_array_equal(value.values, np.full(60, 3 * HISTOGRAM.count))


@pytest.mark.parametrize("function", ["last_over_time", "ts_of_first_over_time", "irate", "rate", "changes"])
def test_a_subquery_of_histograms_may_have_no_values(function: str, engine: Engine) -> None:
    samples = np.full(61, HISTOGRAM, object)
    histograms = MemorySource.of([Series(labels("h"), MINUTES_MS, np.zeros(61), samples)])
    result = engine.range([histograms], f"{function}((h unless h)[5m:1m])", 0, HOUR_MS, 60_000)
    assert isinstance(result.value, SeriesBlock)
    assert not len(result.value.axis)


def test_an_error_of_evaluation_says_what_to_do(engine: Engine) -> None:
    with pytest.raises(ExecutionError, match="found duplicate series for the match group") as caught:
        engine.instant([many(3)], "m / on() m", 0)
    assert "name the labels to match on" in str(caught.value)
    assert caught.value.code is ErrorCode.WORK_FAILED


def test_a_query_is_stopped_in_the_middle(engine: Engine) -> None:
    asked = 0

    def on_the_third_time() -> bool:
        nonlocal asked
        asked += 1
        return asked == 3

    with pytest.raises(Stopped):
        engine.range([many(50)], "sum(rate(m[5m])) + sum(m) + sum(m offset 1m)", 0, HOUR_MS, 60_000, on_the_third_time)
    assert asked == 3


FAR_MS = 1 << 62


@pytest.mark.parametrize(
    ("start_ms", "end_ms", "step_ms", "words"),
    [
        (FAR_MS, FAR_MS, 1, "the start of the query is out of bounds"),
        (-(10**30), 0, 10**29, "the start of the query is out of bounds"),
        (0, FAR_MS, FAR_MS, "the end of the query is out of bounds"),
        (0, 0, 10**30, "the step of the query is out of bounds"),
    ],
)
def test_times_that_do_not_fit_are_refused(
    start_ms: int, end_ms: int, step_ms: int, words: str, engine: Engine
) -> None:
    with pytest.raises(ExecutionError, match=words):
        engine.range([many(1)], "m", start_ms, end_ms, step_ms)


@pytest.mark.parametrize("query", ["m @ 9e15", "rate(m[5m] @ -9e15)", "max_over_time(m[5m:1m] @ 9e15)"])
def test_a_fixed_time_that_does_not_fit_is_refused_with_its_place(query: str, engine: Engine) -> None:
    with pytest.raises(ParseError, match="timestamp out of bounds for @ modifier"):
        engine.instant([many(1)], query, 0)


@pytest.mark.parametrize(
    "query",
    [
        "rate(m[292y] offset 292y)",
        "rate(m[292y] offset -292y)",
        "m offset 292y",
        "m @ 2e15 offset -292y",
        "max_over_time(m[292y:292y] offset 292y)",
        "m[292y] smoothed",
        "deriv(m[292y])",
    ],
)
@pytest.mark.parametrize("time_ms", [0, 1 << 61, -(1 << 61)])
def test_the_farthest_times_can_be_computed_with(query: str, time_ms: int, engine: Engine) -> None:
    for value in (1.0, float("inf"), float("nan"), 5e-324, 1.7e308):
        engine.instant([source({"m": [value, -value, 1.0]})], query, time_ms)


@pytest.mark.parametrize(
    ("time_ms", "shown"),
    [
        (-1_999, "1969-12-31T23:59:59Z"),
        (1 << 61, "73071226-02-26T19:48:13Z"),
        (-(1 << 61), "-73067287-11-05T04:11:47Z"),
    ],
)
def test_a_note_shows_any_time(time_ms: int, shown: str, engine: Engine) -> None:
    buckets = source({"b le=1": [5.0], "b le=2": [3.0], "b le=+Inf": [9.0]})
    (info,) = engine.instant([buckets], "histogram_quantile(0.5, b @ 0)", time_ms).infos
    assert f"over 1 samples from {shown} to {shown} (1:25)" in info


@pytest.mark.parametrize("number", ["1e300", "9.3e18", "Inf", "NaN"])
@pytest.mark.parametrize("function", ["topk", "bottomk", "limitk"])
def test_a_number_of_series_that_is_none_is_an_error(function: str, number: str, engine: Engine) -> None:
    with pytest.raises(ExecutionError, match=r"int64|NaN"):
        engine.instant([many(1)], f"{function}({number}, m)", 0)


@pytest.mark.parametrize("query", ["quantile(time() + 2, m)", "limit_ratio(time() + 2, m)"])
def test_a_query_that_is_wrong_at_every_step_says_so_once(query: str, engine: Engine) -> None:
    begun = time.process_time()
    warnings = engine.instant([many(1)], f"max_over_time(({query})[300s:1ms])", 300_000).warnings
    assert len(warnings) == 1
    assert time.process_time() - begun < 3


def test_an_answer_has_a_thousand_notes_and_one_that_there_are_more(engine: Engine) -> None:
    gauges = source({f"m{i} i={i}": [1.0, 2.0] for i in range(1100)})
    result = engine.instant([gauges], 'rate({__name__=~"m.*"}[5m])', 60_000)
    assert len(result.infos) == 1000
    assert result.warnings == ("PromQL warning: there are more than 1000 notes, the others are left out (1:1)",)


def test_a_long_template_is_read_once(engine: Engine) -> None:
    begun = time.process_time()
    engine.instant([many(100)], f'label_replace(m, "x", "{"$1" * 20_000}", "i", "(.*)")', 0)
    assert time.process_time() - begun < 5


@pytest.mark.parametrize(
    "query",
    [
        "sum by (i) (m)",
        "m + on(i) m",
        "m or m offset 1m",
        'label_replace(m, "x", "$1", "i", "(.*)")',
        'label_join(m, "x", "-", "i", "job")',
        'count_values("v", m)',
        "limit_ratio(0.5, m)",
        'sort_by_label(m, "i")',
        'histogram_quantile(0.5, label_replace(m, "le", "$1", "i", "(.*)"))',
    ],
)
def test_work_on_many_labels_is_interrupted_by_the_question_whether_to_stop(query: str, engine: Engine) -> None:
    asked = {200: 0, 3000: 0}
    for count in asked:

        def ask(count: int = count) -> bool:
            asked[count] += 1
            return False

        engine.instant([many(count, 2)], query, 60_000, ask)
    assert asked[3000] >= asked[200] + 9


def test_threads_that_share_an_engine_get_their_own_answers() -> None:
    samples = many(300)

    def ask(query: str) -> bytes:
        value = engine.range([samples], query, 0, HOUR_MS, 20_000).value
        assert isinstance(value, SeriesBlock)
        return value.values.tobytes()

    with Engine(threads=3) as engine, ThreadPoolExecutor(4) as pool:
        alone = [ask(query) for query in QUERIES[:6]]
        assert list(pool.map(ask, QUERIES[:6] * 5)) == alone * 5


def test_a_closed_engine_answers_nobody(engine: Engine) -> None:
    engine.close()
    with pytest.raises(Stopped):
        engine.instant([many(1)], "1", 0)
