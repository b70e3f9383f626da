"""One line with a sample, read strictly: `series value timestamp`, and in OpenMetrics maybe ` # exemplar`.

This way is slow and says exactly what is wrong. `splitting` reads most lines; the lines that it is not sure of come
here.
"""

import re
from typing import Final, NamedTuple

from quarterdeck.metrics.importing.dialects import Dialect
from quarterdeck.metrics.importing.errors import Malformed
from quarterdeck.metrics.importing.numerals import read_seconds, read_value
from quarterdeck.metrics.importing.series_text import read_labels, read_series
from quarterdeck.metrics.promql.labels import Labels

_BLANKS: Final = re.compile(r"[ \t]+")


class SampleLine(NamedTuple):
    """A sample, and the labels of its series."""

    labels: Labels
    timestamp_ms: int
    value: float


def read_sample(line: str, dialect: Dialect, at_ms: int | None = None) -> SampleLine:
    """The sample of a line without blanks around it; raises `Malformed`. `at_ms` is its time if it has none."""
    labels, position = read_series(line, spaced=dialect.spaced)
    value, *rest = _parts(line[position:], dialect)
    if not rest or rest[0] == "#":
        number = read_value(value)
        if at_ms is None:
            raise Malformed(
                "the sample has no time",
                "add the time to each line when the file is written, or say when it was measured: --at now, or another "
                "time, gives it to all samples that have none",
            )
        sample, rest = SampleLine(labels, at_ms, number), ["", *rest]
    else:
        sample = SampleLine(labels, dialect.read_time(rest[0]), read_value(value))
    if len(rest) > 1:
        if rest[1] != "#" or not dialect.has_exemplars:
            raise Malformed(f"`{' '.join(rest[1:])[:40]}` stands after the time", "end the line after the time")
        _check_exemplar(" ".join(rest[2:]))
    return sample


def _parts(text: str, dialect: Dialect) -> list[str]:
    if not text:
        raise Malformed("there is no value", "write a value and a time after the series")
    if not text.startswith((" ", "\t") if dialect.spaced else " "):
        raise Malformed(f"`{text[0]}` stands after the series", "write a space, a value, a space and a time there")
    if dialect.spaced:
        return _BLANKS.split(text.lstrip(" \t"))
    parts = text[1:].split(" ")
    if "" in parts[:2]:
        raise Malformed("there is a space too many", "write exactly one space before the value and before the time")
    return parts


def _check_exemplar(text: str) -> None:
    """Raises for what is no exemplar: labels in braces, a value, and maybe a time in seconds."""
    if not text.startswith("{"):
        raise Malformed("the exemplar after # does not begin with {", "write labels in braces there, or end before #")
    pairs: list[tuple[str, str]] = []
    position = read_labels(text, 0, pairs, named=False)
    names = [name for name, _ in pairs]
    if len(set(names)) < len(names) or "" in names:
        raise Malformed("a label of the exemplar is empty or appears twice", "give each label a name of its own")
    numbers = text[position:].split(" ")
    if numbers[0] or not 2 <= len(numbers) <= 3:
        raise Malformed(
            "the exemplar has no value, or more than a value and a time", "write one value after its labels"
        )
    read_value(numbers[1])
    if len(numbers) == 3:
        read_seconds(numbers[2])
