"""The files of `sample-data`: logs as NDJSON, and requests as Parquet with a folder for each day.

The folder has a list of what was written into it. Only that is ever replaced or removed.
"""

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path, PurePosixPath
from typing import Any, Final

import numpy as np
import pyarrow  # pyright: ignore[reportMissingTypeStubs] - it has none
from pyarrow import compute, parquet  # pyright: ignore[reportMissingTypeStubs]

from quarterdeck.core.errors import ErrorCode, QuarterdeckError
from quarterdeck.metrics.commands.sample_metrics import INSTANCES, SLOW_S
from quarterdeck.metrics.promql.blocks import F64, I64, Bool

_arrow: Final[Any] = pyarrow
_compute: Final[Any] = compute
_parquet: Final[Any] = parquet

LOGS: Final = "logs"
REQUESTS: Final = "requests"
_LIST: Final = "written-by-quarterdeck.json"
_LOG_FILES: Final = 4
_LINES: Final = 5_000
"""In each of them."""
_DAYS: Final = 3
_ROWS: Final = 30_000
"""In each of them."""
_PATHS: Final = ("/", "/login", "/search", "/cart", "/checkout", "/api/items", "/api/orders")
_LEVELS: Final = ("debug", "info", "warn", "error")
_SAID: Final = (
    "cache was looked at",
    "request was answered",
    "request took longer than it should",
    "request timed out",
    "disk is nearly full",
)
_FIELDS: Final = ("ts", "level", "service", "host", "path", "status", "duration_ms", "msg")
_TEXTS: Final = frozenset({"ts", "level", "service", "host", "path", "msg"})


@dataclass(frozen=True, slots=True)
class SampleFiles:
    """What was written."""

    lines: int
    rows: int


def write_files(folder: Path, end_s: int, hours: float, seed: int) -> SampleFiles:
    """Writes all files, in place of those that an earlier run has written. Raises for a folder with anything else in
    it."""
    before = _written_before(folder)
    made = {**_logs(end_s, hours, seed), **_requests(end_s, seed)}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _write_list(folder, before | made.keys())  # first: then an end in the middle leaves nothing that is not listed
        for name, content in made.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        for name in before - made.keys():
            (folder / name).unlink(missing_ok=True)
            if name.startswith(f"{REQUESTS}/") and not any((folder / name).parent.iterdir()):
                (folder / name).parent.rmdir()
        _write_list(folder, made.keys())
    except OSError as error:
        raise QuarterdeckError(
            ErrorCode.UNAVAILABLE,
            f"the files could not be written into {folder}",
            error.strerror or str(error),
            "name another folder with --dir",
        ) from error
    return SampleFiles(_LOG_FILES * _LINES, _DAYS * _ROWS)


def _written_before(folder: Path) -> frozenset[str]:
    """The names that the list has; raises where there is none, and something else is there."""
    try:
        names = json.loads((folder / _LIST).read_text())
        listed = frozenset(str(name) for name in names)
    except FileNotFoundError:
        if folder.is_dir() and any(folder.iterdir()):
            raise _not_ours(folder, "there is something in it that this command has not written") from None
        return frozenset()
    except NotADirectoryError:
        raise _not_ours(folder, "it is not a folder") from None
    except (ValueError, TypeError):
        raise _not_ours(folder, f"its list of files, {_LIST}, cannot be read") from None
    if not all(_is_below(name) for name in listed):
        raise _not_ours(folder, f"its list of files, {_LIST}, names some that are not in it")
    return listed


def _is_below(name: str) -> bool:
    path = PurePosixPath(name)
    return not path.is_absolute() and ".." not in path.parts and path.parts[:1] in ((LOGS,), (REQUESTS,))


def _write_list(folder: Path, names: Any) -> None:
    part = folder / f"{_LIST}.part"
    part.write_text(json.dumps(sorted(names), indent=1))
    part.replace(folder / _LIST)


def _not_ours(folder: Path, why: str) -> QuarterdeckError:
    return QuarterdeckError(
        ErrorCode.INVALID_ARGUMENT,
        f"nothing was written into {folder}",
        why,
        "name another folder with --dir, which may be a new one",
    )


