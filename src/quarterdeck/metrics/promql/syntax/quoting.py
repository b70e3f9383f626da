"""Quoted strings with the escapes of Go, in both directions.

Go's strings hold bytes, and `"\\xff"` is one that is no text. Such a byte is kept as Python's `surrogateescape` keeps
it, a lone surrogate; nothing else makes a surrogate.
"""

_ESCAPED = {"\a": "a", "\b": "b", "\f": "f", "\n": "n", "\r": "r", "\t": "t", "\v": "v", "\\": "\\"}
_SIMPLE = {letter: char for char, letter in _ESCAPED.items()}
_DIGITS = {"x": 2, "u": 4, "U": 8}
"""How many hexadecimal digits follow the letter."""


def quote(text: str, mark: str = '"') -> str:
    r"""A string as Go's `%q` prints it, in double quotes.

    >>> print(quote('a "b"\n'))
    "a \"b\"\n"
    """
    return mark + "".join(_escape(char, mark) for char in text) + mark


def quote_char(char: str) -> str:
    """One character as Go's `%q` prints it; the empty string is the end of the text.

    >>> quote_char("}")
    "'}'"
    """
    return quote(char or "\ufffd", "'")


def _escape(char: str, mark: str) -> str:
    if char == mark:
        return "\\" + char
    if char in _ESCAPED:
        return "\\" + _ESCAPED[char]
    if char.isprintable():
        return char
    code = ord(char)
    if 0xDC80 <= code <= 0xDCFF:
        return f"\\x{code - 0xDC00:02x}"
    if code < 0x20 or code == 0x7F:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


class BadEscape(Exception):
    """An escape that Go does not know."""


def read_escape(text: str, position: int, mark: str) -> tuple[bytes, int]:
    """The bytes of the escape whose letter is at `position`, and where the text goes on; else BadEscape."""
    letter = text[position : position + 1]
    if letter == mark and mark:
        return letter.encode(), position + 1
    if letter in _SIMPLE:
        return _SIMPLE[letter].encode(), position + 1
    if letter and letter in "01234567":
        code = _number(text, position, 3, 8)
        if code > 255:
            raise BadEscape("escape sequence is an invalid Unicode code point")
        return bytes([code]), position + 3
    if letter in _DIGITS:
        count = _DIGITS[letter]
        code = _number(text, position + 1, count, 16)
        if letter == "x":
            return bytes([code]), position + 3
        if code > 0x10FFFF or 0xD800 <= code < 0xE000:
            raise BadEscape("escape sequence is an invalid Unicode code point")
        return chr(code).encode(), position + 1 + count
    raise BadEscape(f"unknown escape sequence {_code_point(letter)}" if letter else "escape sequence not terminated")


def _number(text: str, position: int, count: int, base: int) -> int:
    digits = text[position : position + count]
    for digit in digits:
        if digit not in "0123456789abcdefABCDEF" or int(digit, 16) >= base:
            raise BadEscape(f"illegal character {_code_point(digit)} in escape sequence")
    if len(digits) < count:
        raise BadEscape("escape sequence not terminated")
    return int(digits, base)


def _code_point(char: str) -> str:
    shown = f" '{char}'" if char.isprintable() else ""
    return f"U+{ord(char):04X}{shown}"
