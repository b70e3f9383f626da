"""Patterns for a metric's name, as people write them."""

import re
from fnmatch import translate


def name_pattern(text: str) -> re.Pattern[str]:
    """What a name may be like: with `*` and `?` it is like all of it, without them it is a part of it.

    >>> bool(name_pattern("a_*_c").fullmatch("a_b_c")), bool(name_pattern("b").fullmatch("a_b_c"))
    (True, True)
    """
    is_part = not set("*?") & set(text)
    return re.compile(translate((f"*{text}*" if is_part else text).replace("[", "[[]")))
