"""DuckDB's errors as ours: its own words in one line, with files under the names that the user gave.

While rows are pulled, DuckDB's errors arrive through pyarrow and have lost their class; only the text still tells the
kind. So the text alone decides, in one place.
"""

from collections.abc import Iterable
from typing import Any, Final

import duckdb
import pyarrow  # pyright: ignore[reportMissingTypeStubs] - it has none

from quarterdeck.core.errors import ErrorCode, QuarterdeckError
from quarterdeck.engines.limits import no_memory
from quarterdeck.engines.scan_file import ScanFile
from quarterdeck.stores.disk_full import DiskFullError, says_full

_arrow: Any = pyarrow
ENGINE_ERRORS: Final[tuple[type[Exception], ...]] = (duckdb.Error, OSError, _arrow.ArrowException, UnicodeDecodeError)
"""What a call of DuckDB may raise, directly or through pyarrow. The last is an error whose message quotes half a
character: DuckDB counts in bytes."""

_WRONG_SQL: Final = ("Parser Error", "Syntax Error", "Binder Error", "Catalog Error")
"""Of what no data could make right: no SQL at all, and names of columns, tables and functions that are not there."""
_OF_WRONG_SQL: Final = (duckdb.ParserException, duckdb.SyntaxException, duckdb.BinderException, duckdb.CatalogException)
_LOST: Final = "DuckDB says why in words that quote half a character, which cannot be shown"
_LOOKED_AT: Final = 20_000
"""Characters of a message. DuckDB's may quote a value, of any size."""


def translated(error: Exception, files: Iterable[ScanFile], culprit: ScanFile | None = None) -> QuarterdeckError:
    """The culprit is named beside a message that does not name it."""
    is_cut = isinstance(error, UnicodeDecodeError)
    # Python 3.11.2, which Debian has, lets such an error through with its class and without its text.
    text = (error.object.decode(errors="replace") if is_cut else str(error) or _LOST)[:_LOOKED_AT]
    is_wrong_sql = text.startswith(_WRONG_SQL) or isinstance(error, _OF_WRONG_SQL)
    if text.startswith("Out of Memory Error") or isinstance(error, MemoryError):
        return no_memory(text.partition("\n")[0])
    for file in sorted(files, key=lambda file: len(str(file.path)), reverse=True):
        text = text.replace(str(file.path), file.name)
    if culprit is not None:
        text = f"{culprit.name}: {text}"
    if text.startswith(("INTERNAL Error", "FATAL Error")):
        return QuarterdeckError(ErrorCode.INTERNAL, "DuckDB broke", _one_line(text), "report it, with the SQL")
    if says_full(text):
        return DiskFullError(
            ErrorCode.RESOURCE_EXHAUSTED,
            "the SQL could not be run to its end",
            f"there is no room for what it puts aside: the disk is full ({_one_line(text)})",
            "free space on the disk of the worker's data folder, or ask for less",
        )
    if text.startswith("IO Error"):
        return QuarterdeckError(
            ErrorCode.UNAVAILABLE, "a file could not be read", _one_line(text), "see whether it is still there"
        )
    code = ErrorCode.INVALID_ARGUMENT if is_wrong_sql else ErrorCode.WORK_FAILED
    return QuarterdeckError(code, "the SQL failed", _one_line(text), "correct it, or the file it names")


def _one_line(text: str) -> str:
    r"""Without the quotation of the SQL, which whoever wrote it knows.

    >>> _one_line('Binder Error: no column "x"!\nCandidates: "y"\n\nLINE 1: select x\n               ^')
    'Binder Error: no column "x"! Candidates: "y"'
    """
    return " ".join(text.partition("\n\nLINE ")[0].split())
