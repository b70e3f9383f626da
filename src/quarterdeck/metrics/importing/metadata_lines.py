"""Lines that begin with #: what they say about metrics, and which of them are no comment of their format."""

import re
from dataclasses import replace
from typing import Final

from quarterdeck.metrics.importing.dialects import Dialect
from quarterdeck.metrics.importing.errors import Malformed
from quarterdeck.metrics.importing.series_text import unescape
from quarterdeck.metrics.model import MetricMetadata

_NAME: Final = r'(?:([a-zA-Z_:][a-zA-Z0-9_:]*)|"([^"\\]*(?:\\["\\n][^"\\]*)*)")'
_STRICT: Final = re.compile(rf"# (TYPE|HELP|UNIT) {_NAME} (.*)")
_SPACED: Final = re.compile(rf"#[ \t]*(TYPE|HELP)[ \t]+{_NAME}(?:[ \t]+(.*))?")
_SPACED_KEYWORD: Final = re.compile(r"#[ \t]*(?:TYPE|HELP)(?:[ \t]|$)")
_HELP_ESCAPE: Final = re.compile(r'\\([\\n"])')

_REMEMBERED_LINES: Final = 1 << 16


class MetadataBook:
    """What a file has said about its metrics so far. Of two lines that differ the later one counts."""

    def __init__(self, dialect: Dialect) -> None:
        self.by_metric: Final[dict[str, MetricMetadata]] = {}
        self._dialect: Final = dialect
        self._seen: Final[set[str]] = set()
        """Files that were put together from many repeat these lines."""

    def read(self, line: str) -> None:
        """Takes what a line, without blanks around it, says, which may be nothing; raises `Malformed`."""
        if line in self._seen:
            return
        found = (_SPACED if self._dialect.spaced else _STRICT).fullmatch(line)
        if found is None:
            self._insist_on_comment(line)
            return
        keyword, bare, quoted, text = found.groups()
        self._note(keyword, unescape(quoted) if bare is None else bare, text or "")
        if len(self._seen) == _REMEMBERED_LINES:
            self._seen.clear()
        self._seen.add(line)

    def _insist_on_comment(self, line: str) -> None:
        if not self._dialect.has_comments:
            raise Malformed(
                "OpenMetrics has no other lines with # than TYPE, HELP, UNIT and EOF, written with single spaces",
                "correct or remove the line; comments are for Prometheus' text format, in files that end in .prom",
            )
        if _SPACED_KEYWORD.match(line):
            raise Malformed("it names no metric", "write the metric's name after the keyword, or remove the line")

    def _note(self, keyword: str, metric: str, text: str) -> None:
        known = self.by_metric.get(metric, MetricMetadata(metric))
        match keyword:
            case "TYPE":
                if text not in self._dialect.types:
                    raise Malformed(
                        f"`{text[:40]}` is not a type of metrics in {self._dialect.name}",
                        f"write one of: {', '.join(sorted(self._dialect.types))}",
                    )
                known = replace(known, type=self._dialect.types[text])
            case "UNIT":
                if text and not metric.endswith(f"_{text}"):
                    raise Malformed(
                        f"the metric's name does not end in its unit `{text[:40]}`",
                        "rename the metric, or remove the line",
                    )
                known = replace(known, unit=text)
            case _:
                known = replace(known, help=_HELP_ESCAPE.sub(_unescaped, text))
        self.by_metric[metric] = known


def _unescaped(found: re.Match[str]) -> str:
    return "\n" if found[1] == "n" else found[1]
