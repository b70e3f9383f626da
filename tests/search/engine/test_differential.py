"""Random searches beside plain SQL over the same files.

The SQL is written by this module alone, from the same random choices, over typed columns that `read_json` and
`read_parquet` give. Records have an `id` that counts them in the order of the files.
"""

import json
import math
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import pytest

from quarterdeck.search.engine.contained_search import ContainedSearcher
from quarterdeck.search.engine.open_piece import OpenPiece
from quarterdeck.search.language.quoting import quote_pattern
from quarterdeck.search.model import Order
from tests.search.engine.searched import KINDS, Bench, packed, parts, whole

pytestmark = pytest.mark.usefixtures("gathered_in_one_database")

SEARCHES = 300
_BEGIN = datetime(2026, 11, 1, tzinfo=UTC)
_LEVELS = ["error", "warn", "info", "Error", "de bug", 'qu"ote', "back\\slash", "züge", ""]
_HOSTS = ["alpha", "beta", "gamma-1", "gamma-2"]
_WORDS = ["timeout", "Refused", "cache", "MISS", "über", "tab\there", 'say "hi"', "x/y", "a\\b"]
_COLUMNS = {
    "id": "BIGINT",
    "ts": "VARCHAR",
    "level": "VARCHAR",
    "host": "VARCHAR",
    "status": "BIGINT",
    "dur": "DOUBLE",
    "msg": "VARCHAR",
    "nest": "STRUCT(deep BIGINT)",
}
_TEXT = "concat_ws(chr(1), level, host, msg)"


def record_of(generator: random.Random, number: int) -> dict[str, Any]:
    moment = _BEGIN + timedelta(milliseconds=generator.randrange(0, 60_000, 500))
    record: dict[str, Any] = {
        "id": number,
        "ts": moment.isoformat().replace("+00:00", "Z") if generator.random() < 0.9 else None,
        "level": generator.choice(_LEVELS),
        "host": generator.choice(_HOSTS),
        "status": generator.choice([200, 200, 404, 500, 2**60 + generator.randrange(3)]),
        "dur": generator.choice([0.5, 1.25, 1e-7, 12345.678, float(generator.randrange(100)) + 0.125]),
        "msg": " ".join(generator.choices(_WORDS, k=generator.randrange(4))),
        "nest": {"deep": generator.randrange(4)},
    }
    return {key: value for key, value in record.items() if key == "id" or generator.random() < 0.9}


def line_of(generator: random.Random, record: dict[str, Any]) -> str:
    """The same record in one of the ways that JSON has."""
    separators = generator.choice([(",", ":"), (", ", ": "), (" ,", " : ")])
    line = json.dumps(record, ensure_ascii=generator.random() < 0.5, separators=separators)
    return line.replace("/", "\\/") if generator.random() < 0.3 else line


