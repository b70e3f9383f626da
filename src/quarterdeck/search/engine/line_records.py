"""Records that are lines of NDJSON: what conditions on them are in SQL.

They come from the table `lines`, which `line_scanner` makes: each line, and the values of the keys that were asked for.
A word is looked for in the line as it stands wherever that decides. JSON can write one character in two ways, and all
but the plain one have a backslash, so a line with one is always looked at closely.

The text of a record is its line minified and with its strings unescaped as far as JSON allows; numbers are found as
they stand in the file.
"""

import re
from collections.abc import Sequence
from typing import Final, assert_never

from quarterdeck.search.engine.conditions import COMPARISONS, atoms_of, compare_time, compare_value
from quarterdeck.search.engine.fields import LINE, NOTHING, first_of, paths_of, pointer_of
from quarterdeck.search.engine.line_call import ValueKind
from quarterdeck.search.engine.patterns import escaped, literal, of_glob, runs_of_glob
from quarterdeck.search.engine.sql import Parameters, Sql, all_of
from quarterdeck.search.engine.values import Value, of_json, of_raw, of_text, time_of_text
from quarterdeck.search.language import ast
from quarterdeck.search.language.ast import Compare, Condition, Contains, Everything, Op

EVERYTHING: Final = Everything()
LINES: Final = "lines"
"""The table."""
LONGEST_LINE_BYTES: Final = 16 * 1024**2
"""Whoever looks for the end of a line does not look farther."""
_OFTEN: Final = 3
_SHARED: Final = "shared"
_BACKSLASH: Final = "'\\'"
_TEXT: Final = f"json_extract({LINE}, '$')::VARCHAR"
_UNESCAPED_LINE: Final = rf"regexp_replace({LINE}, '\\(u[0-9a-fA-F]{{4}}|.)', ' ', 'g')"
_NUMERIC: Final = re.compile(r"[-+.0-9eE]*|[-+]?(inf|infinity|nan)", re.IGNORECASE)
_STRUCTURE: Final = re.compile(r'[{}\[\],:"\\\x00-\x1f]|^\s|\s$')
"""What stands between values, or may stand between them and not in the text, or has to be escaped."""


