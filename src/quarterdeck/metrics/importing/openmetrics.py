"""OpenMetrics 1.0 text, as `promtool tsdb dump-openmetrics` and exporters write it.

Enforced: the form of every line, UTF-8, a time for each sample, TYPE, HELP and UNIT as they may be, and `# EOF` at the
end, without which a file is truncated.

Not enforced, as Prometheus does not need it: that the lines of a family stand together and after its metadata; that
times rise, and that a series does not come twice; that metadata is told once; which suffixes, labels and values go with
which type; where exemplars may stand and how long they may be. Exemplars are read and dropped.
"""

from pathlib import Path

from quarterdeck.metrics.importing.dialects import OPENMETRICS
from quarterdeck.metrics.importing.text_reader import TextReader


class OpenMetricsReader(TextReader):
    """A `SampleReader` of OpenMetrics text."""

    def __init__(self, path: Path, *, name: str = "", at_ms: int | None = None) -> None:
        super().__init__(path, OPENMETRICS, name=name, at_ms=at_ms)
