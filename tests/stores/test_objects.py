"""Objects in stores: one suite for a local folder and for S3, and then what each has of its own."""

import asyncio
import os
from collections.abc import Callable
from contextlib import aclosing
from pathlib import Path
from typing import Protocol

import pytest

from quarterdeck.core.errors import ErrorCode, QuarterdeckError
from quarterdeck.stores.objects import ObjectRef, ObjectStores, S3Options
from tests.stores.s3 import Bucket, S3Server

KIB = 1024


class Place(Protocol):
    """Where objects of a test are: a folder or a bucket."""

    @property
    def url(self) -> str: ...

    def put(self, key: str, data: bytes) -> None: ...

    def delete(self, key: str) -> None: ...


class Folder:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.url = str(path)

    def put(self, key: str, data: bytes) -> None:
        path = self.path / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)

    def delete(self, key: str) -> None:
        (self.path / key).unlink()


@pytest.fixture(scope="session", params=["local", "s3"])
def server(request: pytest.FixtureRequest) -> S3Server | None:
    """What the test needs beside itself. Of the session, so that it is no test's to clean up."""
    return None if request.param == "local" else request.getfixturevalue("s3_server")


@pytest.fixture
def place(server: S3Server | None, tmp_path: Path) -> Place:
    return Folder(tmp_path) if server is None else server.make_bucket()


@pytest.fixture
def stores(place: Place) -> ObjectStores:
    return ObjectStores(place.options if isinstance(place, Bucket) else None)


def find(stores: ObjectStores, pattern: str) -> list[ObjectRef]:
    return asyncio.run(stores.find(pattern))


def names(stores: ObjectStores, place: Place, pattern: str) -> list[str]:
    return [ref.url.removeprefix(f"{place.url}/") for ref in find(stores, f"{place.url}/{pattern}")]


def read(stores: ObjectStores, ref: ObjectRef, chunk_bytes: int = 8 * KIB) -> list[bytes]:
    async def collect() -> list[bytes]:
        async with aclosing(stores.stream(ref, chunk_bytes)) as chunks:
            return [bytes(chunk) async for chunk in chunks]

    return asyncio.run(collect())


def error_of(ask: Callable[[], object]) -> QuarterdeckError:
    with pytest.raises(QuarterdeckError) as caught:
        ask()
    return caught.value


# One suite for all


def test_a_file_is_found_by_its_name_with_size_and_version(stores: ObjectStores, place: Place) -> None:
    place.put("day=7/a b+é.parquet", b"0123456789")
    (ref,) = find(stores, f"{place.url}/day=7/a b+é.parquet")
    assert ref.url == f"{place.url}/day=7/a b+é.parquet"
    assert ref.size_bytes == 10
    assert ref.version
    assert asyncio.run(stores.head(ref.url)) == ref
    assert find(stores, ref.url) == [ref]


def test_a_folder_is_all_that_is_in_it_and_below_without_what_is_hidden(stores: ObjectStores, place: Place) -> None:
    for key in ("t/b.parquet", "t/a.parquet", "t/x/c.parquet", "other/d.parquet", "tt/e.parquet"):
        place.put(key, b"data")
    for key in ("t/_SUCCESS", "t/.a.crc", "t/_log/0.parquet", "t/x/.tmp/1.parquet"):
        place.put(key, b"hidden")
    found = ["t/a.parquet", "t/b.parquet", "t/x/c.parquet"]
    assert names(stores, place, "t") == found
    assert names(stores, place, "t/") == found
    everything = [ref.url for ref in find(stores, f"{place.url}/")]
    assert everything == [f"{place.url}/{key}" for key in ("other/d.parquet", *found, "tt/e.parquet")]


def test_globs_stay_within_a_folder_and_double_stars_go_below(stores: ObjectStores, place: Place) -> None:
    keys = ["a.parquet", "b.csv", "day=1/a.parquet", "day=2/a.parquet", "day=2/b.parquet", "day=2/h=1/c.parquet"]
    for key in [*keys, ".hidden.parquet", "day=2/.part/d.parquet"]:
        place.put(key, b"data")
    assert names(stores, place, "*.parquet") == ["a.parquet"]
    assert names(stores, place, "day=2/?.parquet") == ["day=2/a.parquet", "day=2/b.parquet"]
    assert names(stores, place, "day=*/a.parquet") == ["day=1/a.parquet", "day=2/a.parquet"]
    assert names(stores, place, "**/*.parquet") == [key for key in keys if key.endswith(".parquet")]
    assert names(stores, place, "day=2/**") == ["day=2/a.parquet", "day=2/b.parquet", "day=2/h=1/c.parquet"]
    assert names(stores, place, "**/h=?/*") == ["day=2/h=1/c.parquet"]
    assert names(stores, place, ".*.parquet") == [".hidden.parquet"]


