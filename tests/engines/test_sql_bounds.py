"""SQL that no engine should read is refused before one does, quickly; what people write is not."""

import time
from pathlib import Path

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quarterdeck.core.errors import ErrorCode, QuarterdeckError
from quarterdeck.engines.sql_bounds import (
    MAX_DEPTH,
    MAX_LAMBDAS,
    MAX_NAME_PARTS,
    MAX_SET_OPERATIONS,
    MAX_SQL_CHARACTERS,
    MAX_TABLES,
    MAX_TOKENS,
    check_sql,
)


def refusal_of(sql: str) -> QuarterdeckError | None:
    try:
        check_sql(sql)
    except QuarterdeckError as error:
        refusal = error
    else:
        return None
    assert refusal.code is ErrorCode.INVALID_ARGUMENT
    assert not refusal.retryable
    assert "\n" not in refusal.message
    return refusal


def seconds_for(sql: str) -> float:
    """Of processor time, the best of three: other things run beside this."""
    taken = list[float]()
    for _ in range(3):
        began_s = time.thread_time()
        refusal_of(sql)
        taken.append(time.thread_time() - began_s)
    return min(taken)


# What is refused


def nested(before: str, after: str, count: int) -> str:
    return "SELECT " + before * count + "1" + after * count


TOWERS = [
    ("(", ")"),
    ("abs(", ")"),
    ("[", "]"),
    ("{'a': ", "}"),
    ("(SELECT ", ")"),
    ("EXISTS (SELECT ", ")"),
    ("CASE WHEN true THEN ", " END"),
    ("CASE WHEN true THEN 1 ELSE ", " END"),
    ("NULL::STRUCT(a ", ")"),
    ("(", ""),
    ("cAsE ", ""),
    ("( -- ''\n", ")"),
    ("(/* ' */", ")"),
    ("($$'$$ || ", ")"),
    ("('''' || ", ")"),
    (r"(e'\'' || ", ")"),
    ('("""" || ', ")"),
    ("(`'` || ", ")"),
]


