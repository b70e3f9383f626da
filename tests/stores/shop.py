"""A played object store: objects in memory, handed out chunk by chunk when the test says so."""

import asyncio
from collections.abc import AsyncGenerator

from quarterdeck.stores.objects import ObjectRef, ObjectStores
from tests.stores.parquet import looks_like_parquet

CHUNK_BYTES = 100


class Shop(ObjectStores):
    """All of its objects are in the bucket `shop`. A delivery stops after its first chunk while the door is closed."""

    def __init__(self) -> None:
        super().__init__()
        self.door = asyncio.Event()
        self.door.set()
        self.waiting = asyncio.Event()
        """A delivery has stopped at the door."""
        self.deliveries: list[str] = []
        self.broken_off = 0
        self.failure: Exception | None = None
        self._goods: dict[str, bytes] = {}

    def stock(self, name: str, size_bytes: int = 300, data: bytes | None = None) -> ObjectRef:
        data = looks_like_parquet(size_bytes) if data is None else data
        url = f"s3://shop/{name}"
        self._goods[url] = data
        return ObjectRef(url, len(data), '"1"')

    async def stream(self, ref: ObjectRef, chunk_bytes: int = CHUNK_BYTES) -> AsyncGenerator[bytes]:
        self.deliveries.append(ref.url)
        data = self._goods[ref.url]
        try:
            yield data[:CHUNK_BYTES]
            if not self.door.is_set():
                self.waiting.set()
                await self.door.wait()
            if self.failure is not None:
                raise self.failure
            for start in range(CHUNK_BYTES, len(data), CHUNK_BYTES):
                yield data[start : start + CHUNK_BYTES]
        except (asyncio.CancelledError, GeneratorExit):
            self.broken_off += 1
            raise
