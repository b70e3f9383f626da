"""Answers of the HTTP API, as results that can be compared with what a script expects.

JSON does not carry all of a native histogram: neither its counter reset hint, nor its schema and custom bounds but for
the bounds of buckets that count something, nor the width of a zero bucket that counts nothing. What it does not carry
is not compared.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from quarterdeck.metrics.promql.blocks import Axis, Objects, SeriesBlock, totals_before
from quarterdeck.metrics.promql.histograms.bounds import Bucket
from quarterdeck.metrics.promql.histograms.native import NativeHistogram
from quarterdeck.metrics.promql.labels import from_mapping
from quarterdeck.metrics.promql.result import Result, Scalar, String, Value, Vector


@dataclass(frozen=True, slots=True)
class ShownBucket:
    """A bucket that counts something."""

    rule: int
    """Which bounds are inside: 0 the upper, 1 the lower, 2 none, 3 both."""
    lower: float
    upper: float
    count: float


@dataclass(frozen=True, slots=True)
class ShownHistogram:
    """A native histogram as far as JSON tells it."""

    count: float
    total: float
    buckets: tuple[ShownBucket, ...]

    @staticmethod
    def of(histogram: NativeHistogram) -> "ShownHistogram":
        """What JSON would tell of it."""
        buckets = (
            ShownBucket(_rule(bucket), bucket.lower, bucket.upper, bucket.count)
            for bucket in histogram.all_buckets()
            if bucket.count != 0
        )
        return ShownHistogram(histogram.count, histogram.total, tuple(buckets))

    @staticmethod
    def parse(document: dict[str, Any]) -> "ShownHistogram":
        """From its JSON. `ValueError` when a number is none, or a bucket is shown that counts nothing."""
        buckets = tuple(
            ShownBucket(int(rule), float(lower), float(upper), float(count))
            for rule, lower, upper, count in document.get("buckets", ())
        )
        if any(bucket.count == 0 for bucket in buckets):
            raise ValueError(f"a bucket is shown that counts nothing: {document}")
        return ShownHistogram(float(document["count"]), float(document["sum"]), buckets)


def _rule(bucket: Bucket) -> int:
    return {(False, True): 0, (True, False): 1, (False, False): 2, (True, True): 3}[bucket.has_lower, bucket.has_upper]


def result_of(reply: dict[str, Any]) -> Result:
    """A successful reply."""
    value = _value(reply["data"]["resultType"], reply["data"]["result"])
    return Result(value, tuple(reply.get("warnings", ())), tuple(reply.get("infos", ())))


def _value(kind: str, result: Any) -> Value:
    match kind:
        case "scalar":
            return Scalar(_ms(result[0]), float(result[1]))
        case "string":
            return String(_ms(result[0]), str(result[1]))
        case "vector":
            return _vector(result)
        case "matrix":
            return _matrix(result)
        case _:
            raise ValueError(f"{kind} is no type of a result")


def _vector(result: list[dict[str, Any]]) -> Vector:
    samples = [one.get("value") or one["histogram"] for one in result]
    times = {_ms(time) for time, _ in samples}
    if len(times) > 1:
        raise ValueError(f"all samples of a vector have one time, and these have {sorted(times)}")
    values, histograms = _columns([sample for _, sample in samples])
    labels = tuple(from_mapping(one["metric"]) for one in result)
    return Vector(min(times, default=0), labels, values, histograms)


def _matrix(result: list[dict[str, Any]]) -> SeriesBlock:
    rows = [
        sorted((_ms(time), sample) for name in ("values", "histograms") for time, sample in one.get(name, ()))
        for one in result
    ]
    if not all(rows):
        raise ValueError("a series of the answer has no sample")
    values, histograms = _columns([sample for row in rows for _, sample in row])
    return SeriesBlock(
        Axis.of([from_mapping(one["metric"]) for one in result]),
        totals_before(np.array([len(row) for row in rows], np.int64)),
        np.array([time for row in rows for time, _ in row], np.int64),
        values,
        histograms,
    )


def _columns(samples: list[Any]) -> tuple["np.ndarray[Any, np.dtype[np.float64]]", Objects | None]:
    """Texts are floats, the others are histograms."""
    values = np.array([float(sample) if isinstance(sample, str) else 0.0 for sample in samples], np.float64)
    histograms: Objects = np.full(len(samples), None, dtype=object)
    for place, sample in enumerate(samples):
        if not isinstance(sample, str):
            histograms[place] = ShownHistogram.parse(sample)
    return values, histograms if any(not isinstance(sample, str) for sample in samples) else None


def _ms(seconds: float) -> int:
    return round(seconds * 1000)