@pytest.mark.parametrize("before, after", TOWERS)
def test_what_stands_too_deep_is_refused_with_its_place(before: str, after: str) -> None:
    assert refusal_of(nested(before, after, MAX_DEPTH // 2)) is None
    error = refusal_of(nested(before, after, MAX_DEPTH + 1))
    assert error is not None
    assert f"more than {MAX_DEPTH} deep" in error.message
    assert "line " in error.message
    assert "WITH" in error.message


@pytest.mark.parametrize("count", [3_000, 20_000])
def test_thousands_of_parentheses_are_refused_within_milliseconds(count: int) -> None:
    for sql in (
        nested("(", ")", count),
        nested("(", "", count),
        "SELECT 1 FROM " + "(" * count + "files" + ")" * count,
    ):
        assert refusal_of(sql) is not None
        assert seconds_for(sql) < 0.01


@pytest.mark.parametrize(
    "sql, why",
    [
        ("x" * (MAX_SQL_CHARACTERS + 1), "100,001 characters"),
        ("SELECT " + "1," * (MAX_TOKENS // 2) + "1", "more than 20,000 words and marks"),
        ("SELECT " + ",".join(["(" * 50 + "1" + ")" * 50] * 17), "too many brackets within brackets"),
        ("SELECT 1 FROM files" + " JOIN files USING (v)" * (MAX_TABLES + 1), "joins more than 100 tables"),
        ("SELECT 1 FROM files" + ", files" * (MAX_TABLES + 1), "joins more than 100 tables"),
        ("FROM files " + "cross join files " * (MAX_TABLES + 1), "joins more than 100 tables"),
        ("SELECT 1" + " UNION ALL SELECT 1" * (MAX_SET_OPERATIONS + 1), "more than 100 of UNION"),
        ("SELECT 1" + " except SELECT 1" * (MAX_SET_OPERATIONS + 1), "more than 100 of UNION"),
        (nested("list_transform([1], lambda x: ", ")", MAX_LAMBDAS + 1), "lambdas stand more than 8 deep"),
        (nested("[", " for x in [1]]", MAX_LAMBDAS + 1), "lambdas stand more than 8 deep"),
        ("SELECT a" + ".a" * MAX_NAME_PARTS, "more than 32 parts"),
        ('SELECT "a"' + ' . "a"' * MAX_NAME_PARTS, "more than 32 parts"),
        ("SELECT \x00$$ ( $$", "a character of the code 0"),
        ("SELECT 1 /* /* */ */", "a comment stands within a comment"),
        ("SELECT \N{NO-BREAK SPACE}e'\\' (((( '", "right before or within a quote's mark"),
        ("SELECT $\u00e9$ ' $\u00e9$", "right before or within a quote's mark"),
    ],
)
def test_what_would_take_long_is_refused_by_name(sql: str, why: str) -> None:
    error = refusal_of(sql)
    assert error is not None
    assert why in error.message


def test_the_place_is_told_in_lines_and_columns() -> None:
    error = refusal_of("SELECT\n  " + "(" * (MAX_DEPTH + 1))
    assert error is not None
    assert f"(line 2, column {3 + MAX_DEPTH})" in error.message


# What is not


@pytest.mark.parametrize(
    "sql",
    [
        "",
        "SELECT count(*) FROM files",
        "SELECT ')))' || '(((' || '" + "(" * 1000 + "'",
        "SELECT 1 -- " + "(" * 1000,
        "SELECT 1 /* " + "(" * 1000 + " */",
        "SELECT $$" + "(" * 1000 + "$$, $a$" + "[" * 1000 + "$$$a$",
        'SELECT "' + "(" * 1000 + '" FROM files',
        "SELECT 1 WHERE 1 IN (" + ",".join(map(str, range(9_000))) + ")",
        "VALUES " + ", ".join(f"({number}, 'x')" for number in range(3_000)),
        "SELECT " + ", ".join(f"sum(v{n}) FILTER (WHERE k = {n}) AS s{n}" for n in range(500)) + " FROM files",
        "SELECT " + ", ".join(f"a IS DISTINCT FROM b{n}" for n in range(500)) + " FROM files",
        "SELECT " + ", ".join(f"extract(year FROM t{n})" for n in range(500)) + " FROM files",
        "SELECT x.case, y AS end, (SELECT (SELECT max(z.case) FROM z)) FROM files" + " WHERE (a)" + " AND (b)" * 200,
        "SELECT " + " || ".join(["a"] * 200),
        "SELECT " + " OR ".join(f"(host = 'h{n}' AND level > {n})" for n in range(900)),
        "WITH " + ", ".join(f"c{n} AS (SELECT * FROM files WHERE v = {n})" for n in range(100)) + " SELECT * FROM c1",
        "SELECT größe, 'ä' FROM files WHERE straße = 'ß'",
        "SELECT 1.5e3, .5, a.b.c, [1, 2][1], {'a': 1}.a FROM files",
    ],
)
def test_what_people_and_their_tools_write_is_fine(sql: str) -> None:
    assert refusal_of(sql) is None


def test_every_select_in_the_documents_is_fine() -> None:
    root = Path(__file__).parents[2]
    texts = [path.read_text(encoding="utf-8") for path in [*root.glob("*.md"), *root.glob("docs/*.md")]]
    found = [line for text in texts for line in text.splitlines() if "SELECT " in line]
    assert found
    assert [sql for sql in found if refusal_of(sql)] == []


# For any text

_MARKS = [
    "(",
    ")",
    "[",
    "]",
    "{",
    "}",
    "'",
    '"',
    "`",
    "$$",
    "$a$",
    "$",
    "--",
    "/*",
    "*/",
    "\\",
    "e'",
    "E'",
    ".",
    ",",
    ";",
]
_WORDS = ["CASE", "END", "FROM", "JOIN", "UNION", "lambda", "for", "a", "1", "1.5", "é"]
_BLANKS = ["\n", "\r", " ", "\N{NO-BREAK SPACE}", "\N{LINE SEPARATOR}"]
_PIECES = st.sampled_from([*_MARKS, *_WORDS, *_BLANKS])
_TEXTS = st.lists(_PIECES, max_size=60).map("".join)


@settings(deadline=None)
@given(st.one_of(_TEXTS, st.text(max_size=200)))
def test_any_text_is_fine_or_refused_and_nothing_else(sql: str) -> None:
    refusal_of(sql)


@settings(deadline=None, max_examples=50)
@given(_TEXTS)
def test_the_time_is_linear_in_the_length(piece: str) -> None:
    """A text that is long and made of whatever, however often: never more than some microseconds a character."""
    sql = (piece or "x") * (MAX_SQL_CHARACTERS // len(piece or "x"))
    assert seconds_for(sql) < 0.5


def depth_for_duckdb(sql: str) -> int:
    """How deep parentheses stand, as DuckDB's tokens have it."""
    tokens = [place for place, kind in duckdb.tokenize(sql) if kind == duckdb.token_type.operator]
    data = sql.encode()
    depth = deepest = 0
    for place in tokens:
        mark = data[place : place + 1]
        depth += (mark in b"([{") - (mark in b")]}" and depth > 0)
        deepest = max(deepest, depth)
    return deepest


_HIDING = st.lists(
    st.sampled_from(["'", "''", '"', "$$", "$a$", "--", "\n", "\r", "/*", "*/", " ", "\\", "e'", "E'", "a", "5", "e"]),
    max_size=12,
).map("".join)


@settings(deadline=None, max_examples=500)
@given(_HIDING, _HIDING)
def test_what_duckdb_sees_is_never_hidden_from_us(before: str, after: str) -> None:
    sql = f"SELECT {before} {'(' * (MAX_DEPTH + 1)} {after}"
    if depth_for_duckdb(sql) > MAX_DEPTH:
        assert refusal_of(sql) is not None
