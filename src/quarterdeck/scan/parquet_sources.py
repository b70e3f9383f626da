"""Which files a source of a scan means. A folder means the Parquet files in it and below, and nothing else in it."""

from collections.abc import Sequence
from typing import Final

from quarterdeck.core.errors import ErrorCode, QuarterdeckError
from quarterdeck.stores.globs import has_wildcard
from quarterdeck.stores.locations import parse_location
from quarterdeck.stores.objects import ObjectRef

_SUFFIX: Final = ".parquet"
_NAMED: Final = 3


def parquet_files(source: str, found: Sequence[ObjectRef]) -> Sequence[ObjectRef]:
    """Those of what was found. A file and a glob mean what they name; a folder without a Parquet file is an error."""
    location = parse_location(source)
    is_file = len(found) == 1 and found[0].url == location.url
    if has_wildcard(location.key) or is_file:
        return found
    files = [ref for ref in found if ref.url.lower().endswith(_SUFFIX)]
    if not files:
        others = ", ".join(ref.url.removeprefix(f"{location.url}/") for ref in found[:_NAMED])
        raise QuarterdeckError(
            ErrorCode.NOT_FOUND,
            f"{source} has no Parquet file",
            f"no name in it and below ends with {_SUFFIX}; there is {others}{', ...' if found[_NAMED:] else ''}",
            f"name another folder, or Parquet files with other names by a glob, as {source.rstrip('/')}/*.pq",
        )
    return files
