"""Local files: only files are read, folders are walked whatever is in them, and what is wrong is told as what it is."""

import asyncio
import errno
import os
import socket
from collections.abc import Awaitable, Callable, Generator, Iterator
from contextlib import aclosing, contextmanager
from itertools import count
from pathlib import Path

import pytest

from quarterdeck.core.errors import ErrorCode, QuarterdeckError
from quarterdeck.metrics.segments.file import SegmentFile, UnreadableSegmentError
from quarterdeck.stores import local_files, objects
from quarterdeck.stores.cache_files import check_in_place
from quarterdeck.stores.local_files import Walk
from quarterdeck.stores.objects import ObjectRef, ObjectStores
from quarterdeck.stores.regular_files import open_regular


def found(pattern: Path | str) -> list[str]:
    return [ref.url for ref in asyncio.run(ObjectStores().find(str(pattern)))]


def error_of(ask: Callable[[], Awaitable[object]]) -> QuarterdeckError:
    async def asked() -> object:
        return await ask()

    with pytest.raises(QuarterdeckError) as caught:
        asyncio.run(asked())
    return caught.value


def make_fifo(path: Path) -> None:
    os.mkfifo(path)


def make_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(str(path))


async def read(ref: ObjectRef) -> None:
    async with aclosing(ObjectStores().stream(ref)) as chunks:
        async for _ in chunks:
            pass


@pytest.mark.parametrize("make, kind", [(make_fifo, "a FIFO"), (make_socket, "a socket")])
def test_what_is_no_file_is_refused_by_name_and_passed_over_in_folders(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make: Callable[[Path], None], kind: str
) -> None:
    monkeypatch.chdir(tmp_path)  # the path of a socket is short
    make(Path("odd.log"))
    (tmp_path / "link.log").symlink_to("odd.log")
    (tmp_path / "a.log").write_bytes(b"data")
    odd = str(tmp_path / "odd.log")
    ref = ObjectRef(odd, 0, "")
    stores = ObjectStores()
    asks: list[Callable[[], Awaitable[object]]] = [
        lambda: stores.find(odd),
        lambda: stores.find(str(tmp_path / "link.log")),
        lambda: stores.head(odd),
        lambda: read(ref),
        lambda: read(ObjectRef(odd, 10, "")),
        lambda: stores.read_range(ObjectRef(odd, 10, ""), 0, 4),
        lambda: stores.look(tmp_path, lambda: check_in_place(ref, Path(odd))),
    ]
    for ask in asks:
        error = error_of(ask)
        assert error.code is ErrorCode.INVALID_ARGUMENT
        assert f"it is {kind}" in error.why
        assert ".log" in error.what
    assert found(tmp_path) == found(tmp_path / "*.log") == found(tmp_path / "**") == [str(tmp_path / "a.log")]
    with pytest.raises(UnreadableSegmentError, match=kind):
        SegmentFile(Path(odd), odd, "")


def test_a_device_is_refused() -> None:
    error = error_of(lambda: ObjectStores().find("/dev/null"))
    assert "it is a character device" in error.why


def test_a_fifo_that_takes_the_place_of_a_file_after_it_was_looked_at_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.mkfifo(tmp_path / "a")

    def looks_well(_: Path) -> None:
        pass

    monkeypatch.setattr("quarterdeck.stores.regular_files.stat_regular", looks_well)
    with pytest.raises(OSError, match="it is a FIFO"):
        open_regular(tmp_path / "a")


def test_links_are_followed_and_those_that_lead_nowhere_or_back_are_passed_over(tmp_path: Path) -> None:
    (tmp_path / "t" / "deep").mkdir(parents=True)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "b.log").write_bytes(b"data")
    (tmp_path / "t" / "deep" / "a.log").write_bytes(b"data")
    links = {"deep/up": "..", "deep/self": ".", "dangling.log": "none", "circle.log": "circle.log", "other": "../other"}
    for name, target in links.items():
        (tmp_path / "t" / name).symlink_to(target)
    expected = [str(tmp_path / "t" / "deep" / "a.log"), str(tmp_path / "t" / "other" / "b.log")]
    assert found(tmp_path / "t") == expected
    assert found(tmp_path / "t" / "**" / "*.log") == expected


