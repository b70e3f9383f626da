"""The labels of many series in the way people tell series apart: labels that all share once, the others in columns."""

from collections.abc import Mapping, Sequence

from quarterdeck.metrics.commands.query_answer import SeriesAnswer
from quarterdeck.metrics.promql.syntax.quoting import quote
from quarterdeck.terminal.telling import printable

NAME = "__name__"


def common_labels(series: Sequence[SeriesAnswer]) -> dict[str, str]:
    """Those that every series has with the same value."""
    if not series:
        return {}
    common = dict(series[0].labels)
    for one in series[1:]:
        common = {name: value for name, value in common.items() if one.labels.get(name) == value}
    return common


def differing_names(series: Sequence[SeriesAnswer], common: Mapping[str, str]) -> list[str]:
    """The labels by which the series differ; the name of the metric comes first."""
    names = {name for one in series for name in one.labels}.difference(common)
    return sorted(names, key=lambda name: (name != NAME, name))


def show_labels(labels: Mapping[str, str]) -> str:
    """As PromQL selects them.

    >>> show_labels({"job": "api", "__name__": "up"}), show_labels({"__name__": "up"}), show_labels({})
    ('up{job="api"}', 'up', '{}')
    """
    name = labels.get(NAME, "")
    pairs = ", ".join(f"{label}={quote(value)}" for label, value in sorted(labels.items()) if label != NAME)
    return printable(f"{name}{{{pairs}}}" if pairs or not name else name)