class Logs:
    """Files, and a table of what is in them."""

    def __init__(self, bench: Bench) -> None:
        generator = random.Random(11)
        self.bench = bench
        self.database = duckdb.connect(config={"threads": 1})
        self.database.execute("SET TimeZone = 'UTC'")
        self.paths: list[Path] = []
        number = 0
        for name in ("a.ndjson", "b.ndjson.gz", "c.ndjson.zst", "d.parquet"):
            records = [record_of(generator, number + more) for more in range(generator.randrange(40, 80))]
            number += len(records)
            self.paths.append(self._write(generator, name, records))
        columns = ", ".join(f"{name}: '{kind}'" for name, kind in _COLUMNS.items())
        lines = [str(path) for path in self.paths if path.suffix != ".parquet"]
        tables = [str(path) for path in self.paths if path.suffix == ".parquet"]
        self.database.execute(f"""CREATE TABLE logs AS SELECT * FROM (
            SELECT * FROM read_json({lines}, columns = {{{columns}}}, format = 'newline_delimited',
                ignore_errors = true) UNION ALL BY NAME SELECT * FROM read_parquet({tables})) WHERE id IS NOT NULL""")
        self.bad_lines = 2
        assert self.rows("SELECT count(*) AS n FROM logs") == [{"n": number}]

    def _write(self, generator: random.Random, name: str, records: list[dict[str, Any]]) -> Path:
        path = self.bench.folder / name
        if path.suffix == ".parquet":
            source = self.bench.write("source.ndjson", *records)
            columns = ", ".join(f"{column}: '{kind}'" for column, kind in _COLUMNS.items())
            read = f"SELECT * FROM read_json('{source}', columns = {{{columns}}}, format = 'newline_delimited')"
            self.database.execute(f"COPY ({read}) TO '{path}' (FORMAT parquet, ROW_GROUP_SIZE 2048)")
            return path
        lines = [line_of(generator, record) for record in records]
        if path.suffix == ".ndjson":
            lines.insert(generator.randrange(len(lines)), "no json")
            lines.insert(generator.randrange(len(lines)), '["no", "object"]')
        path.write_bytes(packed(("\n".join(lines) + "\n").encode(), KINDS.get(path.suffix)))
        return path

    def rows(self, sql: str) -> list[dict[str, Any]]:
        cursor = self.database.execute(sql)
        names = [column[0] for column in cursor.description or ()]
        return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]

    def chunks(self, generator: random.Random) -> list[list[OpenPiece]]:
        """The files in their order, plain ones cut anywhere, grouped anyhow."""
        pieces: list[OpenPiece] = []
        for path in self.paths:
            if path.suffix == ".ndjson" and generator.random() < 0.6:
                size = path.stat().st_size
                pieces += parts(path, [generator.randrange(size) for _ in range(generator.randrange(1, 3))])
            else:
                pieces.append(whole(path, in_memory=generator.random() < 0.3))
        chunks: list[list[OpenPiece]] = [[]]
        for piece in pieces:
            if chunks[-1] and generator.random() < 0.35:
                chunks.append([])
            chunks[-1].append(piece)
        return chunks


def quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def condition_of(generator: random.Random, depth: int) -> tuple[str, str]:
    """A condition, and the SQL that means the same: never NULL."""
    kind = generator.randrange(12) if depth else generator.randrange(9)
    if kind >= 9:
        first, second = condition_of(generator, depth - 1), condition_of(generator, depth - 1)
        word = {9: "and", 10: "or", 11: "not"}[kind]
        if word == "not":
            return f"(not {first[0]})", f"(NOT {first[1]})"
        return f"({first[0]} {word} {second[0]})", f"({first[1]} {word.upper()} {second[1]})"
    text, sql = _atom(generator, kind)
    return text, f"coalesce({sql}, false)"


