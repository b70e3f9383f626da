"""What a worker says about a part of an answer besides its rows: in the metadata of their schema, and so of their file.

Arrow and Parquet do not know all types of DuckDB. With the names of these types, the merge gives a column its type
back, and checks that all parts are of one kind.
"""

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any, Final

from quarterdeck.core.errors import ErrorCode, QuarterdeckError

_KEY: Final = b"quarterdeck.part"

Typed = tuple[str, str]
"""A column's name, and the type that DuckDB calls it by."""


@dataclass(frozen=True, slots=True)
class PartWords:
    answer: tuple[Typed, ...]
    """The columns that the whole answer has."""
    types: tuple[str, ...]
    """Of the part's own columns."""
    scope: tuple[Typed, ...]
    """The columns of the files that the SQL may read."""
    probes: tuple[str, ...]
    """The types that the plan asked for."""

    def added_to(self, schema: Any) -> Any:
        """A `pyarrow.Schema` with these words."""
        return schema.with_metadata({_KEY: json.dumps(asdict(self)).encode()})

    @classmethod
    def of(cls, schema: Any) -> "PartWords":
        """What a worker says is a stranger's word: it has the right form, or this raises."""
        try:
            metadata: dict[bytes, bytes] = schema.metadata or {}
            found = json.loads(metadata[_KEY])
            words = cls(
                tuple((str(name), str(kind)) for name, kind in found["answer"]),
                tuple(map(str, found["types"])),
                tuple((str(name), str(kind)) for name, kind in found["scope"]),
                tuple(map(str, found["probes"])),
            )
        except (KeyError, TypeError, ValueError, RecursionError) as error:
            raise _unusable(f"a part does not tell what it is ({type(error).__name__})") from error
        if len(words.types) != len(schema):
            raise _unusable("a part tells of other columns than it has")
        return words


class Alike:
    """Parts whose rows are an answer, one after the other."""

    def __init__(self) -> None:
        self._first: PartWords | None = None

    def checked(self, batches: Iterator[Any]) -> Iterator[Any]:
        """The batches of a part. Raises, before the first of them, unless it is of one kind with the others."""
        words = None
        for batch in batches:
            if words is None:
                words = PartWords.of(batch.schema)
                self._first = self._first or words
                insist_alike(self._first, words)
            yield batch


def insist_alike(first: PartWords, other: PartWords) -> None:
    """Raises unless two parts are of one kind."""
    if first == other:
        return
    types = dict(first.scope)
    for name, kind in other.scope:
        if types.get(name, kind) != kind:
            raise _apart(f"column {name} is {types[name]} in some files and {kind} in others")
    missing = {name for name, _ in first.scope} ^ {name for name, _ in other.scope}
    if missing:
        raise _apart(f"column {min(missing)} is in some files only")
    if first.scope != other.scope:
        raise _apart("their columns stand in another order, and the SQL has a * or goes by their place")
    raise _apart("their columns have different types")


def _apart(why: str) -> QuarterdeckError:
    return QuarterdeckError(
        ErrorCode.WORK_FAILED,
        "the parts of the answer do not fit together",
        why,
        "name only files of one kind or write them anew, or cast the column in the SQL and take the rows of each work "
        'with `--parts`, or `--merge SQL` (over HTTP: "merge": "none")',
    )


def _unusable(why: str) -> QuarterdeckError:
    return QuarterdeckError(
        ErrorCode.PROTOCOL, "the parts were not merged", why, "run coordinator and workers of one release"
    )
