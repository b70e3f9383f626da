"""SQL that is divided among parts and merged gives what DuckDB alone gives over all files: rows, names and types."""

import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import duckdb
import pyarrow  # pyright: ignore[reportMissingTypeStubs] - it has none
import pytest

from quarterdeck.core.errors import QuarterdeckError
from quarterdeck.engines import sql_aggregates
from quarterdeck.engines.scan_file import PathColumn, ScanFile
from quarterdeck.engines.sql_way import Way
from quarterdeck.scan.path_columns import path_columns
from tests.engines import sql_lake
from tests.engines.divided import Crew, alone, write
from tests.engines.fuzz_sql import judged
from tests.engines.kept_database import connected
from tests.engines.same_answer import difference
from tests.engines.sql_lake import Lake
from tests.engines.wild_sql import WildQuestions

SEEDS = range(6)
QUESTIONS = 25
"""For each seed."""

COLUMNS = ["a", "g", "ut", "d", "f", "e", "b", "h", "s", "dt", "ts", "tz", "bo", "en", "l", "st", "ti", "ub", "uu"]
NUMBERS = ["a", "g", "ut", "f", "e", "b", "h", "ub"]
KEYS = [
    *("g", "s", "bo", "dt", "ut", "en", "l", "uu", "ts", "d", "a % 3", "upper(s)", "date_trunc('month', ts)"),
    *("coalesce(g, -1)", "f", "st", "h", "e", "g + ut", "s || 'x'", "ti"),
]
WHERES = ["", "", "WHERE a > 10", "WHERE g IS NOT NULL", "WHERE false", "WHERE d < 3 AND s = 'x'", "WHERE s LIKE '%x%'"]
RELATIONS = ["files", "files", "files f", "(SELECT * FROM files WHERE ut <> 1) q", "files, range(2) r(z)"]
_pa: Any = pyarrow
ABOUT = ("stddev", "var_pop", "sem", "skewness", "corr", "avg(d)")
"""What DuckDB itself rounds in one way or another, by how its threads share the rows."""


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Sequence[ScanFile]:
    return sql_lake.of_one_kind(tmp_path_factory.mktemp("lake")).files


@pytest.fixture(scope="module")
def lakes(tmp_path_factory: pytest.TempPathFactory) -> list[Lake]:
    makers = (sql_lake.of_one_kind, sql_lake.of_several_kinds, sql_lake.of_folders, sql_lake.of_other_orders)
    return [make(tmp_path_factory.mktemp("lakes")) for make in makers]


@pytest.fixture(scope="module")
def crew(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Crew]:
    crew = Crew(tmp_path_factory.mktemp("crew"))
    yield crew
    crew.close()


def check_same(got: Any, wanted: Any, sql: str, *, is_sorted: bool) -> None:
    is_about = any(word in sql for word in ABOUT)
    assert (sql, difference(got, wanted, is_sorted=is_sorted, is_about=is_about)) == (sql, None)