@pytest.mark.parametrize("pattern", ["nothing.parquet", "nothing/", "*.csv", "no/**/*.parquet", "a.parquet/*"])
def test_a_pattern_that_finds_nothing_is_an_error_that_names_it(
    stores: ObjectStores, place: Place, pattern: str
) -> None:
    place.put("a.parquet", b"data")
    error = error_of(lambda: find(stores, f"{place.url}/{pattern}"))
    assert error.code is ErrorCode.NOT_FOUND
    assert f"{place.url}/{pattern}" in error.what
    assert "check the spelling" in error.next_step


@pytest.mark.parametrize("start, end", [(0, 10), (0, 1), (3, 7), (9, 10), (5, 5), (10, 10)])
def test_a_range_of_an_object_is_read(stores: ObjectStores, place: Place, start: int, end: int) -> None:
    place.put("a.ndjson", b"0123456789")
    (ref,) = find(stores, f"{place.url}/a.ndjson")
    assert asyncio.run(stores.read_range(ref, start, end)) == b"0123456789"[start:end]


@pytest.mark.parametrize("start, end", [(-1, 3), (4, 3), (0, 11), (11, 11)])
def test_a_range_that_an_object_has_not_is_the_callers_mistake(
    stores: ObjectStores, place: Place, start: int, end: int
) -> None:
    ref = ObjectRef(f"{place.url}/a.ndjson", 10, "")
    with pytest.raises(ValueError, match="has 10 bytes"):
        asyncio.run(stores.read_range(ref, start, end))


@pytest.mark.parametrize("data", [b"9876543210", b"0123456789+"])
def test_a_range_of_an_object_that_has_changed_is_not_read(stores: ObjectStores, place: Place, data: bytes) -> None:
    place.put("a.ndjson", b"0123456789")
    (ref,) = find(stores, f"{place.url}/a.ndjson")
    place.put("a.ndjson", data)
    if isinstance(place, Folder):
        os.utime(place.path / "a.ndjson", (1, 1))
    error = error_of(lambda: asyncio.run(stores.read_range(ref, 0, 5)))
    assert "it has changed since it was listed" in error.why
    assert not error.retryable


def test_a_range_of_an_object_that_is_gone_is_not_read(stores: ObjectStores, place: Place) -> None:
    place.put("a.ndjson", b"0123456789")
    (ref,) = find(stores, f"{place.url}/a.ndjson")
    place.delete("a.ndjson")
    assert error_of(lambda: asyncio.run(stores.read_range(ref, 0, 5))).code is ErrorCode.NOT_FOUND


@pytest.mark.parametrize("key", ["../a.parquet", "x/../a.parquet", "x/..", "*/../a.parquet"])
def test_a_name_that_climbs_out_is_refused(stores: ObjectStores, place: Place, key: str) -> None:
    place.put("a.parquet", b"data")
    ref = ObjectRef(f"{place.url}/{key}", 4, "1")
    asks: list[Callable[[], object]] = [
        lambda: find(stores, ref.url),
        lambda: asyncio.run(stores.head(ref.url)),
        lambda: read(stores, ref),
        lambda: stores.local_path(ref),
    ]
    for ask in asks:
        error = error_of(ask)
        assert error.code is ErrorCode.INVALID_ARGUMENT
        assert ref.url in error.what


def test_a_stream_is_all_the_bytes_in_chunks(stores: ObjectStores, place: Place) -> None:
    data = os.urandom(100 * KIB)
    place.put("a.parquet", data)
    chunks = read(stores, asyncio.run(stores.head(f"{place.url}/a.parquet")), chunk_bytes=16 * KIB)
    assert b"".join(chunks) == data
    assert all(len(chunk) >= 16 * KIB for chunk in chunks[:-1])


