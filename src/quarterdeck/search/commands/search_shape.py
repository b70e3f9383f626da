"""What the rows of a search are: records, or a table; and whether its counts make a chart.

The language is read here only for the display. The coordinator refuses what it does not understand. What this command
does not understand may be of a later release: then the rows are shown as records.
"""

from dataclasses import dataclass

from quarterdeck.search.language.ast import AggregateOp, Cut, ListFields, Search, Summarize, Uniq
from quarterdeck.search.language.errors import SearchSyntaxError
from quarterdeck.search.language.parser import parse_search


@dataclass(frozen=True, slots=True)
class Shape:
    is_table: bool = False
    counts: str | None = None
    """The column whose counts are worth a bar each."""


def shape_of(query: str) -> Shape:
    """
    >>> shape_of("level=error | sort host"), shape_of("* | count() by host").counts
    (Shape(is_table=False, counts=None), 'count')
    """
    try:
        search = parse_search(query)
    except SearchSyntaxError:
        return Shape()
    return _shape(search)


def _shape(search: Search) -> Shape:
    shape = Shape()
    for stage in search.stages:
        match stage:
            case Summarize(aggregates=[one], by=[_]) if one.op is AggregateOp.COUNT:
                shape = Shape(is_table=True, counts=one.name)
            case Summarize():
                shape = Shape(is_table=True)
            case ListFields() | Uniq(counted=True):
                shape = Shape(is_table=True, counts="count")
            case Cut(fields=fields) if shape.counts not in [field.name for field in fields]:
                shape = Shape(shape.is_table)
            case _:
                pass
    return shape
