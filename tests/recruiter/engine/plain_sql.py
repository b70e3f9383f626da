"""Random searches, and beside each the plain SQL that a person would write for it over the table `logs`.

The SQL is made here, from the drawn conditions and not from the tree of the search: nothing of the engine is asked.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Final

TEXT_FIELDS: Final = {
    "level": ("info", "INFO", "warn", "error", "fatal"),
    "host": ("web-1", "web-2", "db-1", "cache", "nowhere"),
    "user": ("ann", "bob", "42", "ω"),
    "msg": ("request timed out", 'café "closed"', "C:\\temp\\x", "two\nlines\tand a tab", "käse/brot"),
    "http.method": ("GET", "PUT", "get"),
}
NUMBER_FIELDS: Final = {
    "status": ("100", "300", "500", "299.5", "1e2"),
    "bytes": ("-1000", "0", "77", "1500", "3999"),
    "dur": ("0", "0.125", "12.5", "250", "499.875"),
    "id": ("0", "1", "777", "1600", "1999"),
    "http.code": ("0", "1", "2"),
}
WORDS: Final = ("timed", "TIMED OUT", "closed", "ann", "käse", "temp", "web", "nowhere", "tab")
GLOBS: Final = {"level": "*o*", "host": "web-?", "msg": "*timed*", "user": "a*", "http.method": "?UT"}
REGEXES: Final = {
    "level": "^(info|warn)$",
    "host": "-[12]$",
    "msg": "(?i)timed|close",
    "user": "^[ab]",
    "http.method": "T$",
}
ORDERS: Final = ("<", "<=", ">", ">=")
GROUPS: Final = ("level", "host", "status", "ok", "user")
SUMMED: Final = ("bytes", "dur", "status", "id")


@dataclass(frozen=True, slots=True)
class RandomSearch:
    search: str
    sql: str
    ordered: bool
    """Whether the order of the rows is part of the answer."""


def draw(chance: Random) -> RandomSearch:
    search, where = _condition(chance, 3)
    rows = f"SELECT * FROM logs WHERE {where}"
    stages: list[Callable[[Random, str, str], RandomSearch]] = [_records, _records, _head, _tail, _sorted, _cut, _uniq]
    stages += [_summarized, _summarized, _summarized, _summarized_sorted, _fields]
    return chance.choice(stages)(chance, search, rows)


# Conditions


def _condition(chance: Random, depth: int) -> tuple[str, str]:
    kind = chance.random()
    if depth == 0 or kind < 0.45:
        return _term(chance)
    left, right = _condition(chance, depth - 1), _condition(chance, depth - 1)
    if kind < 0.6:
        return (
            f"{_in_parentheses(left)} {chance.choice(('', 'and '))}{_in_parentheses(right)}",
            f"({left[1]} AND {right[1]})",
        )
    if kind < 0.8:
        return f"({left[0]} or {right[0]})", f"({left[1]} OR {right[1]})"
    return f"not ({left[0]})", f"(NOT {left[1]})"


def _in_parentheses(drawn: tuple[str, str]) -> str:
    return f"({drawn[0]})"


def _term(chance: Random) -> tuple[str, str]:
    return chance.choice((_text, _text, _glob, _regex, _number, _number, _order, _word, _presence, _time, _truth))(
        chance
    )


def _text(chance: Random) -> tuple[str, str]:
    field = chance.choice(list(TEXT_FIELDS))
    value = chance.choice(TEXT_FIELDS[field])
    op, sign = chance.choice((("=", "="), ("!=", "<>")))
    return f"{field}{op}{_phrase(value)}", f"coalesce({field} {sign} {_literal(value)}, false)"


def _glob(chance: Random) -> tuple[str, str]:
    field = chance.choice(list(GLOBS))
    return f"{field}={GLOBS[field]}", f"coalesce({field} GLOB {_literal(GLOBS[field])}, false)"


def _regex(chance: Random) -> tuple[str, str]:
    field = chance.choice(list(REGEXES))
    op, sign = chance.choice((("=~", ""), ("!~", "NOT ")))
    expression = f"{sign}regexp_matches({field}, {_literal(REGEXES[field])})"
    return f'{field}{op}"{REGEXES[field]}"', f"coalesce({expression}, false)"


def _number(chance: Random) -> tuple[str, str]:
    field = chance.choice(list(NUMBER_FIELDS))
    value = chance.choice(NUMBER_FIELDS[field])
    op, sign = chance.choice((("=", "="), ("!=", "<>"), *((order, order) for order in ORDERS)))
    return f"{field}{op}{value}", f"coalesce({field} {sign} {value}::DOUBLE, false)"


def _order(chance: Random) -> tuple[str, str]:
    field = chance.choice(("level", "host", "ts"))
    value = chance.choice(("2026-11-01T12:00", "info", "web-1", "b"))
    op = chance.choice(ORDERS)
    return f'{field}{op}"{value}"', f"coalesce({field} {op} {_literal(value)}, false)"


def _word(chance: Random) -> tuple[str, str]:
    word = chance.choice(WORDS)
    texts = " || ' ' || ".join(f"coalesce({field}, '')" for field in ("level", "host", "user", "msg"))
    return f'"{word}"', f"contains(lower({texts}), {_literal(word.lower())})"


def _presence(chance: Random) -> tuple[str, str]:
    field = chance.choice(("host", "user", "bytes", "dur"))
    return f"{field}=*", f"({field} IS NOT NULL)"


def _truth(chance: Random) -> tuple[str, str]:
    value = chance.choice(("true", "false"))
    return f"ok={value}", f"(ok = {value})"


def _time(chance: Random) -> tuple[str, str]:
    hours = sorted(chance.sample(range(24), 2))
    start, end = (f"2026-11-01T{hour:02}:00:00.000Z" for hour in hours)
    return f"[{start}, {end}]", f"(ts >= '{start}' AND ts < '{end}')"


# Stages


def _records(chance: Random, search: str, rows: str) -> RandomSearch:
    return RandomSearch(search, f"SELECT id FROM ({rows}) ORDER BY ts, place", ordered=True)


def _head(chance: Random, search: str, rows: str) -> RandomSearch:
    count = chance.randint(0, 30)
    return RandomSearch(
        f"{search} | head {count}", f"SELECT id FROM ({rows}) ORDER BY ts, place LIMIT {count}", ordered=True
    )


def _tail(chance: Random, search: str, rows: str) -> RandomSearch:
    count = chance.randint(0, 30)
    last = f"SELECT * FROM ({rows}) ORDER BY ts DESC, place DESC LIMIT {count}"
    return RandomSearch(f"{search} | tail {count}", f"SELECT id FROM ({last}) ORDER BY ts, place", ordered=True)


def _sorted(chance: Random, search: str, rows: str) -> RandomSearch:
    field = chance.choice(("bytes", "dur", "host", "level"))
    way, sql_way = chance.choice((("asc", "ASC"), ("desc", "DESC")))
    count = chance.randint(1, 50)
    order = f"{field} {sql_way} NULLS LAST, ts, place"
    return RandomSearch(
        f"{search} | sort {field} {way} | head {count}",
        f"SELECT id FROM ({rows}) ORDER BY {order} LIMIT {count}",
        ordered=True,
    )


def _cut(chance: Random, search: str, rows: str) -> RandomSearch:
    sql = f"SELECT level, status FROM ({rows}) ORDER BY ts, place"
    return RandomSearch(f"{search} | cut level, status", sql, ordered=True)


def _uniq(chance: Random, search: str, rows: str) -> RandomSearch:
    sql = f"SELECT level, status, count(*) AS count FROM ({rows}) GROUP BY level, status"
    return RandomSearch(f"{search} | cut level, status | uniq -c", sql, ordered=False)


def _fields(chance: Random, search: str, rows: str) -> RandomSearch:
    """Only those fields that some file has no NULL for: whether a NULL is written is the writer's affair."""
    counted = " UNION ALL ".join(
        f"SELECT '{field}' AS field, count({field}) AS count FROM ({rows})"
        for field in ("dur", "host", "level", "user")
    )
    return RandomSearch(
        f"{search} | cut dur, host, level, user | fields", f"SELECT * FROM ({counted}) WHERE count > 0", ordered=False
    )


