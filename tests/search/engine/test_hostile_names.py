"""No value and no name of a field becomes anything but itself. `test_contained_search` sends the same texts to a
process of its own."""

import json
from typing import Any

import pytest

from tests.search.engine.searched import IN_THIS_PROCESS, Bench, whole

WAYS = IN_THIS_PROCESS
pytestmark = pytest.mark.usefixtures("gathered_in_one_database")

HOSTILE = [
    "'",
    '"',
    "''; DROP TABLE parts; --",
    '"); SELECT 1; --',
    "$p0",
    "$1",
    "?",
    "%s",
    "{}",
    "{0}",
    "\\",
    "\\'",
    "a\nb",
    "a\tb",
    "\u0000",
    "é\U0001f600",
    "a/b~c",
    "~1",
    "*",
    "[0]",
    "0",
    "#",
    "$",
    "line",
    "mark",
    "f0",
    "count(*)",
    "NULL",
    "null",
    " ",
    "  a ",
    "/*",
    "--",
    ";",
]

HOSTILE_FILES = ["a*b.ndjson", "a[1].ndjson", "a?.ndjson", "a'b;.ndjson", "a b.ndjson", "é.ndjson"]


def quoted(text: str) -> str:
    return json.dumps(text)


def backquoted(name: str) -> str | None:
    """As a search can say it, if it can."""
    return None if "`" in name or "\n" in name or "\u0000" in name else f"`{name}`"


@pytest.mark.parametrize("text", HOSTILE)
def test_a_value_is_itself(bench: Bench, text: str) -> None:
    other = text + "x"
    lines = [{"v": text, "n": 1}, {"v": other, "n": 2}]
    assert [row["n"] for row in bench.found(f"v={quoted(text)}", *lines).rows] == [1]
    assert [row["n"] for row in bench.found(f"v!={quoted(text)}", *lines).rows] == [2]
    assert [row["n"] for row in bench.found(f"v>{quoted(text)}", *lines).rows] == [2]
    assert [row["n"] for row in bench.found(quoted(text), *lines).rows] == [1, 2]
    assert [row["n"] for row in bench.found(f"v={quoted(text)} | sort v | head 1", *lines).rows] == [1]
    groups = bench.found("| count() by v", *lines).rows
    assert sorted(row["v"] for row in groups) == sorted([text, other])


@pytest.mark.parametrize("name", HOSTILE)
def test_a_name_of_a_field_is_itself(bench: Bench, name: str) -> None:
    field = backquoted(name)
    if field is None:
        pytest.skip("no search can name it")
    lines: list[dict[str, Any]] = [{name: 5, "n": 1}, {name + "x": 5, "n": 2}, {"n": 3}]
    chunk = [[whole(bench.write("log.ndjson", *lines))]]
    assert [row["n"] for row in bench.search(f"{field}=5", chunk).rows] == [1]
    assert [row["n"] for row in bench.search(f"not {field}=*", chunk).rows] == [2, 3]
    assert bench.search(f"| cut {field}", chunk).rows == [{name: 5}]
    assert bench.search(f"| count() by {field}", chunk).rows == [{name: 5, "count": 1}, {name: None, "count": 2}]
    assert bench.search(f"| sum({field}) as s, max({field}) as m", chunk).rows == [{"s": 5, "m": 5}]
    assert bench.search(f"| sort {field} desc | head 1 | cut n", chunk).rows == [{"n": 1}]
    assert bench.search("", chunk, ask_about=[name]).seen == {name}


def test_names_that_differ_in_case_are_two(bench: Bench) -> None:
    lines = [{"Level": "a", "level": "b"}, {"level": "c"}]
    assert bench.found("| count() by Level, level", *lines).rows == [
        {"Level": "a", "level": "b", "count": 1},
        {"Level": None, "level": "c", "count": 1},
    ]
    assert bench.found("| count() by LEVEL", *lines).rows == [{"LEVEL": None, "count": 2}]


@pytest.mark.parametrize("name", HOSTILE_FILES)
def test_the_name_of_a_file_is_no_pattern(bench: Bench, name: str) -> None:
    bench.write("a1.ndjson", {"id": 2})
    bench.write("axb.ndjson", {"id": 3})
    hostile = bench.write(name, {"id": 1}, "bad")
    for chunk in ([whole(hostile)], [whole(hostile), whole(bench.write("z.ndjson", {"id": 9}))]):
        answer = bench.search("", [chunk])
        assert answer.rows[0] == {"id": 1}
        assert len(answer.rows) == len(chunk)
        assert [(problem.url, problem.lines) for problem in answer.problems] == [(str(hostile), 1)]
