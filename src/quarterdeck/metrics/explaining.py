"""What `explain=analyze` reports: how an answer came about, as JSON. Times are milliseconds since the query began."""

from quarterdeck.crew.observers.timelines import AttemptStory
from quarterdeck.metrics.promql.plan.explain import explain, explain_leaf
from quarterdeck.metrics.running_query import PlannedWork, RunningQuery


def explain_analyzed(running: RunningQuery, now_s: float) -> dict[str, object]:
    """All that is known about a query that was evaluated."""
    phases, works = running.phases, running.works
    fetching_s = sum(_fetching_s(story) for work in works for story in _stories(running, work))
    return {
        "query_id": running.query_id,
        "plan": explain(running.plan),
        "total_ms": _ms(now_s - running.began_s),
        "phases": {
            "queued_ms": _ms(phases.queued_s),
            "planning_ms": _ms(phases.planning_s),
            "executing_ms": _ms(phases.executing_s),
            "fetching_ms": _ms(fetching_s),
            "evaluating_ms": _ms(phases.evaluating_s),
        },
        "segments": {
            "known": len(running.universe.segments),
            "pruned": sum(division.segments_pruned for division in running.divisions),
            "read": sum(division.segments_read for division in running.divisions),
            "unreadable": len(running.unreadable),
        },
        "leaves": [_leaf(running, number) for number in range(len(running.plan.leaves))],
        "samples": sum(int(work.report.get("samples", 0)) for work in works),
        "series": sum(int(work.report.get("series", 0)) for work in works),
        "bytes_fetched": sum(work.artifact_bytes for work in works),
        "peak_memory_bytes": 0 if running.memory is None else running.memory.peak_bytes,
    }


def _leaf(running: RunningQuery, number: int) -> dict[str, object]:
    leaf, division = running.plan.leaves[number], running.divisions[number]
    return {
        "id": leaf.id,
        "text": explain_leaf(leaf),
        "merge": leaf.merge.value,
        "segments": {"pruned": division.segments_pruned, "read": division.segments_read},
        "works": [_work(running, work) for work in running.works if work.leaf == number],
    }


def _work(running: RunningQuery, work: PlannedWork) -> dict[str, object]:
    return {
        "work_id": work.key.work_id,
        "shards": list(work.shard_work.shards),
        "segments": len(work.shard_work.segments),
        "rows_estimated": work.shard_work.rows,
        "attempts": [_attempt(running, story) for story in _stories(running, work)],
        "report": dict(work.report),
        "artifact_bytes": work.artifact_bytes,
    }


def _attempt(running: RunningQuery, story: AttemptStory) -> dict[str, object]:
    def since(at_s: float | None) -> float | None:
        return None if at_s is None else _ms(at_s - running.began_s)

    return {
        "worker_id": story.worker_id,
        "outcome": story.outcome.value,
        "error": story.error,
        "assigned_ms": since(story.assigned_s),
        "ready_ms": since(story.ready_s),
        "fetched_ms": since(story.fetched_s),
    }


def _stories(running: RunningQuery, work: PlannedWork) -> list[AttemptStory]:
    return [] if running.timeline is None else running.timeline.of_work(work.key.work_id)


def _fetching_s(story: AttemptStory) -> float:
    return 0.0 if story.ready_s is None or story.fetched_s is None else story.fetched_s - story.ready_s


def _ms(seconds: float) -> float:
    return round(seconds * 1000, 3)