class Questions:
    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)

    def next(self) -> tuple[str, bool]:
        """A question, and whether its rows have an order."""
        pick = self._chance.choices((self._grouped, self._distinct, self._sorted, self._first), (12, 3, 4, 1))[0]
        return pick()

    def _aggregate(self) -> str:
        one = self._chance.choice
        number = one(NUMBERS)
        call = one(
            [
                *("count(*)", f"count({one(COLUMNS)})", f"min({one(COLUMNS)})", f"max({one(COLUMNS)})"),
                *(f"sum({number})", f"avg({one([*NUMBERS, 'dt', 'ts', 'tz', 'ti', 'd'])})", f"avg(DISTINCT {number})"),
                *(f"count(DISTINCT {one(COLUMNS)})", f"sum(DISTINCT {number})", "bool_and(bo)", "bool_or(a % 3 = 1)"),
                *("bit_xor(a)", "bit_or(b)", "count_if(bo)", "max(1)", "corr(a, f)", "regr_count(a, f)"),
                f"{one(['stddev', 'var_pop', 'sem', 'skewness'])}({one(['a', 'e', 'f'])})",
            ]
        )
        if self._chance.random() < 0.2:
            call += f" FILTER (WHERE {one(['g = 1', 'a > 20', 's IS NULL', 'false'])})"
        return call

    def _grouped(self) -> tuple[str, bool]:
        one, chance = self._chance.choice, self._chance.random
        keys = [one(KEYS) for _ in range(one([0, 1, 1, 2]))]
        items = [f"{key} AS k{at}" if chance() < 0.5 else key for at, key in enumerate(keys)]
        items += [self._aggregate() for _ in range(one([1, 2, 3]))]
        items += one([[], [], ["sum(a) / count(*)"], ["round(avg(e), 2) AS ra", "max(a) - min(a) AS spread"]])
        groups = [f"GROUP BY {', '.join(keys)}", f"GROUP BY {', '.join(str(at + 1) for at in range(len(keys)))}"]
        group = one([*groups, "GROUP BY ALL"]) if keys else ""
        having = one(["", "", "", "HAVING count(*) > 3", "HAVING sum(a) > 50", "HAVING max(f) > 1 AND count(*) < 1000"])
        distinct = one(["", "", "DISTINCT "])
        sql = f"SELECT {distinct}{', '.join(items)} FROM {one(RELATIONS)} {one(WHERES)} {group} {having}"
        return self._ordered(sql) if chance() < 0.5 else (sql, False)

    def _ordered(self, sql: str) -> tuple[str, bool]:
        one = self._chance.choice
        end = one(["", " LIMIT 0", " LIMIT 3", " LIMIT 4 OFFSET 2", " OFFSET 3"])
        return f"{sql} ORDER BY ALL{one(['', ' DESC', ' NULLS FIRST'])}{end}", True

    def _distinct(self) -> tuple[str, bool]:
        columns = ["a", "g", "s", "upper(s) u", "d", "a % 5 m", "dt", "st", "l", "en", "e", "h", "uu", "tz", "*"]
        items = self._chance.sample(columns, self._chance.choice([1, 2]))
        chosen = "*" if "*" in items else ", ".join(items)
        sql = f"SELECT DISTINCT {chosen} FROM {self._chance.choice(RELATIONS)} {self._chance.choice(WHERES)}"
        return self._ordered(sql) if self._chance.random() < 0.6 else (sql, False)

    def _sorted(self) -> tuple[str, bool]:
        """By something that leaves no two rows equal: which of them comes first is not said."""
        columns = ["a", "g", "s", "upper(s) u", "d", "b", "dt", "ts", "e", "h", "en", "*"]
        items = self._chance.sample(columns, self._chance.choice([1, 2, 3]))
        chosen = "*" if "*" in items else ", ".join(items)
        orders = ["g DESC", "s NULLS LAST", "d", "d DESC NULLS LAST", "length(s)", "-a", "en DESC", "f", "dt DESC"]
        order = ", ".join([*self._chance.sample(orders, self._chance.choice([0, 1, 2])), "a", "b", "ts", "ut"])
        where, end = (
            self._chance.choice(WHERES),
            self._chance.choice(["", " LIMIT 7", " LIMIT 3 OFFSET 5", " OFFSET 4"]),
        )
        return f"SELECT {chosen} FROM files {where} ORDER BY {order}{end}", True

    def _first(self) -> tuple[str, bool]:
        limit, end = self._chance.choice([0, 1, 20, 1000]), self._chance.choice(["", " OFFSET 3"])
        return f"SELECT a, s FROM files {self._chance.choice(WHERES)} LIMIT {limit}{end}", True


