"""Operators between two values, and which rows of two sides belong together."""

import math
from dataclasses import dataclass, replace

from tests.differential.histogram_model.arithmetic import minus, plus
from tests.differential.histogram_model.histogram import GAUGE, Histogram, IncompatibleError, over
from tests.differential.histogram_model.samples import NAME, Labels, Notes, Row, Value
from tests.differential.histogram_model.shares import trimmed

ARITHMETIC = ("+", "-", "*", "/", "%", "^", "atan2")
COMPARISONS = ("==", "!=", ">", "<", ">=", "<=")
TRIMS = ("</", ">/")
SETS = ("and", "or", "unless")
NAMES = {"+": "addition", "-": "subtraction"}


class Refused(Exception):
    """The query is an error."""


@dataclass(frozen=True)
class Answer:
    """What an operator says of two values. Not there: they do not go together, and a note says so."""

    there: bool
    holds: bool = True
    """A comparison may say no."""
    value: Value = 0.0


NOTHING = Answer(False, False)


def operate(op: str, left: Value, right: Value, notes: Notes) -> Answer:
    """An operator between two values."""
    if isinstance(left, Histogram) and isinstance(right, Histogram):
        return _histograms(op, left, right, notes)
    if isinstance(left, float) and isinstance(right, float) and op not in TRIMS:
        holds = op not in COMPARISONS or _holds(op, left, right)
        return Answer(True, holds, left if op in COMPARISONS else _number(op, left, right))
    if isinstance(left, Histogram) and isinstance(right, float):
        if op in {"*", "/"}:
            return Answer(True, value=(left.scaled(right) if op == "*" else left.divided(right)).compact())
        if op in TRIMS:
            return Answer(True, value=trimmed(left, right, above=op == "</"))
    if isinstance(left, float) and isinstance(right, Histogram) and op == "*":
        return Answer(True, value=right.scaled(left).compact())
    kinds = ["histogram" if isinstance(side, Histogram) else "float" for side in (left, right)]
    text = f'incompatible sample types encountered for binary operator "{op}": {kinds[0]} {op} {kinds[1]}'
    notes.inform(text)
    return NOTHING


def _histograms(op: str, left: Histogram, right: Histogram, notes: Notes) -> Answer:
    if op in {"==", "!="}:
        return Answer(True, left.equals(right) == (op == "=="), left)
    if op not in NAMES:
        text = f'incompatible sample types encountered for binary operator "{op}": histogram {op} histogram'
        notes.inform(text)
        return NOTHING
    try:
        outcome = plus(left, right) if op == "+" else minus(left, right)
    except IncompatibleError:
        notes.warn(f"incompatible bucket layout encountered for binary operator {op}")
        return NOTHING
    if outcome.collided:
        # Prometheus takes this for an error and has no result.
        notes.warn(f"conflicting counter resets during histogram {NAMES[op]}")
        return NOTHING
    if outcome.reconciled:
        notes.inform(f"mismatched custom buckets were reconciled during {NAMES[op]}")
    result = outcome.histogram.compact()
    return Answer(True, value=result if op == "+" else replace(result, hint=GAUGE))


def _holds(op: str, left: float, right: float) -> bool:
    match op:
        case "==":
            return left == right
        case "!=":
            return left != right
        case ">":
            return left > right
        case "<":
            return left < right
        case ">=":
            return left >= right
        case _:
            return left <= right


def _number(op: str, left: float, right: float) -> float:
    match op:
        case "+":
            return left + right
        case "-":
            return left - right
        case "*":
            return left * right
        case "/":
            return over(left, right)
        case "%":
            return math.nan if right == 0 or math.isinf(left) or math.isnan(left + right) else math.fmod(left, right)
        case "atan2":
            return math.atan2(left, right)
        case _:
            return _power(left, right)


def _power(left: float, right: float) -> float:
    try:
        found = math.pow(left, right)
    except OverflowError:
        return math.copysign(math.inf, left) if right % 2 == 1 else math.inf
    except ValueError:
        return math.inf if left == 0 else math.nan
    return found


@dataclass(frozen=True)
class Matching:
    """By which labels rows of two sides belong together; `many` is the side with several, `left`, `right` or none."""

    on: bool = False
    names: tuple[str, ...] = ()
    many: str = ""

    def __str__(self) -> str:
        if not self.on and not self.names and not self.many:
            return ""
        shown = f"{'on' if self.on else 'ignoring'} ({', '.join(self.names)})"
        return f"{shown} group_{self.many} ()" if self.many else shown

    def signature(self, labels: Labels) -> Labels:
        """What rows that belong together have in common."""
        if self.on:
            return tuple(pair for pair in labels if pair[0] in self.names)
        return tuple(pair for pair in labels if pair[0] not in {*self.names, NAME})


def combined(
    op: str, left: list[Row], right: list[Row], matching: Matching, returns_bool: bool, notes: Notes
) -> list[Row]:
    """An operator between two vectors."""
    if op in SETS:
        return _set(op, left, right, matching)
    if not left or not right:
        return []
    many, ones = (right, left) if matching.many == "right" else (left, right)
    one_of: dict[Labels, Row] = {}
    for row in ones:
        if matching.signature(row.labels) in one_of:
            raise Refused
        one_of[matching.signature(row.labels)] = row
    found: list[Row] = []
    seen: set[tuple[Labels, Labels]] = set()
    for row in many:
        signature = matching.signature(row.labels)
        one = one_of.get(signature)
        if one is None:
            continue
        sides = (one.value, row.value) if matching.many == "right" else (row.value, one.value)
        answer = operate(op, *sides, notes)
        if not answer.there:
            continue
        labels = row.labels if op in COMPARISONS or op in TRIMS else row.key
        if not matching.many:
            labels = tuple(pair for pair in labels if (pair[0] in matching.names) == matching.on)
        key = (signature, labels if matching.many else ())
        if key in seen:
            raise Refused
        seen.add(key)
        if returns_bool:
            found.append(Row(labels, float(answer.holds), row.time_ms, True))
        elif answer.holds:
            found.append(Row(labels, answer.value, row.time_ms, row.nameless and labels != row.key))
    return found


def _set(op: str, left: list[Row], right: list[Row], matching: Matching) -> list[Row]:
    there = {matching.signature(row.labels) for row in (left if op == "or" else right)}
    if op == "or":
        return left + [row for row in right if matching.signature(row.labels) not in there]
    return [row for row in left if (matching.signature(row.labels) in there) == (op == "and")]


def with_number(op: str, rows: list[Row], number: float, is_left: bool, returns_bool: bool, notes: Notes) -> list[Row]:
    """An operator between each row and a number."""
    found: list[Row] = []
    for row in rows:
        answer = operate(op, *((number, row.value) if is_left else (row.value, number)), notes)
        if not answer.there:
            continue
        if returns_bool:
            found.append(row.with_value(float(answer.holds)))
        elif answer.holds:
            keeps = op in COMPARISONS or op in TRIMS
            found.append(row.with_value(row.value if op in COMPARISONS else answer.value, nameless=not keeps))
    return found
