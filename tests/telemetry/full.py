"""Figures of a process in which everything has another number, so that a mix-up shows."""

from quarterdeck.core.workcoord.coordinator.tables import WorkerState, WorkState
from quarterdeck.metrics.metering import LeafFigures, QueryFigures
from quarterdeck.recruiter.metering import RecruiterFigures
from quarterdeck.recruiter.worker_metering import ReservationFigures
from quarterdeck.search.metering import SearchFigures
from quarterdeck.telemetry.metrics import CoordinatorFigures, Rejection, WorkerFigures


def coordinator_figures() -> CoordinatorFigures:
    return CoordinatorFigures(
        active_streams=11,
        active_queries=12,
        queue_depth=13,
        oldest_work_age_s=14.5,
        works={WorkState.PENDING: 15, WorkState.ACCEPTED: 16},
        workers={WorkerState.ACCEPTING: 17},
        spool_bytes=18,
        disk_free_bytes=19,
        sessions_opened=20,
        protocol_errors=21,
        connections_without_registration=22,
        registrations_refused=23,
        own_pauses=24,
        rejections={Rejection.CONTROL_TOKEN: 7004},
        affinity_hits=25,
        affinity_misses=26,
        fetched_bytes=7001,
        checksum_mismatches=7002,
        results_dropped=27,
        stalls={"/api/v1/series": 81},
        stalled_s={"/api/v1/series": 82.5},
    )


def worker_figures() -> WorkerFigures:
    return WorkerFigures(
        active_streams=31,
        queue_depth=32,
        running_tasks=33,
        slots=34,
        accepting_work=True,
        draining=False,
        artifacts=35,
        spool_bytes=36,
        cache_bytes=37,
        disk_limit_bytes=38,
        disk_free_bytes=39,
        sessions_opened=40,
        protocol_errors=41,
        registrations_failed=42,
        own_pauses=43,
        rejections={Rejection.HTTP_TOKEN: 7005},
        cache_hits=44,
        cache_misses=45,
        served_bytes=7003,
        drops_failed=46,
        stalls={"/worker/chunksearch": 83},
        stalled_s={"/worker/chunksearch": 84.5},
    )


def query_figures() -> QueryFigures:
    return QueryFigures(
        queries_running=87,
        queries_queued=88,
        oldest_queued_query_age_s=89.5,
        query_memory_bytes=90,
        queries_ended_for_memory=91,
    )


def leaf_figures() -> LeafFigures:
    return LeafFigures(
        sample_memory_bytes=92, sample_hits=93, sample_misses=94, query_memory_bytes=95, queries_ended_for_memory=96
    )


def reservation_figures() -> ReservationFigures:
    return ReservationFigures(reserved=True, searches=47, searches_broken=48, recruit_failures=49, abandoned=50)


def recruiter_figures() -> RecruiterFigures:
    return RecruiterFigures(
        free_workers=51,
        nodes=52,
        reserved_workers=53,
        registrations=54,
        registrations_superseded=55,
        recruits=56,
        workers_asked=57,
        workers_granted=58,
        workers_short=59,
        free_by_node={"rack1": 60, "rack2": 61},
        granted_by_node={"rack1": 62},
        rejections={Rejection.HTTP_TOKEN: 7006},
        stalls={"/recruiter/recruit": 85},
        stalled_s={"/recruiter/recruit": 86.5},
    )


def search_figures() -> SearchFigures:
    return SearchFigures(running=70)