def test_a_link_in_a_circle_is_told_as_one(tmp_path: Path) -> None:
    (tmp_path / "a.log").symlink_to("a.log")
    for pattern in ("a.log", "a.log/", "a.log/*"):
        error = error_of(lambda pattern=pattern: ObjectStores().find(f"{tmp_path}/{pattern}"))
        assert error.code is ErrorCode.INVALID_ARGUMENT
        assert "lead in a circle" in error.why
        assert "network" not in error.message


def test_a_folder_below_that_may_not_be_read_is_an_error_that_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.log").write_bytes(b"data")
    (tmp_path / "closed").mkdir()
    scandir = os.scandir

    def scan(path: str) -> object:
        if path.endswith("closed"):
            raise PermissionError(errno.EACCES, "Permission denied", path)
        return scandir(path)

    monkeypatch.setattr(local_files.os, "scandir", scan)
    error = error_of(lambda: ObjectStores().find(str(tmp_path)))
    assert str(tmp_path / "closed") in error.what
    assert "Permission denied" in error.why
    assert "permissions" in error.next_step
    assert not error.retryable
    assert found(tmp_path / "*.log") == [str(tmp_path / "a.log")]


def test_a_name_that_is_no_utf_8_is_an_error_that_shows_it_escaped(tmp_path: Path) -> None:
    Path(os.fsdecode(bytes(tmp_path) + b"/odd-\xff.log")).write_bytes(b"data")
    (tmp_path / "a.log").write_bytes(b"data")
    error = error_of(lambda: ObjectStores().find(str(tmp_path)))
    assert error.code is ErrorCode.INVALID_ARGUMENT
    assert r"odd-\xff.log" in error.what
    assert found(tmp_path / "a*.log") == [str(tmp_path / "a.log")]


def test_a_walk_ends_with_an_error_when_there_are_too_many_names(tmp_path: Path) -> None:
    for number in range(5):
        (tmp_path / f"{number}").write_bytes(b"")
    assert len(Walk(str(tmp_path), entries_max=5).step() or ()) == 5
    with pytest.raises(QuarterdeckError, match="more than 4 names"):
        Walk(str(tmp_path), entries_max=4).step()


def test_of_a_folder_with_very_many_names_no_more_are_listed_than_there_may_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed: list[int] = []

    @contextmanager
    def scan(_: str) -> Generator[Iterator[None]]:
        def endless() -> Iterator[None]:
            for number in count():
                listed.append(number)
                yield None

        yield endless()

    monkeypatch.setattr(local_files.os, "scandir", scan)
    with pytest.raises(QuarterdeckError, match="more than 10 names"):
        Walk(str(tmp_path), entries_max=10).step()
    assert len(listed) == 11


def test_who_cleans_up_passes_over_what_may_not_be_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (b"a.log", b"_hidden/b.log", b"lost+found/c.log", b"odd-\xff.log"):
        path = Path(os.fsdecode(bytes(tmp_path) + b"/" + name))
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"data")
    scandir = os.scandir

    def scan(path: str) -> object:
        if path.endswith("lost+found"):
            raise PermissionError(errno.EACCES, "Permission denied", path)
        return scandir(path)

    monkeypatch.setattr(local_files.os, "scandir", scan)

    async def listed(folder: Path) -> list[str]:
        return sorted([each.url async for batch in ObjectStores().list_all(str(folder)) for each in batch])

    assert asyncio.run(listed(tmp_path)) == [str(tmp_path / name) for name in ("_hidden/b.log", "a.log")]
    error = error_of(lambda: listed(tmp_path / "lost+found"))
    assert "Permission denied" in error.why