def test_an_empty_object_is_an_empty_stream(stores: ObjectStores, place: Place) -> None:
    place.put("empty.parquet", b"")
    (ref,) = find(stores, f"{place.url}/*.parquet")
    assert b"".join(read(stores, ref)) == b""


def test_what_is_not_there_is_not_found_by_name(stores: ObjectStores, place: Place) -> None:
    place.put("a.parquet", b"data")
    ref = asyncio.run(stores.head(f"{place.url}/a.parquet"))
    place.delete("a.parquet")
    for ask in (lambda: asyncio.run(stores.head(ref.url)), lambda: read(stores, ref)):
        error = error_of(ask)
        assert error.code is ErrorCode.NOT_FOUND
        assert ref.url in error.what


def test_what_has_changed_since_it_was_listed_is_not_read(stores: ObjectStores, place: Place) -> None:
    place.put("a.parquet", b"data")
    ref = asyncio.run(stores.head(f"{place.url}/a.parquet"))
    place.put("a.parquet", b"tada!")
    error = error_of(lambda: read(stores, ref))
    assert error.code is ErrorCode.WORK_FAILED
    assert not error.retryable
    assert ref.url in error.what


def test_a_stream_can_be_left_early(stores: ObjectStores, place: Place) -> None:
    place.put("a.parquet", os.urandom(256 * KIB))

    async def read_one() -> int:
        ref = await stores.head(f"{place.url}/a.parquet")
        async with aclosing(stores.stream(ref, 16 * KIB)) as chunks:
            async for chunk in chunks:
                return len(chunk)
        return 0

    assert asyncio.run(read_one()) >= 16 * KIB


# Local files


def test_a_local_file_is_told_by_path_file_url_and_relative_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stores = ObjectStores()
    path = tmp_path / "a b#%41.parquet"
    path.write_bytes(b"data")
    (ref,) = find(stores, str(path))
    assert find(stores, path.as_uri()) == [ref]
    assert find(stores, path.as_uri().replace("file:///", "file://localhost/")) == [ref]
    assert stores.local_path(ref) == path
    monkeypatch.chdir(tmp_path)
    assert find(stores, "a b#*.parquet") == [ref]
    assert find(stores, "./a b#%41.parquet") == [ref]
    assert find(stores, ".") == [ref]


