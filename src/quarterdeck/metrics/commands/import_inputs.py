"""What is imported, by the names that somebody typed: files, `-` for standard input, and objects of a bucket.

An import reads its file twice: once to recognize it, and once for its samples. So anything but a local file is copied
into a folder that only this user can read, up to a limit, and removed at the end.
"""

import asyncio
import errno
import sys
import tempfile
from collections.abc import AsyncGenerator, Callable, Generator, Iterator, Sequence
from contextlib import aclosing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import BinaryIO, Final

from quarterdeck.core.errors import ErrorCode, QuarterdeckError
from quarterdeck.metrics.commands.choices import MetricsFormat
from quarterdeck.paths import whole_location
from quarterdeck.stores.limits import MIB
from quarterdeck.stores.locations import parse_location
from quarterdeck.stores.objects import ObjectRef, ObjectStores

STDIN: Final = "-"
MOST_COPIED_BYTES: Final = 16 * 1024 * MIB
"""Of one input. A stream that never ends is to end before the disk is full."""
_CHUNK_BYTES: Final = 4 * MIB
_EXTENSIONS: Final = {
    ".om": MetricsFormat.OPENMETRICS,
    ".openmetrics": MetricsFormat.OPENMETRICS,
    ".prom": MetricsFormat.PROMETHEUS,
    ".parquet": MetricsFormat.PARQUET,
}
_COMPRESSED: Final = frozenset({".gz", ".zst", ".zstd"})
_COMPRESSED_MAGIC: Final = (b"\x1f\x8b", b"\x28\xb5\x2f\xfd")
_PARQUET_MAGIC: Final = b"PAR1"
_LAST_LINE: Final = b"# EOF"

Stores = Callable[[], ObjectStores]
"""Each loop gets its own."""


@dataclass(frozen=True, slots=True)
class Input:
    """One thing to import."""

    name: str
    """For people."""
    form: MetricsFormat | None
    """None: it has to be looked at."""
    path: Path | None = None
    """Of a local file."""
    object: ObjectRef | None = None


def check_names(names: Sequence[str], form: MetricsFormat | None) -> None:
    """Raises for a name that does not say what it is, before anything is done."""
    if list(names).count(STDIN) > 1:
        raise QuarterdeckError(
            ErrorCode.INVALID_ARGUMENT, "nothing was imported", "- appears twice", "standard input can be read once"
        )
    for name in names:
        if name == STDIN or _is_object(name):
            continue
        try:
            whole_location(name)
        except ValueError as error:
            raise QuarterdeckError(
                ErrorCode.INVALID_ARGUMENT, "nothing was imported", f"{name}: {error}", "correct the name"
            ) from None
        if form is None:
            _form_of(name)


def inputs_of(names: Sequence[str], form: MetricsFormat | None, stores: Stores) -> list[Input]:
    """All that the names mean, in their order: a folder or a glob of a bucket is several."""
    found: list[Input] = []
    for name in names:
        if name == STDIN:
            found.append(Input("standard input", form))
        elif _is_object(name):
            refs = asyncio.run(stores().find(name))
            found += [Input(ref.url, form or _form_of(ref.url), object=ref) for ref in refs]
        else:
            found.append(Input(name, form or _form_of(name), Path(whole_location(name))))
    return found


@contextmanager
def opened(wanted: Input, stores: Stores, on_copied: Callable[[int], None]) -> Generator[tuple[Path, MetricsFormat]]:
    """Where it is on this machine, within the block, and what it is. `on_copied` gets the bytes so far."""
    if wanted.path is not None:
        yield wanted.path, wanted.form or _form_of(wanted.name)
        return
    with _private_file(wanted) as (path, file):
        if wanted.object is None:
            _copy(_read(sys.stdin.buffer), file, wanted, on_copied)
        else:
            asyncio.run(_fetch(wanted.object, stores(), file, wanted, on_copied))
        file.close()
        yield path, wanted.form or look_at(path, wanted.name)


