"""What `/docs` says about the paths of metrics: their parameters, bodies and answers.

The handlers read the raw form, as Prometheus does, so that the framework knows nothing of it. A parameter is described
once: it stands in the address of a GET, and in the body of a POST.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, TypeAlias

Described: TypeAlias = dict[str, Any]
"""Arguments of `add_api_route`."""

_FORM: Final = "application/x-www-form-urlencoded"
_JSON: Final = "application/json"


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter."""

    name: str
    text: str
    example: object
    type: str = "string"
    required: bool = False
    many: bool = False
    choices: tuple[str, ...] = ()
    place: str = "query"

    @property
    def schema(self) -> dict[str, object]:
        """As JSON schema has it."""
        one: dict[str, object] = {"type": self.type}
        if self.choices:
            one["enum"] = list(self.choices)
        return {"type": "array", "items": one} if self.many else one

    def in_address(self) -> dict[str, object]:
        return {
            "name": self.name,
            "in": self.place,
            "required": self.required,
            "description": self.text,
            "schema": self.schema,
            "example": self.example,
        }


_TENANT: Final = Parameter("X-Scope-OrgID", "Whose data to read; `default` without it.", "default", place="header")

_TIME: Final = "Seconds since 1970, or RFC 3339"
_QUERY: Final = Parameter("query", "The query.", "sum by (job) (rate(http_requests_total[5m]))", required=True)
_LIMIT: Final = Parameter("limit", "How many series or values the answer may have; 0 means all.", 100, "integer")
_PARTIAL: Final = Parameter(
    "partial",
    "`allow` answers without the segments that cannot be read, and names them in warnings.",
    "allow",
    choices=("allow", "deny"),
)
_CONDITIONS: Final = (
    Parameter("timeout", "The query is canceled after this time; it is never longer than the server allows.", "30s"),
    Parameter("lookback_delta", "How old a sample may be to count as a series' value.", "5m"),
    _PARTIAL,
    Parameter(
        "explain", "`analyze` adds how the answer came about: phases, leaves, works.", "analyze", choices=("analyze",)
    ),
)
_MATCH: Final = Parameter(
    "match[]", "Selectors. A series counts if it matches any of them.", ['up{job="api"}'], many=True
)
_SPAN: Final = (
    Parameter("start", f"Only series with samples at or after this time. {_TIME}.", "1435781430.781"),
    Parameter("end", f"Only series with samples at or before this time. {_TIME}.", "2015-07-01T20:15:00Z"),
)
_SERIES: Final = (_MATCH, *_SPAN, _LIMIT, _PARTIAL)

_MOMENT: Final = "Milliseconds since 1970, RFC 3339, `now` or `now-1h`"
_TAG_SPAN: Final = (
    Parameter(
        "s", f"Only series with samples at or after this time. {_MOMENT}, or counted from the end: `e-1h`.", "now-1h"
    ),
    Parameter("e", f"Only series with samples at or before this time. {_MOMENT}.", "now"),
)
_TAGS: Final = (
    *_TAG_SPAN,
    Parameter("q", "A selector: only the series that match it.", 'http_requests_total{job="api"}'),
    _LIMIT,
    _PARTIAL,
)
_TAG: Final = Parameter("tag", "The name of the tag.", "job", required=True)


@dataclass(frozen=True, slots=True)
class _Path:
    parameters: tuple[Parameter, ...]
    answer: object
    """An example of `data`."""
    body_type: str = _FORM


