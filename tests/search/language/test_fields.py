"""The fields that a search reads of records, and names that were misspelled."""

import pytest

from quarterdeck.search.language.fields import nearest, referenced_fields
from quarterdeck.search.language.parser import parse_search


@pytest.mark.parametrize(
    "text, names",
    [
        ("", []),
        ('error ~"a" [now-1h,] *', []),
        ("b=1 a=2", ["b", "a"]),
        ("b=1 (a=2 or not c=* !(b=3))", ["b", "a", "c"]),
        ("a=1 | sort c, b | cut c, d | head", ["a", "c", "b", "d"]),
        ("a=1 | count(), max(c), count(d) by b | sort max_c | cut b", ["a", "c", "d", "b"]),
        ("| sort a | fields | sort field", ["a"]),
        ("| count() as n | max(n)", []),
        ("count=1 | uniq | sort a", ["count", "a"]),
        ("| uniq | sort count", ["count"]),
        ("| uniq -c | sort count, a", ["a"]),
        ("| uniq -c | max(count) by a", ["a"]),
        ("http.status=500 `a b`=1", ["http.status", "a b"]),
    ],
)
def test_fields_of_records_are_told_once_and_in_order(text: str, names: list[str]) -> None:
    assert [field.name for field in referenced_fields(parse_search(text))] == names


def test_a_field_is_told_with_its_first_place() -> None:
    (field,) = referenced_fields(parse_search("x level=a level=b"))
    assert (field.span.start, field.span.end) == (2, 7)


@pytest.mark.parametrize(
    "name, known, near",
    [
        ("levl", ["level", "time", "label"], ["level", "label"]),
        ("LEVEL", ["Level"], ["Level"]),
        ("status", ["Status", "STATUS", "x"], ["Status", "STATUS"]),
        ("aaaa1", ["aaaa", "aaa", "aaaa12", "aaaa123"], ["aaaa12", "aaaa", "aaaa123"]),
        ("nothing", ["level"], []),
        ("", ["level"], []),
        ("x", [], []),
    ],
)
def test_up_to_three_similar_names_are_found(name: str, known: list[str], near: list[str]) -> None:
    assert nearest(name, known) == near
