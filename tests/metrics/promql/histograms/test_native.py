"""A histogram by itself: what it looks like, what it equals, and what scaling does to it."""

import hashlib
import math
import pickle
import struct
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quarterdeck.metrics.promql.histograms.bounds import CUSTOM, exponential_bound
from quarterdeck.metrics.promql.histograms.hints import ResetHint
from quarterdeck.metrics.promql.histograms.layout import reduce_schema
from quarterdeck.metrics.promql.histograms.native import NativeHistogram
from tests.metrics.promql.histograms.strategies import custom, exponential, in_buckets

BOTH_SIDES = NativeHistogram(
    0, 0.001, 2.0, 20.0, 10.0, ((0, 1.0), (1, 2.0)), ((0, 1.0), (1, 2.0)), hint=ResetHint.NOT_RESET
)
ANY = st.one_of(exponential(), custom())


@pytest.mark.parametrize(
    ("histogram", "shown"),
    [
        (NativeHistogram(), "{count:0, sum:0}"),
        (
            BOTH_SIDES,
            "{count:20, sum:10, [-2,-1):2, [-1,-0.5):1, [-0.001,0.001]:2, (0.5,1]:1, (1,2]:2}",
        ),
        (NativeHistogram(2, positive=((1, 3.0), (2, 0.0))), "{count:0, sum:0, (1,1.189207115002721]:3}"),
        (NativeHistogram(-4, count=1e6, total=1e-5, positive=((1, 0.5),)), "{count:1e+06, sum:1e-05, (1,65536]:0.5}"),
        (
            NativeHistogram(CUSTOM, count=3, total=math.nan, positive=((0, 1.0), (2, 2.0)), custom_bounds=(-1.5, 5.0)),
            "{count:3, sum:NaN, [-Inf,-1.5]:1, (5,+Inf]:2}",
        ),
        (
            NativeHistogram(positive=((-1075, 1.0), (-1074, 2.0)), negative=((-1075, 3.0), (-1074, 4.0))),
            "{count:0, sum:0, [-5e-324,-0):4, (-0,-0):3, (0,0):1, (0,5e-324]:2}",
        ),
        (
            NativeHistogram(positive=((1024, 1.0), (1025, 1.0))),
            "{count:0, sum:0, (8.98846567431158e+307,1.7976931348623157e+308]:1, (1.7976931348623157e+308,+Inf]:1}",
        ),
    ],
)
def test_a_histogram_is_written_as_prometheus_writes_it(histogram: NativeHistogram, shown: str) -> None:
    assert str(histogram) == shown


def test_the_bounds_of_the_finest_schema_are_those_of_prometheus_bit_by_bit() -> None:
    # What `sha256` says of the table in Prometheus' model/histogram/generic.go: 256 floats from 0.5 on, little endian.
    known = "9de5914e4bc19f96dd1f461efa1b8f3fd6bfe80297b3a5a46302dac8a388c730"
    finest = [exponential_bound(index - 256, 8) for index in range(256)]
    assert hashlib.sha256(struct.pack("<256d", *finest)).hexdigest() == known
    for schema in range(8):
        parts = [exponential_bound(index - 2**schema, schema) for index in range(2**schema)]
        assert parts == finest[:: 2 ** (8 - schema)]


@pytest.mark.parametrize(
    ("schema", "index", "bound"),
    [
        (1, -1, 0.7071067811865475),
        (2, 1, 2 * 0.5946035575013605),
        (5, -1, 0.9785720620876999),
        (8, 2 * 256 - 1, 4 * 0.9972960560854698),
        (3, -(1074 << 3), 5e-324),
        (3, (-1074 << 3) - 1, 5e-324),
        (0, -1075, 0.0),
        (-4, -68, 0.0),
        (-4, 64, 1.7976931348623157e308),
        (8, 1024 << 8, 1.7976931348623157e308),
        (8, (1024 << 8) + 1, math.inf),
    ],
)
def test_a_bound_is_the_float_that_prometheus_has(schema: int, index: int, bound: float) -> None:
    assert exponential_bound(index, schema) == bound