def _atom(generator: random.Random, kind: int) -> tuple[str, str]:
    sign = generator.choice(["=", "!=", "<", "<=", ">", ">="])
    sql_sign = "<>" if sign == "!=" else sign
    match kind:
        case 0:
            level = generator.choice([*_LEVELS, "none"])
            return f"level{sign}{quoted(level)}", f"level {sql_sign} {literal(level)}"
        case 1:
            number = generator.choice(["200", "404", "500", "2e2", "200.0", "1152921504606846977", "300.5"])
            exact = {"2e2": "200", "200.0": "200", "300.5": "300.5::DECIMAL(20,1)"}.get(number, number)
            return f"status{sign}{number}", f"status {sql_sign} {exact}"
        case 2:
            number = generator.choice(["0.5", "1.25", "0.0000001", "50", "1e4", "-3"])
            return f"dur {sign} {number}", f"dur {sql_sign} {number}::DOUBLE"
        case 3:
            glob, like = generator.choice(
                [("gamma*", "gamma%"), ("*a", "%a"), ("?eta", "_eta"), ("*", "%"), ("al*a", "al%a")]
            )
            if generator.random() < 0.3 and glob != "*":
                return f"host!={glob}", f"host NOT LIKE '{like}'"
            return f"host={glob}", f"host LIKE '{like}'"
        case 4:
            pattern = generator.choice(["time.*MISS", "^cache", 'hi"$', "(Refused|x/y)", "über", "[ab]\\\\b"])
            word, negation = generator.choice([("=~", ""), ("!~", "NOT ")])
            return f"msg{word}{quote_pattern(pattern)}", f"{negation}regexp_matches(msg, {literal(pattern)})"
        case 5 | 6:
            word = generator.choice([*_WORDS, "TIMEOUT", "refused", "ÜBER", "alpha", "GAMMA-2", "out ref", "nowhere"])
            pattern = "".join(f"\\{char}" if char in "\\./" else char for char in word)
            return quoted(word), f"regexp_matches({_TEXT}, {literal('(?i)' + pattern)})"
        case 7:
            start, end = sorted(generator.randrange(0, 60) for _ in range(2))
            begin, stop = (_BEGIN + timedelta(seconds=second) for second in (start, end))
            inside = f"ts::TIMESTAMPTZ >= '{begin.isoformat()}' AND ts::TIMESTAMPTZ < '{stop.isoformat()}'"
            return (
                f"[{begin.isoformat().replace('+00:00', 'Z')}, {stop.isoformat().replace('+00:00', 'Z')}]",
                f"({inside})",
            )
        case _:
            number = generator.randrange(5)
            return f"nest.deep{sign}{number}", f"nest.deep {sql_sign} {number}"


@dataclass
class Case:
    search: str
    sql: str
    order: Order
    columns: list[str] = field(default_factory=list[str])
    """What is compared of each row; all, if none are named."""
    any_order: bool = False


_FIELDS = ["level", "host", "status", "dur", "nest.deep"]


def case_of(generator: random.Random) -> Case:
    text, where = condition_of(generator, 3) if generator.random() < 0.9 else ("*", "true")
    found = f"FROM logs WHERE {where}"
    order = generator.choice([Order.INPUT, Order.TIME, Order.TIME, Order.NONE])
    by_time = "ts::TIMESTAMPTZ NULLS LAST, id" if order is Order.TIME else "id"
    count = generator.randrange(1, 30)
    fields = generator.sample(_FIELDS, generator.randrange(1, 3))
    match generator.randrange(8):
        case 0:
            return Case(text, f"SELECT id {found} ORDER BY {by_time}", order, ["id"], order is Order.NONE)
        case 1 if order is not Order.NONE:
            return Case(f"{text} | head {count}", f"SELECT id {found} ORDER BY {by_time} LIMIT {count}", order, ["id"])
        case 2:
            last = f"SELECT id, row_number() OVER (ORDER BY {by_time}) AS place {found}"
            kept = f"SELECT id FROM ({last}) ORDER BY place DESC LIMIT {count}"
            sql = f"SELECT id FROM ({last}) WHERE id IN ({kept}) ORDER BY place"
            return Case(f"{text} | tail {count}", sql, order, ["id"])
        case 3:
            directions = [generator.choice(["asc", "desc"]) for _ in fields]
            keys = ", ".join(f"{name} {direction}" for name, direction in zip(fields, directions, strict=True))
            sql_keys = ", ".join(
                f"{name} {direction} NULLS LAST" for name, direction in zip(fields, directions, strict=True)
            )
            limit, head = generator.choice([("", ""), (f"LIMIT {count}", f" | head {count}")])
            sql = f"SELECT id {found} ORDER BY {sql_keys}, {by_time} {limit}"
            return Case(f"{text} | sort {keys}{head}", sql, order, ["id"])
        case 4:
            named = [f'{name} AS "{name}"' for name in fields]
            where_any = " OR ".join(f"{name} IS NOT NULL" for name in fields)
            distinct = f"SELECT {', '.join(named)}, count(*) AS count {found} AND ({where_any}) GROUP BY ALL"
            return Case(f"{text} | cut {', '.join(fields)} | uniq -c", distinct, order, any_order=True)
        case 5:
            named = [f'{name} AS "{name}"' for name in fields]
            where_any = " OR ".join(f"{name} IS NOT NULL" for name in fields)
            sql = f"SELECT {', '.join(named)} {found} AND ({where_any}) ORDER BY {by_time}"
            return Case(f"{text} | cut {', '.join(fields)}", sql, order, any_order=order is Order.NONE)
        case _:
            return _summary(generator, text, found, order)


