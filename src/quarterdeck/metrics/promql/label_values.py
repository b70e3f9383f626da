"""Which of many values of a label a matcher takes, all at once.

Arrow has the RE2 of `syntax.regex` without a call from Python for each value, which takes some thirty times as long.
What it cannot be given is matched one by one: bytes that are no text, and a pattern that does not stand between anchors
(`\\Q` without an end).
"""

from collections.abc import Callable, Sequence
from typing import Any, Final, cast

import numpy as np
import pyarrow  # pyright: ignore[reportMissingTypeStubs] - it has none
from pyarrow import compute  # pyright: ignore[reportMissingTypeStubs]

from quarterdeck.metrics.promql.blocks import Bool
from quarterdeck.metrics.promql.syntax.ast import Matcher, MatchOp
from quarterdeck.metrics.promql.syntax.matchers import accepts

_arrow: Final = cast("Any", pyarrow)
_compute: Final = cast("Any", compute)

_STRIDE: Final = 1 << 10
"""So many values are matched before it is asked whether to stop: an unkind pattern takes 50 us for each."""


def takes_each(matcher: Matcher, values: Sequence[str], watch: Callable[[], None]) -> Bool:
    """For each value whether the matcher takes it; `watch` is called now and then, and raises to stop.

    >>> takes_each(Matcher("job", MatchOp.REGEX, "a|b.*"), ["a", "ab", "bc"], lambda: None).tolist()
    [True, False, True]
    """
    if matcher.op in (MatchOp.REGEX, MatchOp.NOT_REGEX):
        try:
            matched = _matches_each(matcher.value, values, watch)
        except (_arrow.ArrowInvalid, UnicodeEncodeError):
            pass
        else:
            return matched if matcher.op is MatchOp.REGEX else ~matched
    taken = np.zeros(len(values), np.bool_)
    for index, value in enumerate(values):
        if index % _STRIDE == 0:
            watch()
        taken[index] = accepts(matcher, value)
    return taken


def _matches_each(pattern: str, values: Sequence[str], watch: Callable[[], None]) -> Bool:
    found = np.zeros(len(values), np.bool_)
    for low in range(0, len(values), _STRIDE):
        watch()
        some = _arrow.array(values[low : low + _STRIDE], _arrow.string())
        matched = _compute.match_substring_regex(some, f"^(?s:{pattern})$")
        found[low : low + _STRIDE] = matched.to_numpy(zero_copy_only=False)
    return found
