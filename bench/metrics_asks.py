"""The questions of `bench/metrics.py`, and whether two servers gave the same answer to one."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, TypeAlias
from urllib.parse import urlencode

import numpy as np

from bench import metrics_data as data
from quarterdeck.metrics.promql.blocks import F64

_HOUR_S: Final = 3_600
_SHIFTS: Final = 240
Path: TypeAlias = Callable[[int, int], str]
"""Of so many series, the request of that number: later ones ask a little later in time, and about other series, so that
nobody answers from memory."""


@dataclass(frozen=True, slots=True)
class Ask:
    """A question that every server is asked."""

    name: str
    path: Path
    heavy: bool = False
    victoria_agrees: bool = True
    """Whether VictoriaMetrics means the same by it: its rates are not extrapolated, its scalars are vectors."""


def _range(text: str, hours: int) -> Path:
    def path(count: int, number: int) -> str:
        end_s = data.END_MS // 1000 + number % _SHIFTS
        times = {"start": end_s - hours * _HOUR_S, "end": end_s, "step": 60}
        return _address("query_range", {"query": _filled(text, count, number), **times})

    return path


def _instant(text: str) -> Path:
    def path(count: int, number: int) -> str:
        time_s = data.END_MS // 1000 + number % _SHIFTS
        return _address("query", {"query": _filled(text, count, number), "time": time_s})

    return path


def _labels(endpoint: str) -> Path:
    def path(count: int, number: int) -> str:
        del count
        end_s = data.END_MS // 1000 + number % _SHIFTS
        return _address(endpoint, {"start": end_s - 5 * _HOUR_S, "end": end_s})

    return path


def _address(endpoint: str, parameters: dict[str, object]) -> str:
    return f"/api/v1/{endpoint}?" + urlencode({**parameters, "nocache": 1})


def _filled(text: str, count: int, number: int) -> str:
    series = 1_237 * number % count
    return text.replace("ONE", f'm{{job="{data.job_of(series)}",instance="{data.instance_of(series)}"}}')


def _heavy(text: str, victoria_agrees: bool = True) -> Ask:
    return Ask(text, _range(text, 5), True, victoria_agrees)


HEAVY: Final = (
    _heavy("sum by (job) (rate(m[5m]))", victoria_agrees=False),
    _heavy("rate(m[5m])", victoria_agrees=False),
    _heavy("sum by (job) (increase(m[1h]))", victoria_agrees=False),
    _heavy("topk(5, rate(m[5m]))", victoria_agrees=False),
    _heavy("avg by (job) (quantile_over_time(0.9, m[30m]))"),
    _heavy("sum(m)"),
)
ONE_INSTANT: Final = Ask("one series, instant", _instant("ONE"))
ONE_RANGE: Final = Ask("one series, 5 h", _range("ONE", 5))
JOB_INSTANT: Final = Ask('sum(m{job="job-1"}), instant', _instant('sum(m{job="job-1"})'))
JOB_RANGE: Final = Ask('sum(m{job="job-1"}), 1 h', _range('sum(m{job="job-1"})', 1))
LIGHT: Final = (
    ONE_INSTANT,
    ONE_RANGE,
    JOB_INSTANT,
    JOB_RANGE,
    Ask("1+1", _instant("1+1"), victoria_agrees=False),
    Ask("labels", _labels("labels")),
    Ask("values of job", _labels("label/job/values")),
    Ask("values of instance", _labels("label/instance/values")),
)
CROWD: Final = (ONE_INSTANT, ONE_RANGE, JOB_INSTANT, JOB_RANGE)
"""What many ask at once."""


def difference(mine: bytes, theirs: bytes) -> float:
    """The largest relative difference of two values; infinite when the answers have other series, times or words.

    Of equal values at the end of a topk each server may name another series; then it is infinite too.
    """
    own, other = json.loads(mine)["data"], json.loads(theirs)["data"]
    if isinstance(own, list):
        return 0.0 if own == other else np.inf
    rows, other_rows = _rows(own), _rows(other)
    if rows.keys() != other_rows.keys():
        return np.inf
    return max((_apart(values, other_rows[labels]) for labels, values in rows.items()), default=0.0)


def _rows(answer: Any) -> dict[str, F64]:
    """Pairs of time and value, by labels."""
    if answer["resultType"] == "scalar":
        return {"": np.array([answer["result"]], np.float64)}
    return {
        json.dumps(one["metric"], sort_keys=True): np.array(
            one["values"] if "values" in one else [one["value"]], np.float64
        )
        for one in answer["result"]
    }


def _apart(one: F64, other: F64) -> float:
    if one.shape != other.shape or (one[:, 0] != other[:, 0]).any():
        return np.inf
    scale = np.maximum(np.abs(one[:, 1]), np.abs(other[:, 1]))
    gaps = np.abs(one[:, 1] - other[:, 1])
    return float(np.max(np.divide(gaps, scale, out=np.zeros_like(gaps), where=scale > 0), initial=0.0))