@pytest.mark.parametrize("seed", SEEDS)
def test_random_questions_have_the_answers_that_duckdb_gives_alone(
    crew: Crew, files: Sequence[ScanFile], seed: int
) -> None:
    questions, groups = Questions(seed), (1, 2, 3, 6)[seed % 4]
    size = len(files) // groups
    divided = [files[at : at + size] for at in range(0, len(files), size)]
    merged = 0
    for _ in range(QUESTIONS):
        sql, is_sorted = questions.next()
        try:
            wanted = alone(sql, files)
        except duckdb.Error:
            wanted = None
        if wanted is None or len(set(wanted.column_names)) < wanted.num_columns:
            with pytest.raises(QuarterdeckError):
                crew.answer(sql, divided)
            continue
        plan, got = crew.answer(sql, divided)
        assert plan.way in (Way.MERGED, Way.FIRST), (sql, plan.why)
        check_same(got, wanted, sql, is_sorted=is_sorted)
        merged += plan.way is Way.MERGED
    assert merged > QUESTIONS // 2


@pytest.mark.parametrize("seed", range(5))
def test_wild_questions_have_the_answers_that_duckdb_gives_alone_or_none(
    crew: Crew, lakes: list[Lake], seed: int
) -> None:
    """Many more: `make fuzz-sql`."""
    lake = lakes[(0, 0, 1, 2, 3)[seed]]
    questions = WildQuestions(seed, [column.name for column in lake.columns])
    for _ in range(40):
        question = questions.next()
        verdict = judged(crew, lake, question, 3 if seed == 0 else 2)
        assert (question.sql, verdict.difference) == (question.sql, None)


@pytest.mark.parametrize(
    "sql",
    [
        'SELECT "Ä", "ä", count(*) FROM (SELECT g AS "Ä", ut AS "ä" FROM files) GROUP BY ALL',
        "SELECT count(*) AS a FROM files WHERE a > 20",
        "SELECT max(b) FILTER (WHERE a > 20) AS m, count(*) AS a FROM files",
        "SELECT count(*) AS a, sum(a) AS total FROM files",
        "SELECT a FROM files LIMIT 9223372036854775807 OFFSET 1",
        "SELECT avg(NULL), sum(NULL) FROM files",
        "SELECT g, now() > '2020-01-01' FROM files GROUP BY g",
        "SELECT count(*) FROM files WHERE ts < now()",
        "SELECT now, count(*) FROM (SELECT g AS now FROM files) GROUP BY now",
        "SELECT a FROM files WHERE s COLLATE nocase = 'X'",
        "SELECT (SELECT max(t.x) FROM unnest(l) t(x)) m FROM files",
        "SELECT g.abs(), count(*) FROM files GROUP BY g HAVING g.abs() > 0 ORDER BY g.abs()",
        "SELECT st.p.abs(), files.g.abs(), a.sum() FROM files GROUP BY st.p, g",
        "SELECT s.upper(), s.upper().lower() FROM files LIMIT 1000",
        "SELECT 'c' AS k, k || 'd' AS m, count(*) FROM files WHERE false GROUP BY ALL",
        "SELECT list_transform(l, lambda x: x + 1) AS k, count(*) FROM files GROUP BY ALL",
        "SELECT 5 AS k, g, count(*) + 5 AS n FROM files WHERE false GROUP BY ALL",
        "SELECT 5 AS k, g, random() > 2 AS r, count(*) + 5 AS n FROM files GROUP BY ALL",
        "SELECT avg(g::VARCHAR::BIGNUM), avg(g::VARIANT) FROM files",
    ],
)
def test_what_is_divided_has_the_answer_that_duckdb_gives_alone(
    crew: Crew, files: Sequence[ScanFile], sql: str
) -> None:
    plan, got = crew.answer(sql, [files[:3], files[3:]])
    assert plan.way is not Way.TOGETHER, plan.why
    check_same(got, alone(sql, files), sql, is_sorted=False)


def test_the_rows_to_merge_have_no_more_columns_and_rows_than_are_needed(crew: Crew) -> None:
    plan = crew.plan("SELECT g, median(a) AS m FROM files WHERE s = 'x' GROUP BY g ORDER BY m, files.b LIMIT 3")
    assert plan.advice is not None
    assert plan.advice[0] == "SELECT a, b, g, s FROM files WHERE (s = 'x')"