@pytest.mark.parametrize(
    "other",
    [
        replace(BOTH_SIDES, count=21.0),
        replace(BOTH_SIDES, total=-10.0),
        replace(BOTH_SIDES, zero_count=3.0),
        replace(BOTH_SIDES, zero_threshold=0.002),
        replace(BOTH_SIDES, schema=1),
        replace(BOTH_SIDES, positive=((0, 1.0), (2, 2.0))),
        replace(BOTH_SIDES, positive=((0, 1.0), (1, 2.0), (2, 0.0))),
        replace(BOTH_SIDES, negative=()),
        replace(BOTH_SIDES, custom_bounds=(1.0,)),
        1.0,
    ],
)
def test_histograms_are_different_if_any_of_their_data_are(other: object) -> None:
    assert other != BOTH_SIDES


def test_the_hint_is_no_part_of_a_histograms_data_and_not_a_number_equals_itself() -> None:
    assert replace(BOTH_SIDES, hint=ResetHint.GAUGE) == BOTH_SIDES
    assert hash(BOTH_SIDES) == hash(replace(BOTH_SIDES, hint=ResetHint.GAUGE))
    assert replace(BOTH_SIDES, total=math.nan) == replace(BOTH_SIDES, total=math.nan)


@given(ANY)
def test_a_histogram_survives_the_way_to_another_process(histogram: NativeHistogram) -> None:
    found = pickle.loads(pickle.dumps(histogram))
    assert found == histogram
    assert found.hint is histogram.hint


@given(ANY, st.integers(1, 1000))
def test_what_is_multiplied_and_divided_by_the_same_is_as_it_was(histogram: NativeHistogram, factor: int) -> None:
    assert histogram.times(float(factor)).divided_by(float(factor)) == histogram
    assert histogram.times(float(factor)).hint is histogram.hint


def test_what_may_be_negative_is_no_counter() -> None:
    assert BOTH_SIDES.times(-1.0).hint is ResetHint.GAUGE
    assert BOTH_SIDES.divided_by(-2.0).hint is ResetHint.GAUGE
    assert BOTH_SIDES.times(-2.0).positive == ((0, -2.0), (1, -4.0))


def test_division_by_zero_leaves_no_buckets() -> None:
    found = BOTH_SIDES.divided_by(0.0)
    assert (found.count, found.total, found.zero_count) == (math.inf, math.inf, math.inf)
    assert found.positive == found.negative == ()
    assert BOTH_SIDES.divided_by(-0.0).count == -math.inf
    assert math.isnan(NativeHistogram().divided_by(0.0).count)


@given(ANY)
def test_compacting_takes_the_empty_buckets_alone(histogram: NativeHistogram) -> None:
    found = histogram.compact()
    assert str(found) == str(histogram)
    assert all(count != 0 for side in (found.positive, found.negative) for _, count in side)
    assert found.compact() == found


@given(exponential(), st.integers(0, 4))
def test_a_coarser_resolution_keeps_all_observations(histogram: NativeHistogram, shift: int) -> None:
    schema = max(histogram.schema - shift, -4)
    found = reduce_schema(histogram, schema)
    assert found.schema == schema
    assert in_buckets(found) == in_buckets(histogram)
    assert len(found.positive) <= len(histogram.positive)


@given(st.integers(-3, 8), st.integers(-60, 60))
def test_a_coarser_bucket_ends_where_a_finer_one_ends(schema: int, index: int) -> None:
    assert exponential_bound(index, schema - 1) == pytest.approx(exponential_bound(2 * index, schema))
    assert exponential_bound(index - 1, schema) < exponential_bound(index, schema)


def test_a_bucket_that_overlaps_the_zero_bucket_begins_where_that_ends() -> None:
    overlapping = NativeHistogram(0, 0.75, 1.0, positive=((0, 1.0), (1, 1.0)), negative=((0, 1.0), (1, 1.0)))
    assert [(bucket.lower, bucket.upper) for bucket in overlapping.all_buckets()] == [
        (-2.0, -1.0),
        (-1.0, -0.75),
        (-0.75, 0.75),
        (0.75, 1.0),
        (1.0, 2.0),
    ]
    without_zero = replace(overlapping, zero_count=0.0)
    assert len(list(without_zero.all_buckets())) == 4


def test_a_finer_resolution_is_refused() -> None:
    with pytest.raises(ValueError, match="no finer resolution"):
        reduce_schema(NativeHistogram(0), 1)
