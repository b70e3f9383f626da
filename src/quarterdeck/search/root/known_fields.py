"""Which of the fields that a search names are there. One that no record has is mostly misspelt: an error, not an empty
answer.

A sample says which fields there are; what it does not have, each chunk is asked about until one has seen it.
"""

from collections.abc import Iterable, Sequence

from quarterdeck.core.carets import line_and_column, show_place
from quarterdeck.core.errors import ErrorCode, QuarterdeckError
from quarterdeck.search.language.ast import Field, Search, Span
from quarterdeck.search.language.errors import shown
from quarterdeck.search.language.fields import nearest, referenced_fields

_TOLD_MAX = 10
_WHAT = "the search finds nothing"


class UnknownFieldError(QuarterdeckError):
    """A search names a field that no record has.

    >>> print(UnknownFieldError("the file has no field `levle`", "levle=error", Span(0, 5), "did you mean `level`?"))
    the search finds nothing: line 1, column 1: the file has no field `levle`; did you mean `level`?
      levle=error
      ^^^^^
    """

    def __init__(self, reason: str, text: str, span: Span, next_step: str) -> None:
        line, column = line_and_column(text, span.start)
        picture = show_place(text, span.start, span.end).replace("\n", "\n  ")
        why = f"line {line}, column {column}: {reason}"
        super().__init__(ErrorCode.INVALID_ARGUMENT, _WHAT, why, f"{next_step}\n  {picture}")
        self.args = (reason, text, span, next_step)  # from which copy and pickle make it anew


class KnownFields:
    """The fields of one search."""

    def __init__(self, search: Search, time_field: str | None, sampled: Iterable[str]) -> None:
        """`time_field` is one that somebody has named."""
        self._search = search
        self._sampled = frozenset(sampled)
        named: dict[str, Field | None] = {field.name: field for field in reversed(referenced_fields(search))}
        if time_field is not None:
            named.setdefault(time_field, None)
        self._missing = {name: field for name, field in named.items() if name not in self._sampled}

    @property
    def missing(self) -> frozenset[str]:
        """Those that nobody has seen yet."""
        return frozenset(self._missing)

    def saw(self, names: Iterable[str]) -> None:
        for name in names:
            self._missing.pop(name, None)

    def insist(self, files: int) -> None:
        """Raises if one of them was not seen in any of so many files."""
        if self._missing:
            raise self._error(files)

    def insist_on_columns(self, files: int) -> None:
        """Raises if one of them cannot be there: all files are known, and have no other columns than those sampled.
        What is within a column that they have may still come."""
        if any(not self._may_be_within(name) for name in self._missing):
            self._missing = {name: field for name, field in self._missing.items() if not self._may_be_within(name)}
            raise self._error(files)

    def _may_be_within(self, name: str) -> bool:
        return any(name[:place] in self._sampled for place, char in enumerate(name) if char == ".")

    def _error(self, files: int) -> QuarterdeckError:
        written = [field for field in self._missing.values() if field is not None]
        first = min(written, key=lambda field: field.span.start, default=None)
        name = next(iter(self._missing)) if first is None else first.name
        where = "the file has no" if files == 1 else f"none of the {files:,} files has a"
        reason = f"{where} field {shown(name)}"
        if first is None:
            return QuarterdeckError(ErrorCode.INVALID_ARGUMENT, _WHAT, f"time_field: {reason}", self._suggestion(name))
        return UnknownFieldError(reason, self._search.text, first.span, self._suggestion(name))

    def _suggestion(self, name: str) -> str:
        close = nearest(name, self._sampled)
        if close:
            return f"did you mean {_either(close)}"
        if not self._sampled:
            return "look at the files"
        there = sorted(self._sampled)
        more = ", ..." if len(there) > _TOLD_MAX else ""
        return f"there is {', '.join(map(shown, there[:_TOLD_MAX]))}{more}"


def _either(names: Sequence[str]) -> str:
    return " or ".join(map(shown, names)) + "?"
