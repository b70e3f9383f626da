"""The words of the language: what the lexer gives and the parser takes, and how messages name them."""

from dataclasses import dataclass
from enum import StrEnum

from quarterdeck.metrics.promql.spans import Span
from quarterdeck.metrics.promql.syntax.ast import AggregateOp, BinaryOp, MatchOp
from quarterdeck.metrics.promql.syntax.quoting import quote


class Kind(StrEnum):
    """What sort of word a token is."""

    END = "end of input"
    IDENTIFIER = "identifier"
    METRIC_IDENTIFIER = "metric identifier"
    STRING = "string"
    NUMBER = "number"
    DURATION = "duration"
    OPERATOR = "operator"
    """Those between expressions, those of matchers, and `@`."""
    AGGREGATE = "aggregate"
    KEYWORD = "keyword"
    ANCHOR = "anchor"
    """`start`, `end`, `step`, `range`, `max_of` and `min_of`."""
    MARK = "mark"
    """Brackets, commas, colons and the single `=`."""


@dataclass(frozen=True, slots=True)
class Token:
    """One word of a query; `word` is what it says, lower case for all that is not the user's own."""

    kind: Kind
    word: str
    span: Span
    text: str
    """As written."""

    @property
    def shown(self) -> str:
        """As Prometheus names it in a message."""
        match self.kind:
            case Kind.END:
                return "end of input"
            case Kind.IDENTIFIER | Kind.METRIC_IDENTIFIER:
                return f"{self.kind} {quote(self.text)}"
            case Kind.STRING | Kind.NUMBER | Kind.DURATION:
                # Go cuts after ten characters what has more than ten bytes.
                cut = "..." if len(self.text.encode()) > 10 else ""
                return f"{self.kind} {quote(self.text[:10])}{cut}"
            case Kind.OPERATOR:
                return f"<op:{self.text}>"
            case Kind.AGGREGATE:
                return f"<aggr:{self.text}>"
            case Kind.KEYWORD:
                return f"<{self.text}>"
            case Kind.ANCHOR | Kind.MARK:
                return quote(self.text)

    @property
    def names_metric(self) -> bool:
        """Whether it may be a metric's name, as many words of the language may."""
        is_word = self.kind is Kind.OPERATOR and self.word.isalnum()
        return (is_word or self.kind in _NAMES) and self.word not in NOT_METRIC_NAMES

    @property
    def names_label(self) -> bool:
        """Whether it may be a label in a list of labels, as most words of the language may."""
        is_word = self.kind is Kind.OPERATOR and self.word.isalnum()
        return (is_word or self.kind in _NAMES) and self.word not in NOT_LABELS

    @property
    def begins_expression(self) -> bool:
        """Whether an expression can begin with it."""
        sign = self.says(Kind.OPERATOR, "+", "-")
        return sign or self.names_metric or self.kind in _LITERALS or self.says(Kind.MARK, "(", "{")

    def says(self, kind: Kind, *words: str) -> bool:
        """Whether it is of this kind and one of these words."""
        return self.kind is kind and self.word in words


_NAMES = (Kind.IDENTIFIER, Kind.METRIC_IDENTIFIER, Kind.AGGREGATE, Kind.KEYWORD, Kind.ANCHOR)
_LITERALS = (Kind.NUMBER, Kind.DURATION, Kind.STRING)

FILLS = frozenset({"fill", "fill_left", "fill_right"})
"""Keywords only where a parenthesis follows, else names like any other."""

WORDS: dict[str, Kind] = {
    **{op.value: Kind.OPERATOR for op in BinaryOp if op.value.isalnum()},
    **{op.value: Kind.AGGREGATE for op in AggregateOp},
    **dict.fromkeys(
        ("offset", "smoothed", "anchored", "by", "without", "on", "ignoring", "group_left", "group_right", "bool"),
        Kind.KEYWORD,
    ),
    **dict.fromkeys(FILLS, Kind.KEYWORD),
    **dict.fromkeys(("start", "end", "step", "range", "max_of", "min_of"), Kind.ANCHOR),
    **dict.fromkeys(("inf", "nan"), Kind.NUMBER),
}
"""What words mean outside of braces; upper and lower case are the same."""

DURATION_WORDS = frozenset({"step", "range", "min_of", "max_of"})
"""The words of arithmetic with durations, which may stand between square brackets."""

NOT_METRIC_NAMES = frozenset({"bool", "on", "ignoring", "group_left", "group_right", "atan2", "inf", "nan"})
"""Words that cannot be a metric's name outside of braces."""

NOT_LABELS = frozenset({"without", "inf", "nan"})
"""Words that cannot be a label in a list of labels, unless they are quoted."""

MATCH_OPS: dict[str, MatchOp] = {op.value: op for op in MatchOp}
BINARY_OPS: dict[str, BinaryOp] = {op.value: op for op in BinaryOp}
