"""Every figure that operators were promised moves when what it counts happens."""

import asyncio
import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from quarterdeck.core.workcoord.messages import AssignWork, RejectReason, WorkRejected
from tests.e2e.crew import Coordinator, Crew, Member, Worker, until
from tests.e2e.door import Figures, RefusedError, Scan
from tests.e2e.impostors import false_worker, worker_info
from tests.e2e.lake import ALL, ENDLESS, Lake, same, truth
from tests.e2e.proxy import Proxy

pytestmark = pytest.mark.xdist_group("e2e-metrics")

LARGE = "SELECT hash(i) AS a, hash(i + 1) AS b FROM range(1000000) t(i)"
"""16 MB: too large for anybody's memory."""

PROMISED = {
    "active streams": ["coordinator_active_streams", "worker_active_streams"],
    "heartbeat round trip": ["coordinator_heartbeat_rtt_seconds_count"],
    "disconnects": ["coordinator_disconnects_total", "worker_disconnects_total"],
    "reconnect latency": ["coordinator_reconnect_seconds_count", "worker_reconnect_seconds_count"],
    "work assignment latency": ["coordinator_assignment_seconds_count"],
    "works accepted and rejected": ["coordinator_works_accepted_total", "coordinator_works_rejected_total"],
    "reassignments": ["coordinator_reassignments_total"],
    "affinity hit ratio": [
        "coordinator_affinity_assignments_total{hit}",
        "coordinator_affinity_assignments_total{miss}",
    ],
    "coordinator's queue depth": ["coordinator_work_queue_depth"],
    "coordinator's oldest work": ["coordinator_oldest_work_age_seconds"],
    "worker's queue depth": ["worker_work_queue_depth"],
    "task runtime": ["worker_task_runtime_seconds_count"],
    "download duration": ["worker_download_seconds_count", "worker_downloaded_bytes_total"],
    "query duration": ["worker_engine_query_seconds_count"],
    "cancel latency": ["worker_cancel_seconds_count"],
    "ready-to-fetch latency": ["coordinator_ready_to_fetch_seconds_count"],
    "fetch latency": ["coordinator_fetch_seconds_count", "coordinator_fetched_bytes_total"],
    "checksum mismatch rate": ["coordinator_checksum_mismatches_total"],
    "artifacts removed by their time to live": ["worker_artifacts_removed_total{expired}"],
    "artifacts served": ["worker_artifact_served_bytes_total"],
    "artifact spool bytes": ["worker_spool_bytes", "coordinator_spool_bytes"],
    "parquet cache bytes": ["worker_parquet_cache_bytes"],
    "free bytes on the shared disk": ["worker_disk_free_bytes", "coordinator_disk_free_bytes"],
    "query latency": ["coordinator_query_seconds_count{succeeded}", "coordinator_query_seconds_bucket"],
    "time to first result": ["coordinator_first_result_seconds_count"],
    "errors by reason": ["coordinator_query_errors_total{work_failed}"],
}
"""What the requirements list, and the names under which it is here. In braces: one value of the label."""
DOCUMENTED = Path(__file__).parents[2] / "docs" / "metrics.md"


@dataclass(slots=True)
class Story:
    """Looks at the figures now and then, and remembers which have ever changed."""

    first: dict[str, Figures] = field(default_factory=dict[str, Figures])
    moved: set[str] = field(default_factory=set[str])

    def begin(self, member: Member) -> None:
        self.first[member.name] = member.door.metrics()

    def look(self, member: Member) -> set[str]:
        """The names that have moved by now, at whichever process."""
        first = self.first[member.name]
        for name, samples in member.door.metrics().items():
            short = name.removeprefix("quarterdeck_")
            for labels, value in samples.items():
                if value != first.get(name, {}).get(labels, 0.0):
                    self.moved |= {short, *(f"{short}{{{label}}}" for label in labels)}
        return self.moved

    def wait(self, member: Member, *names: str) -> None:
        until(lambda: set(names) <= self.look(member), f"{names} move at {member.name}")


@dataclass(slots=True)
class Stage:
    coordinator: Coordinator
    near: Worker
    far: Worker
    results: Proxy
    line: Proxy
    story: Story


@pytest.fixture
def stage(crew: Crew) -> Iterator[Stage]:
    """Two workers; one keeps results for a moment, and can be reached over networks that break."""
    story = Story()
    coordinator = crew.coordinator()
    with Proxy(coordinator.control) as line, Proxy() as results:
        story.begin(coordinator)
        far = crew.worker(
            "far", join=[line.address], advertise_url=results.url, cache_local_files=True, artifact_ttl_s=1
        )
        near = crew.worker("near", join=[coordinator.control], cache_local_files=True)
        results.lead_to(far.http)
        # Before they have joined, if they are quick to answer: a figure that is there from the beginning is told below.
        for worker in (far, near):
            story.begin(worker)
            story.first[worker.name]["quarterdeck_worker_active_streams"] = {(): 0.0}
        coordinator.wait_for(far, near)
        yield Stage(coordinator, near, far, results, line, story)


