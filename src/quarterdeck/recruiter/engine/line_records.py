"""Records that are lines of NDJSON: how DuckDB reads them, and what conditions on them are.

The line as it stands is tested first, wherever that can rule out or decide: it costs a tenth of parsing it. JSON can
write one character in two ways, and all but the plain one have a backslash, so a line with one is always looked at
closely.

The text of a record is its line minified and with its strings unescaped as far as JSON allows; numbers are found as
they stand in the file.
"""

import glob
import re
from collections import Counter
from collections.abc import Sequence
from typing import Final, assert_never

from quarterdeck.recruiter.engine.conditions import atoms_of, compare_time, compare_value
from quarterdeck.recruiter.engine.fields import LINE, NOTHING, FieldColumns, LineFields
from quarterdeck.recruiter.engine.patterns import escaped, literal, of_glob, runs_of_glob
from quarterdeck.recruiter.engine.sql import ABSENT, Parameters, Sql, all_of
from quarterdeck.recruiter.engine.values import Value, of_text, time_of_text
from quarterdeck.recruiter.language import ast
from quarterdeck.recruiter.language.ast import Compare, Condition, Contains, Everything, Op, TimeRange

EVERYTHING: Final = Everything()
LONGEST_LINE_BYTES: Final = 16 * 1024**2
"""DuckDB reads lines of this length for certain, and none twice as long."""
_OFTEN: Final = 3
_BACKSLASH: Final = "'\\'"
_TEXT: Final = f"json_extract({LINE}, '$')::VARCHAR"
_UNESCAPED_LINE: Final = rf"regexp_replace({LINE}, '\\(u[0-9a-fA-F]{{4}}|.)', ' ', 'g')"
_NUMERIC: Final = re.compile(r"[-+.0-9eE]*|[-+]?(inf|infinity|nan)", re.IGNORECASE)
_STRUCTURE: Final = re.compile(r'[{}\[\],:"\\\x00-\x1f]|^\s|\s$')
"""What stands between values, or may stand between them and not in the text, or has to be escaped."""


