"""Kinds of work: names that capabilities give."""

import re
from typing import Final, NewType

WorkKind = NewType("WorkKind", str)
"""What a worker can be asked to do. Each capability names its own kinds; nothing here asks which they are."""

_WORK_KIND: Final = re.compile(r"[a-z][a-z0-9_-]{0,31}")


def work_kind(text: str) -> WorkKind:
    """The kind of that name; a `ValueError` when no kind can have it.

    >>> work_kind("leaf")
    'leaf'
    """
    if _WORK_KIND.fullmatch(text) is None:
        raise ValueError(
            f"{text[:40]!r} names no kind of work: at most 32 of a-z, 0-9, - and _ do, of which the first is a letter"
        )
    return WorkKind(text)
