"""The two text formats, and in what they differ; all else they share.

OpenMetrics 1.0: times in seconds, one space between the parts of a line, exemplars, `# EOF` at the end. Prometheus'
text format 0.0.4: times in milliseconds, blanks and tabs anywhere, empty lines and comments, and no line at the end.
Which of the two a file is, the caller says; it is never guessed, for their times differ by a factor of a thousand.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from quarterdeck.metrics.importing import numerals
from quarterdeck.metrics.promql.blocks import I64, Bool


@dataclass(frozen=True, slots=True)
class Dialect:
    name: str
    spaced: bool
    """Whether blanks and tabs may stand anywhere between the parts of a line, and lines may be empty."""
    has_comments: bool
    """Whether a line that begins with # may say anything."""
    has_units: bool
    has_exemplars: bool
    has_end: bool
    """Whether the last line is `# EOF`."""
    types: Mapping[str, str]
    """What may stand in a TYPE line, and how the rest of Quarterdeck calls it."""
    read_time: Callable[[str], int]
    """One time, strictly, in milliseconds."""
    times_of: Callable[[Any], tuple[I64, Bool]]
    """Many times, and which are sure."""


_COMMON_TYPES: Final = ("counter", "gauge", "histogram", "summary", "unknown")
_OPEN_TYPES: Final = (*_COMMON_TYPES, "gaugehistogram", "info", "stateset")

OPENMETRICS: Final = Dialect(
    name="OpenMetrics",
    spaced=False,
    has_comments=False,
    has_units=True,
    has_exemplars=True,
    has_end=True,
    types=MappingProxyType({name: name for name in _OPEN_TYPES}),
    read_time=numerals.read_seconds,
    times_of=numerals.seconds_of,
)

PROMETHEUS_TEXT: Final = Dialect(
    name="Prometheus' text format",
    spaced=True,
    has_comments=True,
    has_units=False,
    has_exemplars=False,
    has_end=False,
    types=MappingProxyType({name: name for name in _COMMON_TYPES} | {"untyped": "unknown"}),
    read_time=numerals.read_milliseconds,
    times_of=numerals.milliseconds_of,
)