class LineRecords:
    """Lines of some files. `time_field` names the field with a record's time, if there is one."""

    def __init__(
        self,
        paths: Sequence[str],
        time_field: str | None,
        parameters: Parameters,
        condition: Condition = EVERYTHING,
    ) -> None:
        """`condition` is the one that will be asked for."""
        self._paths = paths
        self._time_field = time_field
        self._parameters = parameters
        self._fields = LineFields(parameters)
        self._shared = {sql: f"shared{number}" for number, sql in enumerate(self._often_said(condition))}

    @property
    def is_read_twice(self) -> bool:
        return False

    @property
    def marked(self) -> list[str]:
        return ["mark", "file"] if len(self._paths) > 1 else ["mark"]

    @property
    def source(self) -> Sql:
        """The columns `line`, `bad` if it is no record, and `file`, the path, where there are several."""
        several = len(self._paths) > 1
        paths = self._parameters.add([glob.escape(path) for path in self._paths])  # a path is a pattern to DuckDB
        return f"""SELECT {LINE}, {LINE} IS NULL OR NOT starts_with({LINE}, '{{') AS bad, file FROM (
            SELECT json::VARCHAR AS {LINE}, {"filename" if several else "NULL::VARCHAR"} AS file
            FROM read_ndjson_objects({paths}, format = 'newline_delimited', ignore_errors = true, filename = {several},
            compression = 'uncompressed'))"""

    def having_sql(self, name: str) -> Sql:
        """Something for each record that has a field."""
        last = escaped(name.rpartition(".")[2]) + '"'
        before = f"contains({LINE}, {self._parameters.add(last)}) OR contains({LINE}, {_BACKSLASH})"
        return f"SELECT 1 FROM ({self.source}) WHERE NOT bad AND ({before}) AND {self.value(name).is_there}"

    def matched(self, condition: Sql, names: Sequence[str], *, line: bool, time: bool) -> tuple[Sql, dict[str, Value]]:
        """The records that fulfil a condition, and the lines that are none: a query with the columns `mark` (0 for a
        record, 1 for a bad line), `file`, those asked for of `line` and `time_us`, and the fields."""
        timed = [self._time_field] if time and self._time_field is not None else []
        fields = FieldColumns(self._parameters, [*names, *timed])
        where = "" if condition == "true" else f" WHERE bad OR ({condition})"
        kept = ["bad", "file", *([LINE] if line else [])]
        read = fields.of_lines(kept, f"SELECT bad, file, {LINE} FROM ({self._source_to_ask}){where}")
        values = {name: fields.value(name) for name in names}
        columns = [
            "bad::TINYINT AS mark",
            "CASE WHEN bad THEN file END AS file" if len(self._paths) > 1 else "file",
            *([LINE] if line else []),
            *dict.fromkeys(value.json for value in values.values()),
        ]
        if not time:
            return f"SELECT {', '.join(columns)} FROM ({read})", values
        text = fields.value(timed[0]).text if timed else ABSENT
        rows = f"SELECT {', '.join(columns)}, {text} AS time_text FROM ({read})"
        return f"SELECT *, {time_of_text('time_text')} AS time_us FROM ({rows})", values

    def value(self, name: str) -> Value:
        value = self._fields.value(name)
        return of_text(self._shared[value.text], value.json) if value.text in self._shared else value

    def compare(self, compare: Compare) -> Sql:
        exact = f"({compare_value(self.value(compare.field.name), compare, self._parameters)})"
        before = self._before(compare) if compare.op is Op.EQUAL else []
        return all_of([*before, exact])

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
                return f"regexp_matches({self._said(_TEXT)}, {self._parameters.add(value.pattern)})"
            case _:
                assert_never(value)

    def is_within(self, start_us: int | None, end_us: int | None) -> Sql:
        value = NOTHING if self._time_field is None else self.value(self._time_field)
        return compare_time(value.time_us, start_us, end_us, self._parameters)

    def _contains(self, pattern: str, runs: Sequence[str], *, by_text: bool) -> Sql:
        """Whether an expression, made of some runs of characters, is in the text, in any case. With `by_text` it may
        match what the line has and the text has not."""
        expression = self._parameters.add("(?i)" + pattern)
        in_line, in_text = (f"regexp_matches({subject}, {expression})" for subject in (LINE, self._said(_TEXT)))
        if by_text or any(_STRUCTURE.search(run) for run in runs):
            plain = [part for run in runs for part in _STRUCTURE.split(run) if not _NUMERIC.fullmatch(part or "")]
            longest = max(plain, key=len, default="").strip()
            return all_of([*([self._has_plain("(?i)" + literal(longest))] if longest else []), in_text])
        if any(_NUMERIC.fullmatch(run) for run in runs):
            in_text = f"({in_text} OR regexp_matches({_UNESCAPED_LINE}, {expression}))"
        return f"CASE WHEN contains({LINE}, {_BACKSLASH}) THEN {in_text} ELSE {in_line} END"

    @property
    def _source_to_ask(self) -> Sql:
        """The source with what the condition says often, computed once. Without the limit, which is none, DuckDB would
        put each of them back where it is said."""
        if not self._shared:
            return self.source
        shared = "".join(f", {sql} AS {column}" for sql, column in self._shared.items())
        return f"SELECT *{shared} FROM ({self.source}) LIMIT {2**62}"

    def _said(self, sql: Sql) -> Sql:
        return self._shared.get(sql, sql)

    def _often_said(self, condition: Condition) -> list[Sql]:
        """Expressions that parse the line, and that a condition says so often that it is better to parse every line
        once than some of them so often."""
        said: Counter[Sql] = Counter()
        for atom in atoms_of(condition):
            match atom:
                case Compare():
                    said[self._fields.value(atom.field.name).text] += 1
                case Contains():
                    said[_TEXT] += isinstance(atom.value, ast.Regex)
                case TimeRange():
                    pass
                case _:
                    assert_never(atom)
        return [sql for sql, times in said.items() if times >= _OFTEN]

    def _has_plain(self, expression: str) -> Sql:
        return f"regexp_matches({LINE}, {self._parameters.add(expression)}) OR contains({LINE}, {_BACKSLASH})"

    def _before(self, compare: Compare) -> list[Sql]:
        """What must be true of a line for the comparison to be."""
        match compare.value:
            case ast.Text():
                run = compare.value.text
            case ast.Glob():
                run = max(runs_of_glob(compare.value.pattern), key=len, default="")
            case _:
                return []
        if _NUMERIC.fullmatch(run) or (_STRUCTURE.search(run) and _may_be_nested(compare.value)):
            return []
        if escaped(run) != run:
            return [f"contains({LINE}, {_BACKSLASH})"]
        return [f"contains({LINE}, {self._parameters.add(run)}) OR contains({LINE}, {_BACKSLASH})"]


def _may_be_nested(value: ast.Text | ast.Glob) -> bool:
    """Whether an object or a list can be equal to it. Its text is minified, and the line need not be."""
    return value.text.startswith(("{", "[")) if isinstance(value, ast.Text) else value.pattern[0] in "*?{["
