"""Values of a label matched all at once: the same answers as one by one."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from quarterdeck.metrics.promql.label_values import takes_each
from quarterdeck.metrics.promql.syntax.ast import Matcher, MatchOp
from quarterdeck.metrics.promql.syntax.matchers import accepts
from quarterdeck.metrics.promql.syntax.regex import InvalidRegex, compile_anchored

PIECES = (
    "a",
    "B",
    "é",
    ".",
    ".*",
    "[0-9]",
    "^",
    "$",
    "|",
    "(",
    ")",
    "(?i)",
    r"\n",
    "\n",
    "x{2}",
    r"\Q.",
    r"\E",
    r"\b",
    r"\pL",
)


def never() -> None:
    """Nobody stops."""


@given(st.sampled_from(MatchOp), st.lists(st.sampled_from(PIECES), max_size=6), st.lists(st.text("aBé.\n0x\udcff")))
@example(MatchOp.REGEX, ["a", ".", "B"], ["a\nB", "aéB", "aB"])
@example(MatchOp.REGEX, ["a", "|", "B"], ["a", "aB", "Ba", "a\n"])
@example(MatchOp.REGEX, [r"\Q."], [".", "a", ".*"])
@example(MatchOp.NOT_REGEX, ["."], ["\udcff", "\n", "é", ""])
def test_all_at_once_is_as_one_by_one(op: MatchOp, pieces: list[str], values: list[str]) -> None:
    pattern = "".join(pieces)
    try:
        compile_anchored(pattern)
    except InvalidRegex:
        return  # such a matcher is refused with its query
    matcher = Matcher("l", op, pattern)
    assert takes_each(matcher, values, never).tolist() == [accepts(matcher, value) for value in values]


@pytest.mark.parametrize("pattern", ["v.*", r"\Qv"])
def test_matching_can_be_stopped_on_the_way(pattern: str) -> None:
    asked = 0

    def watch() -> None:
        nonlocal asked
        asked += 1
        if asked == 3:
            raise InterruptedError

    with pytest.raises(InterruptedError):
        takes_each(Matcher("l", MatchOp.REGEX, pattern), [f"v{i}" for i in range(100_000)], watch)
