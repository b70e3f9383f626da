"""Many fetches at once, large ones with little memory, and cancels at any moment."""

import asyncio
import random
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from quarterdeck.core.workcoord.model import Artifact
from quarterdeck.crew.artifacts.fetched import FetchedArtifact
from tests.crew.artifacts.harness import (
    Depot,
    Office,
    attempt_id,
    files_in,
    looped,
    noise,
    office,
    pa,
    peer,
    rows,
    until,
)

MIB = 2**20


@looped
async def test_a_hundred_fetches_at_once_all_come(tmp_path: Path) -> None:
    depot = Depot(tmp_path, memory_limit_bytes=MIB)
    batches = {number: rows(number, 5) if number % 10 else noise(megabytes=1) for number in range(100)}
    async with depot.serving(), office(tmp_path, at_once=16) as here:
        made = {number: depot.make(batch, attempt=attempt_id(number)) for number, batch in batches.items()}

        async def fetch(number: int) -> None:
            result = await here.fetch(made[number], attempt_id(number))
            read = pa.Table.from_batches(list(result.read_batches()))
            assert read.equals(pa.Table.from_batches([batches[number]]))
            here.fetcher.discard(result)

        await asyncio.gather(*map(fetch, made))
        assert here.fetcher.counters["fetched"] == 100
        await until(here.is_clean)


class _Crowd:
    """Servers that answer when they are told to, and count who asks."""

    def __init__(self) -> None:
        self.asking: Counter[str] = Counter()
        self.most: Counter[str] = Counter()
        self.go = asyncio.Event()

    def answer(self, name: str) -> Any:
        async def answer(head: str, writer: asyncio.StreamWriter) -> None:
            for who in (name, "all"):
                self.asking[who] += 1
                self.most[who] = max(self.most[who], self.asking[who])
            await self.go.wait()
            for who in (name, "all"):
                self.asking[who] -= 1
            writer.write(b"HTTP/1.1 404 Gone\r\nContent-Length: 0\r\n\r\n")

        return answer


@looped
async def test_a_slow_worker_takes_a_quarter_of_the_places_and_the_rest_are_there_for_others(tmp_path: Path) -> None:
    crowd = _Crowd()
    artifact = Depot(tmp_path).make()
    async with (
        peer(crowd.answer("slow")) as slow,
        peer(crowd.answer("other")) as other,
        office(tmp_path, at_once=8) as here,
    ):
        waiting = [asyncio.create_task(here.failure(replace(artifact, url=slow.url))) for _ in range(20)]
        await until(lambda: crowd.asking["slow"] == 2)
        late = asyncio.create_task(here.failure(replace(artifact, url=other.url)))
        await until(lambda: crowd.asking["other"] == 1)
        crowd.go.set()
        await asyncio.gather(late, *waiting)
        assert crowd.most["slow"] == 2
        assert here.fetcher.under_way == 0


@looped
async def test_no_more_than_allowed_run_at_once_whatever_the_number_of_workers(tmp_path: Path) -> None:
    crowd = _Crowd()
    artifact = Depot(tmp_path).make()
    async with (
        peer(crowd.answer("a")) as a,
        peer(crowd.answer("b")) as b,
        peer(crowd.answer("c")) as c,
        peer(crowd.answer("d")) as d,
        office(tmp_path, at_once=2) as here,
    ):
        asked = [asyncio.create_task(here.failure(replace(artifact, url=there.url))) for there in (a, b, c, d) * 3]
        await until(lambda: crowd.asking["all"] == 2)
        crowd.go.set()
        await asyncio.gather(*asked)
        assert crowd.most["all"] == 2


# Large ones


class _Memory:
    """How much more memory the process has had than at the beginning, looked at every few milliseconds."""

    def __init__(self) -> None:
        self._process = psutil.Process()
        self._before = self._process.memory_info().rss
        self.most_bytes = 0

    async def watch(self) -> None:
        while True:
            self.look()
            await asyncio.sleep(0.005)

    def look(self) -> None:
        self.most_bytes = max(self.most_bytes, self._process.memory_info().rss - self._before)


@looped
async def test_a_large_artifact_passes_through_both_ends_with_little_memory(tmp_path: Path) -> None:
    depot = Depot(tmp_path)
    batch = noise(megabytes=1)
    async with depot.serving(), office(tmp_path) as here:
        warm = await here.fetch(depot.make(batch))
        assert sum(batch.num_rows for batch in warm.read_batches()) == batch.num_rows
        warm.release()
        memory = _Memory()
        watching = asyncio.create_task(memory.watch())
        artifact = await asyncio.to_thread(lambda: depot.make(*[batch] * 200, attempt=attempt_id(2)))
        assert artifact.size_bytes > 200 * MIB
        result = await here.fetch(artifact)
        count = 0
        for piece in result.read_batches():
            count += piece.num_rows
            memory.look()
        watching.cancel()
        assert count == artifact.row_count
        assert memory.most_bytes < 50 * MIB
        result.release()
        assert here.is_clean()


