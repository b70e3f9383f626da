"""What a client asks for: the parameters of each path, checked as Prometheus checks them, and in the same order.

What nobody knows is ignored. Every error is a `BadRequest`, or the `ParseError` of an empty query: the query itself is
read where it is planned.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from quarterdeck.metrics.api.errors import BadRequest, invalid_parameter
from quarterdeck.metrics.api.form import Form, choice, count_of, first, limit_of, read, short, time_ms_of
from quarterdeck.metrics.api.label_names import parse_label_name
from quarterdeck.metrics.api.selectors import Matchers, parse_selectors
from quarterdeck.metrics.api.times import MAX_TIME_MS, MIN_TIME_MS, parse_length_ms, parse_time_ms
from quarterdeck.metrics.promql.errors import ParseError
from quarterdeck.metrics.promql.spans import Span

MAX_STEPS: Final = 11_000
"""From the first point of a range query to its last; Prometheus counts these, and calls them points."""

TOO_MANY_STEPS: Final = (
    f"exceeded maximum resolution of {MAX_STEPS:,} points per timeseries. "
    "Try decreasing the query resolution (?step=XX)"
)
_NO_STEP: Final = "zero or negative query resolution step widths are not accepted. Try a positive integer"


class Partial(StrEnum):
    """Whether an answer may be given when some of the data cannot be reached. It says so in a warning then."""

    ALLOW = "allow"
    DENY = "deny"


class Explain(StrEnum):
    """What is to be told about how the query was run."""

    NOTHING = ""
    ANALYZE = "analyze"


@dataclass(frozen=True, slots=True)
class Conditions:
    """How a query is to be run, whatever it asks."""

    timeout_ms: int | None
    """None: as long as the server allows. Not above zero: no time at all."""
    lookback_ms: int | None
    """None: the server's."""
    limit: int
    """The most series in the answer; 0 for all."""
    partial: Partial
    explain: Explain


@dataclass(frozen=True, slots=True)
class QueryParameters:
    """Of `query`."""

    query: str
    time_ms: int
    conditions: Conditions


@dataclass(frozen=True, slots=True)
class RangeParameters:
    """Of `query_range`."""

    query: str
    start_ms: int
    end_ms: int
    step_ms: int
    conditions: Conditions


@dataclass(frozen=True, slots=True)
class SeriesParameters:
    """Of `series` and `labels`: what matches any of the selectors."""

    selectors: tuple[Matchers, ...]
    start_ms: int
    end_ms: int
    limit: int
    """0 for all."""
    partial: Partial


@dataclass(frozen=True, slots=True)
class LabelValuesParameters:
    """Of `label/<name>/values`."""

    name: str
    series: SeriesParameters


@dataclass(frozen=True, slots=True)
class MetadataParameters:
    """Of `metadata`."""

    metric: str
    """Empty for all."""
    limit: int
    """Negative for all."""
    limit_per_metric: int
    """Not above zero for all."""


def query_parameters(form: Form, now_ms: int) -> QueryParameters:
    """What an instant query asks, by default about now."""
    limit = limit_of(form)
    time_ms = time_ms_of(form, "time", now_ms, now_ms)
    conditions = conditions_of(form, limit)
    return QueryParameters(_query(form), time_ms, conditions)


def range_parameters(form: Form, now_ms: int | None = None) -> RangeParameters:
    """What a range query asks; none of its times has a default. Without `now_ms`, here and below, no time is counted
    from now."""
    limit = limit_of(form)
    start_ms = read(form, "start", lambda text: parse_time_ms(text, now_ms))
    end_ms = read(form, "end", lambda text: parse_time_ms(text, now_ms))
    if end_ms < start_ms:
        raise invalid_parameter("end", "end timestamp must not be before start time")
    step_ms = _step_ms(form)
    check_steps(start_ms, end_ms, step_ms)
    conditions = conditions_of(form, limit)
    return RangeParameters(_query(form), start_ms, end_ms, step_ms, conditions)


def series_parameters(form: Form, now_ms: int | None = None) -> SeriesParameters:
    """Which series are asked for; at least one selector is needed."""
    if not form.get("match[]"):
        raise BadRequest("no match[] parameter provided", "say which series: match[]=up")
    return _series(form, now_ms, "match[]")


def labels_parameters(form: Form, now_ms: int | None = None) -> SeriesParameters:
    """Of which series the names of labels are asked for; by default of all."""
    return _series(form, now_ms)


def label_values_parameters(name: str, form: Form, now_ms: int | None = None) -> LabelValuesParameters:
    """Of which label, and of which series, the values are asked for."""
    return LabelValuesParameters(parse_label_name(name), _series(form, now_ms))


def metadata_parameters(form: Form) -> MetadataParameters:
    """Of which metrics what is known is asked for."""
    return MetadataParameters(first(form, "metric"), count_of(form, "limit"), count_of(form, "limit_per_metric"))


def check_steps(start_ms: int, end_ms: int, step_ms: int) -> None:
    """Refuse a range with more points than anybody can look at."""
    if (end_ms - start_ms) // step_ms > MAX_STEPS:
        raise BadRequest(TOO_MANY_STEPS, "make the step longer or the range shorter")


def _query(form: Form) -> str:
    query = first(form, "query")
    if not query:
        raise ParseError("no expression found in input", query, Span(0, 0))
    return query


def conditions_of(form: Form, limit: int = 0) -> Conditions:
    """How a query is to be run."""
    timeout_ms = read(form, "timeout", parse_length_ms) if first(form, "timeout") else None
    lookback_ms = None
    if text := short(form, "lookback_delta"):
        try:
            lookback_ms = parse_length_ms(text)
        except ValueError as error:
            raise BadRequest(f"error parsing lookback delta duration: {error}") from None
    # As in Prometheus, a lookback that is not above zero is that of the server.
    lookback_ms = lookback_ms if lookback_ms and lookback_ms > 0 else None
    partial, explain = choice(form, "partial", Partial, Partial.DENY), choice(form, "explain", Explain, Explain.NOTHING)
    return Conditions(timeout_ms, lookback_ms, limit, partial, explain)


def _step_ms(form: Form) -> int:
    step_ms = read(form, "step", parse_length_ms)
    if step_ms <= 0:
        raise invalid_parameter("step", _NO_STEP)
    return step_ms


def _series(form: Form, now_ms: int | None, parameter: str = "") -> SeriesParameters:
    """`parameter` is what errors of a selector are told about: Prometheus does so for `series` only."""
    limit = limit_of(form)
    start_ms = time_ms_of(form, "start", MIN_TIME_MS, now_ms)
    end_ms = time_ms_of(form, "end", MAX_TIME_MS, now_ms)
    try:
        selectors = parse_selectors(form.get("match[]", ()))
    except (ParseError, ValueError) as error:
        reason = error.reason if isinstance(error, ParseError) else str(error)
        raise (invalid_parameter(parameter, reason) if parameter else BadRequest(reason)) from None
    return SeriesParameters(selectors, start_ms, end_ms, limit, choice(form, "partial", Partial, Partial.DENY))