def test_a_name_of_a_column_and_of_a_result_is_refused_and_the_table_before_it_helps(
    crew: Crew, files: Sequence[ScanFile]
) -> None:
    groups = [files[:3], files[3:]]
    with pytest.raises(QuarterdeckError, match=r"as files\.a") as refused:
        crew.answer("SELECT g AS a, sum(a) AS total FROM files GROUP BY g", groups)
    assert refused.value.code == "invalid_argument"
    sql = "SELECT g AS a, sum(files.a) AS total FROM files GROUP BY g"
    check_same(crew.answer(sql, groups)[1], alone(sql, files), sql, is_sorted=False)


def test_columns_that_merge_by_one_name_are_refused(crew: Crew, files: Sequence[ScanFile]) -> None:
    for sql in ("SELECT g AS k, a AS K FROM files ORDER BY ALL", "SELECT max(a) AS m, min(a) AS m FROM files"):
        with pytest.raises(QuarterdeckError, match="more than one of its columns is called"):
            crew.answer(sql, [files[:3], files[3:]])


@pytest.mark.parametrize(
    "sql, why",
    [
        ("SELECT a FROM files", "column a is INTEGER in some files and BIGINT in others"),
        ("SELECT a FROM files WHERE a > 3 LIMIT 2000", "column a is INTEGER in some files and BIGINT in others"),
        ("SELECT * FROM files LIMIT 2000", "in some files"),
        ("SELECT #1 FROM files", "in some files"),
        ("SELECT hash(files) FROM files", "in some files"),
        ("SELECT count(a) FROM files", "column a is INTEGER in some files and BIGINT in others"),
    ],
)
def test_files_of_several_kinds_have_no_answer_that_depends_on_how_they_are_divided(
    crew: Crew, lakes: list[Lake], sql: str, why: str
) -> None:
    with pytest.raises(QuarterdeckError, match=why):
        crew.answer(sql, lakes[1].divided(2))


def test_columns_that_are_named_may_stand_in_any_order(crew: Crew, tmp_path: Path) -> None:
    files = [ScanFile(tmp_path / f"{name}.parquet", name) for name in "ab"]
    write("SELECT 1 AS a, 2 AS b", files[0].path)
    write("SELECT 3 AS b, 4 AS a", files[1].path)
    for sql in (
        "SELECT a, b FROM files",
        "SELECT a, sum(b) FROM files GROUP BY a ORDER BY ALL",
        "SELECT sum(b) FROM (SELECT b FROM files)",
    ):
        check_same(crew.answer(sql, [files[:1], files[1:]])[1], alone(sql, files), sql, is_sorted=False)
    for sql in (
        "SELECT * FROM files",
        "SELECT sum(x) FROM files f(x)",
        "SELECT f.x FROM files f(x) ORDER BY 1",
        "SELECT DISTINCT x FROM files f(x, y)",
        "SELECT sum(x) FROM (SELECT * FROM files) q(x, y)",
        "SELECT sum(x) FROM (SELECT #1 AS x FROM files)",
        "WITH q(x, y) AS (SELECT * FROM files) SELECT y, sum(x) FROM q GROUP BY y",
    ):
        with pytest.raises(QuarterdeckError, match="stand in another order"):
            crew.answer(sql, [files[:1], files[1:]])


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT median(a) AS m FROM files ORDER BY m",
        'SELECT a AS "select", median(b) AS "M x" FROM files GROUP BY ALL ORDER BY ALL',
        "SELECT st.p, median(a) FROM files GROUP BY st.p ORDER BY 1",
        "SELECT median(f.a) FROM files f WHERE f.g = 1 AND s LIKE '%x%'",
        "SELECT list_sum(list_transform(l, lambda x: x + 1)) q, median(a) FROM files GROUP BY ALL ORDER BY ALL",
        "SELECT x.a, y.g FROM files x JOIN files y ON x.b = y.b WHERE x.a = 8 ORDER BY ALL",
        "WITH q AS (SELECT a, g FROM files ORDER BY a) SELECT median(a) FROM q",
        "SELECT a FROM files WHERE a > (SELECT median(a) FROM files) ORDER BY 1",
        "SELECT a, row_number() OVER (ORDER BY b, ts, ut) r FROM files WHERE s = 'x' ORDER BY r",
        "SELECT median(a) FROM main.files WHERE s <> 'it''s'",
        "SELECT g, ut, count(*) FROM files GROUP BY ROLLUP (g, ut) ORDER BY ALL",
        "SELECT date_trunc('day', ts) AS ts, median(a) FROM files WHERE ts > '2020-01-01' GROUP BY 1 ORDER BY 1",
        "SELECT median(a), current_date > '2020-01-01' AS q FROM files",
        "SUMMARIZE SELECT a, b FROM files",
        "SELECT median(y), max(s) FROM files AS f(x, y)",
        "SELECT g, a.median() FROM files GROUP BY g ORDER BY g",
    ],
)
def test_the_merge_that_is_shown_for_what_is_not_divided_gives_the_answer(
    crew: Crew, files: Sequence[ScanFile], sql: str
) -> None:
    plan = crew.plan(sql)
    assert plan.advice is not None
    part, merge = plan.advice
    rows: list[Any] = [crew.part(part, group) for group in (files[:3], files[3:])]
    with duckdb.connect(":memory:", config={"threads": 1}) as database:  # several round in several ways
        database.register("parts", _pa.concat_tables(rows))
        got = database.sql(merge).to_arrow_table()
    check_same(got, alone(sql, files), sql, is_sorted="ORDER BY" in sql)


