"""The processes measure what they must, under names that follow Prometheus' rules, with labels from closed sets."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import fields, replace
from enum import StrEnum
from functools import cache
from typing import TYPE_CHECKING, cast

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.registry import DuplicateTimeseries

from quarterdeck import __version__
from quarterdeck.core.errors import ErrorCode
from quarterdeck.core.workcoord.coordinator.effects import Outcome
from quarterdeck.core.workcoord.coordinator.tables import ReassignmentReason
from quarterdeck.core.workcoord.kinds import WorkKind
from quarterdeck.core.workcoord.messages import RejectReason
from quarterdeck.core.workcoord.peer import CloseReason, LossReason
from quarterdeck.metrics.metering import coordinator_readings
from quarterdeck.metrics.metering import worker_readings as leaf_readings
from quarterdeck.recruiter.metering import RecruiterMetrics
from quarterdeck.recruiter.worker_metering import worker_readings as reservation_readings
from quarterdeck.telemetry.exposition import new_registry
from quarterdeck.telemetry.metrics import (
    CoordinatorFigures,
    CoordinatorMetrics,
    DisconnectReason,
    RemovalReason,
    WorkerMetrics,
    error_code,
    exemplar,
)
from quarterdeck.telemetry.metrics.families import Families
from quarterdeck.telemetry.metrics.figures import MOST_VALUES
from quarterdeck.telemetry.metrics.series import Counter, Histogram
from tests.telemetry.full import (
    coordinator_figures,
    leaf_figures,
    query_figures,
    recruiter_figures,
    reservation_figures,
    worker_figures,
)
from tests.telemetry.scrape import Line, scrape, value

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

COORDINATOR, WORKER, RECRUITER = "quarterdeck_coordinator", "quarterdeck_worker", "quarterdeck_recruiter"
LEAF = WorkKind("leaf")
KINDS = (LEAF, WorkKind("scan"))

REQUIRED = {
    # Control stream
    "active streams per API": f"{COORDINATOR}_active_streams",
    "heartbeat RTT": f"{COORDINATOR}_heartbeat_rtt_seconds_bucket",
    "disconnect count/rate": f"{COORDINATOR}_disconnects_total",
    "disconnects, as the worker sees them": f"{WORKER}_disconnects_total",
    "reconnect latency": f"{COORDINATOR}_reconnect_seconds_bucket",
    "reconnect latency, of a worker that dials": f"{WORKER}_reconnect_seconds_bucket",
    # Scheduling
    "work assignment latency": f"{COORDINATOR}_assignment_seconds_bucket",
    "work accepted counts": f"{COORDINATOR}_works_accepted_total",
    "work rejected counts": f"{COORDINATOR}_works_rejected_total",
    "reassignment count": f"{COORDINATOR}_reassignments_total",
    "affinity hit ratio": f"{COORDINATOR}_affinity_assignments_total",
    "API local work queue depth": f"{COORDINATOR}_work_queue_depth",
    "API local oldest-work age": f"{COORDINATOR}_oldest_work_age_seconds",
    # Execution
    "worker queue depth (local)": f"{WORKER}_work_queue_depth",
    "task runtime": f"{WORKER}_task_runtime_seconds_bucket",
    "download duration": f"{WORKER}_download_seconds_bucket",
    "query duration": f"{WORKER}_engine_query_seconds_bucket",
    "cancel latency": f"{WORKER}_cancel_seconds_bucket",
    # Artifacts
    "ready-to-fetch latency": f"{COORDINATOR}_ready_to_fetch_seconds_bucket",
    "fetch latency": f"{COORDINATOR}_fetch_seconds_bucket",
    "checksum mismatch rate": f"{COORDINATOR}_checksum_mismatches_total",
    "checksum mismatch rate, divided by": f"{COORDINATOR}_fetch_seconds_count",
    "artifact TTL cleanup counts": f"{WORKER}_artifacts_removed_total",
    "artifact spool bytes used": f"{WORKER}_spool_bytes",
    "parquet cache bytes used": f"{WORKER}_parquet_cache_bytes",
    "total free bytes in shared cache disk": f"{WORKER}_disk_free_bytes",
    # End user
    "query p50/p95/p99 latency": f"{COORDINATOR}_query_seconds_bucket",
    "time-to-first-result": f"{COORDINATOR}_first_result_seconds_bucket",
    "error rate by reason": f"{COORDINATOR}_query_errors_total",
    "error rate by reason, divided by": f"{COORDINATOR}_query_seconds_count",
    # Recruiting
    "free workers": f"{RECRUITER}_free_workers",
    "nodes": f"{RECRUITER}_nodes",
    "reserved workers": f"{RECRUITER}_reserved_workers",
    "workers asked for": f"{RECRUITER}_workers_asked_total",
    "workers granted": f"{RECRUITER}_workers_granted_total",
    "workers asked for and not there": f"{RECRUITER}_workers_short_total",
    "registrations": f"{RECRUITER}_registrations_total",
    "time in the pool": f"{RECRUITER}_worker_wait_seconds_bucket",
    "free workers by node": f"{RECRUITER}_node_free_workers",
    "workers granted by node": f"{RECRUITER}_node_workers_granted_total",
    # What operators expect beside
    "build": "quarterdeck_build_info",
    "memory": "process_resident_memory_bytes",
    "processor time": "process_cpu_seconds_total",
    "open files": "process_open_fds",
    "garbage collection": "python_gc_collections_total",
    "platform": "python_info",
    "sessions": f"{COORDINATOR}_sessions_opened_total",
    "protocol errors": f"{COORDINATOR}_protocol_errors_total",
    "connections without registration": f"{COORDINATOR}_connections_without_registration_total",
    "works by state": f"{COORDINATOR}_works",
    "workers by state": f"{COORDINATOR}_workers",
    "cache hits and misses": f"{WORKER}_parquet_cache_lookups_total",
    "artifact bytes served": f"{WORKER}_artifact_served_bytes_total",
    "log records lost": "quarterdeck_log_records_lost_total",
}

HOSTILE_ID = "query-77-that-must-not-be-a-label"


def _coordinator() -> tuple[CollectorRegistry, CoordinatorMetrics]:
    registry = new_registry()
    metrics = CoordinatorMetrics(registry)
    metrics.read_figures_from(coordinator_figures)
    coordinator_readings(metrics.families).read_from(query_figures)
    return registry, metrics


def _worker() -> tuple[CollectorRegistry, WorkerMetrics]:
    registry = new_registry()
    metrics = WorkerMetrics(registry, KINDS)
    metrics.read_figures_from(worker_figures)
    leaf_readings(metrics.families).read_from(leaf_figures)
    reservation_readings(metrics.families).read_from(reservation_figures)
    return registry, metrics


def _recruiter() -> tuple[CollectorRegistry, RecruiterMetrics]:
    registry = new_registry()
    metrics = RecruiterMetrics(registry)
    metrics.read_figures_from(recruiter_figures)
    return registry, metrics


@cache
def _lines() -> list[Line]:
    """Of all processes, before anything has happened."""
    return [*scrape(_coordinator()[0]), *scrape(_worker()[0]), *scrape(_recruiter()[0])]


def _ours() -> list[Line]:
    return [line for line in _lines() if line.name.startswith("quarterdeck_")]


def _series(part: object) -> Iterator[Counter | Histogram]:
    """The counters and histograms of one part of the metrics."""
    for found in vars(part).values():
        if isinstance(found, Counter | Histogram):
            yield found
        else:
            yield from cast("Mapping[object, Counter | Histogram]", found).values()


@pytest.mark.parametrize("what", REQUIRED)
def test_what_is_required_is_measured(what: str) -> None:
    assert [line for line in _lines() if line.name == REQUIRED[what]]


def test_names_follow_the_rules_of_prometheus() -> None:
    for line in _ours():
        assert re.fullmatch(r"quarterdeck(_[a-z]+)+", line.family), line
        assert not re.search(
            r"milli|micro|minutes|hours|kilo|mega|kib|mib|percent|gauge|counter|histogram", line.family
        )
        match line.type:
            case "counter":
                assert line.name == f"{line.family}_total"
            case "histogram":
                assert line.family.endswith(("_seconds", "_bytes"))
            case "gauge":
                assert not line.family.endswith(("_total", "_count", "_sum", "_bucket", "_info"))
            case _:
                assert (line.type, line.name) == ("info", "quarterdeck_build_info")


def test_what_has_a_unit_declares_it() -> None:
    for line in _ours():
        units = [unit for unit in ("seconds", "bytes") if line.family.endswith(f"_{unit}")]
        assert [line.unit] == (units or [""]), line


def test_a_unit_stands_at_the_end_of_a_name() -> None:
    for line in _ours():
        assert not re.search(r"_(seconds|bytes)_", line.family), line


def test_labels_have_plain_names_and_few_values() -> None:
    values: dict[tuple[str, str], set[str]] = {}
    for line in _ours():
        for name, text in line.labels:
            assert re.fullmatch(r"[a-z]+", name)
            values.setdefault((line.family, name), set()).add(text)
    assert all(len(found) < 30 for found in values.values())


def test_the_number_of_series_does_not_depend_on_what_happens() -> None:
    coordinator_registry, coordinator = _coordinator()
    worker_registry, worker = _worker()
    before = len(scrape(coordinator_registry)), len(scrape(worker_registry))
    _let_everything_happen(coordinator, worker)
    assert (len(scrape(coordinator_registry)), len(scrape(worker_registry))) == before


def _let_everything_happen(coordinator: CoordinatorMetrics, worker: WorkerMetrics) -> None:
    parts = (coordinator.control, coordinator.scheduling, coordinator.fetching, coordinator.queries)
    of = exemplar(HOSTILE_ID, "work-88")
    for part in (*parts, worker.control, worker.execution, worker.artifacts):
        for series in _series(part):
            if isinstance(series, Counter):
                series.inc(1, of)
            else:
                series.observe(0.3, of)


def test_ids_are_exemplars_and_never_labels() -> None:
    coordinator_registry, coordinator = _coordinator()
    worker_registry, worker = _worker()
    _let_everything_happen(coordinator, worker)
    lines = [line for line in [*scrape(coordinator_registry), *scrape(worker_registry)] if "quarterdeck" in line.name]
    assert [line for line in lines if HOSTILE_ID in dict(line.labels).values()] == []
    assert {name for line in lines for name, _ in line.labels} & {
        "query_id",
        "work_id",
        "leaf_id",
        "worker_id",
    } == set()
    seen = {
        line.family
        for line in lines
        if line.exemplar and line.exemplar[0] == {"query_id": HOSTILE_ID, "work_id": "work-88"}
    }
    assert seen >= {line.family for line in lines if line.type == "histogram"}
    assert f"{COORDINATOR}_works_accepted" in seen
    assert f"{WORKER}_artifacts_removed" in seen


def test_every_series_that_a_part_has_is_exposed_under_its_own_labels() -> None:
    registry, metrics = _coordinator()
    metrics.scheduling.accepted.inc(3)
    metrics.scheduling.rejected[RejectReason.DRAINING].inc(4)
    metrics.scheduling.reassigned[ReassignmentReason.WORKER_LOST].inc(5)
    metrics.control.disconnects[DisconnectReason.NOT_READING].inc(6)
    metrics.queries.errors[ErrorCode.NO_WORKER].inc(7)
    metrics.queries.latency[Outcome.SUCCEEDED].observe(0.3)
    assert value(registry, f"{COORDINATOR}_works_accepted_total") == 3
    assert value(registry, f"{COORDINATOR}_works_rejected_total", reason="draining") == 4
    assert value(registry, f"{COORDINATOR}_works_rejected_total", reason="not_accepting") == 0
    assert value(registry, f"{COORDINATOR}_reassignments_total", reason="worker_lost") == 5
    assert value(registry, f"{COORDINATOR}_disconnects_total", reason="not_reading") == 6
    assert value(registry, f"{COORDINATOR}_query_errors_total", reason="no_worker") == 7
    assert value(registry, f"{COORDINATOR}_query_seconds_bucket", outcome="succeeded", le="0.3") == 1
    assert value(registry, f"{COORDINATOR}_query_seconds_bucket", outcome="succeeded", le="0.2") == 0
    assert value(registry, f"{COORDINATOR}_query_seconds_count", outcome="failed") == 0


def test_a_task_is_told_apart_by_kind_and_outcome() -> None:
    registry, metrics = _worker()
    metrics.execution.task_runtime[LEAF, Outcome.FAILED].observe(2.0)
    metrics.artifacts.removed[RemovalReason.EVICTED].inc()
    assert value(registry, f"{WORKER}_task_runtime_seconds_sum", kind="leaf", outcome="failed") == 2.0
    assert value(registry, f"{WORKER}_task_runtime_seconds_sum", kind="scan", outcome="failed") == 0
    assert value(registry, f"{WORKER}_artifacts_removed_total", reason="evicted") == 1


def test_a_disconnect_has_the_reasons_to_close_a_session_and_those_to_lose_one() -> None:
    reasons = {reason.value for reason in (*CloseReason, *LossReason)}
    assert reasons == {reason.value for reason in DisconnectReason}


@pytest.mark.parametrize("code", ErrorCode)
def test_a_code_from_the_wire_is_read(code: ErrorCode) -> None:
    assert error_code(str(code)) is code


def test_a_code_that_is_not_known_does_not_make_a_label() -> None:
    assert error_code("teapot") is ErrorCode.PROTOCOL


def test_the_build_says_version_and_process() -> None:
    (build,) = [line for line in scrape(_worker()[0]) if line.name == "quarterdeck_build_info"]
    assert build.of(version=__version__, process="worker")


def test_a_registry_is_for_one_process() -> None:
    registry, _ = _coordinator()
    with pytest.raises(DuplicateTimeseries):
        CoordinatorMetrics(registry)
    with pytest.raises(DuplicateTimeseries):
        WorkerMetrics(registry, KINDS)


@pytest.mark.parametrize(
    "figures, prefix",
    [
        (coordinator_figures(), COORDINATOR),
        (query_figures(), COORDINATOR),
        (worker_figures(), WORKER),
        (leaf_figures(), WORKER),
        (reservation_figures(), WORKER),
        (recruiter_figures(), RECRUITER),
    ],
    ids=["coordinator", "queries", "worker", "leaves", "reservations", "recruiter"],
)
def test_every_figure_is_exposed(figures: "DataclassInstance", prefix: str) -> None:
    """All figures are different numbers, so each must be found in the scrape; the two states are 0 and 1."""
    shown = {line.value for line in _lines() if line.name.startswith(prefix)}
    for field in fields(figures):
        given = cast("float | Mapping[str, float]", getattr(figures, field.name))
        assert set(given.values() if isinstance(given, Mapping) else [given]) <= shown, field.name


def test_figures_stand_under_the_right_names() -> None:
    coordinator, _ = _coordinator()
    worker, _ = _worker()
    assert value(coordinator, f"{COORDINATOR}_oldest_work_age_seconds") == 14.5
    assert value(coordinator, f"{COORDINATOR}_works", state="accepted") == 16
    assert value(coordinator, f"{COORDINATOR}_works", state="ready") == 0
    assert value(coordinator, f"{COORDINATOR}_workers", state="accepting") == 17
    assert value(coordinator, f"{COORDINATOR}_affinity_assignments_total", result="hit") == 25
    assert value(coordinator, f"{COORDINATOR}_affinity_assignments_total", result="miss") == 26
    assert value(worker, f"{WORKER}_accepting_work") == 1
    assert value(worker, f"{WORKER}_draining") == 0
    assert value(worker, f"{WORKER}_parquet_cache_bytes") == 37
    assert value(worker, f"{WORKER}_disk_free_bytes") == 39
    assert value(worker, f"{WORKER}_parquet_cache_lookups_total", result="miss") == 45


def test_a_label_whose_values_come_and_go_has_those_of_the_moment() -> None:
    registry, metrics = _recruiter()
    assert value(registry, f"{RECRUITER}_node_free_workers", node="rack1") == 60
    assert value(registry, f"{RECRUITER}_node_free_workers", node="rack2") == 61
    assert value(registry, f"{RECRUITER}_node_workers_granted_total", node="rack1") == 62
    metrics.read_figures_from(lambda: replace(recruiter_figures(), free_by_node={'quoted "rack"': 63}))
    assert value(registry, f"{RECRUITER}_node_free_workers", node='quoted "rack"') == 63
    assert len([line for line in scrape(registry) if line.name == f"{RECRUITER}_node_free_workers"]) == 1


def test_of_very_many_values_those_with_the_largest_numbers_are_exposed() -> None:
    registry, metrics = _recruiter()
    many = {f"n{index}": index for index in range(MOST_VALUES + 5)}
    metrics.read_figures_from(lambda: replace(recruiter_figures(), free_by_node=many))
    shown = [line.value for line in scrape(registry) if line.name == f"{RECRUITER}_node_free_workers"]
    assert sorted(shown) == list(range(5, MOST_VALUES + 5))


def test_figures_are_read_anew_at_every_scrape() -> None:
    registry = new_registry()
    metrics = WorkerMetrics(registry, KINDS)
    depths = iter([1, 2])

    metrics.read_figures_from(lambda: replace(worker_figures(), queue_depth=next(depths)))
    assert [value(registry, f"{WORKER}_work_queue_depth") for _ in range(2)] == [1, 2]


def test_before_there_are_figures_a_scrape_has_none() -> None:
    registry = new_registry()
    CoordinatorMetrics(registry)
    assert [line for line in scrape(registry) if line.name == f"{COORDINATOR}_work_queue_depth"] == []
    assert value(registry, f"{COORDINATOR}_figures_failed_total") == 0


def test_figures_that_cannot_be_read_cost_only_themselves(caplog: pytest.LogCaptureFixture) -> None:
    registry, metrics = _coordinator()

    def broken() -> CoordinatorFigures:
        raise RuntimeError("no figures today")

    metrics.read_figures_from(broken)
    metrics.scheduling.accepted.inc()
    assert value(registry, f"{COORDINATOR}_works_accepted_total") == 1
    assert value(registry, f"{COORDINATOR}_figures_failed_total") == 1
    assert [line for line in scrape(registry) if line.name == f"{COORDINATOR}_work_queue_depth"] == []
    assert "no figures today" in caplog.text


def test_every_metric_has_a_meaning_that_is_a_sentence() -> None:
    for families in (_coordinator()[1].families, _worker()[1].families, _recruiter()[1].families):
        assert isinstance(families, Families)
        for description in families:
            assert description.meaning.endswith("."), description
            assert "\n" not in description.meaning
            assert all(
                isinstance(text, StrEnum) or text in KINDS for label in description.labels for text in label.values
            )