def _summary(generator: random.Random, text: str, found: str, order: Order) -> Case:
    by = generator.sample(_FIELDS, generator.randrange(3))
    asked, sql = ["count()"], ["count(*) AS count"]
    for number in range(generator.randrange(4)):
        function = generator.choice(["sum", "avg", "min", "max", "count"])
        name = generator.choice(["status", "dur", "nest.deep"] if function in ("sum", "avg") else _FIELDS)
        asked.append(f"{function}({name}) as r{number}")
        computed = f"fsum({name})" if (function, name) == ("sum", "dur") else f"{function}({name})"
        sql.append(f"{computed}{'::HUGEINT' if function == 'sum' and name != 'dur' else ''} AS r{number}")
    named = [f'{name} AS "{name}"' for name in by]
    grouped = f" GROUP BY {', '.join(by)} ORDER BY {', '.join(f'{name} NULLS LAST' for name in by)}" if by else ""
    of = f" by {', '.join(by)}" if by else ""
    return Case(f"{text} | {', '.join(asked)}{of}", f"SELECT {', '.join([*named, *sql])} {found}{grouped}", order)


def is_same(ours: Any, theirs: Any) -> bool:
    if isinstance(ours, float) or isinstance(theirs, float):
        return ours is not None and theirs is not None and math.isclose(ours, theirs, rel_tol=1e-12)
    return ours == theirs and isinstance(ours, bool) == isinstance(theirs, bool)


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory, contained: ContainedSearcher) -> Iterator[Logs]:
    logs = Logs(Bench(tmp_path_factory.mktemp("logs"), contained))
    yield logs
    logs.database.close()


@pytest.mark.parametrize("block", range(10))
def test_random_searches_find_what_plain_sql_finds(logs: Logs, block: int) -> None:
    found = 0
    for seed in range(block * SEARCHES // 10, (block + 1) * SEARCHES // 10):
        generator = random.Random(seed)
        case = case_of(generator)
        chunks = logs.chunks(generator)
        arrival = generator.sample(range(len(chunks)), len(chunks))
        answer = logs.bench.search(case.search, chunks, order=case.order, arrival=arrival)
        expected = logs.rows(case.sql)
        rows = [{name: row.get(name) for name in case.columns} if case.columns else row for row in answer.rows]
        found += len(expected)
        story = f"seed {seed}: {case.search}\n{case.sql}\nours:   {rows[:5]}\ntheirs: {expected[:5]}"
        assert len(rows) == len(expected), story
        names = list(expected[0]) if expected else []
        if case.any_order:
            rows.sort(key=lambda row: repr([row.get(name) for name in names]))
            expected.sort(key=lambda row: repr([row[name] for name in names]))
        for ours, theirs in zip(rows, expected, strict=True):
            assert all(is_same(ours.get(name), theirs[name]) for name in names), f"{story}\n{ours}\n{theirs}"
        if "head" not in case.search:
            assert sum(problem.lines for problem in answer.problems) == logs.bad_lines, story
            assert answer.matches == logs.rows(f"SELECT count(*) AS n FROM logs WHERE {_where(case.sql)}")[0]["n"], (
                story
            )
    assert found > 100


def _where(sql: str) -> str:
    """The condition alone, of the SQL of a case."""
    condition = sql.split("FROM logs WHERE ", 1)[1]
    depth = 0
    for place, char in enumerate(condition):
        depth += (char == "(") - (char == ")")
        if depth < 0:
            return condition[:place]
        if depth == 0 and condition[place:].startswith((" ORDER BY", " GROUP BY", " AND (")):
            return condition[:place]
    return condition