_PATHS: Final[Mapping[str, _Path]] = MappingProxyType(
    {
        "/api/v1/query": _Path(
            (_QUERY, Parameter("time", f"{_TIME}; by default now.", "1435781451.781"), _LIMIT, *_CONDITIONS),
            {"resultType": "vector", "result": [{"metric": {"job": "api"}, "value": [1435781451.781, "1.5"]}]},
        ),
        "/api/v1/query_range": _Path(
            (
                _QUERY,
                Parameter("start", f"The first step. {_TIME}.", "1435781430.781", required=True),
                Parameter("end", f"The last step, at most. {_TIME}.", "2015-07-01T20:15:00Z", required=True),
                Parameter("step", "From step to step: seconds or a duration.", "15s", required=True),
                _LIMIT,
                *_CONDITIONS,
            ),
            {"resultType": "matrix", "result": [{"metric": {"job": "api"}, "values": [[1435781430.781, "1.5"]]}]},
        ),
        "/api/v1/query_exemplars": _Path((), []),
        "/api/v1/series": _Path(
            (Parameter("match[]", _MATCH.text, _MATCH.example, required=True, many=True), *_SERIES[1:]),
            [{"__name__": "up", "job": "api"}],
        ),
        "/api/v1/labels": _Path(_SERIES, ["__name__", "job"]),
        "/api/v1/label/{name}/values": _Path(
            (Parameter("name", "The label.", "job", required=True, place="path"), *_SERIES), ["api", "web"]
        ),
        "/api/v1/metadata": _Path(
            (
                Parameter("metric", "Only this metric.", "http_requests"),
                Parameter("limit", "How many metrics the answer may have; negative means all.", 100, "integer"),
                Parameter("limit_per_metric", "How many entries a metric may have; there is only one.", 1, "integer"),
            ),
            {"http_requests": [{"type": "counter", "help": "Requests.", "unit": ""}]},
        ),
        "/api/v1/rules": _Path((), {"groups": []}),
        "/api/v1/alerts": _Path((), {"alerts": []}),
        "/api/v1/status/buildinfo": _Path((), {"version": "3.0.0", "revision": "quarterdeck-0.1.0"}),
        "/api/v1/status/flags": _Path((), {"query.lookback-delta": "5m", "query.timeout": "2m"}),
        "/api/v1/status/runtimeinfo": _Path((), {"startTime": "2026-01-01T00:00:00Z", "GOMAXPROCS": 8}),
        "/api/v1/status/config": _Path((), {"yaml": ""}),
        "/api/v1/targets": _Path((), {"activeTargets": [], "droppedTargets": [], "droppedTargetCounts": {}}),
        "/api/v1/targets/metadata": _Path((), []),
        "/api/v1/scrape_pools": _Path((), {"scrapePools": []}),
        "/api/v1/alertmanagers": _Path((), {"activeAlertmanagers": [], "droppedAlertmanagers": []}),
        "/api/v1/parse_query": _Path(
            (_QUERY,),
            {"type": "unaryExpr", "op": "-", "expr": {"type": "numberLiteral", "val": "1"}},
        ),
        "/api/v1/format_query": _Path((_QUERY,), "sum by (job) (rate(http_requests_total[5m]))"),
        "/api/v1/promql/validate": _Path(
            (Parameter("q", "The query; `query` and `exp` are other names for it.", "sum(up)", required=True),),
            {
                "valid": True,
                "type": "vector",
                "query": "sum(up)",
                "leaves": [{"id": "5b2c0cd0a4a3f6a1", "text": "sum of up", "merge": "combine"}],
            },
            _JSON,
        ),
        "/api/v1/metrics/metadata": _Path(
            _TAGS, [{"metric": "http_requests_total", "type": "counter", "help": "Requests.", "unit": ""}], _JSON
        ),
        "/api/v1/metrics/tags": _Path(_TAGS, ["__name__", "job"], _JSON),
        "/api/v1/metrics/tagvalues": _Path((_TAG, *_TAGS), ["api", "web"], _JSON),
        "/api/v1/metrics/ranges": _Path(
            (
                Parameter("match", "Only metrics whose name contains this, or matches it with `*` and `?`.", "http_*"),
                Parameter("metric", "Only these metrics, by their whole names.", ["up"], many=True),
                Parameter(
                    "limit", "How many metrics the answer may have; at most and by default 10000.", 100, "integer"
                ),
            ),
            [
                {
                    "metric": "up",
                    "type": "gauge",
                    "help": "Whether it was reached.",
                    "unit": "",
                    "samples": 2880,
                    "series": 3,
                    "series_are_all": True,
                    "first_ms": 1435781430781,
                    "last_ms": 1435867815781,
                    "times_are_exact": True,
                }
            ],
        ),
        "/api/v1/metrics/selected": _Path(
            (
                _QUERY,
                Parameter("time", f"The time of an instant query. {_TIME}; by default now.", "1435781451.781"),
                Parameter("start", f"The first step of a range query. {_TIME}.", "1435781430.781"),
                Parameter("end", f"Its last step, at most. {_TIME}.", "2015-07-01T20:15:00Z"),
                Parameter("step", "From step to step: seconds or a duration.", "15s"),
            ),
            {
                "metrics": 412,
                "selectors": [
                    {
                        "selector": 'up{job="api"}',
                        "metric": "up",
                        "start_ms": 1435781130782,
                        "end_ms": 1435781430781,
                        "found": False,
                        "first_ms": 1435651200000,
                        "last_ms": 1435737600000,
                        "times_are_exact": True,
                        "near": list[str](),
                    }
                ],
            },
        ),
    }
)

