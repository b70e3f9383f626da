"""The fields of a file, by a look at a small part of it; of one in S3 not much more is read than that."""

import asyncio
import gzip
import io
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow  # pyright: ignore[reportMissingTypeStubs] - it has none
import pyarrow.parquet  # pyright: ignore[reportMissingTypeStubs]
import pytest

from quarterdeck.search.engine.contained_search import ContainedSearcher
from quarterdeck.search.model import FileKind, Piece
from quarterdeck.search.root.sampling import FieldSampling
from quarterdeck.stores.objects import ObjectRef, ObjectStores
from tests.stores.conftest import connections_are_closed_by_the_client
from tests.stores.s3 import Bucket, moto

_arrow: Any = pyarrow
_parquet: Any = pyarrow.parquet

__all__ = ["connections_are_closed_by_the_client"]

RECORDS = [{"ts": number, "http": {"path": f"/{number}"}, "pad": f"{number:08}" * 20} for number in range(20_000)]
NAMES = {"ts", "http", "http.path", "pad"}
ENOUGH_BYTES = 600_000


def lines() -> bytes:
    return "".join(json.dumps(record) + "\n" for record in RECORDS).encode()


def parquet() -> bytes:
    file = io.BytesIO()
    _parquet.write_table(_arrow.Table.from_pylist(RECORDS), file, compression="none")
    return file.getvalue()


FILES: dict[FileKind, bytes] = {
    FileKind.NDJSON: lines(),
    FileKind.GZIP: gzip.compress(lines(), 1),
    FileKind.ZSTD: _arrow.Codec("zstd").compress(lines(), asbytes=True),
    FileKind.PARQUET: parquet(),
}


@pytest.fixture(scope="module")
def bucket() -> Iterator[Bucket]:
    with moto() as server:
        yield server.make_bucket()


class CountedStores(ObjectStores):
    read_bytes = 0

    async def read_range(self, ref: ObjectRef, start: int, end: int) -> bytes:
        self.read_bytes += end - start
        return await super().read_range(ref, start, end)


Fields = Callable[[ObjectStores, str, FileKind], frozenset[str]]


@pytest.fixture(scope="module")
def searcher() -> Iterator[ContainedSearcher]:
    searcher = ContainedSearcher(at_once=1, memory_limit_bytes=256 * 1024**2, patience_s=60)
    searcher.warm_up()
    yield searcher
    searcher.close()


@pytest.fixture
def fields_of(searcher: ContainedSearcher) -> Fields:
    def fields(objects: ObjectStores, url: str, kind: FileKind) -> frozenset[str]:
        async def run() -> frozenset[str]:
            ref = await objects.head(url)
            return await FieldSampling(objects, searcher.probe).fields_of(
                Piece(ref.url, kind, ref.size_bytes, ref.version, 0, ref.size_bytes)
            )

        return asyncio.run(run())

    return fields


@pytest.mark.parametrize("kind", FILES)
def test_a_local_file_is_looked_at_where_it_is(fields_of: Fields, tmp_path: Path, kind: FileKind) -> None:
    (tmp_path / "file").write_bytes(FILES[kind])
    assert fields_of(ObjectStores(), str(tmp_path / "file"), kind) == NAMES


@pytest.mark.parametrize("kind", FILES)
def test_of_a_file_in_s3_a_small_part_is_read(fields_of: Fields, bucket: Bucket, kind: FileKind) -> None:
    assert len(FILES[kind]) > 2 * ENOUGH_BYTES or kind is not FileKind.NDJSON
    bucket.put(f"file.{kind}", FILES[kind])
    objects = CountedStores(bucket.options)
    assert fields_of(objects, f"{bucket.url}/file.{kind}", kind) == NAMES
    assert objects.read_bytes <= ENOUGH_BYTES


@pytest.mark.parametrize("kind", FILES)
@pytest.mark.parametrize("data", [b"", b"PAR1", b"nothing of the kind, but long enough", b"\xff\xff\xff\x7fPAR1" * 3])
def test_a_file_that_cannot_be_read_has_no_fields(
    fields_of: Fields, bucket: Bucket, tmp_path: Path, kind: FileKind, data: bytes
) -> None:
    (tmp_path / "file").write_bytes(data)
    assert fields_of(ObjectStores(), str(tmp_path / "file"), kind) == frozenset()
    bucket.put("broken.x", data)
    assert fields_of(ObjectStores(bucket.options), f"{bucket.url}/broken.x", kind) == frozenset()