# Cancels


async def _canceled(fetching: "asyncio.Task[FetchedArtifact]") -> None:
    fetching.cancel()
    with pytest.raises(asyncio.CancelledError):
        (await fetching).release()


@pytest.mark.parametrize("memory_limit_bytes", [8 * MIB, 16], ids=["memory", "disk"])
@looped
async def test_a_cancel_in_the_middle_leaves_nothing(tmp_path: Path, memory_limit_bytes: int) -> None:
    async def half(head: str, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 4194304\r\n\r\n" + b"x" * 2 * MIB)
        await asyncio.Event().wait()

    artifact = replace(Depot(tmp_path).make(), size_bytes=4 * MIB)
    async with peer(half) as there, office(tmp_path, memory_limit_bytes=memory_limit_bytes) as here:
        for moment in ("before", "asked", "half"):
            seen = len(there.heads)
            fetching = asyncio.create_task(here.fetch(replace(artifact, url=there.url)))
            if moment == "before":
                await asyncio.sleep(0)
            elif moment == "asked":
                await until(lambda: len(there.heads) > seen)  # noqa: B023 - awaited
            elif memory_limit_bytes == 16:
                await until(lambda: any(_size_of(here, name) >= MIB for name in files_in(here.folder)))
            else:
                await until(lambda: len(there.heads) > seen)  # noqa: B023 - awaited
                await asyncio.sleep(0.01)
            await _canceled(fetching)
            assert here.is_clean()
        assert here.fetcher.under_way == 0


def _size_of(here: Office, name: str) -> int:
    return (here.folder / name).stat().st_size


@looped
async def test_a_cancel_while_waiting_for_a_place_leaves_nothing_and_takes_none(tmp_path: Path) -> None:
    crowd = _Crowd()
    artifact = Depot(tmp_path).make()
    async with peer(crowd.answer("slow")) as there, office(tmp_path, at_once=1) as here:
        first = asyncio.create_task(here.failure(replace(artifact, url=there.url)))
        await until(lambda: crowd.asking["slow"] == 1)
        second = asyncio.create_task(here.fetch(replace(artifact, url=there.url)))
        await asyncio.sleep(0)
        await _canceled(second)
        crowd.go.set()
        await first
        await here.failure(replace(artifact, url=there.url))
        assert here.is_clean()
        assert here.fetcher.under_way == 0


@looped
async def test_a_cancel_at_any_moment_leaves_nothing(tmp_path: Path) -> None:
    depot = Depot(tmp_path)
    chance = random.Random(7)
    async with depot.serving(), office(tmp_path, at_once=8) as here:
        made = [depot.make(rows(0, 5)), depot.make(noise(megabytes=1), attempt=attempt_id(2))]

        async def fetch(artifact: Artifact, turns: int) -> bool:
            """Cancels after so many turns of the loop; whether that came too late."""
            fetching = asyncio.create_task(here.fetch(artifact))
            for _ in range(turns):
                await asyncio.sleep(0)
            fetching.cancel()
            try:
                (await fetching).release()
            except asyncio.CancelledError:
                return False
            return True

        ends = await asyncio.gather(*(fetch(chance.choice(made), chance.randrange(120)) for _ in range(300)))
        assert False in ends
        await until(here.is_clean)
        result = await here.fetch(made[1])
        result.release()
        assert here.is_clean()
        assert here.fetcher.under_way == 0


@looped
async def test_a_cancel_during_the_verification_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    depot = Depot(tmp_path)
    async with depot.serving(), office(tmp_path, memory_limit_bytes=16) as here:
        artifact = depot.make(rows(0, 5))
        loop, fetching = asyncio.get_running_loop(), asyncio.create_task(here.fetch(artifact))

        def read_footer(source: object) -> None:
            """In a thread: the cancel comes while the file is looked at."""
            assert len(files_in(here.folder)) == 1
            loop.call_soon_threadsafe(fetching.cancel)
            asyncio.run_coroutine_threadsafe(asyncio.sleep(0), loop).result(60)
            raise ValueError("too late")

        monkeypatch.setattr("quarterdeck.crew.artifacts.receivers.read_footer", read_footer)
        with pytest.raises(asyncio.CancelledError):
            await fetching
        assert here.is_clean()
