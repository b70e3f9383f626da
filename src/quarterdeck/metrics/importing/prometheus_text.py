"""Prometheus' text format 0.0.4, as older exporters write it: times are whole milliseconds, comments are free.

It has no line that marks its end. The only sign of a truncated file is a last line without a line end.
"""

from pathlib import Path

from quarterdeck.metrics.importing.dialects import PROMETHEUS_TEXT
from quarterdeck.metrics.importing.text_reader import TextReader


class PrometheusTextReader(TextReader):
    """A `SampleReader` of Prometheus' text format; a sample without a time takes that of the reader."""

    def __init__(self, path: Path, *, name: str = "", at_ms: int | None = None) -> None:
        super().__init__(path, PROMETHEUS_TEXT, name=name, at_ms=at_ms)