def _logs(end_s: int, hours: float, seed: int) -> Mapping[str, bytes]:
    span_ms = round(hours * 3_600_000)
    return {
        f"{LOGS}/app-{number}.ndjson": _lines(end_s * 1000, span_ms, np.random.default_rng([seed, 1, number]))
        for number in range(_LOG_FILES)
    }


def _requests(end_s: int, seed: int) -> Mapping[str, bytes]:
    """Those of today so far, and of the days before."""
    today = datetime.fromtimestamp(end_s, UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    found: dict[str, bytes] = {}
    for number in range(_DAYS):
        day = today - timedelta(days=number)
        first_s = int(day.timestamp())
        last_s = min(first_s + 86_400, end_s)
        columns = _events(
            last_s * 1000,
            max(1, last_s - first_s) * 1000,
            end_s * 1000,
            np.random.default_rng([seed, 2, number]),
            _ROWS,
        )
        table = _arrow.table({"ts": columns.pop("ts"), **columns})
        sink = _arrow.BufferOutputStream()
        _parquet.write_table(table.drop_columns(["level", "msg"]), sink, compression="zstd")
        found[f"{REQUESTS}/date={day:%Y-%m-%d}/part-0.parquet"] = sink.getvalue().to_pybytes()
    return found


def _events(end_ms: int, span_ms: int, now_ms: int, chance: np.random.Generator, count: int) -> dict[str, Any]:
    """Columns of things that happened, in the order of time."""
    times: I64 = np.sort(end_ms - chance.integers(0, span_ms, count, dtype=np.int64))
    before_s: F64 = (now_ms - times) / 1000
    slow: Bool = (before_s <= SLOW_S[0]) & (before_s > SLOW_S[1])
    middle: F64 = np.where(slow, math.log(600), math.log(60))
    duration_ms: F64 = np.exp(middle + chance.normal(0.0, 0.8, count)).round(1)
    failed: Bool = chance.random(count) < np.where(slow, 0.15, 0.01)
    missing: Bool = ~failed & (chance.random(count) < 0.05)
    status: I64 = np.select([failed, missing], [500, 404], 200)
    level: I64 = np.select([failed, duration_ms > 400, chance.random(count) < 0.2], [3, 2, 0], 1)
    said: I64 = np.select([failed, duration_ms > 400, level == 0], [3, 2, 0], 1)
    said = np.where(chance.random(count) < 0.001, 4, said)
    services = list(INSTANCES)
    service = chance.choice(len(services), count, p=(0.5, 0.4, 0.1))
    hosts = np.array([INSTANCES[name][at % len(INSTANCES[name])] for name in services for at in range(6)])
    return {
        "ts": _arrow.array(times, _arrow.timestamp("ms")),
        "level": _texts(_LEVELS, level),
        "service": _texts(services, service),
        "host": _arrow.array(hosts[service * 6 + chance.integers(0, 6, count)]),
        "path": _texts(_PATHS, chance.choice(len(_PATHS), count)),
        "status": _arrow.array(status),
        "duration_ms": _arrow.array(duration_ms),
        "msg": _texts(_SAID, said),
    }


def _texts(words: Any, places: Any) -> Any:
    return _arrow.array(list(words)).take(_arrow.array(places))


def _lines(end_ms: int, span_ms: int, chance: np.random.Generator) -> bytes:
    columns = _events(end_ms, span_ms, end_ms, chance, _LINES)
    columns["ts"] = _compute.strftime(columns["ts"], format="%Y-%m-%dT%H:%M:%SZ")
    parts = list(_parts(columns))
    lines = _compute.binary_join_element_wise(*parts, "")
    return "\n".join([*lines.to_pylist(), ""]).encode()


def _parts(columns: Mapping[str, Any]) -> Iterator[Any]:
    """What a line of JSON is made of. No text in it needs an escape."""
    for at, name in enumerate(_FIELDS):
        quote = '"' if name in _TEXTS else ""
        yield f'{"," if at else "{"}"{name}":{quote}'
        yield columns[name] if quote else columns[name].cast(_arrow.string())
        yield quote
    yield "}"
