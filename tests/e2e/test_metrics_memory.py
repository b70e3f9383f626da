"""Memory of real processes: what queries took that were refused is given back."""

from pathlib import Path
from typing import Final

import pytest

from tests.e2e.crew import Crew, until
from tests.e2e.promql import answer
from tests.e2e.samples import Samples, Store

pytestmark = pytest.mark.xdist_group("e2e-memory")

MB: Final = 1024 * 1024
NEAR_MB: Final = 100
WIDE = Samples("wide", series=3000, times=400)
REFUSALS: Final = 8


def test_eight_refusals_of_a_wide_query_leave_the_processes_as_large_as_they_were(crew: Crew, tmp_path: Path) -> None:
    coordinator = crew.coordinator(metrics__query_memory_bytes="256MiB")
    worker = crew.worker("w1", join=[coordinator.control], kinds="leaf")
    coordinator.wait_for(worker)
    Store.of(coordinator).put(WIDE, "default", 4, tmp_path)
    light, wide = WIDE.ask("sum by (job) (rate($m[5m]))"), WIDE.ask("$m * 2", step_s=0.6)
    assert answer(coordinator.door, light).result == WIDE.truth(light)  # all code and all samples are loaded
    before = {member.name: member.figures.memory_info().rss for member in (coordinator, worker)}
    for _ in range(REFUSALS):
        reply = answer(coordinator.door, wide)
        assert reply.error == (422, "execution")
        assert "the limit of a query is 256 MiB" in reply.text
    assert answer(coordinator.door, light).result == WIDE.truth(light)
    for member in (coordinator, worker):
        most = before[member.name] + NEAR_MB * MB
        until(lambda member=member, most=most: member.figures.memory_info().rss < most, f"{member.name} is as small")
