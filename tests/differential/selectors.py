"""The leaves of random queries: selectors with matchers, offsets and `@`, and what is known of their series."""

from dataclasses import dataclass, replace
from random import Random

from tests.differential import vocabulary as words
from tests.differential.dataset import BASE_MS, LABEL_VALUES, METRICS, SPAN_MS, Metric

PAIRED = tuple(metric for metric in METRICS if metric.labels == ("job", "instance"))
"""Metrics whose series can be matched one to one."""
FIRST_S = (BASE_MS + 95 * 60_000) // 1000
"""From here on every window of a query lies within the samples."""
LAST_S = (BASE_MS + SPAN_MS) // 1000


@dataclass(frozen=True, slots=True)
class Vector:
    """A piece that answers an instant vector, and what is known of it."""

    text: str
    labels: tuple[str, ...]
    named: bool = False
    """The series have their metric's name."""
    several: bool = False
    """There are series that differ in nothing but their name."""
    distinct: bool = False
    """No two values are the same and none is not-a-number."""
    exact: bool = False
    """The values were stored so, or are whole: no rounding is in them."""
    finite: bool = False
    """No value is infinite, not-a-number or so large that its square is."""
    primary: bool = True
    """It needs no parentheses as an operand."""

    def operand(self) -> str:
        """The text, in parentheses where needed."""
        return self.text if self.primary else f"({self.text})"


def mapped(function: str, inner: Vector) -> str:
    """A call of a function that maps values, where it cannot overflow early or blow up a last bit, see known.py."""
    if function in {"sin", "cos", "tan"} and ("timestamp(" in inner.text or "time()" in inner.text):
        function = "abs"
    return f"{function}({f'clamp({inner.text}, -700, 700)' if function in {'sinh', 'cosh'} else inner.text})"


def beside(op: str, operand: Vector) -> str:
    """An operand's text; beside atan2 without a metric's name, see known.py."""
    return f"({operand.operand()} * 1)" if op == "atan2" else operand.operand()


