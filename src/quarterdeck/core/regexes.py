"""Regular expressions of RE2, which take time linear in the text. Only this module touches the package `re2`, which has
no types. Patterns and texts are bytes, so that each language decides about texts that are not UTF-8."""

from typing import Any

import re2  # pyright: ignore[reportMissingTypeStubs]

_MOST_CLASSES = 500
"""Of Unicode, such as `\\p{L}`, in a pattern. RE2 writes all of them out before it looks at their memory, 70 us each,
and holds the interpreter's lock meanwhile; so many of the large ones are too much memory anyway."""


class RefusedPattern(Exception):
    """A pattern that RE2 does not take."""

    def __init__(self, complaint: str, about: bytes) -> None:
        super().__init__(complaint, about)
        self.complaint = complaint
        """In RE2's words: `missing )`."""
        self.about = about
        """The part of the pattern that it complains about; empty when it names none."""


def compile_re2(pattern: bytes, *, dot_takes_newlines: bool, memory_bytes: int = 8 << 20) -> Any:
    """The compiled pattern, as the package `re2` has it; RefusedPattern when it is none, or when it takes more memory
    than it may: RE2 compiles up to 8 MiB of program in some 100 ms.

    >>> compile_re2(b"b.", dot_takes_newlines=False).search(b"abc").span()
    (1, 3)
    """
    if pattern.count(b"\\p") + pattern.count(b"\\P") > _MOST_CLASSES:
        raise RefusedPattern("pattern too large - too many classes of Unicode", b"")
    options: Any = re2.Options()  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    options.log_errors = False  # else RE2 writes to the process's standard error
    options.max_mem = memory_bytes
    options.dot_nl = dot_takes_newlines
    try:
        return re2.compile(pattern, options)  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    except re2.error as error:  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
        message: bytes = error.args[0]  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
        complaint, _, about = message.partition(b": ")  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
        raise RefusedPattern(complaint.decode(), about) from None  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]