def look_at(path: Path, name: str) -> MetricsFormat:
    """What a file is whose name does not say it. That it is Prometheus' text is never concluded: its times are a
    thousand times those of an OpenMetrics file that was cut off."""
    with path.open("rb") as file:
        start = file.read(len(_PARQUET_MAGIC))
        file.seek(max(0, path.stat().st_size - len(_LAST_LINE) - 2))
        end = file.read()
    if start == _PARQUET_MAGIC:
        return MetricsFormat.PARQUET
    if end.rstrip(b"\n").rpartition(b"\n")[2] == _LAST_LINE:
        return MetricsFormat.OPENMETRICS
    why = "it does not say what it is: it does not end with # EOF, as OpenMetrics does"
    if start.startswith(_COMPRESSED_MAGIC):
        why = "it is compressed, and is not looked into to know what it is"
    raise _unknown(name, why)


@contextmanager
def _private_file(wanted: Input) -> Generator[tuple[Path, BinaryIO]]:
    suffix = "" if wanted.object is None else PurePosixPath(wanted.object.url).suffix
    try:
        folder = tempfile.TemporaryDirectory(prefix="quarterdeck-import-")
    except OSError as error:
        raise _no_room(wanted, error) from error
    with folder as place:
        path = Path(place) / f"copy{suffix}"
        try:
            file = path.open("xb")
        except OSError as error:
            raise _no_room(wanted, error) from error
        try:
            yield path, file
        finally:
            with suppress(OSError):  # what did not fit is tried again, and whoever wrote it has told
                file.close()


def _read(stream: BinaryIO) -> Iterator[bytes]:
    if stream.isatty():
        sys.stderr.write("reading standard input; Ctrl-D ends it\n")
    while chunk := stream.read(_CHUNK_BYTES):
        yield chunk


def _copy(chunks: Iterator[bytes], file: BinaryIO, wanted: Input, on_copied: Callable[[int], None]) -> None:
    copied = 0
    for chunk in chunks:
        copied = _write(chunk, copied, file, wanted)
        on_copied(copied)


async def _fetch(
    ref: ObjectRef, stores: ObjectStores, file: BinaryIO, wanted: Input, on_copied: Callable[[int], None]
) -> None:
    copied = 0
    stream: AsyncGenerator[bytes] = stores.stream(ref)
    async with aclosing(stream):
        async for chunk in stream:
            copied = _write(chunk, copied, file, wanted)
            on_copied(copied)


def _write(chunk: bytes, copied: int, file: BinaryIO, wanted: Input) -> int:
    if copied + len(chunk) > MOST_COPIED_BYTES:
        raise QuarterdeckError(
            ErrorCode.RESOURCE_EXHAUSTED,
            f"{wanted.name} was not imported",
            f"it is longer than {MOST_COPIED_BYTES / MIB:,.0f} MiB, and is copied before it is read",
            "write it to files on this machine, and import these",
            retryable=False,
        )
    try:
        file.write(chunk)
        file.flush()
    except OSError as error:
        raise _no_room(wanted, error) from error
    return copied + len(chunk)


def _no_room(wanted: Input, error: OSError) -> QuarterdeckError:
    full = error.errno in (errno.ENOSPC, errno.EDQUOT)
    return QuarterdeckError(
        ErrorCode.RESOURCE_EXHAUSTED if full else ErrorCode.UNAVAILABLE,
        f"{wanted.name} was not imported",
        f"it could not be copied into {_temporary()}, the folder for temporary files: {error.strerror or error}",
        "name a folder with room in the environment variable TMPDIR",
    )


def _temporary() -> str:
    try:
        return tempfile.gettempdir()
    except OSError:  # no folder that there is will do
        return "one of its places"


def _is_object(name: str) -> bool:
    return "://" in name and parse_location(name).bucket is not None


def _form_of(name: str) -> MetricsFormat:
    suffixes = [suffix.lower() for suffix in PurePosixPath(name).suffixes]
    if suffixes and suffixes[-1] in _COMPRESSED:
        suffixes.pop()
    found = _EXTENSIONS.get(suffixes[-1]) if suffixes else None
    if found is None:
        known = ", ".join(_EXTENSIONS)
        raise _unknown(name, f"its name does not end with one of {known}, so that it is not known what it is")
    return found


def _unknown(name: str, why: str) -> QuarterdeckError:
    return QuarterdeckError(
        ErrorCode.INVALID_ARGUMENT,
        f"{name} was not imported",
        why,
        f"say it with --format: {', '.join(MetricsFormat)}",
    )
