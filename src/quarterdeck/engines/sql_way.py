"""How one SELECT over `files` is divided, as trees; `Plan` has their texts."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from quarterdeck.engines.sql_aggregates import Merge
from quarterdeck.engines.sql_tree import Node

MERGED: Final = "__merged"
"""What the outermost query reads when groups are merged; else it reads `PARTS`."""
PARTS: Final = "parts"


class Way(StrEnum):
    ROWS = "rows"
    """The rows of the parts, one part after the other, are the answer."""
    FIRST = "first"
    """So many of these rows, from so many on."""
    MERGED = "merged"
    """One more query makes the answer."""
    CONSTANT = "constant"
    """No file is read: it is asked once."""
    TOGETHER = "together"
    """It is exact only where all files are read together."""


@dataclass(frozen=True, slots=True)
class Aggregate:
    """How a column of the parts is merged."""

    column: str
    """Of the parts."""
    result: str
    """Its name when it is merged."""
    function: str
    merge: Merge
    arguments: int = 1
    probe: int | None = None
    """The place among `Split.probes` of what its type depends on."""
    filter_column: str | None = None


@dataclass(frozen=True, slots=True)
class Split:
    """Trees; `Plan` has their texts."""

    way: Way
    why: str = ""
    """Why it needs all files together; follows `because`."""
    part: Node | None = None
    offset: int = 0
    limit: int | None = None
    keys: tuple[str, ...] = ()
    aggregates: tuple[Aggregate, ...] = ()
    is_grouped: bool = False
    outer: Node | None = None
    scope: Node | None = None
    """Gives all columns that expressions may name."""
    probes: Node | None = None
    names: frozenset[str] | None = None
    """Of columns of the files that it may read, in lower case; None is all of them, in their order."""
    not_columns: frozenset[str] = frozenset()
    """Names that must not be columns of the files, in lower case."""
