"""What words and quoted texts mean where a value is expected."""

import math
import re
from decimal import Decimal

from quarterdeck.core.regexes import RefusedPattern, compile_re2
from quarterdeck.search.language.ast import Glob, Number, Regex, Span, Text
from quarterdeck.search.language.cursor import Cursor
from quarterdeck.search.language.errors import shown
from quarterdeck.search.language.lexer import Kind, Token
from quarterdeck.search.language.quoting import BadEscape, unquote_pattern, unquote_text

MAX_REGEXES = 100
"""Of one search. Compiling one that was made to hurt takes tens of milliseconds."""
_REGEX_MEMORY_BYTES = 1 << 20
"""Takes `.{1000}` and more. What fits into it DuckDB's RE2 takes too, which has eight times as much."""

_NUMBER = re.compile(r"-?(?:(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?|\.[0-9]++)(?:[eE][+-]?[0-9]++)?")
_NUMBER_LENGTH = 1000
_LEAST_EXPONENT = -400
# What in a pattern may hold `(?<` without beginning a group: a quoted stretch, an escape, a class.
_GROUP = re.compile(
    r"\\Q.*?(?:\\E|$)|\\.|\[\^?\]?(?:\\.|\[:\^?\w+:\]|\[(?!:\^?\w+:\])|[^\]\\\[])*\]|(\(\?<)", re.DOTALL
)


def looks_like_a_number(word: str) -> bool:
    """Whether a word is written as a number, be it too large for one."""
    return _NUMBER.fullmatch(word) is not None


def word_value(token: Token) -> Text | Number | Glob:
    """What a bare word stands for: a number as JSON writes them (`.5` too), a glob, or itself.

    With a zero or a plus in front it is itself: `007` and `+4930` are names of something. So is what a double cannot
    hold, such as `12e4567`, mostly the beginning of a hash.
    """
    word = token.text
    if "*" in word or "?" in word:
        return Glob(word, token.span)
    if looks_like_a_number(word) and len(word) <= _NUMBER_LENGTH:
        value = _finite(word)
        if value is not None:
            return Number(word, value, token.span)
    return Text(word, span=token.span)


def _finite(word: str) -> Decimal | None:
    if not math.isfinite(float(word)):
        return None
    exponent = word.lower().partition("e")[2]
    if len(exponent.lstrip("+-0")) > 4:  # of zero, or of next to nothing; Decimal refuses the largest
        return None
    value = Decimal(word)
    return value if value == 0 or value.adjusted() >= _LEAST_EXPONENT else None


def quoted_text(cursor: Cursor, token: Token) -> Text:
    """The text in quotes, which is never a number and never a glob."""
    try:
        return Text(unquote_text(token.text), quoted=True, span=token.span)
    except BadEscape as error:
        span = Span(token.span.start + error.start, token.span.start + error.end)
        what = shown(token.text[error.start : error.end])
        step = r"""write a backslash as \\; the others are \" \' \/ \n \r \t \uXXXX (two of these above FFFF)"""
        cursor.fail(f"{what} means nothing in a quoted text", span, step)


def regex(cursor: Cursor, token: Token) -> Regex:
    """The expression that a quoted text or a bare word holds, if it is one."""
    written = token.kind is Kind.QUOTED
    pattern = unquote_pattern(token.text) if written else token.text
    cursor.regexes += 1
    if cursor.regexes > MAX_REGEXES:
        reason = f"there are more than {MAX_REGEXES} regular expressions"
        cursor.fail(reason, token.span, "join some of them with `|` within the quotes, or split the search")
    try:
        compile_re2(pattern.encode(), dot_takes_newlines=False, memory_bytes=_REGEX_MEMORY_BYTES)
    except RefusedPattern as error:
        _refuse(cursor, token, error.complaint, error.about.decode("utf-8", "replace"))
    # Newer versions of RE2 know `(?<name>`; that of DuckDB does not.
    for found in _GROUP.finditer(pattern):
        if found[1]:
            _refuse(cursor, token, "invalid perl operator", "(?<")
    return Regex(pattern, token.span)


def _refuse(cursor: Cursor, token: Token, complaint: str, about: str) -> None:
    start = token.text.find(about) if about else -1
    span = Span(token.span.start + start, token.span.start + start + len(about)) if start >= 0 else token.span
    step = "correct it; expressions are those of RE2 (https://github.com/google/re2/wiki/Syntax)"
    cursor.fail(f"the regular expression is not valid: {complaint}", span, step)
