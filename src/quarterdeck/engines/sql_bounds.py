"""How long, how deep and how complicated SQL may be, before a parser sees it.

DuckDB's parser needs time and memory that grow with the square of the depth of brackets: 2,000 of them, in 4 KB of
text, take a second and 600 MB for each of the three times that it reads them. Its optimizer needs time that grows with
the cube of the number of joined tables (200 take 0.6 s, 500 take 9 s), and binding doubles with each lambda within a
lambda. So a text is scanned here first, once and from left to right, and everything that costs more than its length is
counted. With these limits no text of those kinds costs DuckDB more than some 100 ms. What people and their tools write
stays far below all of them.

Quotes and comments are told apart as DuckDB does, because what is inside them does not count. If that is not certain,
the text is refused. This module knows no grammar: DuckDB says whether a text is SQL at all.
"""

import re
from typing import Final, NoReturn

from quarterdeck.core.carets import line_and_column
from quarterdeck.core.errors import ErrorCode, QuarterdeckError

MAX_SQL_CHARACTERS: Final = 100_000
"""Longer texts are made by programs, and take the parser longer than the scan."""
MAX_TOKENS: Final = 20_000
"""Words, numbers, texts and marks. A list of 10,000 numbers has as many."""
MAX_DEPTH: Final = 64
"""Brackets of all kinds and CASE within each other. Tools that write SQL rarely go beyond 20."""
MAX_SUM_OF_DEPTHS: Final = 20_000
"""The depths of all brackets, added up: ten towers cost ten times as much as one."""
MAX_TABLES: Final = 100
"""Tables after the first of each FROM, with JOIN or a comma."""
MAX_SET_OPERATIONS: Final = 100
"""UNION, EXCEPT and INTERSECT."""
MAX_LAMBDAS: Final = 8
"""Lambdas, and lists made with FOR, within each other."""
MAX_NAME_PARTS: Final = 32
"""Names with points between them."""

# Possessive or anchored by what comes next: no character is looked at more than a few times. Only single characters
# are repeated possessively: before 3.11.5 Python gets groups wrong that have a choice in them. What begins a quote or a
# comment and does not end it takes the rest of the text, as it does for DuckDB, which then refuses it. Which characters
# beyond ASCII are blanks to DuckDB is not known here: all of them may be part of a word.
_TOKEN: Final = re.compile(
    r"""(?:
      (?P<skipped> [ \t-\r]++ | --[^\r\n]*+ | /\*[^*/]*+(?:(?:\*(?!/)|/(?!\*))[^*/]*+)*(?:\*/|\Z) )
    | (?P<text> '[^']*+(?:''[^']*+)*(?:'|\Z) | [eE]'[^'\\]*+(?:(?:\\.|'')[^'\\]*+)*(?:'|\\?\Z)
              | \$(?P<tag>(?:[A-Za-z_][A-Za-z0-9_]*+)?)\$(?:.*?\$(?P=tag)\$|.*) )
    | (?P<unclear> \x00 | /\* | \$[A-Za-z0-9_]*+[^\x00-\x7f] )
    | (?P<word> [A-Za-z_\x80-\U0010ffff][A-Za-z0-9_$\x80-\U0010ffff]*+ )
    | (?P<name> "[^"]*+(?:""[^"]*+)*(?:"|\Z) | `[^`]*+(?:``[^`]*+)*(?:`|\Z) )
    | (?P<open> [(\[{] )
    | (?P<close> [)\]}] )
    | (?P<comma> , )
    | (?P<point> \.(?![0-9]) )
    | [0-9]++(?:\.[0-9]++)? | .
    )[ \t-\r]*+""",
    re.VERBOSE | re.DOTALL,
)
_OPENERS: Final = {")": "(", "]": "[", "}": "{"}
_SET_OPERATIONS: Final = frozenset({"union", "except", "intersect"})
_ENDS_OF_FROM: Final = frozenset({"where", "group", "having", "window", "qualify", "order", "limit", "select", "using"})


def check_sql(sql: str) -> None:
    """Raises `QuarterdeckError` for SQL that no engine should read."""
    if len(sql) > MAX_SQL_CHARACTERS:
        why = f"it has {len(sql):,} characters, and may have {MAX_SQL_CHARACTERS:,}"
        raise QuarterdeckError(ErrorCode.INVALID_ARGUMENT, "the SQL was not run", why, "send several, each with less")
    _Look(sql).through()


class _Level:
    """What stands between two brackets, so far."""

    __slots__ = ("in_from", "lambdas", "lambdas_within", "opener")

    def __init__(self, opener: str) -> None:
        self.opener = opener
        self.in_from = False
        self.lambdas = 0
        """One if there is any."""
        self.lambdas_within = 0
        """Of brackets that were closed: how deep lambdas stand in them."""


