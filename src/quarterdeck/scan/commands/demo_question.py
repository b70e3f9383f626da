"""What the demo asks, and of which data: requests to some shops, in Parquet files that are always and everywhere the
same."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import duckdb
import numpy
import pyarrow  # pyright: ignore[reportMissingTypeStubs] - it has none
from pyarrow import parquet  # pyright: ignore[reportMissingTypeStubs]

from quarterdeck.core.errors import ErrorCode, QuarterdeckError

FILES: Final = 48
_arrow: Final[Any] = pyarrow
_parquet: Final[Any] = parquet
_SECTIONS: Final = ("cart", "search", "item", "login", "img", "stock", "checkout")

Rows = list[tuple[Any, ...]]

# A fingerprint of every row makes the question cost something, so that a worker is caught in the middle of a work, and
# makes the comparison strict: a single row that was lost or counted twice changes the answer.
SQL: Final = """\
SELECT split_part(path, '/', 2) AS section,
       count(*) AS requests,
       count_if(status >= 500)::BIGINT AS errors,
       sum(size_bytes)::BIGINT AS size_bytes,
       bit_xor(md5_number_lower(ip || path)) AS fingerprint
FROM files
GROUP BY section"""
MERGE: Final = """
SELECT section, sum(requests)::BIGINT AS requests, sum(errors)::BIGINT AS errors,
       sum(size_bytes)::BIGINT AS size_bytes, bit_xor(fingerprint) AS fingerprint
FROM parts GROUP BY section ORDER BY section"""

_PATHS: Final = 20_000
_ADDRESSES: Final = 4096
_FIRST_US: Final = 1_760_000_000_000_000
_STATUSES: Final = ((94, 200), (98, 404), (100, 500))
"""Below which percentage a request ends how."""


def write_files(folder: Path, rows: int, after_each: Callable[[int], bool]) -> int:
    """Writes them and returns their size in bytes. `after_each` gets the number of files so far, and may stop it."""
    paths = [
        f"/{_SECTIONS[number % len(_SECTIONS)]}/{number * 7919 % 5000}" + (f"?ref={number % 400}" if number % 3 else "")
        for number in range(_PATHS)
    ]
    addresses = [f"10.{number // 256}.{number % 256}.7" for number in range(_ADDRESSES)]
    try:
        for number in range(FILES):
            first, last = number * rows // FILES, (number + 1) * rows // FILES
            table = _requests(first, last, _arrow.array(paths), _arrow.array(addresses))
            # Nothing is compressed, and a dictionary made only where there is one: it shall not take long.
            _parquet.write_table(
                table,
                folder / f"requests-{number:02}.parquet",
                store_schema=False,
                compression="none",
                use_dictionary=["path", "ip", "status"],
                column_encoding={"at": "DELTA_BINARY_PACKED", "size_bytes": "PLAIN"},
            )
            if after_each(number + 1):
                break
    except OSError as error:
        raise QuarterdeckError(
            ErrorCode.RESOURCE_EXHAUSTED,
            "the files for the demo were not written",
            error.strerror or str(error),
            f"make room for {rows // 100_000} MB, name another folder in TMPDIR, or ask for fewer --rows",
        ) from None
    return sum(file.stat().st_size for file in folder.iterdir())


def _requests(first: int, last: int, paths: Any, addresses: Any) -> Any:
    """Those of one file."""
    number, chance = last - first, numpy.random.default_rng(first)
    percent = chance.integers(0, 100, number)
    statuses = numpy.select([percent < below for below, _ in _STATUSES], [status for _, status in _STATUSES])
    at = numpy.arange(first, last, dtype=numpy.int64) * 4000 + _FIRST_US
    return _arrow.table(
        {
            "at": _arrow.array(at, _arrow.timestamp("us")),
            "path": _drawn(chance, number, paths),
            "ip": _drawn(chance, number, addresses),
            "status": _arrow.array(statuses.astype(numpy.int16)),
            "size_bytes": _arrow.array(chance.integers(200, 60_200, number, dtype=numpy.int32)),
        }
    )


def _drawn(chance: numpy.random.Generator, number: int, among: Any) -> Any:
    picked = _arrow.array(chance.integers(0, len(among), number, dtype=numpy.int32))
    return _arrow.DictionaryArray.from_arrays(picked, among)


def merged(parts: Any) -> Rows:
    """One answer from what came back, a `pyarrow.Table`."""
    engine = duckdb.connect(":memory:")
    try:
        engine.register("parts", parts)
        return engine.execute(MERGE).fetchall()
    finally:
        engine.close()


class Alone:
    """The same question to DuckDB alone, over all files at once."""

    def __init__(self, folder: Path) -> None:
        self._engine = duckdb.connect(":memory:")
        self._engine.read_parquet(str(folder / "*.parquet")).create_view("files")

    def answer(self) -> Rows:
        """Takes a while. `interrupt` ends it from another thread."""
        return self._engine.execute(f"{SQL} ORDER BY section").fetchall()

    def interrupt(self) -> None:
        self._engine.interrupt()

    def close(self) -> None:
        self._engine.close()
