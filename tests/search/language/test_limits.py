"""Searches made to hurt: all are answered at once, and none exhausts Python's stack."""

import inspect
import sys
import time
from collections.abc import Iterator

import pytest

from quarterdeck.search.language.cursor import MAX_CONDITIONS, MAX_DEPTH
from quarterdeck.search.language.errors import SearchSyntaxError
from quarterdeck.search.language.fields import referenced_fields
from quarterdeck.search.language.parser import MAX_LENGTH, parse_search
from quarterdeck.search.language.printer import to_text
from quarterdeck.search.language.stages import MAX_AGGREGATES, MAX_FIELDS, MAX_GROUPS, MAX_STAGES
from quarterdeck.search.language.values import MAX_REGEXES

_DEEP = f"parentheses and `not` stand more than {MAX_DEPTH} deep within each other"

_MANY = f"there are more than {MAX_CONDITIONS} conditions"
_STAGES = f"the search has more than {MAX_STAGES} stages, the keys of its sorts counted"


@pytest.mark.parametrize(
    "text, column, reason",
    [
        ("(" * MAX_LENGTH, MAX_DEPTH + 1, _DEEP),
        ("!" * MAX_LENGTH, MAX_DEPTH + 1, _DEEP),
        ("not " * (MAX_LENGTH // 4), 4 * MAX_DEPTH + 1, _DEEP),
        ("!(" * (MAX_LENGTH // 2), MAX_DEPTH + 1, _DEEP),
        ("(a " * (MAX_LENGTH // 3), 3 * MAX_DEPTH + 1, _DEEP),
        ("x" * (MAX_LENGTH + 1), 1, "the search has 100001 characters, and 100000 are allowed"),
        ("x" * 99_998 + "=1", 1, "the name of a field has 99998 characters, and 1000 are allowed"),
        ("a.b." * 24_999 + "=1", 1, "the name of a field has 99996 characters, and 1000 are allowed"),
        ("| " + "x" * 99_998, 3, f"there is no stage `{'x' * 37}...`"),
        ("| head " + "9" * 99_000, 8, f"`{'9' * 37}...` is not a number of records"),
        ("[" + "9" * 99_000 + ",]", 2, f"`{'9' * 37}...` was not understood as a time: it is not a time"),
        ("[now-" + "9" * 99_000 + "h,]", 2, f"`now-{'9' * 33}...` was not understood as a time: it is not a time"),
        ('"' + "\\a" * 49_999, 1, "a quoted text begins here and does not end"),
        ("`" + "``" * 49_999, 1, "a name in backquotes begins here and does not end"),
        ("~'" + "(" * 99_000 + "'", 3, "the regular expression is not valid: missing )"),
        ("~'" + "[" * 99_000 + "'", 3, "the regular expression is not valid: missing ]"),
        ('~"(a{1000}){100}"', 12, "the regular expression is not valid: invalid repetition size"),
        ("a " * 50_000, 2 * MAX_CONDITIONS + 1, _MANY),
        ("a or " * 19_999 + "a", 5 * MAX_CONDITIONS + 1, _MANY),
        ("x=1 " * 25_000, 4 * MAX_CONDITIONS + 1, _MANY),
        ("[,]" * 33_333, 3 * MAX_CONDITIONS + 1, _MANY),
        ("(a)" * 33_333, 3 * MAX_CONDITIONS + 2, _MANY),
        ("| head" * 16_000, 6 * MAX_STAGES + 1, _STAGES),
        ("a | sort " + ",".join(["b"] * (MAX_STAGES + 1)), 3, _STAGES),
        ("a | cut " + ",".join(f"f{n}" for n in range(7_000)), 399, f"there are more than {MAX_FIELDS} fields"),
        ("a | count() by " + ",".join(f"f{n}" for n in range(7_000)), 86, f"there are more than {MAX_GROUPS} fields"),
        ("a | " + ",".join(f"sum(f{n})" for n in range(5_000)), 445, f"there are more than {MAX_AGGREGATES} functions"),
        ('~"a" ' * (MAX_REGEXES + 1), 5 * MAX_REGEXES + 2, f"there are more than {MAX_REGEXES} regular expressions"),
    ],
    ids=lambda value: str(value)[:12],
)
def test_an_outrageous_search_is_refused_at_once(text: str, column: int, reason: str) -> None:
    started = time.process_time()
    with pytest.raises(SearchSyntaxError) as caught:
        parse_search(text)
    assert (caught.value.reason, caught.value.column) == (reason, column)
    assert len(str(caught.value)) < 1500
    assert time.process_time() - started < 1


@pytest.mark.parametrize(
    "text",
    [
        ("a " + " " * 390) * MAX_CONDITIONS,
        "a or " * (MAX_CONDITIONS - 1) + "a",
        ("x=" + "1" * 390 + " ") * MAX_CONDITIONS,
        " " * MAX_LENGTH,
        "x" * MAX_LENGTH,
        "*" * MAX_LENGTH,
        "x=" + "9" * 99_000,
        "x=" + "0." + "0" * 99_000,
        "[1970-01-01T00:00:00." + "9" * 99_000 + ",]",
        '"' + "\\u0041" * 16_600 + '"',
        '"' + "\\\\" * 49_000 + '"',
        '"' + "\\ud83d\\ude00" * 8_300 + '"',
        "`" + "``" * 999 + "`=1",
        "| head" * MAX_STAGES,
        "| count() as n | cut n" + "| sort n" * (MAX_STAGES - 2),
        ("| cut " + ",".join(f"f{index:0300}" for index in range(MAX_FIELDS))) * 2,
        "| count(), " + ",".join(f"max(a) as f{index:0900}" for index in range(MAX_AGGREGATES - 1)),
        "| cut a" + "| sort a" + ".a" * 400,
        "~\"" + "[(?<]\\(?<" * 2_000 + "\"",
        "~'" + "(a|b)" * 400 + "'",
    ],
    ids=lambda value: str(value)[:12],
)  # fmt: skip
def test_a_long_search_is_understood_within_seconds(text: str) -> None:
    started = time.process_time()
    referenced_fields(parse_search(text))
    assert time.process_time() - started < 3


def test_twice_the_text_takes_about_twice_the_time() -> None:
    def seconds(text: str) -> float:
        took: list[float] = []
        for _ in range(3):
            started = time.process_time()
            parse_search(text)
            took.append(time.process_time() - started)
        return min(took)

    part = 'level=error and (status>=500 or "connection %s reset") not debug '
    short, long = (part % ("of a peer " * length) * 50 for length in (10, 160))
    assert seconds(long) < 16 * seconds(short) * 4


@pytest.fixture
def little_stack() -> Iterator[None]:
    """Python's stack as a server leaves it: 250 frames are in use before a search comes."""
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(len(inspect.stack(0)) + 750)
    yield
    sys.setrecursionlimit(limit)


@pytest.mark.parametrize(
    "text",
    [
        "(" * MAX_DEPTH + "a" + ")" * MAX_DEPTH,
        "!" * MAX_DEPTH + "a",
        "x=1 or y (" * MAX_DEPTH + "a" + ")" * MAX_DEPTH,
        "b !(" * (MAX_DEPTH // 2) + "x=1" + ")" * (MAX_DEPTH // 2),
    ],
    ids=lambda value: str(value)[:12],
)
@pytest.mark.usefixtures("little_stack")
def test_the_deepest_search_is_parsed_printed_and_compared_within_the_stack(text: str) -> None:
    search = parse_search(text)
    assert parse_search(to_text(search)) == search
    assert hash(search) == hash(parse_search(text))
    assert repr(search)
    assert len(referenced_fields(search)) <= 1
