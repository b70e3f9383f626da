"""Files for tests, and what readers say about them in a few words."""

from pathlib import Path
from typing import TypeAlias

import pytest

from quarterdeck.metrics.importing.batches import SampleReader
from quarterdeck.metrics.importing.errors import SourceError
from quarterdeck.metrics.importing.openmetrics import OpenMetricsReader
from quarterdeck.metrics.importing.prometheus_text import PrometheusTextReader
from quarterdeck.metrics.promql.labels import Labels

Sample: TypeAlias = tuple[Labels, int, float]


def samples(reader: SampleReader) -> list[Sample]:
    """All samples, one by one: labels, milliseconds, value."""
    found: list[Sample] = []
    for batch in reader.batches():
        assert len(set(batch.labels)) == len(batch.labels)
        assert batch.series.dtype == "int32"
        assert batch.timestamps.dtype == "int64"
        assert batch.values.dtype == "float64"
        columns = (batch.series.tolist(), batch.timestamps.tolist(), batch.values.tolist())
        found += [(batch.labels[place], time, value) for place, time, value in zip(*columns, strict=True)]
    return found


def write(folder: Path, content: str | bytes, name: str = "metrics.om") -> Path:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def open_metrics(folder: Path, lines: str) -> list[Sample]:
    """The samples of lines without `# EOF`."""
    return samples(OpenMetricsReader(write(folder, f"{lines}\n# EOF\n")))


def prometheus(folder: Path, content: str | bytes) -> list[Sample]:
    return samples(PrometheusTextReader(write(folder, content, "metrics.prom")))


def refusal(reader: SampleReader) -> SourceError:
    """Why a file is refused."""
    with pytest.raises(SourceError) as caught:
        samples(reader)
    return caught.value


def open_metrics_refusal(folder: Path, content: str | bytes) -> SourceError:
    return refusal(OpenMetricsReader(write(folder, content)))
