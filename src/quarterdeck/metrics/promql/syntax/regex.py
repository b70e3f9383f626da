"""Regular expressions as Prometheus reads them: RE2, anchored on both ends, the dot matching line ends too.

Strings that hold bytes that are no text (see `quoting`) match as those bytes.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from quarterdeck.core.regexes import RefusedPattern, compile_re2

_GO_WORDS = {
    "missing ]": "missing closing ]",
    "missing )": "missing closing )",
    "trailing \\": "trailing backslash at end of expression",
    "no argument for repetition operator": "missing argument to repetition operator",
    "invalid repetition size": "invalid repeat count",
    "bad repetition operator": "invalid nested repetition operator",
    "invalid perl operator": "invalid or unsupported Perl syntax",
    "invalid named capture group": "invalid named capture",
}
"""What RE2 in C++ says, and what Go says instead."""
_META: Final = re.compile(r"[\\.+*?()\[\]{}^$]")
"""What makes a pattern more than texts with `|` between."""
_QUOTED_OR_ESCAPE: Final = re.compile(r"\\Q.*?(?:\\E|\Z)|\\.", re.DOTALL)


class InvalidRegex(Exception):
    """A pattern that RE2 refuses; the message is Go's."""


@dataclass(frozen=True, slots=True)
class Regex:
    """A compiled pattern."""

    pattern: str
    _compiled: Any

    def matches(self, text: str) -> bool:
        """Whether the pattern matches all of the text."""
        return self._compiled.fullmatch(_bytes(text)) is not None

    def groups(self, text: str) -> tuple[str | None, ...] | None:
        """All of the text, then what each group matched; None when the pattern does not match all of the text."""
        found = self._compiled.fullmatch(_bytes(text))
        if found is None:
            return None
        parts: list[bytes | None] = [found.group(0), *found.groups()]
        return tuple(None if part is None else _text(part) for part in parts)

    def expand(self, template: str, text: str, check_size: Callable[[int], None] | None = None) -> str | None:
        """The template with `$1`, `${1}`, `$name` and `${name}` replaced by what the groups matched, as Go does it.

        `$$` is a dollar, and a group that is not there or did not match is empty. None when the text does not match.
        `check_size` gets the number of characters before they are put together, and may raise.

        >>> compile_anchored("(.*)-(?P<zone>.*)").expand("$zone/${1}$$", "web-eu")
        'eu/web$'
        """
        groups = self.groups(text)
        if groups is None:
            return None
        names: dict[bytes, int] = self._compiled.groupindex
        expanded: list[str] = []
        for literal, name in _parts(template):
            expanded.append(literal)
            index = _index(name)
            if index is None:
                index = names.get(_bytes(name), len(groups))
            if index < len(groups):
                expanded.append(groups[index] or "")
        if check_size is not None:
            check_size(sum(map(len, expanded)))
        return "".join(expanded)


@lru_cache(maxsize=16)
def _parts(template: str) -> tuple[tuple[str, str], ...]:
    """What a template is made of: some text, then the name of a group, empty where there is none."""
    parts: list[tuple[str, str]] = []
    at = 0
    while (dollar := template.find("$", at)) >= 0:
        name, end = _reference(template, dollar + 1)
        # Without a name the dollar stands for itself, and so do two of them.
        parts.append((template[at:dollar] if name else template[at : dollar + 1], name))
        at = end + 1 if template.startswith("$", end) and not name else end
    return (*parts, (template[at:], ""))


def _reference(template: str, start: int) -> tuple[str, int]:
    """The name after a dollar and where it ends; an empty name when there is none."""
    braced = template.startswith("{", start)
    first = end = start + braced
    while end < len(template) and (template[end] == "_" or template[end].isalpha() or template[end].isdecimal()):
        end += 1
    if (braced and template[end : end + 1] != "}") or first == end:
        return "", start
    return template[first:end], end + braced


def _index(name: str) -> int | None:
    """The number of a group, or None for a name; a number has no zero in front and fewer than ten digits."""
    if not (name.isascii() and name.isdigit()) or len(name) > 9 or (name[0] == "0" and len(name) > 1):
        return None
    return int(name)


@dataclass(frozen=True, slots=True)
class Texts:
    """A pattern that is one text or some with `|` between: it matches these, also where they are no UTF-8."""

    texts: frozenset[str]

    def matches(self, text: str) -> bool:
        """Whether it is one of them."""
        return text in self.texts


@lru_cache(maxsize=64)
def compile_matcher(pattern: str) -> Regex | Texts:
    """The pattern of a matcher. As in Prometheus, texts need not be a regular expression, which has to be UTF-8.

    >>> compile_matcher("a|b").matches("b"), compile_matcher("a.*").matches("b")
    (True, False)
    """
    if not _META.search(pattern):
        return Texts(frozenset(pattern.split("|")))
    return compile_anchored(pattern)


@lru_cache(maxsize=64)  # compiling takes microseconds as a rule, and a program up to 8 MB
def compile_anchored(pattern: str) -> Regex:
    """The pattern, to match whole texts; InvalidRegex when RE2 refuses it.

    >>> compile_anchored("a|b").matches("ab")
    False
    """
    if "\\C" in _QUOTED_OR_ESCAPE.findall(pattern):
        # RE2 in C++ takes it for any byte.
        raise InvalidRegex(_go_message("invalid escape sequence", "\\C", pattern))
    try:
        # Bare: between anchors `a)(?:b` would be a pattern, and `\Q[` would be none.
        return Regex(pattern, compile_re2(_bytes(pattern), dot_takes_newlines=True))
    except RefusedPattern as error:
        raise InvalidRegex(_go_message(error.complaint, _text(error.about), pattern)) from None


def _go_message(words: str, argument: str, pattern: str) -> str:
    if argument.startswith("(?<"):  # to Go that begins a name, and no look at what stands before
        rest = pattern[pattern.index(argument) :]
        words, argument = "invalid named capture group", rest[: rest.find(">") + 1] or rest
    if not argument and words not in _GO_WORDS:
        argument = pattern
    return f"error parsing regexp: {_GO_WORDS.get(words, words)}: `{argument}`"


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")
