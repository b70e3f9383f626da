"""Every node knows where it stands in the text."""

import dataclasses
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings

from quarterdeck.search.language.ast import Search, SortKey
from quarterdeck.search.language.parser import parse_search
from quarterdeck.search.language.printer import to_text
from tests.search.language.test_printer import ODD
from tests.search.language.trees import searches


def nodes(node: Any) -> Iterator[Any]:
    """All nodes below one, and itself."""
    if isinstance(node, tuple):
        for part in node:  # pyright: ignore[reportUnknownVariableType]
            yield from nodes(part)
    elif dataclasses.is_dataclass(node) and not isinstance(node, type):
        if not isinstance(node, Search | SortKey):
            yield node
        for member in dataclasses.fields(node):
            if member.name != "span":
                yield from nodes(getattr(node, member.name))


def pieces(text: str) -> list[tuple[str, str]]:
    """The kind of each node and the text it stands on."""
    found = nodes(parse_search(text))
    return [(type(node).__name__, text[node.span.start : node.span.end]) for node in found]


@pytest.mark.parametrize(
    "text, expected",
    [
        ("", [("Everything", "")]),
        (" * ", [("Everything", "*")]),
        (" | head", [("Everything", ""), ("Head", "head")]),
        (
            "a or (b !c) ",
            [
                ("Or", "a or (b !c)"),
                ("Contains", "a"),
                ("Text", "a"),
                ("And", "b !c"),
                ("Contains", "b"),
                ("Text", "b"),
                ("Not", "!c"),
                ("Contains", "c"),
                ("Text", "c"),
            ],
        ),
        (
            "not (`x y` = 'é') ~\"z\"",
            [
                ("And", "not (`x y` = 'é') ~\"z\""),
                ("Not", "not (`x y` = 'é')"),
                ("Compare", "`x y` = 'é'"),
                ("Field", "`x y`"),
                ("Text", "'é'"),
                ("Contains", '~"z"'),
                ("Regex", '"z"'),
            ],
        ),
        ("x=5", [("Compare", "x=5"), ("Field", "x"), ("Number", "5")]),
        ("x=5*", [("Compare", "x=5*"), ("Field", "x"), ("Glob", "5*")]),
        (
            "[ now - 1h , 2026-01-31 12:00 ]",
            [
                ("TimeRange", "[ now - 1h , 2026-01-31 12:00 ]"),
                ("TimePoint", "now - 1h"),
                ("TimePoint", "2026-01-31 12:00"),
            ],
        ),
        (
            "* | count( ) as n , max( a ) by b , c | sort -r b desc , n | cut b , n | fields",
            [
                ("Everything", "*"),
                ("Summarize", "count( ) as n , max( a ) by b , c"),
                ("Aggregate", "count( ) as n"),
                ("Aggregate", "max( a )"),
                ("Field", "a"),
                ("Field", "b"),
                ("Field", "c"),
                ("Sort", "sort -r b desc , n"),
                ("Field", "b"),
                ("Field", "n"),
                ("Cut", "cut b , n"),
                ("Field", "b"),
                ("Field", "n"),
                ("ListFields", "fields"),
            ],
        ),
        ("*|tail 5|uniq -c", [("Everything", "*"), ("Tail", "tail 5"), ("Uniq", "uniq -c")]),
    ],
)
def test_a_node_stands_on_its_own_text(text: str, expected: list[tuple[str, str]]) -> None:
    assert pieces(text) == expected


@given(searches(ODD))
@settings(max_examples=150, deadline=None)
def test_every_node_of_any_search_has_a_place_within_the_text(search: Search) -> None:
    text = to_text(search)
    for node in nodes(parse_search(text)):
        assert 0 <= node.span.start < node.span.end <= len(text)
