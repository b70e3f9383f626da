"""What is wrong with a search, and where."""

from quarterdeck.core.carets import line_and_column, show_place
from quarterdeck.core.errors import ErrorCode, QuarterdeckError
from quarterdeck.search.language.ast import Span


class SearchSyntaxError(QuarterdeckError):
    """The text is no search.

    >>> print(SearchSyntaxError("expected a value after `=`, found `|`", "level= | count()", Span(7, 8), "write one"))
    the search was not understood: line 1, column 8: expected a value after `=`, found `|`; write one:
      level= | count()
             ^
    """

    def __init__(self, reason: str, text: str, span: Span, next_step: str) -> None:
        line, column = line_and_column(text, span.start)
        picture = show_place(text, span.start, span.end).replace("\n", "\n  ")
        super().__init__(
            ErrorCode.INVALID_ARGUMENT,
            "the search was not understood",
            f"line {line}, column {column}: {reason}",
            f"{next_step}:\n  {picture}",
        )
        self.args = (reason, text, span, next_step)
        self.reason = reason
        self.line = line
        self.column = column
        self.span = span


def shown(text: str) -> str:
    """A piece of the search as a message quotes it: in backquotes, and not too long.

    >>> shown("level")
    '`level`'
    """
    text = "".join(char if char.isprintable() else " " for char in (text if len(text) <= 40 else text[:37] + "..."))
    return f"`{text}`" if "`" not in text else text