def test_no_merge_is_shown_where_files_has_several_meanings(crew: Crew) -> None:
    plan = crew.plan("WITH files AS (SELECT a + 1 AS a FROM files) SELECT median(a) FROM files")
    assert (plan.way, plan.advice) == (Way.TOGETHER, None)


@pytest.mark.parametrize("call", ["sum", "median"])
def test_a_long_chain_of_operators_needs_all_files_together(crew: Crew, call: str) -> None:
    plan = crew.plan(f"SELECT {call}(a{' + 1' * 250}) FROM files")
    assert (plan.way, plan.why) == (Way.TOGETHER, "its expressions are nested too deep to be divided")


@pytest.mark.parametrize(
    "sql, why",
    [
        ("SELECT a FROM (SELECT a FROM files ORDER BY a) LIMIT 5", "ORDER BY"),
        ("WITH q AS (SELECT a FROM files ORDER BY a DESC) SELECT any_value(a) FROM q", "ORDER BY"),
        ("SELECT a FROM files ORDER BY COLUMNS('^[ab]$')", "COLUMNS"),
        ("SELECT a FROM files ORDER BY COLUMNS('^b$') + 1", "COLUMNS"),
        ("SELECT uu FROM files ORDER BY *", "COLUMNS"),
        ("SELECT g, count(*) FROM files GROUP BY g ORDER BY COLUMNS('g')", "STAR stands above"),
        ("SELECT g AS __k1, ut AS __k0, count(*) FROM files GROUP BY g, ut ORDER BY g * 2 + ut", "used to merge it"),
        ("SELECT a AS __o0, g FROM files ORDER BY -b", "used to merge it"),
        ("SELECT current_timestamp, count(*) FROM files GROUP BY ALL", "its own current_timestamp"),
        ("SELECT max(now()) FROM files", "its own now"),
        ("SELECT DISTINCT today() FROM files", "its own today"),
        ("SELECT age(ts) FROM files", "its own age"),
        ("SELECT current_query() FROM files", "its own current_query"),
        ("SELECT current_query(), count(*) FROM files", "how the SQL is written"),
        ("SELECT alias(a), count(*) FROM files GROUP BY alias(a)", "how the SQL is written"),
        ("SELECT s FROM (SELECT s COLLATE nocase AS s FROM files) ORDER BY s", "COLLATE"),
        ("SELECT count(*) FROM files, (SELECT x FROM range(9) r(x) USING SAMPLE 3)", "SAMPLE"),
        ("SELECT DISTINCT (SELECT uuid()) FROM files", "chance"),
        ("SELECT a FROM files WHERE a IN (SELECT (random() * 9)::INT FROM range(5))", "chance"),
        ("SELECT (SELECT sum(a)) FROM files", "aggregate sum of its rows"),
        ("SELECT (SELECT count(files.a) FROM range(3) r(a)) FROM files", "aggregate count of its rows"),
        ("SELECT count(*) FROM sqlite_master", "tells of the files of a work"),
        ("SELECT 1 UNION SELECT count(*) FROM information_schema.columns", "UNION"),
        ("SELECT any_value(DISTINCT g) FROM files", "any_value of parts"),
        ("SELECT any_value(g), count(DISTINCT a) FROM files", "any_value beside DISTINCT"),
        ("SELECT any_value(g) FROM files LEFT JOIN range(3) r(z) ON z = g", "any_value of rows of a JOIN"),
        ("SELECT any_value(g) FROM files WHERE a NOT IN (SELECT 7)", "any_value beside a query within an expression"),
        ("SELECT (SELECT max(x) FROM range(3) r(x)) AS k, count(*) FROM files GROUP BY ALL", "name what it groups by"),
        (
            "SELECT list_transform([1], lambda x: x + 1) AS k, count(*) FROM files GROUP BY ALL",
            "name what it groups by",
        ),
        ("SELECT median(a) FROM files", "median of parts"),
        ("SELECT g, string_agg(s, ',') FROM files GROUP BY g", "string_agg of parts"),
        ("SELECT list(a) FROM files", "list of parts"),
        ("SELECT first(a) FROM files", "first of parts"),
        ("SELECT approx_count_distinct(a) FROM files", "approx_count_distinct of parts"),
        ("SELECT sum(a ORDER BY b) FROM files", "its sum depends on the order of rows"),
        ("SELECT min(a, 3) FROM files", "its min has 2 arguments"),
        ("SELECT geomean(a) FROM files", "geomean of parts"),
        ("SELECT row_number() OVER () FROM files", "window function"),
        ("SELECT a FROM files QUALIFY row_number() OVER (ORDER BY a) < 3", "QUALIFY"),
        ("SELECT a FROM files WHERE a = (SELECT max(a) FROM files)", "query within an expression"),
        ("SELECT a FROM files WHERE a IN (SELECT a FROM files)", "query within an expression"),
        ("WITH m AS (SELECT max(a) x FROM files) SELECT a FROM files, m", "has the aggregate max"),
        ("SELECT count(*) FROM (SELECT a FROM files LIMIT 3)", "LIMIT or DISTINCT"),
        ("SELECT count(*) FROM (SELECT DISTINCT a FROM files)", "LIMIT or DISTINCT"),
        ("SELECT x.a FROM files x JOIN files y ON x.a = y.a", "joins files with files"),
        ("SELECT * FROM range(3) r(z) LEFT JOIN files ON z = a", "LEFT JOIN"),
        ("SELECT * FROM files FULL JOIN range(3) r(z) ON z = a", "JOIN"),
        ("SELECT * FROM files POSITIONAL JOIN range(3) r(z)", "JOIN"),
        ("SELECT a FROM files UNION ALL SELECT b FROM files", "UNION"),
        ("SELECT a FROM files USING SAMPLE 3", "SAMPLE"),
        ("SELECT a FROM files TABLESAMPLE 10%", "SAMPLE"),
        ("SELECT DISTINCT ON (g) g, a FROM files ORDER BY g, a", "DISTINCT ON"),
        ("SELECT a FROM files LIMIT 10%", "percent"),
        ("SELECT a FROM files LIMIT (SELECT 3)", "not a plain number"),
        ("SELECT g, count(*) FROM files GROUP BY ROLLUP (g)", "ROLLUP"),
        ("SELECT g, ut, count(*) FROM files GROUP BY GROUPING SETS ((g), (ut))", "GROUPING SETS"),
        ("SELECT s FROM files ORDER BY s COLLATE nocase", "COLLATE"),
        ("SELECT random() r FROM files ORDER BY r + 1", "chance"),
        ("SELECT max(COLUMNS('a|b')) FROM files", "COLUMNS"),
        ("SUMMARIZE files", ""),
    ],
)
def test_what_is_not_certain_to_be_exact_needs_all_files_together(crew: Crew, sql: str, why: str) -> None:
    plan = crew.plan(sql)
    assert plan.way is Way.TOGETHER
    assert why in plan.why


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM files WHERE a > 3",
        "SELECT unnest(l), a + 1 FROM files",
        "SELECT a, (SELECT max(x) FROM unnest(l) t(x)) FROM files",
        "WITH q AS (SELECT * FROM files WHERE a > 3) SELECT a FROM q",
        "SELECT * FROM files JOIN (VALUES (1, 'one')) v(n, word) ON a = n",
        "SELECT * FROM files LEFT JOIN range(3) r(z) ON z = a",
        "SELECT a FROM files ANTI JOIN range(3) r(z) ON z = a",
        "SELECT list_sum(l) FROM files",
    ],
)
def test_what_makes_its_rows_one_by_one_runs_as_it_was_written(crew: Crew, sql: str) -> None:
    plan = crew.plan(sql)
    assert (plan.way, plan.part_sql) == (Way.ROWS, sql)


