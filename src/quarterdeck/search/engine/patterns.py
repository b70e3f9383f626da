"""Patterns of the search language as RE2 knows them."""

import json
import re
from typing import Final

_WILDCARDS: Final = {"*": ".*", "?": "."}
_SPECIAL: Final = re.compile(r"[\\.+*?()|\[\]{}^$\x00-\x1f-]")


def literal(text: str) -> str:
    r"""An expression that matches a text to the letter.

    >>> literal("a.b\n")
    'a\\.b\\x0a'
    """
    return _SPECIAL.sub(lambda found: f"\\x{ord(found[0]):02x}" if found[0] < " " else "\\" + found[0], text)


def of_glob(pattern: str) -> str:
    """`*` is any run of characters, `?` is one; newlines are characters too.

    >>> of_glob("a*.b?")
    '(?s)a.*\\\\.b.'
    """
    return "(?s)" + "".join(_WILDCARDS.get(char) or literal(char) for char in pattern)


def runs_of_glob(pattern: str) -> list[str]:
    """What stands between the wildcards.

    >>> runs_of_glob("*ab?c*")
    ['ab', 'c']
    """
    return [run for run in re.split(r"[*?]", pattern) if run]


def escaped(text: str) -> str:
    r"""As it stands between the quotes of a JSON string.

    >>> escaped('say "x"')
    'say \\"x\\"'
    """
    return json.dumps(text, ensure_ascii=False)[1:-1]
