"""DuckDB, which runs the expressions, takes every one that the parser takes."""

import random

import duckdb

from quarterdeck.search.language.ast import Compare, Field, Op, Regex, Search
from quarterdeck.search.language.errors import SearchSyntaxError
from quarterdeck.search.language.parser import parse_search
from quarterdeck.search.language.printer import to_text

_PIECES = [
    *(
        "a",
        "é",
        "😀",
        "\x00",
        "\n",
        ".",
        "^",
        "$",
        "|",
        "(",
        ")",
        "[",
        "]",
        "[^",
        "-",
        "*",
        "+",
        "?",
        "{2}",
        "{1,}",
        "{500}",
    ),
    *(
        "(?i)",
        "(?s)",
        "(?:",
        "(?P<n>",
        "(?<n>",
        "(?<",
        "(?=",
        "[:alpha:]",
        "\\d",
        "\\pL",
        "\\p{Greek}",
        "\\b",
        "\\z",
        "\\C",
    ),
    *("\\Q", "\\E", "\\", "\\1", "\\.", "\\x{e9}", "\\u", "{", "}", ",", "<", ":"),
]


def _is_taken(pattern: str) -> bool:
    try:
        parse_search(to_text(Search(Compare(Field("x"), Op.MATCH, Regex(pattern)))))
    except SearchSyntaxError:
        return False
    return True


def test_duckdb_takes_what_the_parser_takes() -> None:
    chance = random.Random(1)
    patterns = {"".join(chance.choices(_PIECES, k=chance.randint(0, 6))) for _ in range(3000)}
    taken = sorted(pattern for pattern in patterns if _is_taken(pattern))
    assert len(taken) > 500
    with duckdb.connect(config={"threads": 1}) as database:
        for pattern in taken:
            database.execute("select regexp_matches('text', $1)", [pattern]).fetchall()
