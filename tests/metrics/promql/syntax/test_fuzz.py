"""Text at random and queries with random damage: a tree or a ParseError comes out, and nothing else."""

from hypothesis import given, settings
from hypothesis import strategies as st

from quarterdeck.metrics.promql.errors import ParseError
from quarterdeck.metrics.promql.plan.rules.check_types import check_types
from quarterdeck.metrics.promql.syntax.ast import Expr
from quarterdeck.metrics.promql.syntax.parser import parse
from quarterdeck.metrics.promql.syntax.printer import show

_PIECES = st.sampled_from(
    [
        *("foo", "a:b", "sum", "topk", "by", "without", "on", "ignoring", "group_left", "fill", "bool", "offset"),
        *(
            "rate",
            "time",
            "start",
            "end",
            "step",
            "and",
            "or",
            "atan2",
            "inf",
            "NaN",
            "anchored",
            "smoothed",
            "min_of",
            "range",
        ),
        *("(", ")", "[", "]", "{", "}", ",", ":", "=", "==", "!=", "=~", "!~", "<", "</", ">/", "@", "+", "-", "^"),
        *("1", "0x1f", "017", "1e3", "5m", "1h30m", "1_0", "1.5.", "0x", '"a"', "'b'", "`c`", '"\\x"', '"', "'"),
        *(" ", "\n", "#", "\\", "é", "\x00", "\ud800", "__name__", '"(.*"'),
    ]
)
_QUERIES = st.sampled_from(
    [
        'sum by (job, "a.b") (rate(http_requests_total{code=~"5..",method!="GET"}[5m] offset -1h @ 1.5)) / on () foo',
        "histogram_quantile(0.9, sum without (le) (rate(x_bucket[1h30m:5s] @ start())))",
        'foo == bool on (a) group_left ("b") fill_left (-1) fill_right (2) -bar ^ 2 atan2 {"x.y", "z"!~`a|b`}',
        "delta(foo[1h / (2 + step()):-5m + 10m] offset -(min_of(step(), 1s) * 2) @ end()) + a smoothed offset (1m) ^ 2",
        'label_replace(up, "a", "$1", "b", "(.*)") and count_values("v", foo) unless topk(5, bar) # comment',
    ]
)


def _survives(text: str) -> None:
    """Parse, check and print; what was understood must be understood again."""
    tree, error = _attempt(text)
    if tree is not None:
        assert parse(show(tree)) == tree
    if error is not None:
        assert 0 <= error.span.start <= error.span.end <= len(text)
        assert str(error)


def _attempt(text: str) -> tuple[Expr | None, ParseError | None]:
    tree = None
    try:
        tree = parse(text)
        check_types(tree, text)
    except ParseError as error:
        return tree, error
    return tree, None


@given(st.text(st.characters(), max_size=40))
@settings(max_examples=300, deadline=None)
def test_random_text_gives_a_tree_or_a_parse_error(text: str) -> None:
    _survives(text)


@given(st.lists(_PIECES, max_size=25))
@settings(max_examples=800, deadline=None)
def test_random_words_of_the_language_give_a_tree_or_a_parse_error(pieces: list[str]) -> None:
    _survives("".join(pieces))
    _survives(" ".join(pieces))


@given(_QUERIES, st.lists(st.tuples(st.floats(0, 1), st.integers(0, 6), _PIECES), min_size=1, max_size=4))
@settings(max_examples=500, deadline=None)
def test_a_damaged_query_gives_a_tree_or_a_parse_error(query: str, damage: list[tuple[float, int, str]]) -> None:
    for where, length, piece in damage:
        start = int(where * len(query))
        query = query[:start] + piece + query[start + length :]
    _survives(query)
