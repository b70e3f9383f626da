r"""Quoted texts, names in backquotes and expressions, from how they are written and back.

In a quoted text a backslash begins one of `\" \' \\ \/ \n \r \t \uXXXX`. In a quoted expression backslashes are the
expression's own, so that `"\d+"` means what it says; only before a quote a backslash goes.
"""

import re

_NAME = re.compile(r"(?:[^\W\d]|@)[\w@.-]*+")
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))", re.DOTALL)
_SIMPLE = {'"': '"', "'": "'", "\\": "\\", "/": "/", "n": "\n", "r": "\r", "t": "\t"}
_ESCAPED = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
_PAIR = re.compile(r"\\(.)", re.DOTALL)
_QUOTE_OR_PAIR = re.compile(r'\\.|"', re.DOTALL)


class BadEscape(Exception):
    """A backslash in a quoted text with something after it that means nothing."""

    def __init__(self, start: int, end: int) -> None:
        super().__init__(start, end)
        self.start = start
        self.end = end
        """Where it stands in what was written."""


def is_name(word: str) -> bool:
    """Whether a word may stand for a field without backquotes."""
    return _NAME.fullmatch(word) is not None


def unquote_name(written: str) -> str:
    """The name in backquotes; two of them within are one."""
    return written[1:-1].replace("``", "`")


def quote_name(name: str) -> str:
    """The name of a field as it is written: bare where that is possible.

    >>> quote_name("http.status"), quote_name("user agent")
    ('http.status', '`user agent`')
    """
    return name if is_name(name) else "`" + name.replace("`", "``") + "`"


def unquote_text(written: str) -> str:
    """The text in quotes; else BadEscape."""
    parts: list[str] = []
    last = position = 1
    while (position := written.find("\\", position)) >= 0:
        parts.append(written[last:position])
        char, end = _read_escape(written, position)
        parts.append(char)
        last = position = end
    parts.append(written[last:-1])
    return "".join(parts)


def _read_escape(written: str, position: int) -> tuple[str, int]:
    """The character of the escape at `position`, and where the text goes on."""
    found = _ESCAPE.match(written, position)
    assert found is not None, "a quoted text does not end with a backslash"
    digits, letter = found[1], found[2]
    if digits is None:
        if letter not in _SIMPLE:
            raise BadEscape(position, found.end())
        return _SIMPLE[letter], found.end()
    unit = int(digits, 16)
    if not 0xD800 <= unit < 0xE000:
        return chr(unit), found.end()
    second = _ESCAPE.match(written, found.end())
    low = int(second[1], 16) if second and second[1] else 0
    if unit >= 0xDC00 or not 0xDC00 <= low < 0xE000 or second is None:
        raise BadEscape(position, found.end())
    return chr(0x10000 + ((unit - 0xD800) << 10) + (low - 0xDC00)), second.end()


def quote_text(text: str) -> str:
    r"""A text in quotes.

    >>> print(quote_text('say "hi"\n'))
    "say \"hi\"\n"
    """
    return '"' + "".join(_ESCAPED.get(char) or _escape(char) for char in text) + '"'


def _escape(char: str) -> str:
    if char.isprintable():
        return char
    units = char.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{int.from_bytes(units[at : at + 2], 'big'):04x}" for at in range(0, len(units), 2))


def unquote_pattern(written: str) -> str:
    r"""The expression in quotes.

    >>> print(unquote_pattern(r'"a\"\d\\"'))
    a"\d\\
    """
    return _PAIR.sub(lambda pair: pair[1] if pair[1] in "\"'" else pair[0], written[1:-1])


def quote_pattern(pattern: str) -> str:
    r"""An expression in quotes.

    >>> print(quote_pattern(r'a"\d'))
    "a\"\d"
    """
    return '"' + _QUOTE_OR_PAIR.sub(lambda found: '\\"' if found[0] == '"' else found[0], pattern) + '"'
