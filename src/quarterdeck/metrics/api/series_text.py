"""A series as the language writes it."""

from quarterdeck.metrics.promql import labels as lb
from quarterdeck.metrics.promql.labels import Labels


def show_series(labels: Labels) -> str:
    """The selector that takes this series and, among series with the same names of labels, no other.

    >>> print(show_series((("__name__", "up"), ("job", "a"))), show_series((("job", "a"),)), show_series(()))
    up{job="a"} {job="a"} {}
    >>> print(show_series((("__name__", "http.requests"), ("job", "a"))))
    {"http.requests", job="a"}
    """
    name = lb.get(labels, lb.METRIC_NAME)
    rest = tuple(pair for pair in labels if pair[0] != lb.METRIC_NAME)
    if not name:
        return lb.show(rest)
    if not lb.is_plain_name(name.replace(":", "_")):
        return "{" + ", ".join(filter(None, (lb.quote(name), lb.show(rest)[1:-1]))) + "}"
    return name + (lb.show(rest) if rest else "")