def test_every_function_of_duckdb_that_differs_by_work_is_known(crew: Crew) -> None:
    same = {"current_setting", "getvariable", "in_search_path"}
    same |= {"current_database", "current_schema", "current_schemas"}
    with duckdb.connect(":memory:") as database:
        found = database.sql(
            "SELECT DISTINCT function_name FROM duckdb_functions() "
            "WHERE function_type = 'scalar' AND stability <> 'CONSISTENT'"
        ).fetchall()
    for (name,) in found:
        if name not in same:
            plan = crew.plan(f'SELECT "{name}"(a) AS k, count(*) FROM files GROUP BY k')
            assert plan.way is Way.TOGETHER, name


def test_every_aggregate_of_duckdb_is_known(crew: Crew) -> None:
    """One that is not would be taken for a function of a row."""
    with duckdb.connect(":memory:") as database:
        aggregates = {
            name
            for (name,) in database.sql(
                "SELECT DISTINCT function_name FROM duckdb_functions() WHERE function_type = 'aggregate'"
            ).fetchall()
        }
        macros: Sequence[tuple[str, str]] = database.sql(
            "SELECT DISTINCT function_name, macro_definition FROM duckdb_functions() WHERE function_type = 'macro'"
        ).fetchall()
    assert aggregates <= sql_aggregates.AGGREGATES
    for name, definition in macros:
        if any(f"{aggregate}(" in definition.replace("list_", "") for aggregate in aggregates if len(aggregate) > 3):
            plan = crew.plan(f'SELECT "{name}"(a) FROM files')
            assert plan.way is not Way.ROWS or definition.count("list_") or name in sql_aggregates.AGGREGATES, name


