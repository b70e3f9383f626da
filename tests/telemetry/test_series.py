"""Counters and histograms, next to those of prometheus-client."""

import math
import random
from itertools import pairwise

import prometheus_client
import pytest

from quarterdeck.telemetry.exposition import new_registry
from quarterdeck.telemetry.metrics import buckets
from quarterdeck.telemetry.metrics.exemplars import LIMIT_CHARACTERS, exemplar, exemplar_labels
from quarterdeck.telemetry.metrics.families import Audience, Families
from quarterdeck.telemetry.metrics.series import Counter, Histogram
from tests.telemetry.scrape import scrape

ALL_BUCKETS = {name: bounds for name, bounds in vars(buckets).items() if name.endswith("_S")}


def test_a_counter_sums_up_and_keeps_its_last_exemplar() -> None:
    counter = Counter()
    counter.inc()
    counter.inc(2.5, exemplar("q-1", "w-1"))
    counter.inc(4, exemplar("q-2"))
    counter.inc()
    assert counter.value == 8.5
    assert counter.witness is not None
    assert (counter.witness.exemplar, counter.witness.value) == (("q-2", None), 4)


@pytest.mark.parametrize("amount", [-1.0, -0.001, math.nan])
def test_a_counter_refuses_to_fall(amount: float) -> None:
    counter = Counter()
    with pytest.raises(ValueError, match="a counter was to rise by"):
        counter.inc(amount)
    assert counter.value == 0


def test_a_bound_belongs_to_the_bucket_below_it() -> None:
    histogram = Histogram([1.0, 2.0])
    for value in (0.0, 1.0, 1.5, 2.0, 2.1, math.inf):
        histogram.observe(value)
    assert histogram.counts == [2, 2, 2]
    assert histogram.count == 6


@pytest.mark.parametrize("value", [-0.001, math.nan])
def test_a_histogram_refuses_what_would_spoil_its_sum_for_ever(value: float) -> None:
    histogram = Histogram([1.0])
    with pytest.raises(ValueError, match="a histogram was to take"):
        histogram.observe(value)
    assert (histogram.count, histogram.total) == (0, 0)


@pytest.mark.parametrize("bounds", [[], [2.0, 1.0], [1.0, 1.0], [-1.0, 1.0], [1.0, math.inf]])
def test_bounds_that_are_none_are_refused(bounds: list[float]) -> None:
    with pytest.raises(ValueError, match="bounds"):
        Histogram(bounds)


def test_each_bucket_keeps_its_own_last_exemplar() -> None:
    histogram = Histogram([1.0, 2.0])
    histogram.observe(0.5, exemplar("q-1", "w-1"))
    histogram.observe(0.6, exemplar("q-2", "w-2"))
    histogram.observe(0.7)
    histogram.observe(5.0, exemplar("q-3"))
    seen = [None if witness is None else (witness.exemplar, witness.value) for witness in histogram.witnesses]
    assert seen == [(("q-2", "w-2"), 0.6), None, (("q-3", None), 5.0)]


def test_a_histogram_is_exposed_as_prometheus_client_exposes_its_own() -> None:
    ours, theirs = new_registry(), new_registry()
    histogram = Families(ours, "quarterdeck_x").histogram("y_seconds", "Y.", Audience.TUNING, buckets.QUERY_S)
    peer = prometheus_client.Histogram("quarterdeck_x_y_seconds", "Y.", registry=theirs, buckets=buckets.QUERY_S)
    chance = random.Random(1)
    for number in range(2_000):
        seconds = chance.choice([chance.expovariate(2.0), *buckets.QUERY_S])
        histogram.observe(seconds, exemplar(f"q-{number}", "w"))
        peer.observe(seconds, {"query_id": f"q-{number}", "work_id": "w"})
    assert [(line.name, line.labels, line.value, line.exemplar) for line in scrape(ours)] == [
        (line.name, line.labels, line.value, line.exemplar) for line in scrape(theirs) if "created" not in line.name
    ]


def test_buckets_and_count_agree_when_somebody_observes_during_a_scrape() -> None:
    registry = new_registry()
    histogram = Families(registry, "quarterdeck_x").histogram("y_seconds", "Y.", Audience.TUNING, [1.0])
    histogram.observe(0.5)
    (exposed,) = registry.collect()
    histogram.observe(0.5)
    assert [sample.value for sample in exposed.samples if sample.name.endswith(("_bucket", "_count"))] == [1, 1, 1]


@pytest.mark.parametrize(
    "query_id, work_id, shown",
    [
        ("q-1", "w-1", {"query_id": "q-1", "work_id": "w-1"}),
        ("q-1", None, {"query_id": "q-1"}),
        ("q" * 60, "w" * 53, {"query_id": "q" * 60, "work_id": "w" * 53}),
        ("q" * 60, "w" * 54, {"query_id": "q" * 60}),
        ("q" * 120, "w-1", {"query_id": "q" * 120}),
        ("q" * 121, "w-1", None),
    ],
)
def test_an_exemplar_that_is_too_long_loses_first_the_work_then_all(
    query_id: str, work_id: str | None, shown: dict[str, str] | None
) -> None:
    labels = exemplar_labels(exemplar(query_id, work_id))
    assert labels == shown
    assert labels is None or sum(len(name) + len(text) for name, text in labels.items()) <= LIMIT_CHARACTERS


@pytest.mark.parametrize("name", ALL_BUCKETS)
def test_bounds_rise_without_great_leaps(name: str) -> None:
    bounds = ALL_BUCKETS[name]
    assert all(1.0 < high / low <= 6.0 for low, high in pairwise(bounds))


def test_what_is_promised_has_a_bound_of_its_own() -> None:
    assert 1.0 in buckets.QUERY_S, "most queries end within a second"
    assert {2.0, 3.0} <= set(buckets.ROUND_TRIP_S), "late, and lost"


def test_quantiles_of_queries_are_read_within_seventy_percent() -> None:
    dense = [bound for bound in buckets.QUERY_S if 0.02 <= bound <= 10]
    assert max(high / low for low, high in pairwise(dense)) < 1.7