class SelectorMaker:
    """Makes one selector after another."""

    def __init__(self, random: Random) -> None:
        self._random = random

    def leaf(self) -> Vector:
        """Any selector; now and then one of two metrics."""
        if self._random.random() < 0.06:
            names = self._random.sample([metric.name for metric in PAIRED], 2)
            where = f'{{__name__=~"{"|".join(names)}"}}'
            return Vector(where + self.moved(), ("job", "instance"), named=True, several=True, exact=True)
        return self.selector(self._random.choice(METRICS))

    def selector(self, metric: Metric) -> Vector:
        """An instant vector of one metric."""
        return Vector(self.bare(metric) + self.moved(), metric.labels, named=True, distinct=metric.distinct, exact=True)

    def bare(self, metric: Metric) -> str:
        """Name and matchers."""
        random = self._random
        if random.random() < 0.6:
            return metric.name
        matchers = list[str]()
        for name in random.sample(metric.labels, random.randint(1, min(2, len(metric.labels)))):
            op = random.choice(("=", "=", "!=", "=~", "!~"))
            value = random.choice(LABEL_VALUES[name]) if op in {"=", "!="} else self._regex(name, op)
            matchers.append(f'{name}{op}"{value}"')
        if random.random() < 0.1:
            return f'{{__name__="{metric.name}", {", ".join(matchers)}}}'
        return f"{metric.name}{{{', '.join(matchers)}}}"

    def _regex(self, name: str, op: str) -> str:
        """A regular expression that matches some values of a label, and seldom all or none."""
        random = self._random
        first, second = random.sample(LABEL_VALUES[name], 2)
        some = (f"{first[0]}.*", f"{first}|{second}", f"(?:{first}|x)", f"[^{second[0]}].*", f"(?i:{first.upper()})")
        if name == "le":
            some = (".Inf", "0.*|1", "[^0].*")
        all_or_none = (".*", ".+", "", "x|") if op == "=~" else ("", "nobody")
        return random.choice(some if random.random() < 0.85 else all_or_none)

    def moved(self) -> str:
        """An offset, an `@`, both or mostly neither."""
        random = self._random
        parts = list[str]()
        if random.random() < 0.12:
            parts.append(f" offset {random.choice(words.OFFSETS)}")
        if random.random() < 0.1:
            at = random.choice(("start()", "end()", str(random.randint(FIRST_S, LAST_S))))
            parts.append(f" @ {at}")
        random.shuffle(parts)
        return "".join(parts)

    def ranged(self, metric: Metric, length: str | None = None) -> str:
        """A range vector of one metric."""
        return f"{self.bare(metric)}[{length or self._random.choice(words.RANGES)}]{self.moved()}"

    def buckets(self) -> str:
        """Something to take the quantiles of a histogram from."""
        random = self._random
        buckets = "latency_seconds_bucket"
        return random.choice(
            (
                buckets,
                f"rate({buckets}[{random.choice(words.RANGES)}])",
                f"sum by (le, job) (rate({buckets}[{random.choice(words.RANGES)}]))",
                f"sum by (le) (increase({buckets}[{random.choice(words.RANGES)}]))",
                f"sum without (instance) ({buckets}{self.moved()})",
                f'{buckets}{{le!="+Inf"}}',
                f'{buckets}{{le=~"0.*|.Inf"}} * 2',
                "http_requests_total",
            )
        )

    def date(self) -> Vector:
        """A part of a date."""
        function = self._random.choice(words.DATES)
        if self._random.random() < 0.2:
            return Vector(f"{function}()", (), exact=True)
        inner = self._random.choice(
            ("started_seconds", "vector(time())", "started_seconds + 86400 * 45", "timestamp(temperature)")
        )
        labels = () if inner.startswith("vector") else ("job", "instance")
        return Vector(f"{function}({inner})", labels, exact=True)

    def grouping(self, inner: Vector) -> tuple[str, tuple[str, ...]]:
        """A grouping, and which labels are left."""
        random = self._random
        names = [name for name in inner.labels if random.random() < 0.5]
        if random.random() < 0.1:
            names.append("nolabel")
        choice = random.random()
        if choice < 0.25:
            return "", ()
        if choice < 0.75:
            if inner.named and random.random() < 0.1:
                names.append("__name__")
            return f" by ({', '.join(names)})", tuple(names)
        return f" without ({', '.join(names)})", tuple(name for name in inner.labels if name not in names)

    def relabelled(self, inner: Vector) -> Vector:
        """The same series with a label more, or another."""
        random = self._random
        source = random.choice((*inner.labels, "job", "nolabel"))
        target = random.choice(("made", "made", "made", "job", "instance", "env"))
        if inner.named and random.random() < 0.05:
            target = "__name__"
        if random.random() < 0.3:
            sources = ", ".join(f'"{name}"' for name in random.sample(("job", "instance", "group", "le"), 2))
            text = f'label_join({inner.text}, "{target}", "{random.choice("-,/")}", {sources})'
        else:
            replacement, regex = random.choice(words.REPLACEMENTS)
            text = f'label_replace({inner.text}, "{target}", "{replacement}", "{source}", "{regex}")'
        labels = tuple(dict.fromkeys((*inner.labels, target))) if target != "__name__" else inner.labels
        return replace(inner, text=text, labels=labels, primary=True)

    def range_call(self, function: str, argument: str) -> str:
        """A call of a function over a range, with whichever numbers it takes."""
        random = self._random
        if function == "quantile_over_time":
            return f"{function}({random.choice(words.QUANTILES)}, {argument})"
        if function == "predict_linear":
            return f"{function}({argument}, {random.choice(('0', '60', '3600', '-300'))})"
        if function == "double_exponential_smoothing":
            return f"{function}({argument}, {random.choice(('0.1', '0.5', '0.9'))}, {random.choice(('0.2', '0.7'))})"
        return f"{function}({argument})"
