"""An error that has left its thread holds nothing of what was computed there."""

import asyncio
import gc
import weakref
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from quarterdeck.core.ids import LeafId, QueryId, WorkId
from quarterdeck.core.tracebacks import empty_frames
from quarterdeck.core.workcoord.model import AttemptId, WorkKey, WorkSpec
from quarterdeck.crew.artifacts.spool import ArtifactSpool
from quarterdeck.crew.executors import Execution
from quarterdeck.metrics.model import LEAF
from quarterdeck.stores.disk import DiskBudget, DiskLimits
from quarterdeck.stores.threads import in_thread


class Block:
    """Stands for much memory."""


class Computation:
    """Has a block in hand when it fails, in a frame below its own, and again while it handles that."""

    def __init__(self) -> None:
        self.blocks: list[weakref.ref[Block]] = []

    def run(self) -> None:
        block = self._block()
        try:
            self._fail()
        except ValueError:
            raise KeyError(id(block)) from None

    def _fail(self) -> None:
        block = self._block()
        raise ValueError(id(block))

    def _block(self) -> Block:
        block = Block()
        self.blocks.append(weakref.ref(block))
        return block

    @property
    def kept(self) -> int:
        return sum(block() is not None for block in self.blocks)


@pytest.fixture(autouse=True)
def no_collector() -> Iterator[None]:
    gc.disable()
    yield
    gc.enable()


def test_an_error_with_empty_frames_still_tells_where_it_happened() -> None:
    computation = Computation()
    with pytest.raises(KeyError) as caught:
        computation.run()
    assert computation.kept == 2
    empty_frames(caught.value)
    assert computation.kept == 0
    assert [entry.name for entry in caught.traceback][-1] == "run"


async def _in_thread(function: Callable[[], None]) -> None:
    await in_thread(function)


async def _in_slot(function: Callable[[], None]) -> None:
    key = WorkKey(QueryId("q"), LeafId("l"), WorkId("w"))
    spec = WorkSpec(key, LEAF, b"", affinity_key="any", tenant="default")
    with ThreadPoolExecutor(1) as pool, TemporaryDirectory() as folder:
        budget = DiskBudget(Path(folder), DiskLimits(1 << 20))
        spool = ArtifactSpool(Path(folder), budget, lambda: "http://w:1", lambda _: None)
        await Execution(AttemptId(key, 1), spec, lambda fraction: None, pool, spool).write(lambda sink: function())


@pytest.mark.parametrize("run", [_in_thread, _in_slot])
def test_what_a_thread_had_in_hand_is_free_though_its_error_is_kept(
    run: Callable[[Callable[[], None]], Awaitable[None]],
) -> None:
    computation = Computation()

    async def fail() -> None:
        with pytest.raises(KeyError) as caught:
            await run(computation.run)
        assert computation.kept == 0
        assert caught.value is not None

    asyncio.run(fail())
    assert len(computation.blocks) == 2


@pytest.mark.parametrize("run", [_in_thread, _in_slot])
def test_an_error_that_nobody_keeps_is_gone_without_the_collector(
    run: Callable[[Callable[[], None]], Awaitable[None]],
) -> None:
    class Failure(Exception):
        pass

    failures: list[weakref.ref[Failure]] = []

    def fail() -> None:
        failure = Failure()
        failures.append(weakref.ref(failure))
        raise failure

    async def swallow() -> None:
        with suppress(Failure):
            await run(fail)

    async def asked() -> bool:
        await swallow()
        await asyncio.sleep(0)  # the loop itself has the future until the callback has ended that woke us
        return failures[0]() is None

    assert asyncio.run(asked())