def test_a_step_of_a_walk_stays_on_one_mount(tmp_path: Path) -> None:
    names = ["a/1", "b/mounted/2", "b/mounted/deep/3", "c/4"]
    for name in names:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"")
    mount = str(tmp_path / "b/mounted")
    walk, steps = Walk(str(tmp_path), mounts=frozenset({mount})), list[tuple[bool, list[str]]]()
    while True:
        is_mounted = walk.at.startswith(mount)
        files = walk.step()
        if files is None:
            break
        steps.append((is_mounted, [file.path for file in files]))
    assert sorted(path for _, paths in steps for path in paths) == [str(tmp_path / name) for name in names]
    for is_mounted, paths in steps:
        assert all(path.startswith(mount) == is_mounted for path in paths)


def test_a_walk_goes_in_steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_files, "_STEP_ENTRIES", 2)
    names = [f"{folder}/{number}" for folder in "abc" for number in range(3)]
    for name in names:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"")
    assert found(tmp_path) == [str(tmp_path / name) for name in names]


def test_a_large_range_comes_in_several_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a").write_bytes(b"0123456789")
    pread = os.pread

    def read_little(file: int, size: int, at: int) -> bytes:
        return pread(file, min(size, 3), at)

    monkeypatch.setattr(local_files.os, "pread", read_little)

    async def read_some() -> bytes:
        stores = ObjectStores()
        return await stores.read_range(await stores.head(str(tmp_path / "a")), 1, 9)

    assert asyncio.run(read_some()) == b"12345678"


@pytest.mark.parametrize(
    "number, code, said",
    [
        (errno.ENOSPC, ErrorCode.RESOURCE_EXHAUSTED, "there is no room"),
        (errno.EDQUOT, ErrorCode.RESOURCE_EXHAUSTED, "there is no room"),
        (errno.ELOOP, ErrorCode.INVALID_ARGUMENT, "circle"),
        (errno.ENAMETOOLONG, ErrorCode.INVALID_ARGUMENT, "too long"),
        (errno.EISDIR, ErrorCode.INVALID_ARGUMENT, "folder"),
        (errno.ENOTDIR, ErrorCode.UNAVAILABLE, "a folder of its path is none"),
        (errno.EACCES, ErrorCode.UNAVAILABLE, "Permission denied"),
        (errno.EROFS, ErrorCode.UNAVAILABLE, "Read-only"),
        (errno.EMFILE, ErrorCode.RESOURCE_EXHAUSTED, "Too many open files"),
        (errno.EIO, ErrorCode.UNAVAILABLE, "Input/output error"),
        (errno.ESTALE, ErrorCode.UNAVAILABLE, "Stale"),
    ],
)
def test_what_the_system_says_is_told_as_what_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, code: ErrorCode, said: str
) -> None:
    def fails(*_: object) -> None:
        raise OSError(number, os.strerror(number), str(tmp_path / "a"))

    monkeypatch.setattr(objects, "write_durably", fails)
    error = error_of(lambda: ObjectStores().put(str(tmp_path / "a"), b"data"))
    assert error.code is code
    assert said in error.why
    assert str(tmp_path / "a") in error.what
    assert "network" not in error.message


def test_a_name_that_is_too_long_for_the_file_system_is_told_so(tmp_path: Path) -> None:
    error = error_of(lambda: ObjectStores().find(str(tmp_path / ("a" * 300))))
    assert error.code is ErrorCode.INVALID_ARGUMENT
    assert "too long" in error.why


@pytest.mark.parametrize(
    "name",
    ["/logs/\ud800.log", "/logs/a\0b", "file:///logs/a%00b", "/" + "a" * 5000, "s3://lake/\udcff", "s3://\ud800"],
)
def test_a_name_that_nothing_can_have_is_refused_and_shown_escaped(name: str) -> None:
    stores = ObjectStores()
    for ask in (lambda: stores.find(name), lambda: stores.head(name), lambda: stores.put(name, b"")):
        error = error_of(ask)
        assert error.code is ErrorCode.INVALID_ARGUMENT
        assert error.message.isprintable()
        assert len(error.message) < 1000
