"""Text at random and searches with random damage: a tree or a SearchSyntaxError comes out, and nothing else."""

from hypothesis import given, settings
from hypothesis import strategies as st

from quarterdeck.search.language.ast import Search
from quarterdeck.search.language.errors import SearchSyntaxError
from quarterdeck.search.language.fields import referenced_fields
from quarterdeck.search.language.parser import parse_search
from quarterdeck.search.language.printer import to_text
from tests.search.language.test_printer import ODD
from tests.search.language.trees import searches

_PIECES = st.sampled_from(
    [
        *("error", "level", "and", "OR", "not", "!", "*", "web-?", "~", "/a", "500", "-1.5", "007", "1e400", "@t"),
        *(
            "=",
            "==",
            "!=",
            "=~",
            "!~",
            "<",
            "<=",
            ">",
            ">=",
            "(",
            ")",
            "[",
            "]",
            ",",
            "|",
            "now",
            "now-1h",
            "2026-01-31",
        ),
        *("count", "count()", "sum(", "by", "as", "sort", "-r", "-c", "asc", "head", "fields", "cut", "uniq", "10"),
        *(
            '"a b"',
            "'",
            '"',
            "`",
            "`x y`",
            '"\\u00e9"',
            '"\\ud800"',
            "\\",
            '"(a"',
            "(?<n>a)",
            "é",
            "\x00",
            "\ud800",
            "\n",
        ),
    ]
)


def _survives(text: str) -> None:
    """Parse and print; what was understood must be understood again."""
    search, error = _attempt(text)
    if search is not None:
        referenced_fields(search)
        assert parse_search(to_text(search)) == search
    if error is not None:
        assert 0 <= error.span.start <= error.span.end <= len(text)
        assert len(str(error).split("\n")) == 3
        str(error).encode()


def _attempt(text: str) -> tuple[Search | None, SearchSyntaxError | None]:
    try:
        return parse_search(text), None
    except SearchSyntaxError as error:
        return None, error


@given(st.text(st.characters(), max_size=40))
@settings(max_examples=300, deadline=None)
def test_random_text_gives_a_tree_or_a_syntax_error(text: str) -> None:
    _survives(text)


@given(st.lists(_PIECES, max_size=25))
@settings(max_examples=500, deadline=None)
def test_random_words_of_the_language_give_a_tree_or_a_syntax_error(pieces: list[str]) -> None:
    _survives("".join(pieces))
    _survives(" ".join(pieces))


@given(searches(ODD), st.lists(st.tuples(st.floats(0, 1), st.integers(0, 6), _PIECES), min_size=1, max_size=4))
@settings(max_examples=300, deadline=None)
def test_a_damaged_search_gives_a_tree_or_a_syntax_error(search: Search, damage: list[tuple[float, int, str]]) -> None:
    text = to_text(search)
    for where, length, piece in damage:
        start = int(where * len(text))
        text = text[:start] + piece + text[start + length :]
    _survives(text)
