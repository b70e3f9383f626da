"""The comparison itself: what it calls equal, what it excuses, and that it asks about everything."""

import math
import re
from contextlib import closing

import numpy as np
import pytest

from quarterdeck.metrics.promql import labels as lb
from quarterdeck.metrics.promql.memory import Series
from quarterdeck.metrics.promql.syntax.parser import parse
from tests.differential import dataset, known
from tests.differential import vocabulary as words
from tests.differential.answers import Difference, Failure, Table, compare, order_differs, same
from tests.differential.cases import Candidate, Case, cases
from tests.differential.known import Finding
from tests.differential.minimise import minimised
from tests.differential.remote_write import write_requests
from tests.differential.selectors import FIRST_S

A, B = (("job", "a"),), (("job", "b"),)


@pytest.mark.parametrize(
    "left, right, equal",
    [
        (1.0, 1.0 + 1e-12, True),
        (1.0, 1.0 + 1e-8, False),
        (math.nan, math.nan, True),
        (math.nan, 0.0, False),
        (math.inf, math.inf, True),
        (math.inf, -math.inf, False),
        (math.inf, 1.7e308, False),
        (0.0, 1e-300, False),
    ],
)
def test_values_are_the_same_within_the_tolerance(left: float, right: float, equal: bool) -> None:
    assert same(left, right) is same(right, left) is equal


def test_a_sample_more_or_less_is_a_difference() -> None:
    whole, part = Table("matrix", {A: {1: 1.0, 2: 2.0}}), Table("matrix", {A: {1: 1.0}})
    for difference in (compare(whole, part), compare(part, whole)):
        assert difference is not None
        assert difference.cells == {(A, 2)}


def test_an_answer_differs_from_an_error_and_two_errors_do_not_differ() -> None:
    assert compare(Table("vector", {}), Failure("no")) is not None
    assert compare(Failure("no"), Failure("not at all")) is None


def test_an_order_differs_when_values_change_places() -> None:
    up, down = Table("vector", {A: {1: 1.0}, B: {1: 2.0}}), Table("vector", {B: {1: 2.0}, A: {1: 1.0}})
    assert compare(up, down) is None
    assert order_differs(up, up) is None
    assert order_differs(up, down) is not None


def test_a_tie_is_excused_at_the_top_of_a_query_only() -> None:
    our, their = Table("vector", {A: {1: 1.0}}), Table("vector", {B: {1: 1.0}})
    assert _excused_as_tie("topk(1, x)", our, their)
    assert not _excused_as_tie("abs(topk(1, x))", our, their)
    assert not _excused_as_tie("topk(1, x)", our, Table("vector", {B: {1: 2.0}}))


def _excused_as_tie(text: str, our: Table, their: Table) -> bool:
    difference = compare(our, their)
    assert difference is not None
    return known.is_tie(Finding(Case(text, 1, 1, 0), parse(text), our, their, difference))


def test_an_ambiguous_match_is_excused_only_where_a_filter_may_have_hidden_it() -> None:
    refused = Failure("multiple matches for labels: many-to-one matching must be explicit")
    for text, hidden in (("a > on (job) b", True), ("a > bool on (job) b", False), ("a + on (job) b", False)):
        finding = Finding(Case(text, 1, 1, 0), parse(text), refused, Table("vector", {}), Difference("failed"))
        assert known.is_hidden_ambiguity(finding) is hidden


def test_rounding_is_excused_only_where_our_own_answer_moves() -> None:
    steady = "sum(http_requests_total)"
    shaky = "sum(http_requests_total) % 1e-6"
    with closing(Candidate(dataset.make(1), 1)) as candidate:
        for text, excused in ((steady, False), (shaky, True)):
            case = Case(text, FIRST_S, FIRST_S, 0)
            our = candidate.answer(case)
            assert isinstance(our, Table)
            their = Table("vector", {(): {FIRST_S * 1000: our.column[0] * 1.001}})
            difference = compare(our, their)
            assert difference is not None
            assert (known.excuse(Finding(case, parse(text), our, their, difference), candidate) is not None) is excused


def test_a_wrong_answer_of_somebody_else_is_not_excused_by_how_it_differs_from_our_engine() -> None:
    case = Case("sum(http_requests_total)", FIRST_S, FIRST_S, 0)
    with closing(Candidate(dataset.make(1), 1)) as candidate:
        their = candidate.answer(case)
        assert isinstance(their, Table)
        doubled = Table("vector", {(): {FIRST_S * 1000: their.column[0] * 2}})
        for our in (doubled, Failure("no")):
            difference = compare(our, their)
            assert difference is not None
            assert known.excuse(Finding(case, parse(case.text), our, their, difference), candidate) is None