def _summarized(chance: Random, search: str, rows: str) -> RandomSearch:
    groups = chance.sample(GROUPS, chance.randint(0, 2))
    field = chance.choice(SUMMED)
    asked = chance.sample(["count", "counted", "sum", "avg", "min", "max"], chance.randint(1, 4))
    texts = {"count": "count()", "counted": f"count({field})"}
    ours = ", ".join(texts.get(name, f"{name}({field})") for name in asked)
    names = [{"count": "count", "counted": f"count_{field}"}.get(name, f"{name}_{field}") for name in asked]
    functions = {"count": "count(*)", "counted": f"count({field})"}
    theirs = ", ".join(
        f"{functions.get(function, f'{function}({field})')} AS {name}"
        for function, name in zip(asked, names, strict=True)
    )
    by, group = (f" by {', '.join(groups)}", f" GROUP BY {', '.join(groups)}") if groups else ("", "")
    order = f" ORDER BY {', '.join(f'{each} NULLS LAST' for each in groups)}" if groups else ""
    sql = f"SELECT {', '.join([*groups, theirs])} FROM ({rows}){group}{order}"
    return RandomSearch(f"{search} | {ours}{by}", sql, ordered=True)


def _summarized_sorted(chance: Random, search: str, rows: str) -> RandomSearch:
    group = chance.choice(("level", "host", "status"))
    count = chance.randint(1, 4)
    sql = (
        f"SELECT {group}, count(*) AS n FROM ({rows}) GROUP BY {group} "
        f"ORDER BY n DESC, {group} NULLS LAST LIMIT {count}"
    )
    return RandomSearch(f"{search} | count() as n by {group} | sort -r n | head {count}", sql, ordered=True)


# Text


def _phrase(value: str) -> str:
    escapes: Sequence[tuple[str, str]] = (("\\", "\\\\"), ('"', '\\"'), ("\n", "\\n"), ("\t", "\\t"))
    for plain, escaped in escapes:
        value = value.replace(plain, escaped)
    return f'"{value}"'


def _literal(value: str) -> str:
    quoted = value.replace("'", "''")
    return f"'{quoted}'"