class LineRecords:
    """`time_field` names the field with a record's time, if there is one."""

    def __init__(self, time_field: str | None, parameters: Parameters, condition: Condition = EVERYTHING) -> None:
        """`condition` is the one that will be asked for."""
        self._time_field = time_field
        self._parameters = parameters
        self._keys: dict[str, int] = {}
        regexes = [
            atom for atom in atoms_of(condition) if isinstance(atom, Contains) and isinstance(atom.value, ast.Regex)
        ]
        # Parsed once, if it is said so often that this is better than to parse some lines so often.
        self._is_shared = len(regexes) >= _OFTEN

    @property
    def keys(self) -> list[str]:
        """The keys whose values the SQL that was made needs, in the order of their columns."""
        return list(self._keys)

    @property
    def is_read_twice(self) -> bool:
        return False

    def having_sql(self, name: str) -> Sql:
        """Something for each record that has a field."""
        return f"SELECT 1 FROM {LINES} WHERE {self.value(name).is_there}"

    def matched(self, condition: Sql, names: Sequence[str], *, line: bool, time: bool) -> tuple[Sql, dict[str, Value]]:
        """The records that fulfil a condition: a query with the columns asked for of `line` and `time_us`, and those of
        the fields."""
        values: dict[str, Value] = {}
        columns = [LINE] if line else []
        for name in dict.fromkeys(names):
            if len(paths_of(name)) == 1:
                raw, kind = self._column(name)
                columns += [raw, kind]
                values[name] = of_raw(raw, kind)
            else:
                field = f"f{len(values)}"
                columns.append(f"{self.value(name).json} AS {field}")
                values[name] = of_json(field)
        if time:
            columns.append(f"{self._time.text} AS time_text")
        rows = f"SELECT {', '.join(columns) or '1'} FROM {self._source} WHERE {condition}"
        return (f"SELECT *, {time_of_text('time_text')} AS time_us FROM ({rows})" if time else rows), values

    def value(self, name: str) -> Value:
        (first,), *others = paths_of(name)
        value = of_raw(*self._column(first))
        if not others:
            return value
        texts, jsons = [value.text], [value.json]
        for outer, *within in others:
            raw, kind = self._column(outer)
            pointer = self._parameters.add(pointer_of(within))
            is_nested = f"CASE WHEN {kind} = {ValueKind.NESTED:d} THEN"
            texts.append(f"{is_nested} json_extract_string({raw}, {pointer}) END")
            jsons.append(f"{is_nested} nullif(json_extract({raw}, {pointer})::VARCHAR, 'null') END")
        return of_text(first_of(texts), first_of(jsons))

    def compare(self, compare: Compare) -> Sql:
        exact = f"({compare_value(self.value(compare.field.name), compare, self._parameters)})"
        name, wanted = compare.field.name, compare.value
        if (
            compare.op in (Op.EQUAL, Op.NOT_EQUAL)
            and isinstance(wanted, ast.Text)
            and escaped(wanted.text) == wanted.text
            and len(paths_of(name)) == 1
        ):
            raw, kind = self._column(name)
            quoted = self._parameters.add(f'"{wanted.text}"')
            return f"""CASE WHEN {kind} = {ValueKind.STRING:d} THEN {raw} {COMPARISONS[compare.op]} {quoted}
                ELSE {exact} END"""
        return exact

    def contains(self, value: ast.Value) -> Sql:
        match value:
            case ast.Text() | ast.Number():
                # A quote may be one of JSON's own or one of a string's, which JSON escapes.
                forms = dict.fromkeys(literal(form) for form in (value.text, escaped(value.text)))
                return self._contains("|".join(forms), [value.text], by_text=False)
            case ast.Glob():
                runs = runs_of_glob(value.pattern)
                if not runs:
                    return (
                        "true" if "?" not in value.pattern else self._contains(of_glob(value.pattern), [], by_text=True)
                    )
                return self._contains(of_glob(value.pattern.strip("*")), runs, by_text="?" in value.pattern)
            case ast.Regex():
                return f"regexp_matches({self._text}, {self._parameters.add(value.pattern)})"
            case _:
                assert_never(value)

    def is_within(self, start_us: int | None, end_us: int | None) -> Sql:
        return compare_time(self._time.time_us, start_us, end_us, self._parameters)

    def _contains(self, pattern: str, runs: Sequence[str], *, by_text: bool) -> Sql:
        """Whether an expression, made of some runs of characters, is in the text, in any case. With `by_text` it may
        match what the line has and the text has not."""
        expression = self._parameters.add("(?i)" + pattern)
        in_line, in_text = (f"regexp_matches({subject}, {expression})" for subject in (LINE, self._text))
        if by_text or any(_STRUCTURE.search(run) for run in runs):
            plain = [part for run in runs for part in _STRUCTURE.split(run) if not _NUMERIC.fullmatch(part or "")]
            longest = max(plain, key=len, default="").strip()
            return all_of([*([self._has_plain("(?i)" + literal(longest))] if longest else []), in_text])
        if any(_NUMERIC.fullmatch(run) for run in runs):
            in_text = f"({in_text} OR regexp_matches({_UNESCAPED_LINE}, {expression}))"
        return f"CASE WHEN contains({LINE}, {_BACKSLASH}) THEN {in_text} ELSE {in_line} END"

    @property
    def _source(self) -> Sql:
        """The lines, with their text if that is said often. Without the limit, which is none, DuckDB would compute it
        wherever it is said."""
        return f"(SELECT *, {_TEXT} AS {_SHARED} FROM {LINES} LIMIT {2**62})" if self._is_shared else LINES

    @property
    def _text(self) -> Sql:
        return _SHARED if self._is_shared else _TEXT

    @property
    def _time(self) -> Value:
        return NOTHING if self._time_field is None else self.value(self._time_field)

    def _column(self, key: str) -> tuple[Sql, Sql]:
        """A value as it stands in the line, and its kind."""
        number = self._keys.setdefault(key, len(self._keys))
        return f"r{number}", f"c{number}"

    def _has_plain(self, expression: str) -> Sql:
        return f"regexp_matches({LINE}, {self._parameters.add(expression)}) OR contains({LINE}, {_BACKSLASH})"