def test_every_figure_that_operators_were_promised_moves(stage: Stage, lake: Lake) -> None:
    answer_a_query(stage, lake)
    fail_a_query(stage, lake)
    let_works_wait_and_cancel_them(stage, lake)
    damage_a_result(stage, lake)
    keep_results_until_they_expire(stage, lake)
    leave_a_result_unread(stage)
    break_the_line(stage)
    asyncio.run(reject_a_work(stage, lake))
    drain_a_worker(stage)
    promised = {name for names in PROMISED.values() for name in names}
    assert not promised - stage.story.moved


def test_every_figure_that_operators_were_promised_is_documented() -> None:
    documented = DOCUMENTED.read_text()
    for name in (name for names in PROMISED.values() for name in names):
        family = name.partition("{")[0].removesuffix("_count").removesuffix("_bucket")
        assert f"`quarterdeck_{family}`" in documented


def answer_a_query(stage: Stage, lake: Lake) -> None:
    files = lake.files[:32]
    assert same(stage.coordinator.door.scan(Scan(ALL, files)).table, truth(ALL, files))
    for member in (stage.coordinator, stage.near, stage.far):
        stage.story.look(member)
    stage.story.wait(stage.coordinator, "coordinator_active_streams", "coordinator_heartbeat_rtt_seconds_count")


def fail_a_query(stage: Stage, lake: Lake) -> None:
    with pytest.raises(RefusedError):
        stage.coordinator.door.scan(Scan("SELECT error('on purpose') FROM files", lake.files[:1]))
    stage.story.wait(stage.coordinator, "coordinator_query_errors_total{work_failed}")


def let_works_wait_and_cancel_them(stage: Stage, lake: Lake) -> None:
    """So many over one file that its home is full, the other worker takes some, and the rest waits."""
    with contextlib.ExitStack() as clients:
        for _ in range(10):
            clients.enter_context(stage.coordinator.door.begun(Scan(ENDLESS, lake.files[:1])))
        stage.story.wait(
            stage.coordinator,
            "coordinator_work_queue_depth",
            "coordinator_oldest_work_age_seconds",
            "coordinator_affinity_assignments_total{miss}",
        )
        scaling = stage.coordinator.door.get("/monitor/scaling")
        assert scaling["queue_depth"] > 0
        assert scaling["oldest_age_s"] > 0
        stage.story.wait(stage.near, "worker_work_queue_depth")
    stage.story.wait(stage.near, "worker_cancel_seconds_count")
    until(lambda: stage.near.busy == stage.far.busy == 0, "all of it has stopped")


def damage_a_result(stage: Stage, lake: Lake) -> None:
    stage.results.damage()
    stage.coordinator.door.scan(Scan(ALL, lake.files[:32]))
    stage.results.restore()
    stage.story.wait(stage.coordinator, "coordinator_checksum_mismatches_total", "coordinator_reassignments_total")


def keep_results_until_they_expire(stage: Stage, lake: Lake) -> None:
    stage.results.stall()
    with stage.coordinator.door.asked(Scan(f"{LARGE}, (SELECT max(id) FROM files)", lake.files[:12])):
        stage.story.wait(stage.far, "worker_spool_bytes", "worker_disk_free_bytes")
        stage.story.wait(stage.far, "worker_artifacts_removed_total{expired}")
        stage.results.restore()


def leave_a_result_unread(stage: Stage) -> None:
    with stage.coordinator.door.begun(Scan(LARGE)):
        stage.story.wait(stage.coordinator, "coordinator_spool_bytes", "coordinator_disk_free_bytes")


def break_the_line(stage: Stage) -> None:
    stage.line.cut()
    stage.story.wait(stage.coordinator, "coordinator_reconnect_seconds_count", "coordinator_disconnects_total")
    stage.story.wait(stage.far, "worker_reconnect_seconds_count", "worker_disconnects_total")


async def reject_a_work(stage: Stage, lake: Lake) -> None:
    """No worker of ours rejects unless it is told to stop in that very moment: this one always does."""
    coordinator = stage.coordinator
    async with false_worker(coordinator.control, worker_info("choosy", tenant="choosy")) as choosy:
        with coordinator.door.begun(Scan(ALL, lake.files[:1], "choosy")):
            assigned = await choosy.hear_a(AssignWork)
            await choosy.say(WorkRejected(assigned.attempt, RejectReason.NOT_ACCEPTING))
            await asyncio.to_thread(stage.story.wait, coordinator, "coordinator_works_rejected_total")


def drain_a_worker(stage: Stage) -> None:
    stage.story.look(stage.near)
    stage.story.look(stage.far)
    stage.coordinator.door.ask("POST", f"/v1/crew/{stage.near.name}/drain")
    assert stage.near.wait_end() == 0
    stage.story.wait(stage.coordinator, "coordinator_disconnects_total{goodbye}")