def test_a_functions_last_bit_is_excused_only_where_the_query_makes_much_of_it() -> None:
    steady = "delta(sqrt(latency_seconds_bucket)[1m500ms:45s])"
    shaky = "delta(atan(latency_seconds_bucket)[1m500ms:45s])"
    plain = "atan(latency_seconds_bucket)"
    with closing(Candidate(dataset.make(101), 1)) as candidate:
        for text, excused in ((steady, False), (plain, False), (shaky, True)):
            case = Case(text, 1700008022, 1700008022, 0)
            our = candidate.answer(case)
            assert isinstance(our, Table)
            labels = next(labels for labels, points in our.series.items() if any(points.values()))
            moved = {time: value * (1 + 1e-8) for time, value in our.series[labels].items()}
            their = Table("vector", {**our.series, labels: moved})
            difference = compare(our, their)
            assert difference is not None
            finding = Finding(case, parse(text), our, their, difference)
            assert known.is_last_bit(finding, candidate) is excused


def test_the_smallest_part_that_differs_is_found() -> None:
    def check(case: Case) -> Finding | None:
        wrong = "rate(b" in case.text
        empty = Table("vector", {})
        return Finding(case, parse(case.text), empty, empty, Difference("wrong")) if wrong else None

    first = check(Case('sum by (job) (abs(a) + on (job) rate(b{job="x"}[5m] offset 3m))', 1, 1, 0))
    assert first is not None
    assert minimised(first, check).case.text == "rate(b[5m])"


def test_a_remote_write_request_is_protobuf_in_a_snappy_literal() -> None:
    [body] = write_requests([Series((("a", "b"),), np.array([300]), np.array([1.5]))], 1000)
    series = b"\x0a\x06\x0a\x01a\x12\x01b" + b"\x12\x10\x09" + np.float64(1.5).tobytes()
    series += b"\x10\xac\x82\x80\x80\x80\x00"
    message = b"\x0a" + bytes([len(series)]) + series
    assert body == bytes([len(message)]) + b"\xf4" + bytes([len(message) - 1, 0]) + message


def test_remote_write_requests_advance_all_series_together() -> None:
    one = Series(A, np.array([0, 1000]), np.array([0.5, 1.5]))
    other = Series(B, np.array([999, 1001]), np.array([2.5, 3.5]))
    first, second = write_requests([one, other], 1000)
    for value, body in ((0.5, first), (2.5, first), (1.5, second), (3.5, second)):
        assert np.float64(value).tobytes() in body


def test_a_staleness_marker_keeps_its_bits() -> None:
    [body] = write_requests([Series(A, np.array([1]), np.array([dataset.STALE]))], 1000)
    assert np.uint64(0x7FF0000000000002).tobytes() in body


def test_the_same_seed_makes_the_same_samples_and_queries() -> None:
    for one, other in zip(dataset.make(3), dataset.make(3), strict=True):
        assert one.labels == other.labels
        assert one.values.tobytes() == other.values.tobytes()
    assert list(cases(3, 50)) == list(cases(3, 60))[:50]


@pytest.mark.parametrize("seed", range(3))
def test_no_sample_is_on_an_edge_and_dense_series_are_regular(seed: int) -> None:
    dense = {metric.name for metric in dataset.METRICS if metric.dense}
    for series in dataset.make(seed):
        assert (series.timestamps % 10 == 7).all()
        steps = np.diff(series.timestamps)
        assert (steps > 0).all()
        if lb.get(series.labels, lb.METRIC_NAME) in dense:
            assert np.abs(steps - dataset.INTERVAL_MS).max() < 0.03 * dataset.INTERVAL_MS


def test_every_word_is_used_in_some_query() -> None:
    text = "\n".join(case.text for case in cases(1, 6000))
    used = set(re.findall(r"[a-z_0-9]+|[<>=!]=|[<>+\-*/%^]", text))
    wanted = {
        *words.MAPS, *words.DATES, *words.COUNTER_FUNCTIONS, *words.RANGE_FUNCTIONS, *words.AGGREGATIONS,
        *words.ARITHMETIC, *words.COMPARISONS, *words.SETS, "topk", "bottomk", "quantile", "count_values", "by",
        "without", "on", "ignoring", "group_left", "group_right", "bool", "offset", "start", "end", "label_replace",
        "label_join", "absent", "vector", "scalar", "time", "pi", "timestamp", "clamp", "clamp_min", "clamp_max",
        "round", "sort", "sort_desc", "histogram_quantile",
    }  # fmt: skip
    assert wanted - used == set()
