"""Random SELECTs over `files` of all shapes, right and wrong, divisible and not. A seed makes them.

They are for comparing: whatever has an answer has DuckDB's own. Names are chosen to mean several things, as far as
DuckDB allows it, and queries stand within each other.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

_Any = TypeVar("_Any")

INTEGERS: Final = ("a", "g", "ut", "b")
TEXTS: Final = ("s", "'x'", "upper(s)", "s || 'y'", "en::VARCHAR")
OTHERS: Final = ("d", "f", "e", "h", "dt", "ts", "tz", "bo", "en", "l", "st", "ti", "ub", "uu", "st.p")
ALIASES: Final = (
    *(
        "k",
        "k",
        "m",
        "n",
        "v",
        "a",
        "g",
        "s",
        "ut",
        "st",
        "A",
        '"Ä"',
        '"ä"',
        '"Odd Name"',
        '"select"',
        "files",
        "parts",
    ),
    *("x", "y", "z", "w", "p", "q", "i", "j", "o", "u", "c", "K", "M", "__k0", "__o0", "count", "__merged"),
)
PLAIN: Final = (
    "count(*)",
    "count({})",
    "min({})",
    "max({})",
    "any_value({})",
    "count(DISTINCT {})",
    "max(DISTINCT {})",
)
OF_NUMBERS: Final = (
    *("sum({})", "avg({})", "sum(DISTINCT {})", "avg(DISTINCT {})", "product(({}) % 3)", "bit_xor({})", "bit_or({})"),
    *("a.sum()", "g.max()", "sum(g.abs())"),
    *("count_if(({}) > 2)", "bool_and(({}) > 2)", "stddev(g)", "var_pop(a)", "regr_count({}, a)", "regr_avgx({}, a)"),
)
UNDIVIDED: Final = (
    *("median({})", "mode({})", "list(DISTINCT {})", "quantile_disc({}, 0.5)", "string_agg({}, ',' ORDER BY {})"),
    *("sum({} ORDER BY {})", "approx_count_distinct({})", "arg_max({}, b)", "grouping({})", "sum({}) OVER ()"),
)
CONDITIONS: Final = (
    *(
        "a > 20",
        "a < 100",
        "ut > 0",
        "b % 2 = 0",
        "s = 'x'",
        "dt > '2026-01-03'",
        "g = 1",
        "ut IN (0, 1)",
        "day IS NULL",
    ),
    *("a > 20", "g IS NOT NULL", "false", "s LIKE '%x%'", "a IN (1, 8, 15)", "d < 3 AND s = 'x'", "len(l) = 1", "bo"),
    *("a IN (SELECT range * 7 FROM range(20))", "EXISTS (SELECT 1 WHERE g = 1)", "ts < now()", "ut = (SELECT 1)"),
    *("(SELECT max(x) FROM unnest(l) t(x)) > 0", "a > (SELECT avg(a) FROM files)", "k > 1", "n IS NULL", "m < 5"),
)


@dataclass(frozen=True, slots=True)
class Question:
    sql: str
    is_sorted: bool
    """Whether its rows have one order."""
    is_cut: bool
    """Whether which rows there are is not said: it has a LIMIT and no one order."""


class WildQuestions:
    def __init__(self, seed: int, path_columns: Sequence[str] = ()) -> None:
        self._chance = random.Random(seed)
        self._path_columns = list(path_columns)

    def next(self) -> Question:
        match self._one(["groups"] * 5 + ["rows"] * 4 + ["wild"]):
            case "groups":
                keys = [self._expression(1) for _ in range(self._one([0, 1, 1, 2]))]
                items = [self._named(key) for key in keys if self._odds(0.9)]
                items += [self._named(self._aggregate()) for _ in range(self._one([1, 2, 3]))]
            case "rows":
                keys, items = [], [self._item() for _ in range(self._one([1, 2, 2, 3]))]
            case _:
                keys = [self._expression(1) for _ in range(self._one([0, 0, 1, 2]))]
                items = [self._named(self._aggregate() if self._odds(0.4) else self._expression(2)), self._item()]
                items = [*(self._named(key) for key in keys), *items]
        is_grouped = bool(keys) or any("(" in item for item in items)
        sql = f"SELECT {'DISTINCT ' * self._odds(0.2)}{', '.join(items)} FROM {self._relation()}"
        if self._odds(0.35):
            sql += f" WHERE {self._condition()}"
        sql += self._groups(keys, items) if keys else ""
        if (keys and self._odds(0.2)) or (is_grouped and self._odds(0.03)):
            having = [f"{self._aggregate()} IS NOT NULL", "count(*) > 2", f"{self._one(ALIASES)} IS NOT NULL", "k > 2"]
            sql += f" HAVING {self._one(having)}"
        return self._ended(self._common(sql), items, keys)

    def _ended(self, sql: str, items: list[str], keys: list[str]) -> Question:
        order = [self._order(keys) for _ in range(self._one([0, 0, 0, 1, 2]))]
        is_total = self._odds(0.5) and not any("*" in item and "(*)" not in item for item in items)
        if is_total:
            order += [f"{place + 1}{self._one(['', ' DESC', ' NULLS FIRST'])}" for place in range(len(items))]
        if order:
            sql += f" ORDER BY {', '.join(order)}"
        elif self._odds(0.2):
            sql += " ORDER BY ALL"
            is_total = True
        is_total = is_total and not any("random" in each for each in order)
        end = self._one(
            [
                "",
                "",
                "",
                " LIMIT 3",
                " LIMIT 0",
                " LIMIT 4 OFFSET 2",
                " OFFSET 3",
                " LIMIT 5",
                self._one([" LIMIT 50%", " LIMIT 1 + 1"]),
            ]
        )
        return Question(sql + end, is_total, bool(end) and not is_total)

    def _groups(self, keys: list[str], items: list[str]) -> str:
        ordinals = ", ".join(str(place + 1) for place in range(len(keys)))
        named = [item.rpartition(" AS ")[2] for item in items if " AS " in item]
        ways = [" GROUP BY ALL"] * 3
        if keys:
            ways += [f" GROUP BY {', '.join(keys)}", f" GROUP BY {ordinals}"] * 3
            ways.append(f" GROUP BY ROLLUP ({', '.join(keys)})")
        if named:
            ways.append(f" GROUP BY {self._one(named)}")
        return self._one(ways)

    def _common(self, sql: str) -> str:
        """A query before it, named or not."""
        match self._one([""] * 12 + ["cte", "cte", "files", "within"]):
            case "cte":
                return f"WITH q AS {self._one(['', 'MATERIALIZED '])}({self._inner()}) " + sql.replace(
                    "FROM files", "FROM q"
                )
            case "files":
                return f"WITH files AS ({self._inner()}) {sql}"
            case "within":
                return f"SELECT * FROM ({sql}) q"
            case _:
                return sql

    def _inner(self) -> str:
        star = self._one(["*", "*", "* REPLACE (a + 1 AS a)", "* EXCLUDE (f)", "*, a AS k", "*, upper(s) AS m"])
        sql = f"SELECT {star} FROM files"
        if self._odds(0.4):
            sql += f" WHERE {self._condition()}"
        return sql + self._one([""] * 20 + [" ORDER BY b, ts, ut", " ORDER BY a DESC, b, ts LIMIT 20"])

    def _relation(self) -> str:
        return self._one(
            [
                *(["files"] * 20),
                *("files f", "files st", "main.files", "files AS f(a, g)", "files f(g, a)", "(FROM files) q(g, a)"),
                f"({self._inner()}) q",
                f"({self._inner()})",
                "files, range(2) r(z)",
                "files JOIN (VALUES (1, 'one'), (8, 'two'), (8, 'x')) w(a, word) USING (a)",
                "files LEFT JOIN range(3) r(z) ON z = g",
                "files, LATERAL (SELECT a + 1 AS k) lateral_k",
                "files SEMI JOIN range(100) r(z) ON z = a",
                "files, unnest(l) t(n)",
                "range(5) r(n) JOIN files ON n = g",
                "files x JOIN files y USING (b, ts, ut)",
                "(SELECT a, g, s, b, ut FROM files UNION ALL SELECT a, g, s, b, ut FROM files) files",
                "(SELECT s COLLATE NOCASE AS s, a, g, b, ut FROM files) files",
            ]
        )

    def _condition(self) -> str:
        one = self._one(CONDITIONS)
        if self._path_columns and self._odds(0.6):
            column = self._one(self._path_columns)
            conditions = ["{} = '1'", "{} > '2026-01-02'", "{} IN ('0', '2026-01-05')", "{} IS NULL", "f.{} <> '0'"]
            conditions += ["starts_with({}::VARCHAR, '2')", "NOT {} IS NULL", "year({}) = 2026", "{} = ut"]
            one = self._one(conditions).replace("{}", column)
        return one if self._odds(0.7) else f"{one} {self._one(['AND', 'OR'])} NOT ({self._one(CONDITIONS)})"

    def _item(self) -> str:
        if self._odds(0.07):
            return self._one(
                [
                    "*",
                    "*",
                    "*",
                    "* EXCLUDE (a)",
                    "COLUMNS('^[ags]$')",
                    "files.*",
                    "* REPLACE (g + 1 AS g)",
                    "#1",
                    "files",
                ]
            )
        if self._odds(0.02):
            return self._one(["(SELECT sum(a))", "(SELECT count(*) FROM files)", "now() > '2020-01-01'", "unnest(l)"])
        return self._named(self._expression(2))

    def _named(self, expression: str) -> str:
        return f"{expression} AS {self._one(ALIASES)}" if self._odds(0.45) else expression

    def _aggregate(self) -> str:
        number, anything = self._expression(1, is_number=True), self._one([*OTHERS, self._expression(1)])
        pick = self._chance.random()
        if pick < 0.45:
            call = self._one(PLAIN).replace("{}", anything)
        elif pick < 0.93:
            call = self._one(OF_NUMBERS).replace("{}", number)
        else:
            return self._one([*UNDIVIDED, *OF_NUMBERS * 3]).replace("{}", number)
        if self._odds(0.12):
            call += f" FILTER (WHERE {self._condition()})"
        if self._odds(0.2):
            call = self._one(["{} + 1", "coalesce({}, 0)", "{} IS NULL", "[{}]", "-{}"]).replace("{}", call)
        return call

    def _expression(self, depth: int, *, is_number: bool = False) -> str:
        if self._path_columns and not is_number and self._odds(0.3):
            return self._one(self._path_columns)
        if depth == 0 or self._odds(0.4):
            return self._one(INTEGERS)
        inner, other = (self._expression(depth - 1, is_number=True) for _ in range(2))
        numbers = [f"{inner} % 3", f"({inner} + {other})", f"abs({inner})", f"coalesce({inner}, {other})", f"-{inner}"]
        numbers += [
            f"CASE WHEN {self._condition()} THEN {inner} END",
            f"list_sum(list_transform(l, lambda x: x + {inner}))",
        ]
        if is_number:
            return self._one(numbers)
        return self._one(
            [
                *numbers,
                *(*TEXTS, *OTHERS, *TEXTS, *OTHERS, f"{inner} > {other}", f"({inner}) IN (1, 2)", "s IS NULL"),
                *(
                    "date_trunc('day', ts)",
                    "year(dt)",
                    f"{inner} / 4",
                    f"{{'x': {inner}}}",
                    f"[{inner}]",
                    "NULL",
                    "'c'",
                ),
                *("md5(s)", "strftime(ts, '%H')", "files.g", "files.st.p", "e::DOUBLE", "bo::INT", "(g, ut)"),
                self._one(["g.abs()", "s.upper()", "files.a.abs()", "st.p.abs()", "k.abs()"]),
                self._one(["7", *ALIASES]),
            ]
        )

    def _order(self, keys: list[str]) -> str:
        what: str = self._one(
            [
                *("1", "1", self._one(ALIASES), *keys * 4, *(["count(*)", self._aggregate()] if keys else [])),
                *([] if keys else ["a", "b", "k", "length(s)", "-a", self._expression(1), "abs(k)", "k + 1"]),
                self._one(["COLUMNS('^[ab]$')", "*", "s COLLATE NOCASE", "random()", "9", "'x'"]),
            ]
        )
        return what + self._one(["", "", " DESC", " NULLS LAST", " DESC NULLS LAST"])

    def _odds(self, chance: float) -> bool:
        return self._chance.random() < chance

    def _one(self, among: Sequence[_Any]) -> _Any:
        return self._chance.choice(among)
