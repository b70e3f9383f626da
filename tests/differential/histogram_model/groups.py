"""Aggregations of the rows of one step."""

import math
from collections.abc import Iterable
from decimal import Decimal

from tests.differential.histogram_model.arithmetic import exact_sum, total
from tests.differential.histogram_model.histogram import Histogram, IncompatibleError
from tests.differential.histogram_model.samples import NAME, Labels, Notes, Row, Value

PLAIN = ("sum", "avg", "count", "group", "min", "max", "stddev", "stdvar")
WITH_NUMBER = ("topk", "bottomk", "limitk", "quantile")
COLLISION = "conflicting counter resets during histogram aggregation"
RECONCILED = "mismatched custom buckets were reconciled during aggregation"
MIXED_KINDS = "encountered a mix of histograms and floats for aggregation"
MIXED_BUCKETS = 'vector contains a mix of histograms with exponential and custom buckets schemas for metric name "{}"'


def aggregated(
    op: str, rows: list[Row], names: tuple[str, ...], without: bool, parameter: float | str | None, notes: Notes
) -> list[Row]:
    """The groups of an aggregation, or what it chooses of each."""
    if op == "count_values":
        rows = [_valued(row, str(parameter)) for row in rows]
        names = names if without else (*names, str(parameter))
    groups: dict[Labels, list[Row]] = {}
    for row in rows:
        groups.setdefault(_group(row.labels, names, without), []).append(row)
    found: list[Row] = []
    for labels, members in groups.items():
        if op in {"topk", "bottomk", "limitk"}:
            assert isinstance(parameter, float)
            found += _chosen(op, members, int(parameter), notes)
            continue
        value = _value(op, members, parameter, notes)
        if value is not None:
            found.append(Row(labels, value, members[0].time_ms))
    return found


def _valued(row: Row, label: str) -> Row:
    shown = str(row.value) if isinstance(row.value, Histogram) else plain(row.value)
    labels = tuple(sorted({**dict(row.labels), label: shown}.items()))
    return Row(labels, row.value, row.time_ms, row.nameless)


def plain(number: float) -> str:
    """As a label of `count_values` shows a float: without an exponent."""
    if math.isnan(number):
        return "NaN"
    if math.isinf(number):
        return "+Inf" if number > 0 else "-Inf"
    return format(Decimal(repr(number)), "f").removesuffix(".0")


def _group(labels: Labels, names: Iterable[str], without: bool) -> Labels:
    if without:
        return tuple(pair for pair in labels if pair[0] not in {*names, NAME})
    return tuple(pair for pair in labels if pair[0] in set(names))


def _chosen(op: str, members: list[Row], count: int, notes: Notes) -> list[Row]:
    if count < 1:
        return []
    if op == "limitk":
        return sorted(members, key=lambda row: row.labels)[:count]
    floats = [row for row in members if isinstance(row.value, float)]
    if len(floats) < len(members):
        notes.inform(f"ignored histogram in {op} aggregation")
    # Of equal values the one that comes first by its labels is kept.
    ordered = sorted(floats, key=lambda row: row.labels)
    ordered.sort(key=_size, reverse=op == "topk")
    return ordered[:count]


def _size(row: Row) -> float:
    assert isinstance(row.value, float)
    return row.value


def _value(op: str, members: list[Row], parameter: float | str | None, notes: Notes) -> Value | None:
    floats = [row.value for row in members if isinstance(row.value, float)]
    histograms = [row.value for row in members if isinstance(row.value, Histogram)]
    if op in {"count", "count_values"}:
        return float(len(members))
    if op == "group":
        return 1.0
    if op in {"sum", "avg"}:
        return _total(op, floats, histograms, min(row.metric for row in members), notes)
    if histograms:
        notes.inform(f"ignored histogram in {op} aggregation")
    if not floats:
        return None
    if op in {"min", "max"}:
        return extreme(floats, op == "max")
    if op == "quantile":
        assert isinstance(parameter, float)
        return quantile(parameter, floats)
    return spread(floats) if op == "stdvar" else math.sqrt(spread(floats))


def extreme(values: list[float], largest: bool) -> float:
    """The largest or smallest; what is no number only where there is nothing else."""
    numbers = [value for value in values if not math.isnan(value)] or [math.nan]
    return max(numbers) if largest else min(numbers)


def spread(values: list[float]) -> float:
    """The mean squared distance from the mean; unknown if anything is infinite or no number."""
    if not all(map(math.isfinite, values)):
        return math.nan
    mean = sum(values) / len(values)
    return sum((value - mean) * (value - mean) for value in values) / len(values)


def _total(op: str, floats: list[float], histograms: list[Histogram], metric: str, notes: Notes) -> Value | None:
    if floats and histograms:
        if len({histogram.is_custom for histogram in histograms}) == 2:
            # Which is found first depends on the order of the series.
            notes.perhaps(f"warning: {MIXED_KINDS}", f"warning: {MIXED_BUCKETS.format(metric)}")
        else:
            notes.warn(MIXED_KINDS)
        notes.perhaps(f"info: {RECONCILED}")
        return None
    if floats:
        return exact_sum(floats, len(floats) if op == "avg" else 1)
    layouts = {(one.schema, one.zero_threshold) for one in histograms if not one.is_custom}
    schemas, thresholds = {schema for schema, _ in layouts}, {threshold for _, threshold in layouts}
    # What the first two make of their zero buckets decides how much of a third is within it.
    notes.order_counts |= len(layouts) > 2 and len(schemas) > 1 and len(thresholds) > 1
    try:
        outcome = total(histograms, op == "avg")
    except IncompatibleError:
        notes.warn(MIXED_BUCKETS.format(metric))
        notes.perhaps(f"info: {RECONCILED}")
        return None
    if outcome.collided:
        notes.warn(COLLISION)
    if outcome.reconciled:
        notes.inform(RECONCILED)
    return outcome.histogram.compact()


def quantile(phi: float, values: list[float]) -> float:
    """A quantile of some numbers, between the two nearest."""
    if math.isnan(phi):
        return math.nan
    if phi < 0 or phi > 1:
        return math.inf if phi > 1 else -math.inf
    values = sorted(values, key=lambda value: -math.inf if math.isnan(value) else value)
    rank = phi * (len(values) - 1)
    low = math.floor(rank)
    high = min(len(values) - 1, low + 1)
    return values[low] * (1 - (rank - low)) + values[high] * (rank - low)
