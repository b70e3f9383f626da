"""What DuckDB says went wrong with a search: a file's fault, which is told beside the answer, or the end of it."""

from typing import Final

from quarterdeck.core.errors import ErrorCode, QuarterdeckError
from quarterdeck.engines.duckdb_errors import ENGINE_ERRORS, translated
from quarterdeck.stores.disk_full import says_full

READING_ERRORS: Final[tuple[type[Exception], ...]] = (*ENGINE_ERRORS, RuntimeError)
"""What reading a file with DuckDB may raise. The last is of its Python side, for names and messages that are no text,
as a damaged file may have them."""

_OURS: Final = (
    "Out of Memory Error",
    "Binder Error",
    "Catalog Error",
    "Parser Error",
    "INTERNAL Error",
    "FATAL Error",
    "Connection Error",
)
"""Beginnings of messages that no content of a file is to blame for."""
_LONGEST: Final = 300


def damage_of(error: Exception) -> str:
    """Why a file could not be read, in one line. Raises if it is not the file's fault."""
    text = str(error)
    if text.startswith(_OURS):
        raise failure(error) from error
    if isinstance(error, RuntimeError) and "conversion error" in text:
        return "it holds names that are not text"
    line = " ".join(text.partition("\n\nLINE ")[0].split())
    return line if len(line) <= _LONGEST else line[: _LONGEST - 3] + "..."


def is_of_the_disk(error: Exception) -> bool:
    """Whether there was no room for what did not fit into memory."""
    text = str(error)
    return says_full(text) or "max_temp_directory_size" in text


def failure(error: Exception) -> QuarterdeckError:
    text = str(error)
    if text.startswith("Out of Memory Error"):
        return QuarterdeckError(
            ErrorCode.RESOURCE_EXHAUSTED,
            "the search needs more memory than it may have",
            text.partition("\n")[0],
            "search for less at once, summarize fewer groups, or give the workers more memory",
            retryable=False,  # the limit is each search's own: it would be reached again
        )
    return translated(error, ())