# Columns of paths


VALUES = [
    *("2026-11-01", "2026-11-31", "2026-1-1", "7", "07", "-7", "+7", "7.5", "1e3", "", "NULL", "x", "a=b"),
    *("9223372036854775807", "9223372036854775808", "2026-11-01 10:00:00", "2026-11-01 10:00:00.5", "a%20b", "a%2Fb"),
    *(
        "__HIVE_DEFAULT_PARTITION__",
        "true",
        "2026-11-01T10:00:00",
        "é",
        "1_000",
        "0",
        "today",
        "2026-11-01x",
        "2026-11-01 25:00:00",
    ),
]


VALUES_TOGETHER = [
    *([*VALUES[:1], *VALUES[20:21]], ["1", "2", "x"], ["NULL", "5"], ["null", "2026-11-01"], ["Null", "x"]),
    *(["2026-11-01 10%3A00%3A00", "2026-11-01 11%3A00%3A00"], ["%37"]),
]


@pytest.mark.parametrize("values", [[value] for value in VALUES] + VALUES_TOGETHER)
def test_columns_of_paths_are_those_that_duckdb_makes(crew: Crew, tmp_path: Path, values: list[str]) -> None:
    files: list[ScanFile] = []
    for number, value in enumerate(values):
        path = tmp_path / f"k={value}" / f"{number}.parquet"
        path.parent.mkdir(exist_ok=True)
        write(f"SELECT {number} AS v", path)
        files.append(ScanFile(path, str(path)))
    check_paths(crew, files, "SELECT * FROM files")


