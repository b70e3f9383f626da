"""Workers that lie, over HTTP: what they answer is in no answer, and a search that has nobody else fails."""

import asyncio
import random
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

import pytest
from starlette.types import Receive, Scope, Send

from quarterdeck.core.errors import ErrorCode, QuarterdeckError
from quarterdeck.crew.artifacts.format import Hasher
from quarterdeck.recruiter.model import Recruited
from quarterdeck.search.client import HttpSearchWorkers
from quarterdeck.search.frames import FrameKind, RowFrames, encode_report
from quarterdeck.search.model import Chunk, ChunkReport, SearchSpec
from quarterdeck.search.ports import ChunkAnswer
from tests.http.asked import served
from tests.patience import PATIENCE_S
from tests.search.root.searched import PlayedWorkers, Root, root
from tests.search.test_row_payloads import offsets_of, records, stream_of

NOTHING = RowFrames().sent
EMPTY = encode_report(ChunkReport(0, 0), NOTHING)


def frame(kind: FrameKind, payload: bytes) -> bytes:
    return len(payload).to_bytes(4, "little") + bytes([kind]) + payload


def with_bad_offsets() -> bytes:
    stream = stream_of(records()).replace(offsets_of(0, 6, 12, 18), offsets_of(0, 1 << 30, 12, 18))
    return frame(FrameKind.ROWS, Hasher(stream).digest() + stream) + EMPTY


class Rogues(PlayedWorkers):
    """Recruited like any others, and really called."""

    def __init__(self, count: int) -> None:
        super().__init__(count)
        self.addr = ""
        self.http = HttpSearchWorkers()

    async def search(
        self,
        worker: Recruited,
        spec: SearchSpec,
        chunk: Chunk,
        *,
        ask_about: Collection[str],
        on_progress: Callable[[int], None],
    ) -> ChunkAnswer:
        self.given.append((worker.addr, chunk.number))
        there = Recruited(self.addr, worker.node, worker.slots, worker.reservation)
        return await self.http.search(there, spec, chunk, ask_about=ask_about, on_progress=on_progress)


def play(folder: Path, answer: bytes, count: int, scenario: Callable[[Root], Any]) -> Rogues:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        while (await receive()).get("more_body"):
            pass
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": answer})

    rogues = Rogues(count)

    async def run() -> None:
        async with asyncio.timeout(PATIENCE_S), served(app) as server, root(folder, rogues) as made:
            rogues.addr = f"127.0.0.1:{server.port}"
            await scenario(made)
            await rogues.http.close()

    asyncio.run(run())
    return rogues


LIES = {
    "nothing was searched": EMPTY,
    "offsets that lead elsewhere": with_bad_offsets(),
    "noise": random.Random(1).randbytes(1000),
    "more than there was to search": encode_report(ChunkReport(10**9, 0, pieces=1), NOTHING),
}


pytestmark = pytest.mark.usefixtures("one_file_a_chunk")


@pytest.mark.parametrize("lie", LIES)
def test_what_a_rogue_answers_is_in_no_answer(tmp_path: Path, lie: str) -> None:
    async def scenario(root: Root) -> None:
        numbers = root.put_numbered(4)
        found = await root.search(max_workers=2)
        assert found.numbers == numbers
        assert not found.running.problems

    assert len(play(tmp_path, LIES[lie], 2, scenario).given) == 2


@pytest.mark.parametrize("lie", LIES)
def test_with_rogues_alone_a_search_fails(tmp_path: Path, lie: str) -> None:
    async def scenario(root: Root) -> None:
        root.put_numbered(2)
        with pytest.raises(QuarterdeckError, match="no worker gave an answer that adds up") as raised:
            await root.search(max_workers=2)
        assert raised.value.code is ErrorCode.PROTOCOL

    play(tmp_path, LIES[lie], 50, scenario)
