"""From a request to works: which files, in which groups, and who is refused."""

import asyncio
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quarterdeck.core.errors import ErrorCode, QuarterdeckError
from quarterdeck.core.ids import CoordinatorId, QueryId
from quarterdeck.core.workcoord.coordinator import CoordinatorConfig, CoordinatorMachine
from quarterdeck.crew.clocks import MonotonicClock, RandomIds
from quarterdeck.crew.coordinator import CoordinatorDriver
from quarterdeck.crew.harvest import Window
from quarterdeck.scan.division import Division, Group, ScanFileRef, grouped
from quarterdeck.scan.merging import MergeLimits, PartMerging
from quarterdeck.scan.model import SCAN, ScanRequest, decode_task
from quarterdeck.scan.service import ScanPlan, ScanService
from quarterdeck.stores.objects import ObjectRef, ObjectStores
from tests.scan.here import MergerHere

MIB = 1024 * 1024


def ref(number: int, size_bytes: int = 1) -> ObjectRef:
    return ObjectRef(f"/lake/{number:05}.parquet", size_bytes, "v")


class NoFetcher:
    async def fetch(self, worker_id: Any, attempt: Any, artifact: Any) -> Any:
        raise NotImplementedError

    def discard(self, result: Any) -> None:
        raise NotImplementedError


class Desk:
    """A service with a coordinator that nobody works for."""

    def __init__(self) -> None:
        merger, folder = MergerHere(), Path(tempfile.mkdtemp(prefix="quarterdeck-test-"))
        machine = CoordinatorMachine(CoordinatorConfig(CoordinatorId("c0")))
        ids = RandomIds()
        self.driver: CoordinatorDriver[Any] = CoordinatorDriver(
            machine, clock=MonotonicClock(), ids=ids, fetcher=NoFetcher()
        )
        self.service = ScanService(
            self.driver,
            ObjectStores(),
            ids,
            merger,
            PartMerging(merger, folder, MergeLimits(at_once=1, parts_bytes=MIB)),
            clock=MonotonicClock(),
            window=Window(max_works=4, max_bytes=MIB),
            wait_limit_s=60.0,
            at_once=2,
            timeout_s=600.0,
        )

    def plan(self, *sources: str, files_per_work: int | None = None, tenant: str = "default") -> ScanPlan:
        request = ScanRequest("select v from files", sources)
        return asyncio.run(self.service.plan(request, tenant=tenant, files_per_work=files_per_work))


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    for name in ("a/1", "a/2", "b/3"):
        path = tmp_path / f"{name}.parquet"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"x" * 10)
    return tmp_path


def names(plan: ScanPlan) -> list[list[str]]:
    return [[Path(file.url).stem for file in group] for group in plan.groups]


# Groups

SIZES = st.integers(0, 200 * MIB) | st.integers(0, 4 * MIB)


@settings(deadline=None, derandomize=True)
@given(st.lists(SIZES, min_size=1, max_size=100), st.none() | st.integers(1, 40))
def test_every_file_is_in_one_group_in_order_and_no_group_is_too_large(
    sizes: list[int], files_per_work: int | None
) -> None:
    files = [ScanFileRef(ref(number, size)) for number, size in enumerate(sizes)]
    groups = list(grouped(files, files_per_work, lambda file: file.ref.size_bytes))
    assert [file for group in groups for file in group] == files
    assert all(groups)
    for group, after in zip(groups, [*groups[1:], None], strict=True):
        size_bytes = sum(file.ref.size_bytes for file in group)
        if files_per_work is not None:
            assert len(group) <= files_per_work
            assert after is None or len(group) == files_per_work
        else:
            assert len(group) <= 32
            assert len(group) == 1 or size_bytes <= 64 * MIB
            assert after is None or len(group) == 32 or size_bytes + after[0].ref.size_bytes > 64 * MIB


def test_many_small_files_make_groups_of_32() -> None:
    files = [ScanFileRef(ref(number)) for number in range(100)]
    assert [len(group) for group in grouped(files, None, lambda file: file.ref.size_bytes)] == [32, 32, 32, 4]


# Plans


def test_sources_are_read_in_their_order_and_each_file_once(lake: Path) -> None:
    plan = Desk().plan(f"{lake}/b", f"{lake}/a/2.parquet", f"{lake}/**/*.parquet", files_per_work=2)
    assert names(plan) == [["3", "2"], ["1"]]
    assert (plan.files, plan.size_bytes) == (3, 30)


def test_a_source_that_finds_nothing_is_an_error_that_names_it(lake: Path) -> None:
    with pytest.raises(QuarterdeckError, match=r"nothing\*\.parquet") as caught:
        Desk().plan(f"{lake}/a", f"{lake}/nothing*.parquet")
    assert caught.value.code is ErrorCode.NOT_FOUND


def test_a_request_without_sources_is_one_work_without_files() -> None:
    plan = Desk().plan()
    assert (plan.groups, plan.files, plan.size_bytes) == (((),), 0, 0)
    (work,) = plan.works()
    assert decode_task(work.payload).files == ()
    assert work.affinity_key == ""


def test_works_carry_their_group_their_tenant_and_prefer_who_has_its_first_file() -> None:
    request = ScanRequest("select 1 from files", ("lake",), "ts", with_filename=True, max_rows=5)
    groups: tuple[Group, ...] = ((ScanFileRef(ref(1)), ScanFileRef(ref(2))), (ScanFileRef(ref(3)),))
    division = Division(groups, (), request.sql)
    plan = ScanPlan(QueryId("q"), request, division, "acme")
    first, second = plan.works()
    assert [work.key.work_id for work in (first, second)] == ["q/0", "q/1"]
    assert {(work.kind, work.tenant, work.key.query_id) for work in (first, second)} == {(SCAN, "acme", "q")}
    assert (first.affinity_key, second.affinity_key) == (ref(1).url, ref(3).url)
    assert decode_task(first.payload) == division.task(request, groups[0])
    assert decode_task(second.payload) == division.task(request, groups[1])


def test_every_plan_is_a_query_of_its_own(lake: Path) -> None:
    desk = Desk()
    assert desk.plan(str(lake)).query_id != desk.plan(str(lake)).query_id


# The end


def test_a_service_that_is_closed_begins_nothing_and_goes_on_with_what_was_planned(lake: Path) -> None:
    async def play() -> None:
        desk = Desk()
        plan = await desk.service.plan(ScanRequest("select 1", (str(lake),)), tenant="default")
        desk.service.close()
        with pytest.raises(QuarterdeckError, match="shutting down") as caught:
            async with desk.service.admission.admitted(1.0):
                pass
        assert caught.value.code is ErrorCode.UNAVAILABLE
        assert caught.value.retryable
        async with desk.service.harvest(plan):
            assert [query.query_id for query in desk.driver.machine.ledger.queries()] == [plan.query_id]

    asyncio.run(play())


def test_a_harvest_that_is_left_leaves_no_query(lake: Path) -> None:
    async def play() -> None:
        desk = Desk()
        plan = await desk.service.plan(ScanRequest("select 1", (str(lake),)), tenant="default")
        async with desk.service.harvest(plan):
            (query,) = desk.driver.machine.ledger.queries()
            assert (query.query_id, query.wait_limit_s) == (plan.query_id, 60.0)
        assert list(desk.driver.machine.ledger.queries()) == []

    asyncio.run(play())
