"""Prometheus' text format 0.0.4, as older exporters write it: times are whole milliseconds, comments are free.

It has no line that says that it ends. That the last line has a line end is all that tells of a truncated file.
"""

from pathlib import Path

from quarterdeck.metrics.importing.dialects import PROMETHEUS_TEXT
from quarterdeck.metrics.importing.text_reader import TextReader


class PrometheusTextReader(TextReader):
    """A `SampleReader` of Prometheus' text format; every sample must have its time."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, PROMETHEUS_TEXT)
