"""From text to tokens, one at a time, so that the first mistake in the text is the one that is told.

What a character means depends on the brackets it stands in: between braces all words are names, between square
brackets there are only durations, and up to the first number there not even comments. Positions are in characters.
Errors are those of Prometheus' lexer.
"""

import re

from quarterdeck.metrics.promql.errors import ParseError
from quarterdeck.metrics.promql.spans import Span
from quarterdeck.metrics.promql.syntax.quoting import BadEscape, quote, quote_char, read_escape
from quarterdeck.metrics.promql.syntax.tokens import DURATION_WORDS, FILLS, WORDS, Token, TokenKind

_SPACE = re.compile(r"(?:[ \t\n\r]+|#[^\r\n]*)*")
_SPACE_ONLY = re.compile(r"[ \t\n\r]*")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_LETTERS = re.compile(r"[A-Za-z_]+")
_METRIC_NAME = re.compile(r"[A-Za-z_:][A-Za-z0-9_:]*")
_NUMBER_START = re.compile(r"\.?[0-9]")
_DIGITS = re.compile(r"[0-9]+")
_HEX_DIGITS = re.compile(r"[0-9a-fA-F]+")
_PLAIN = re.compile(r"""[^\\"'\n\ud800-\udfff\ufffd]+""")  # Go takes the last one for bytes that are no text
_RAW = re.compile(r"[^`\ud800-\udfff\ufffd]*")
_ALPHANUMERIC = re.compile(r"[A-Za-z0-9_]")
_DURATION_TAIL = re.compile(r"[0-9]+(?:ms|[smhdw]s?)?")
_OPERATORS = ("==", "!=", "<=", ">=", "</", ">/", "+", "-", "*", "/", "%", "^", "<", ">", "@")


