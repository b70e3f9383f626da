"""Which values of a label a matcher accepts."""

from typing import assert_never

from quarterdeck.metrics.promql.syntax.ast import Matcher, MatchOp
from quarterdeck.metrics.promql.syntax.regex import compile_matcher


def accepts(matcher: Matcher, value: str) -> bool:
    """Whether a label may have this value; of a label that is not there the value is empty.

    >>> accepts(Matcher("job", MatchOp.REGEX, "a.*"), "abc"), accepts(Matcher("job", MatchOp.NOT_EQUAL, "a"), "")
    (True, True)
    """
    match matcher.op:
        case MatchOp.EQUAL:
            return value == matcher.value
        case MatchOp.NOT_EQUAL:
            return value != matcher.value
        case MatchOp.REGEX:
            return compile_matcher(matcher.value).matches(value)
        case MatchOp.NOT_REGEX:
            return not compile_matcher(matcher.value).matches(value)
        case _:
            assert_never(matcher.op)
