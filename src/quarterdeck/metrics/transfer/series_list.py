"""A list of series as an artifact: one row for each, and a last one with the worker's report."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

import pyarrow  # pyright: ignore[reportMissingTypeStubs] - it has none

from quarterdeck.core.errors import ErrorCode, QuarterdeckError
from quarterdeck.crew.artifacts.writer import RowSink
from quarterdeck.metrics.promql.labels import METRIC_NAME, Labels, get
from quarterdeck.metrics.segments.label_text import label_text, labels_of

_arrow: Final = cast("Any", pyarrow)
_SCHEMA: Final = _arrow.schema([("metric", _arrow.string()), ("labels", _arrow.string()), ("report", _arrow.string())])


@dataclass(frozen=True, slots=True)
class SeriesList:
    """The series of one work, and what the worker says of it."""

    labels: tuple[Labels, ...]
    report: Mapping[str, Any]


def write_series(sink: RowSink, series: Sequence[Labels], report: Mapping[str, int | float | str]) -> None:
    """Opens the sink and writes all of them."""
    sink.open(_SCHEMA, None)
    count = len(series)
    columns = [
        _arrow.array([get(labels, METRIC_NAME) for labels in series] + [None], _arrow.string()),
        _arrow.array([label_text(labels) for labels in series] + [None], _arrow.string()),
        _arrow.array([None] * count + [json.dumps(report)], _arrow.string()),
    ]
    sink.write(_arrow.record_batch(columns, schema=_SCHEMA))


def read_series(batches: Iterable[Any]) -> SeriesList:
    """What was written. It is a worker's word: what cannot be is an error of the protocol."""
    found: list[Labels] = []
    report: object = {}
    try:
        for batch in batches:
            if not batch.schema.equals(_SCHEMA):
                raise ValueError("its columns are not those of a list")
            for metric, labels, text in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                if text is not None:
                    report = json.loads(text)
                else:
                    found.append(labels_of(metric, labels))
        if not isinstance(report, dict):
            raise ValueError("its report is none")  # noqa: TRY004 - as what else is wrong
    except (LookupError, RecursionError, TypeError, ValueError) as error:
        raise QuarterdeckError(
            ErrorCode.PROTOCOL,
            "a list of series cannot be read",
            f"it makes no sense: {error!r}"[:300],
            "report it: its worker wrote what no worker writes",
        ) from error
    return SeriesList(tuple(found), cast("dict[str, Any]", report))
