"""The words of the language: what the lexer gives and the parser takes, and how messages name them."""

from dataclasses import dataclass
from enum import StrEnum

from quarterdeck.metrics.promql.spans import Span
from quarterdeck.metrics.promql.syntax.ast import AggregateOp, BinaryOp, MatchOp
from quarterdeck.metrics.promql.syntax.quoting import quote


class TokenKind(StrEnum):
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

    kind: TokenKind
    word: str
    span: Span
    text: str
    """As written."""

    @property
    def shown(self) -> str:
        """As Prometheus names it in a message."""
        match self.kind:
            case TokenKind.END:
                return "end of input"
            case TokenKind.IDENTIFIER | TokenKind.METRIC_IDENTIFIER:
                return f"{self.kind} {quote(self.text)}"
            case TokenKind.STRING | TokenKind.NUMBER | TokenKind.DURATION:
                # Go cuts after ten characters what has more than ten bytes.
                cut = "..." if len(self.text.encode()) > 10 else ""
                return f"{self.kind} {quote(self.text[:10])}{cut}"
            case TokenKind.OPERATOR:
                return f"<op:{self.text}>"
            case TokenKind.AGGREGATE:
                return f"<aggr:{self.text}>"
            case TokenKind.KEYWORD:
                return f"<{self.text}>"
            case TokenKind.ANCHOR | TokenKind.MARK:
                return quote(self.text)

    @property
    def names_metric(self) -> bool:
        """Whether it may be a metric's name, as many words of the language may."""
        is_word = self.kind is TokenKind.OPERATOR and self.word.isalnum()
        return (is_word or self.kind in _NAMES) and self.word not in NOT_METRIC_NAMES

    @property
    def names_label(self) -> bool:
        """Whether it may be a label in a list of labels, as most words of the language may."""
        is_word = self.kind is TokenKind.OPERATOR and self.word.isalnum()
        return (is_word or self.kind in _NAMES) and self.word not in NOT_LABELS

    @property
    def begins_expression(self) -> bool:
        """Whether an expression can begin with it."""
        sign = self.says(TokenKind.OPERATOR, "+", "-")
        return sign or self.names_metric or self.kind in _LITERALS or self.says(TokenKind.MARK, "(", "{")

    def says(self, kind: TokenKind, *words: str) -> bool:
        """Whether it is of this kind and one of these words."""
        return self.kind is kind and self.word in words


_NAMES = (TokenKind.IDENTIFIER, TokenKind.METRIC_IDENTIFIER, TokenKind.AGGREGATE, TokenKind.KEYWORD, TokenKind.ANCHOR)
_LITERALS = (TokenKind.NUMBER, TokenKind.DURATION, TokenKind.STRING)

FILLS = frozenset({"fill", "fill_left", "fill_right"})
"""Keywords only where a parenthesis follows, else names like any other."""

WORDS: dict[str, TokenKind] = {
    **{op.value: TokenKind.OPERATOR for op in BinaryOp if op.value.isalnum()},
    **{op.value: TokenKind.AGGREGATE for op in AggregateOp},
    **dict.fromkeys(
        ("offset", "smoothed", "anchored", "by", "without", "on", "ignoring", "group_left", "group_right", "bool"),
        TokenKind.KEYWORD,
    ),
    **dict.fromkeys(FILLS, TokenKind.KEYWORD),
    **dict.fromkeys(("start", "end", "step", "range", "max_of", "min_of"), TokenKind.ANCHOR),
    **dict.fromkeys(("inf", "nan"), TokenKind.NUMBER),
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
