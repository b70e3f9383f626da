"""The labels of a series: pairs of name and value, sorted by name, none with an empty value.

A plain tuple, so that it hashes, compares and sorts as fast as Python can; two of them sort as Prometheus sorts
label sets. A label that is not there has the empty value.

Tuples are made of lists here and not of generators, which takes a third less: queries do this for every series.
"""

from collections.abc import Iterable, Mapping
from typing import TypeAlias

from xxhash import xxh64_intdigest

Labels: TypeAlias = tuple[tuple[str, str], ...]

METRIC_NAME = "__name__"
BUCKET = "le"
IDENTIFYING = frozenset({"instance", "job"})
"""What says which series an info series belongs to; Prometheus knows no other labels for it."""
EMPTY: Labels = ()


def from_mapping(mapping: Mapping[str, str]) -> Labels:
    """Labels from a mapping; empty values are left out.

    >>> from_mapping({"b": "2", "a": "1", "c": ""})
    (('a', '1'), ('b', '2'))
    """
    return tuple(sorted((name, value) for name, value in mapping.items() if value))


def get(labels: Labels, name: str) -> str:
    """The value of a label; empty when it is not there."""
    for key, value in labels:
        if key == name:
            return value
    return ""


def keep(labels: Labels, names: frozenset[str]) -> Labels:
    """Only the named labels."""
    return tuple([pair for pair in labels if pair[0] in names])


def drop(labels: Labels, names: frozenset[str]) -> Labels:
    """All but the named labels."""
    return tuple([pair for pair in labels if pair[0] not in names])


METADATA = frozenset({METRIC_NAME, "__type__", "__unit__"})
"""What describes a metric as it was stored, and no longer holds once something was computed from it."""


def drop_name(labels: Labels) -> Labels:
    """All but the metric's name, and its type and unit where they are labels."""
    return tuple([pair for pair in labels if pair[0] not in METADATA])


def replace(labels: Labels, changes: Iterable[tuple[str, str]]) -> Labels:
    """With some labels set; an empty value takes a label away."""
    return from_mapping({**dict(labels), **dict(changes)})


def digest(labels: Labels) -> int:
    """A number of 64 bits that depends on the labels alone, the same on every machine and in every release: stored
    samples are placed by it."""
    # 0xff is in no text's UTF-8, so that no two label sets look the same; surrogatepass as in core/placement.
    parts = [text.encode("utf-8", "surrogatepass") for pair in labels for text in pair]
    return xxh64_intdigest(b"\xff".join(parts))


def show(labels: Labels) -> str:
    """As Prometheus prints them: `{a="1", b="2"}`, including the metric's name.

    >>> show((("__name__", "up"), ("job", "a b")))
    '{__name__="up", job="a b"}'
    """
    return "{" + ", ".join(f"{_name(name)}={quote(value)}" for name, value in labels) + "}"


def quote(text: str) -> str:
    """A string as a literal of the language, in double quotes.

    >>> print(quote('say "hi"\\n'))
    "say \\"hi\\"\\n"
    """
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + escaped.replace("\n", "\\n").replace("\t", "\\t").replace("\r", "\\r") + '"'


def _name(name: str) -> str:
    return name if is_plain_name(name) else quote(name)


def is_plain_name(name: str) -> bool:
    """Whether a label's name may stand without quotes."""
    return name.isascii() and name.replace("_", "a").isalnum() and not name[0].isdigit()