class _Look:
    """One text, and what was counted in it."""

    def __init__(self, sql: str) -> None:
        self._sql = sql
        self._levels = [_Level("")]
        self._sum_of_depths = 0
        self._tables = 0
        self._set_operations = 0
        self._name_parts = 0

    def through(self) -> None:
        tokens = 0
        before = ""
        for found in _TOKEN.finditer(self._sql):
            kind = found.lastgroup
            if kind == "skipped":
                continue
            tokens += 1
            if tokens > MAX_TOKENS:
                self._refuse(found, f"it has more than {MAX_TOKENS:,} words and marks", "send several, each with less")
            match kind:
                case "word":
                    self._word(found, before)
                case "point":
                    self._point(found)
                case "name":
                    pass
                case _:
                    self._name_parts = 0
                    self._mark(kind, found)
            before = found["word"] or ""

    def _word(self, found: re.Match[str], before: str) -> None:
        word = found["word"].lower()
        level = self._levels[-1]
        if self._sql[found.end("word") : found.end("word") + 1] == "'" and not word.isascii():
            self._refuse_unclear(found)
        if word == "case":
            self._open(found, "case")
        elif word == "end" and level.opener == "case":
            self._pop()
        elif word == "join":
            self._table(found)
        elif word in _SET_OPERATIONS:
            level.in_from = False
            self._set_operations += 1
            if self._set_operations > MAX_SET_OPERATIONS:
                why = f"it has more than {MAX_SET_OPERATIONS} of UNION, EXCEPT and INTERSECT"
                self._refuse(found, why, "send several, each with less")
        elif word == "from":
            level.in_from = before.lower() != "distinct"  # IS DISTINCT FROM compares
        elif word in _ENDS_OF_FROM:
            level.in_from = False
        elif word in ("lambda", "for"):
            level.lambdas = 1

    def _point(self, found: re.Match[str]) -> None:
        self._name_parts += 1
        if self._name_parts >= MAX_NAME_PARTS:
            why = f"a name has more than {MAX_NAME_PARTS} parts with points between them"
            self._refuse(found, why, "name a column")

    def _mark(self, kind: str | None, found: re.Match[str]) -> None:
        match kind:
            case "open":
                self._open(found, found["open"])
            case "close":
                self._close(found, _OPENERS[found["close"]])
            case "comma":
                if self._levels[-1].in_from:
                    self._table(found)
            case "unclear":
                self._refuse_unclear(found)
            case _:
                pass

    def _open(self, found: re.Match[str], opener: str) -> None:
        self._levels.append(_Level(opener))
        depth = len(self._levels) - 1
        self._sum_of_depths += depth
        if depth > MAX_DEPTH:
            why = f"brackets and CASE stand more than {MAX_DEPTH} deep within each other"
            self._refuse(found, why, "write it flatter, with parts of it named in WITH")
        if self._sum_of_depths > MAX_SUM_OF_DEPTHS:
            why = f"it has too many brackets within brackets (their depths make more than {MAX_SUM_OF_DEPTHS:,})"
            self._refuse(found, why, "write it flatter, or send several")

    def _close(self, found: re.Match[str], opener: str) -> None:
        """A bracket ends every CASE within it: `case` may have been a name. One that closes nothing is not counted."""
        if self._levels[-1].opener != opener and all(level.opener != opener for level in self._levels):
            return
        while self._levels[-1].opener == "case":
            self._pop()
        if self._levels[-1].opener == opener and self._pop() > MAX_LAMBDAS:
            why = f"lambdas stand more than {MAX_LAMBDAS} deep within each other"
            self._refuse(found, why, "make the inner lists in a WITH of their own")

    def _pop(self) -> int:
        """How deep lambdas stand in the level that ends."""
        level = self._levels.pop()
        lambdas = level.lambdas + level.lambdas_within
        above = self._levels[-1]
        above.lambdas_within = max(above.lambdas_within, lambdas)
        return lambdas

    def _table(self, found: re.Match[str]) -> None:
        self._tables += 1
        if self._tables > MAX_TABLES:
            why = f"it joins more than {MAX_TABLES} tables"
            self._refuse(found, why, "send several, each with fewer")

    def _refuse_unclear(self, found: re.Match[str]) -> NoReturn:
        if found[0].startswith("\x00"):
            self._refuse(found, "it has a character of the code 0", "leave it out")
        why = "a comment stands within a comment, or a letter that is not ASCII right before or within a quote's mark"
        self._refuse(found, why, "leave the inner comment out, or put a blank before the quote")

    def _refuse(self, found: re.Match[str], why: str, next_step: str) -> NoReturn:
        line, column = line_and_column(self._sql, found.start())
        raise QuarterdeckError(
            ErrorCode.INVALID_ARGUMENT, "the SQL was not run", f"{why} (line {line}, column {column})", next_step
        )