def test_the_version_of_a_local_file_is_its_size_and_when_it_was_written(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    path.write_bytes(b"data")
    os.utime(path, ns=(0, 1_600_000_000_123_456_789))
    assert asyncio.run(ObjectStores().head(str(path))).version == "4-1600000000123456"


def test_a_local_file_that_is_written_to_while_it_is_read_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    path.write_bytes(bytes(64 * KIB))

    async def read_and_write() -> None:
        stores = ObjectStores()
        ref = await stores.head(str(path))
        async with aclosing(stores.stream(ref, 16 * KIB)) as chunks:
            async for _ in chunks:
                os.utime(path, ns=(0, 0))

    assert "changed" in error_of(lambda: asyncio.run(read_and_write())).why


# S3


def test_an_object_in_a_bucket_has_no_local_path(bucket: Bucket) -> None:
    bucket.put("a.parquet", b"data")
    stores = ObjectStores(bucket.options)
    (ref,) = find(stores, f"{bucket.url}")
    assert stores.local_path(ref) is None
    assert ref.version.startswith('"')


def test_marks_of_folders_are_not_taken_for_objects(bucket: Bucket) -> None:
    bucket.put_raw("t/", b"")
    bucket.put_raw("t/x/", b"")
    bucket.put("t/x/a.parquet", b"data")
    bucket.put("t/empty.parquet", b"")
    stores = ObjectStores(bucket.options)
    assert names(stores, bucket, "t") == ["t/empty.parquet", "t/x/a.parquet"]
    assert names(stores, bucket, "t/*") == ["t/empty.parquet"]
    assert names(stores, bucket, "**") == ["t/empty.parquet", "t/x/a.parquet"]


def test_a_bucket_that_is_not_there_is_not_found(bucket: Bucket) -> None:
    stores = ObjectStores(bucket.options)
    for pattern in ("s3://no-such-bucket", "s3://no-such-bucket/*.parquet", "s3://no-such-bucket/a.parquet"):
        error = error_of(lambda pattern=pattern: find(stores, pattern))
        assert error.code is ErrorCode.NOT_FOUND
        assert pattern in error.what


def test_credentials_and_endpoint_come_from_the_environment_when_absent(
    bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    bucket.put("a.parquet", b"data")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    monkeypatch.setenv("AWS_ENDPOINT_URL", bucket.options.endpoint or "")
    monkeypatch.setenv("AWS_ALLOW_HTTP", "true")
    assert len(find(ObjectStores(), f"{bucket.url}/a.parquet")) == 1


def test_an_endpoint_without_tls_is_used_only_when_allowed() -> None:
    stores = ObjectStores(S3Options(endpoint="http://127.0.0.1:9"))
    error = error_of(lambda: find(stores, "s3://lake/a.parquet"))
    assert error.code is ErrorCode.INVALID_ARGUMENT
    assert "TLS" in error.why


def test_secrets_are_not_shown() -> None:
    assert "hush" not in repr(S3Options(secret_access_key="hush", session_token="hush"))


def test_a_store_that_cannot_be_reached_is_unavailable_and_worth_a_retry() -> None:
    options = S3Options(
        endpoint="http://127.0.0.1:9",
        region="us-east-1",
        access_key_id="a",
        secret_access_key="hush",
        allow_http=True,
        max_retries=0,
    )
    stores = ObjectStores(options)
    for ask in (
        lambda: find(stores, "s3://lake/*.parquet"),
        lambda: read(stores, ObjectRef("s3://lake/a.parquet", 4, '"x"')),
    ):
        error = error_of(ask)
        assert error.code is ErrorCode.UNAVAILABLE
        assert error.retryable
        assert "s3://lake/" in error.what
        assert "hush" not in str(error)


@pytest.mark.parametrize("url", ["", "gs://lake/a", "s3://", "file://elsewhere/a", "s3://lake//a", "s3://lake/./a"])
def test_a_name_of_no_known_kind_is_refused(url: str) -> None:
    error = error_of(lambda: find(ObjectStores(), url))
    assert error.code is ErrorCode.INVALID_ARGUMENT
    assert "s3://bucket/name" in error.next_step


def test_a_bucket_alone_is_no_object(bucket: Bucket) -> None:
    error = error_of(lambda: asyncio.run(ObjectStores(bucket.options).head(bucket.url)))
    assert error.code is ErrorCode.INVALID_ARGUMENT


# Writing


def test_what_is_put_can_be_read_replaced_and_deleted(stores: ObjectStores, place: Place) -> None:
    url = f"{place.url}/deep/a b+é%2F.parquet"
    for data in (b"first", b"second one", b""):
        asyncio.run(stores.put(url, data))
        ref = asyncio.run(stores.head(url))
        assert (ref.url, ref.size_bytes) == (url, len(data))
        assert b"".join(read(stores, ref)) == data
    asyncio.run(stores.delete(url))
    assert error_of(lambda: asyncio.run(stores.head(url))).code is ErrorCode.NOT_FOUND
    asyncio.run(stores.delete(url))


@pytest.mark.parametrize("key", ["../a", ""])
def test_a_name_of_no_object_is_not_written(stores: ObjectStores, place: Place, key: str) -> None:
    url = f"{place.url}/{key}" if key else (place.url if place.url.startswith("s3") else "/")
    assert error_of(lambda: asyncio.run(stores.put(url, b"x"))).code in (
        ErrorCode.INVALID_ARGUMENT,
        ErrorCode.UNAVAILABLE,
    )


def test_what_cannot_be_written_is_told_with_its_name(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    url = str(tmp_path / "file" / "below.parquet")
    error = error_of(lambda: asyncio.run(ObjectStores().put(url, b"x")))
    assert url in error.message


def test_a_reference_without_a_version_is_met_by_whichever_is_there_if_it_has_the_size(
    stores: ObjectStores, place: Place
) -> None:
    url = f"{place.url}/a.parquet"
    place.put("a.parquet", b"12345")
    found = asyncio.run(stores.head(url))
    assert b"".join(read(stores, ObjectRef(url, 5, ""))) == b"12345"
    assert found.is_met_by(found)
    assert ObjectRef(url, 5, "").is_met_by(found)
    assert not ObjectRef(url, 4, "").is_met_by(found)
    assert not ObjectRef(f"{url}x", 5, "").is_met_by(found)
    assert not ObjectRef(url, 5, "another").is_met_by(found)
    assert "has changed" in error_of(lambda: read(stores, ObjectRef(url, 4, ""))).message
