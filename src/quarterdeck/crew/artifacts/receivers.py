"""Where the bytes of a fetch go as they come: into memory, or through a thread into a file within the disk budget.

A receiver counts and hashes what it takes. It ends in a result, or it is abandoned and leaves nothing, whenever it is
canceled.
"""

from pathlib import Path
from typing import Final, Protocol

from quarterdeck.core.workcoord.model import Artifact
from quarterdeck.crew.artifacts.failures import FetchError, FetchFailure
from quarterdeck.crew.artifacts.fetched import FetchedArtifact
from quarterdeck.crew.artifacts.format import Hasher, Stamp, checksum_text, new_name
from quarterdeck.crew.artifacts.parquet import Footer, read_footer
from quarterdeck.crew.artifacts.verification import insist_bytes, insist_footer, insist_stamp
from quarterdeck.stores.disk import DiskBudget, GrowingFile, Owner
from quarterdeck.stores.threads import in_thread

_BLOCK_BYTES: Final = 512 * 1024
"""How much is collected before a thread hashes and writes it: enough to be worth waking one."""


class Receiver(Protocol):
    received_bytes: int

    async def open(self) -> None:
        """Before the first byte is asked for: raises `DiskFullError` when there is no room for all of them."""
        ...

    async def take(self, data: bytes) -> None: ...

    async def finish(self) -> FetchedArtifact:
        """All is there: raises `FetchError` unless it is what was announced."""
        ...

    async def abandon(self) -> None:
        """Leaves nothing; again is fine."""
        ...


class MemoryReceiver:
    def __init__(self, artifact: Artifact) -> None:
        self.received_bytes = 0
        self._artifact = artifact
        self._pieces: list[bytes] = []

    async def open(self) -> None:
        """Memory is there: what is too large for it is not received here."""

    async def take(self, data: bytes) -> None:
        self._pieces.append(data)
        self.received_bytes += len(data)

    async def finish(self) -> FetchedArtifact:
        data = b"".join(self._pieces)
        insist_bytes(self._artifact, len(data), checksum_text(Hasher(data)))
        stamp = Stamp.glimpsed(data)
        if stamp is not None:
            insist_stamp(self._artifact, stamp)
            return FetchedArtifact(self._artifact, data, None)
        footer = await in_thread(lambda: _footer(data))
        insist_footer(self._artifact, footer)
        return FetchedArtifact(self._artifact, data, None, footer)

    async def abandon(self) -> None:
        self._pieces.clear()


class DiskReceiver:
    """The file stays a growing one until it is released: so the budget counts it and never evicts it."""

    def __init__(self, artifact: Artifact, folder: Path, budget: DiskBudget) -> None:
        self.received_bytes = 0
        self._artifact = artifact
        self._folder = folder
        self._budget = budget
        self._file: GrowingFile | None = None
        self._hasher = Hasher()
        self._pieces: list[bytes] = []
        self._waiting_bytes = 0

    async def open(self) -> None:
        await in_thread(self._create)

    async def take(self, data: bytes) -> None:
        self._pieces.append(data)
        self._waiting_bytes += len(data)
        self.received_bytes += len(data)
        if self._waiting_bytes >= _BLOCK_BYTES:
            await in_thread(self._write)

    async def finish(self) -> FetchedArtifact:
        return await in_thread(self._verify)

    async def abandon(self) -> None:
        self._pieces.clear()
        if self._file is not None:
            await in_thread(self._file.abandon)

    def _create(self) -> None:
        name, size_bytes = new_name(), self._artifact.size_bytes
        self._file = self._budget.create(Owner.ARTIFACTS, name, self._folder / name, expected_bytes=size_bytes)

    def _write(self) -> GrowingFile:
        assert self._file is not None
        block = b"".join(self._pieces)
        self._pieces.clear()
        self._waiting_bytes = 0
        self._hasher.update(block)
        self._file.write(block)
        return self._file

    def _verify(self) -> FetchedArtifact:
        file = self._write()
        file.close()
        insist_bytes(self._artifact, self.received_bytes, checksum_text(self._hasher))
        footer = _footer(file.path)
        insist_footer(self._artifact, footer)
        return FetchedArtifact(self._artifact, None, file.path, footer, file.abandon)


def _footer(source: bytes | Path) -> Footer:
    try:
        return read_footer(source)
    except ValueError as error:
        raise FetchError(FetchFailure.NOT_AN_ARTIFACT, f"it is no Parquet file: {error}") from error