@pytest.mark.parametrize("value", ["-0", " 7", "infinity", "epoch"])
def test_odd_spellings_of_numbers_and_dates_are_text(value: str) -> None:
    columns, values = path_columns([f"/lake/k={value}/a.parquet"])
    assert (columns, values) == ((PathColumn("k", "VARCHAR"),), [(value,)])


@pytest.mark.parametrize(
    "folders",
    [
        ["a=1/b=2", "b=4/a=3"],
        ["a=1", "b=1"],
        ["a=1", ""],
        ["a=1/a=2"],
        ["A=1", "a=1"],
        ["a=1/A=2", "a=3/A=4"],
        ["v=5", "v=6"],
        ["a=b=c"],
        ["=1"],
        ["x=1/plain/y=2"],
    ],
)
def test_folders_that_differ_are_taken_as_duckdb_takes_them(crew: Crew, tmp_path: Path, folders: list[str]) -> None:
    files: list[ScanFile] = []
    for number, folder in enumerate(folders):
        path = tmp_path / folder / f"{number}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        write(f"SELECT {number} AS v, 'w' AS w", path)
        files.append(ScanFile(path, str(path)))
    check_paths(crew, files, "SELECT * FROM files")


@pytest.mark.parametrize("condition", ["day = '2026-01-02'", "day IS NOT NULL", "filename LIKE '%.parquet'", "1 = 1"])
@pytest.mark.parametrize("what", ["*", "a, day", "day, filename"])
def test_the_first_rows_of_a_day_are_those_that_duckdb_finds(
    crew: Crew, lakes: list[Lake], what: str, condition: str
) -> None:
    lake = lakes[2]
    sql = f"SELECT {what} FROM files WHERE {condition} ORDER BY s, b, ts, ut LIMIT 3"
    names = [ScanFile(file.path, str(file.path), file.values) for file in lake.files]
    _, got = crew.answer(sql, [names[:3], names[3:]], lake.columns)
    with connected() as database:
        paths = [str(file.path) for file in lake.files]
        database.execute(f"CREATE TEMP VIEW files AS FROM read_parquet({paths}, union_by_name = true, filename = true)")
        wanted = database.sql(sql.replace("*", "* EXCLUDE (filename)"))
        check_same(got, wanted.to_arrow_table(), sql, is_sorted=True)


def check_paths(crew: Crew, files: Sequence[ScanFile], sql: str) -> None:
    columns, values = path_columns([str(file.path) for file in files])
    placed = [ScanFile(file.path, file.name, row) for file, row in zip(files, values, strict=True)]
    _, got = crew.answer(sql, [placed], columns)
    check_same(got, alone(sql, files), sql, is_sorted=True)


def test_a_column_of_the_files_may_have_the_name_of_what_duckdb_adds(crew: Crew, tmp_path: Path) -> None:
    path = tmp_path / "k=1" / "a.parquet"
    path.parent.mkdir()
    write("SELECT 'mine' AS filename, 7 AS file_index", path)
    columns = (PathColumn("k", "BIGINT"),)
    _, got = crew.answer("SELECT *, upper(filename) u FROM files", [[ScanFile(path, "theirs", ("1",))]], columns)
    assert got.to_pylist() == [{"filename": "mine", "file_index": 7, "k": 1, "u": "MINE"}]
