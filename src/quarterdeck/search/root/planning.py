"""From a request to what is done for it: the tree of the query, the files, their chunks, the field that is the time.

Everything that can be known to be wrong is known here, before anybody is recruited.
"""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from quarterdeck.core.errors import ErrorCode, QuarterdeckError
from quarterdeck.core.time_texts import FORMS, parse_moment
from quarterdeck.search.language.ast import And, Condition, Not, Or, Search, TimeRange
from quarterdeck.search.language.parser import parse_search
from quarterdeck.search.model import TIME_FIELDS, Chunk, FileKind, Order, Piece, SearchSpec
from quarterdeck.search.root.known_fields import KnownFields
from quarterdeck.search.root.splitting import SearchFile, find_files, split
from quarterdeck.stores.objects import ObjectStores
from quarterdeck.stores.source_roots import Border
from quarterdeck.stores.threads import in_thread

WORKERS_MAX: Final = 100
DEFAULT_WORKERS: Final = 16
_SHORT_QUERY: Final = 2_000
"""Characters of a query that takes no time to speak of to read."""
_SAMPLED_MAX: Final = 8


class Sampling(Protocol):
    async def fields_of(self, piece: Piece) -> frozenset[str]:
        """Names of fields in a sample of a piece; of one that cannot be read, none. Those within others with dots."""
        ...


@dataclass(frozen=True, slots=True)
class SearchRequest:
    """What somebody asks for."""

    query: str
    sources: tuple[str, ...] = ()
    data_path: str = ""
    """A folder: the source if there is no other, and where relative sources are below."""
    max_workers: int = DEFAULT_WORKERS
    order: Order = Order.TIME
    time_field: str | None = None
    start: str | None = None
    """Records not before it, as `core/time_texts.py` reads it; and records before `end`."""
    end: str | None = None
    timeout_s: float | None = None
    label: str = ""
    """Of the workers that are recruited for it."""


@dataclass(frozen=True, slots=True)
class SearchPlan:
    request: SearchRequest
    search: Search
    spec: SearchSpec
    chunks: Sequence[Chunk]
    files: int
    fields: KnownFields

    @property
    def size_bytes(self) -> int:
        return sum(chunk.size_bytes for chunk in self.chunks)

    @property
    def pieces(self) -> int:
        return sum(len(chunk.pieces) for chunk in self.chunks)


async def plan(
    request: SearchRequest, objects: ObjectStores, sampling: Sampling, now_us: int, border: Border | None = None
) -> SearchPlan:
    """Raises a `QuarterdeckError` for what makes no sense, or finds nothing."""
    query = request.query
    search = parse_search(query) if len(query) <= _SHORT_QUERY else await in_thread(lambda: parse_search(query))
    start_us, end_us = _time(request.start, "start", now_us), _time(request.end, "end", now_us)
    _check(request, start_us, end_us)
    files = await find_files(objects, sources_of(request), border)
    chunks = split(files)
    sampled = await _sample(chunks, sampling)
    seen = frozenset[str]().union(*sampled.values())
    time_field = request.time_field or next((name for name in TIME_FIELDS if name in seen), None)
    spec = SearchSpec(request.query, now_us, request.order, time_field, start_us, end_us)
    _insist_on_time(search, spec)
    fields = KnownFields(search, request.time_field, seen)
    if files and _all_columns_known(files, sampled):
        fields.insist_on_columns(len(files))
    return SearchPlan(request, search, spec, chunks, len(files), fields)


def _check(request: SearchRequest, start_us: int | None, end_us: int | None) -> None:
    if not request.sources and not request.data_path:
        raise _wrong("no source is named", "name files, folders or globs in sources")
    if not 1 <= request.max_workers <= WORKERS_MAX:
        raise _wrong(f"max_workers is {request.max_workers}", f"give a number from 1 to {WORKERS_MAX}")
    if start_us is not None and end_us is not None and start_us >= end_us:
        raise _wrong(f"its end, {request.end}, is not after its start, {request.start}", "exchange them")


def _wrong(why: str, next_step: str) -> QuarterdeckError:
    return QuarterdeckError(ErrorCode.INVALID_ARGUMENT, "the search was not begun", why, next_step)


def _time(text: str | None, name: str, now_us: int) -> int | None:
    if text is None:
        return None
    try:
        return parse_moment(text.strip()).since_1970_us(now_us)
    except ValueError as error:
        raise _wrong(f"{name} is {text!r}: {error}", f"write it as in {FORMS}") from None


def sources_of(request: SearchRequest) -> list[str]:
    """Where to look: below the data path what does not begin elsewhere."""
    folder = request.data_path
    if not request.sources:
        return [folder]
    return [
        f"{folder.rstrip('/')}/{source}" if folder and _is_relative(source) else source for source in request.sources
    ]


def _is_relative(source: str) -> bool:
    return not source.startswith("/") and "://" not in source


# Samples


async def _sample(chunks: Sequence[Chunk], sampling: Sampling) -> Mapping[str, frozenset[str]]:
    """Fields by file, of a few files from all over."""
    firsts = [piece for chunk in chunks for piece in chunk.pieces if piece.start == 0]
    count = min(_SAMPLED_MAX, len(firsts))
    picked = [firsts[index * len(firsts) // count] for index in range(count)]
    fields = await asyncio.gather(*(sampling.fields_of(piece) for piece in picked))
    return {piece.url: found for piece, found in zip(picked, fields, strict=True)}


def _all_columns_known(files: Sequence[SearchFile], sampled: Mapping[str, frozenset[str]]) -> bool:
    """Whether no record can have a field that was not sampled; a file without any could not be read."""
    return all(file.kind is FileKind.PARQUET and sampled.get(file.ref.url) for file in files)


# Times


def _insist_on_time(search: Search, spec: SearchSpec) -> None:
    if spec.time_field is not None:
        return
    names_a_time = spec.start_us is not None or spec.end_us is not None
    if names_a_time or next(_ranges(search.condition), None) is not None:
        raise _wrong(
            f"it has a time range, and no record that was looked at has a time: none of {', '.join(TIME_FIELDS)}",
            "name the field that has it: time_field, or --time-field at the terminal",
        )


def _ranges(condition: Condition) -> Iterator[TimeRange]:
    match condition:
        case TimeRange():
            yield condition
        case And(parts) | Or(parts):
            for part in parts:
                yield from _ranges(part)
        case Not(part):
            yield from _ranges(part)
        case _:
            pass