_ERRORS: Final[Mapping[int, str]] = MappingProxyType(
    {
        400: "`bad_data`: the request or the query makes no sense.",
        422: "`execution`: the query cannot be answered over these samples, or needs more than a limit allows.",
        503: "`timeout`: time ran out. `unavailable`: no worker takes the work, or asking again may help.",
    }
)
_STREAM: Final = "/api/v1/metrics/query"
_STREAM_BODY: Final = (
    Parameter("q", "The query.", "sum by (job) (rate(http_requests_total[5m]))", required=True),
    Parameter("s", f"Where the range starts. {_MOMENT}, or counted from the end: `e-1h`, the default.", "now-1h"),
    Parameter("e", f"Where it ends, by default now. {_MOMENT}.", "now"),
    Parameter("summary", "Send one frame for each series instead of its samples.", False, "boolean"),
)
_STREAM_ANSWER: Final = """Frames, each `data:` with a JSON object and an empty line; `type` says what it is:

* `result`: one sample: `tags`, `value`, `timestamp` in milliseconds, `label`.
* `summary`: one series, if `summary` was asked for: `count`, `min`, `max`, `avg`, `first`, `last`.
* `heartbeat`: nothing else was sent for 15 s.
* `done`: the last one. `status` is `ok` or `error`; then `errorType` and `error` describe it. There may also be
  `warnings`, `infos` and, if it was asked for, `explain`.
"""
_STREAM_EXAMPLE: Final = (
    'data: {"type":"result","data":{"tags":{"job":"api"},"value":1.5,"timestamp":1435781430781,'
    '"label":"{job=\\"api\\"}"}}\n\ndata: {"type":"done","data":{"status":"ok"}}\n\n'
)


def described(path: str, method: str) -> Described:
    """What is known about a path and a method."""
    if path == _STREAM:
        answer = {"description": _STREAM_ANSWER, "content": {"text/event-stream": {"example": _STREAM_EXAMPLE}}}
        extra = {
            "parameters": [one.in_address() for one in (*_CONDITIONS, _TENANT)],
            "requestBody": _body(_STREAM_BODY, _JSON),
        }
        return {"openapi_extra": extra, "responses": {200: answer} | _errors()}
    known = _PATHS[path]
    in_address = [one for one in known.parameters if method == "GET" or one.place == "path"]
    extra: dict[str, object] = {"parameters": [one.in_address() for one in (*in_address, _TENANT)]}
    in_body = [one for one in known.parameters if one not in in_address]
    if in_body:
        extra["requestBody"] = _body(in_body, known.body_type)
    example = {"status": "success", "data": known.answer}
    answer = {"description": "The answer.", "content": {_JSON: {"example": example}}}
    return {"openapi_extra": extra, "responses": {200: answer} | _errors()}


def _body(parameters: "tuple[Parameter, ...] | list[Parameter]", content_type: str) -> dict[str, object]:
    properties = {one.name: one.schema | {"description": one.text, "example": one.example} for one in parameters}
    schema: dict[str, object] = {"type": "object", "properties": properties}
    required = [one.name for one in parameters if one.required]
    if required:
        schema["required"] = required
    return {"required": bool(required), "content": {content_type: {"schema": schema}}}


def _errors() -> dict[int, dict[str, object]]:
    example = {"status": "error", "errorType": "bad_data", "error": 'invalid parameter "query": …'}
    told: dict[int, dict[str, object]] = {status: {"description": text} for status, text in _ERRORS.items()}
    told[400]["content"] = {_JSON: {"example": example}}
    return told
