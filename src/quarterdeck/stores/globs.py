"""Which keys a pattern means: `*` and `?` within one segment, `**` for any number of segments.

As in a shell, a wildcard does not find a name that begins with a dot: writers hide unfinished files that way. Matching
takes no longer than pattern times path, whatever the pattern.
"""

import re
from typing import Final

_ANY_SEGMENTS: Final = "**"


def has_wildcard(text: str) -> bool:
    return "*" in text or "?" in text


class Glob:
    """A pattern of segments between slashes.

    >>> Glob("day=*/**/*.parquet").matches("day=7/part-0.parquet")
    True
    """

    def __init__(self, pattern: str) -> None:
        self._segments: Final = [
            None if segment == _ANY_SEGMENTS else _compile(segment) for segment in pattern.split("/")
        ]

    def matches(self, path: str) -> bool:
        return len(self._segments) in self._reached(path)

    def goes_below(self, folder: str) -> bool:
        """Whether something below may match."""
        return any(place < len(self._segments) for place in self._reached(folder))

    def _reached(self, path: str) -> set[int]:
        """The places in the pattern that can be reached with the path."""
        reached = self._skipping({0})
        for name in path.split("/"):
            after: set[int] = set()
            for place in reached:
                if place == len(self._segments):
                    continue
                segment = self._segments[place]
                if segment is None:
                    if not name.startswith("."):
                        after.add(place)
                elif segment.fullmatch(name):
                    after.add(place + 1)
            reached = self._skipping(after)
        return reached

    def _skipping(self, places: set[int]) -> set[int]:
        """With the places after a `**` that stands for nothing (more)."""
        reached = set(places)
        for place in sorted(places):
            following = place
            while following < len(self._segments) and self._segments[following] is None:
                following += 1
                reached.add(following)
        return reached


def _compile(segment: str) -> re.Pattern[str]:
    """A segment as an expression. Between two stars the first fit is as good as any: atomic groups keep it so, and the
    expression from trying them all."""
    pieces = [
        "".join("." if character == "?" else re.escape(character) for character in piece)
        for piece in re.split(r"\*+", segment)
    ]
    first, *rest = pieces
    hidden = r"(?!\.)" if has_wildcard(segment[:1]) else ""
    middle = "".join(f"(?>.*?{piece})" for piece in rest[:-1])
    last = f".*{rest[-1]}" if rest else ""
    return re.compile(hidden + first + middle + last, re.DOTALL)