class Lexer:
    """The tokens of one query."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._position = 0
        self._start = 0
        self._open_parentheses = 0
        self._in_braces = False
        self._in_brackets = False
        self._number_expected = False
        """Whether a square bracket was opened and no number has come since."""
        self._length_seen = False
        """Whether a length has ended between any square brackets, which a colon may follow."""
        self._colon_seen = False

    def next(self) -> Token:
        """The next token; at the end, and ever after, the token END."""
        found = (_SPACE_ONLY if self._number_expected else _SPACE).match(self._text, self._position)
        self._position = self._start = found.end() if found else self._position
        char = self._text[self._start : self._start + 1]
        if self._in_braces:
            return self._inside_braces(char)
        if self._number_expected:
            return self._before_a_number(char)
        return self._statement(char)

    # Which token a character begins.

    def _statement(self, char: str) -> Token:
        if not char:
            if self._open_parentheses:
                raise self._error("unclosed left parenthesis")
            if self._in_brackets:
                raise self._error("unclosed left bracket")
            return self._token(TokenKind.END, 0)
        if char in "([{}]),":
            return self._bracket(char)
        if _NUMBER_START.match(self._text, self._start):
            return self._number()
        if char in "\"'`":
            return self._string(char)
        if _METRIC_NAME.match(char):
            return self._word_in_brackets(char) if self._in_brackets else self._word()
        for operator in _OPERATORS:
            if self._text.startswith(operator, self._start):
                return self._token(TokenKind.OPERATOR, len(operator))
        if char == "=" and self._ahead(1) != "~":
            return self._token(TokenKind.MARK, 1)
        if char in "!=":
            raise self._error(f"unexpected character after '{char}': {quote_char(self._ahead(1))}")
        raise self._error(f"unexpected character: {quote_char(char)}")

    def _inside_braces(self, char: str) -> Token:
        if not char:
            raise self._error("unexpected end of input inside braces")
        if name := _NAME.match(self._text, self._start):
            return self._token(TokenKind.IDENTIFIER, len(name[0]))
        if char in "\"'`":
            return self._string(char)
        if char == "}":
            self._in_braces = False
            return self._token(TokenKind.MARK, 1)
        for operator in ("=~", "!~", "!="):
            if self._text.startswith(operator, self._start):
                return self._token(TokenKind.OPERATOR, 2)
        if char in ",=":
            return self._token(TokenKind.MARK, 1)
        if char == "!":
            raise self._error(f"unexpected character after '!' inside braces: {quote_char(self._ahead(1))}")
        if char == "{":
            raise self._error("unexpected left brace '{'")
        raise self._error(f"unexpected character inside braces: {quote_char(char)}")

    def _before_a_number(self, char: str) -> Token:
        if not char:
            raise self._error("unexpected end of input in duration expression")
        if char == ":":
            return self._colon_before_a_number()
        if char in "()],":
            return self._bracket(char)
        if char in "+-*/%^":
            return self._token(TokenKind.OPERATOR, 1)
        if _NUMBER_START.match(self._text, self._start):
            self._number_expected, self._length_seen = False, True
            return self._number()
        if word := self._duration_word():
            return word
        raise self._error(f"unexpected character in duration expression: {quote_char(char)}")

    def _colon_before_a_number(self) -> Token:
        colon = self._token(TokenKind.MARK, 1)
        self._start = self._position
        if not self._length_seen:
            raise self._error("unexpected colon before duration in duration expression")
        if self._colon_seen:
            raise self._error("unexpected repeated colon in duration expression")
        self._colon_seen = True
        return colon

    def _bracket(self, char: str) -> Token:
        match char:
            case "(":
                self._open_parentheses += 1
            case ")":
                # Prometheus forgets that `step()` is a length, and refuses the colon in `foo[step():1m]`.
                self._length_seen = self._length_seen or self._number_expected
                self._open_parentheses -= 1
                if self._open_parentheses < 0:
                    self._start += 1
                    raise self._error("unexpected right parenthesis ')'")
            case "[":
                if self._in_brackets:
                    raise self._error("unexpected left bracket '['")
                self._in_brackets, self._number_expected, self._colon_seen = True, True, False
            case "]":
                if not self._in_brackets:
                    raise self._error("unexpected right bracket ']'")
                self._in_brackets = self._number_expected = False
            case "{":
                self._in_braces = True
            case "}":
                raise self._error("unexpected character: '}'")
            case _:
                pass
        return self._token(TokenKind.MARK, 1)

    def _word_in_brackets(self, char: str) -> Token:
        if char == ":":
            if self._colon_seen:
                raise self._error("unexpected colon ':'")
            self._colon_seen = True
            return self._token(TokenKind.MARK, 1)
        if word := self._duration_word():
            return word
        raise self._error(f"unexpected character: {quote_char(char)}, expected ':'")

    def _duration_word(self) -> Token | None:
        # A word of letters: what `step2` begins with is `step`.
        word = _LETTERS.match(self._text, self._start)
        return self._token(TokenKind.ANCHOR, len(word[0])) if word and word[0].lower() in DURATION_WORDS else None

    def _word(self) -> Token:
        found = _METRIC_NAME.match(self._text, self._start)
        assert found is not None, "called at a character that begins a name"
        word = found[0].lower()
        kind = WORDS.get(word)
        if kind is None or (word in FILLS and not self._parenthesis_follows(found.end())):
            return self._token(TokenKind.METRIC_IDENTIFIER if ":" in word else TokenKind.IDENTIFIER, len(word))
        return self._token(kind, len(word))

    def _parenthesis_follows(self, position: int) -> bool:
        space = _SPACE_ONLY.match(self._text, position)
        return self._text.startswith("(", space.end() if space else position)

    # Tokens with an inside.

    def _number(self) -> Token:
        end, is_number = _scan_number(self._text, self._start)
        if is_number:
            return self._token(TokenKind.NUMBER, end - self._start)
        end, is_duration = _scan_duration(self._text, end)
        if is_duration:
            return self._token(TokenKind.DURATION, end - self._start)
        raise self._error(f"bad number or duration syntax: {quote(self._text[self._start : end])}")

    def _string(self, mark: str) -> Token:
        if mark == "`":
            return self._raw_string()
        value, position = bytearray(), self._start + 1
        while True:
            if plain := _PLAIN.match(self._text, position):
                value += plain[0].encode()
                position = plain.end()
            char = self._text[position : position + 1]
            if char == mark:
                break
            if not char or char == "\n":
                raise self._error("unterminated quoted string")
            if char == "\\":
                try:
                    escaped, position = read_escape(self._text, position + 1, mark)
                except BadEscape as error:
                    raise self._error(str(error)) from None
                value += escaped
            elif char in "\"'":
                value += char.encode()
                position += 1
            else:
                raise self._error("invalid UTF-8 rune")
        return self._quoted(value.decode("utf-8", "surrogateescape"), position + 1)

    def _raw_string(self) -> Token:
        found = _RAW.match(self._text, self._start + 1)
        end = found.end() if found else self._start + 1
        if end == len(self._text):
            raise self._error("unterminated raw string")
        if self._text[end] != "`":
            raise self._error("invalid UTF-8 rune")
        return self._quoted(self._text[self._start + 1 : end], end + 1)

    def _quoted(self, value: str, end: int) -> Token:
        token = Token(TokenKind.STRING, value, Span(self._start, end), self._text[self._start : end])
        self._position = end
        return token

    def _token(self, kind: TokenKind, length: int) -> Token:
        end = self._start + length
        text = self._text[self._start : end]
        own = kind in (TokenKind.IDENTIFIER, TokenKind.METRIC_IDENTIFIER)
        self._position = end
        return Token(kind, text if own else text.lower(), Span(self._start, end), text)

    def _ahead(self, count: int) -> str:
        return self._text[self._start + count : self._start + count + 1]

    def _error(self, reason: str) -> ParseError:
        return ParseError(reason, self._text, Span(self._start, len(self._text)))


def _scan_number(text: str, position: int) -> tuple[int, bool]:
    """Where a number ends and whether it is one; if not, where it went wrong."""
    first, digits = position, _DIGITS
    if text.startswith("0", position):
        position += 1
        if text.startswith(("x", "X"), position):
            digits = _HEX_DIGITS
            position += 2 if text.startswith("_", position + 1) else 1
    position += text.startswith(".", position)
    position += digits.match(text, position) is not None
    dotted = scaled = False
    while char := text[position : position + 1]:
        following = text[position + 1 : position + 2]
        if char == ".":
            if dotted:
                return position + 1, False
            if following and following in "_.":
                return position + 2, False
            if digits is _HEX_DIGITS:
                return position + 1, False
            dotted = True
        elif char in "eE":  # in hexadecimal too, unless another digit stands before it
            if scaled:
                return position + 1, False
            scaled = True
            position += bool(following) and following in "+-"
            following = text[position + 1 : position + 2]
            if not following or following in "._eE":
                return position + 1 + len(following), False
        elif char == "_":
            if not following or following in "._eE":
                return position + 1 + len(following), False
        elif run := digits.match(text, position):
            position = run.end()
            continue
        else:
            break
        position += 1
    return position, position > first and not _ALPHANUMERIC.match(text, position)


def _scan_duration(text: str, position: int) -> tuple[int, bool]:
    """Where a duration ends, whose first digits end at `position`, and whether it is one."""
    if not (unit := text[position : position + 1]) or unit not in "smhdwy":
        return position, False
    position += 2 if text[position + 1 : position + 2] == "s" else 1
    while part := _DURATION_TAIL.match(text, position):
        position = part.end()
        if part[0][-1].isdigit():
            return position, False
    return (position + 1, False) if _ALPHANUMERIC.match(text, position) else (position, True)
