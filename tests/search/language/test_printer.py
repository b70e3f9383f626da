"""Every tree prints as a text that parses to the same tree."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quarterdeck.search.language.ast import Search
from quarterdeck.search.language.parser import parse_search
from quarterdeck.search.language.printer import to_text
from quarterdeck.search.language.times import parse_time, show_time
from quarterdeck.search.language.values import looks_like_a_number
from tests.search.language.trees import TimePoint, Vocabulary, points, searches, vocabulary

_ODD = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
_KEYWORDS = ("and", "or", "not", "AND", "OR", "NOT", "~")


def _is_word(text: str) -> bool:
    return not (
        looks_like_a_number(text)
        or text in _KEYWORDS
        or any(char.isspace() or char in "\"'`()[]|,=!<>*?" for char in text)
    )


ODD = Vocabulary(
    fields=st.sampled_from(["a", "a.b", "and", "not", "by", "as", "desc", "count", "-r", "x y", "`", "é", "1"])
    | _ODD.filter(bool),
    words=st.sampled_from(["error", "-", "~x", "And", "/a/b", "12:30", "007", "+1", "nan", "\\", "#"])
    | _ODD.filter(lambda text: bool(text) and _is_word(text)),
    phrases=st.sampled_from(["", " ", '"', "'", "\\", "\\n", "\n\t\r", "\x00", "\U000e0001", "*", "5"]) | _ODD,
    numbers=st.sampled_from(["0", "-0", "500", "-1.5", ".5", "1e3", "1E-3", "9" * 40, "1e308", "0e5"]),
    globs=st.sampled_from(["*", "**", "?", "a*", "*.log", "~*", "/a?b"]),
    patterns=st.sampled_from(
        ["", "a|b", "\\d+", '"', "'", "\"'", "\\\\", '\\\\"', "(?i)x y", "[(?<]", "\\.", "\n", "é"]
    ),
    times=points,
)
PLAIN = vocabulary(["level", "status", "http.path"], ["error", "GET"], globs=["*", "err*"], patterns=["^a.*b$"])


@given(searches(ODD, max_stages=6))
@settings(max_examples=400, deadline=None)
def test_a_tree_of_odd_words_prints_as_a_text_that_parses_to_it(search: Search) -> None:
    assert parse_search(to_text(search)) == search


@given(searches(PLAIN))
@settings(max_examples=150, deadline=None)
def test_a_tree_of_plain_words_prints_as_a_text_that_parses_to_it(search: Search) -> None:
    assert parse_search(to_text(search)) == search


@given(points)
@settings(max_examples=300, deadline=None)
def test_a_time_prints_as_a_text_that_is_the_same_time(point: TimePoint) -> None:
    assert parse_time(show_time(point)) == point


@pytest.mark.parametrize(
    "text, printed",
    [
        ("", "*"),
        ("a  b", "a and b"),
        ("a or b c", "a or b and c"),
        ("(a or b) c", "(a or b) and c"),
        ("(a b) c", "(a and b) and c"),
        ("!(a b)", "not (a and b)"),
        ("!!a", "not not a"),
        ("((a))", "a"),
        ("x == '1'", 'x="1"'),
        ("x = ~y", "x= ~y"),
        ("x =~ y.*", 'x=~"y.*"'),
        ("!~'a\"b'", 'not ~"a\\"b"'),
        ("[now-90m,]", "[now-1h30m, ]"),
        ("[,1.5]", "[, 1970-01-01T00:00:01.500000Z]"),
        ("|COUNT(),max(a) by `b`", "* | count() as count, max(a) as max_a by b"),
        ("|sort -r a,b asc|fields a|head|uniq -c", "* | sort a desc, b | cut a | head 10 | uniq -c"),
    ],
)
def test_there_is_one_way_of_writing_for_a_tree(text: str, printed: str) -> None:
    assert to_text(parse_search(text)) == printed
    assert to_text(parse_search(printed)) == printed
