"""Makes random queries from a seed, mostly such that have an answer over `dataset.py`.

Each piece of a query knows what is true of its series (`Vector`), so that a query is well typed, that operands meet,
and that what two versions of Prometheus answer differently is not asked: `known.py` lists which rule serves which
difference.
"""

from dataclasses import replace
from random import Random

from tests.differential import vocabulary as words
from tests.differential.broken import broken
from tests.differential.dataset import METRICS
from tests.differential.selectors import PAIRED, SelectorMaker, Vector, beside, mapped

_BY_NAME = {metric.name: metric for metric in METRICS}
_MOVING = frozenset({"http_requests_total", "temperature", "latency_seconds_sum", "extreme"})


class QueryMaker:
    """Makes one query after another."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._selectors = SelectorMaker(random)
        self._subqueries = 0

    def query(self, instant: bool) -> str:
        """A query of any type that may stand at the top."""
        random = self._random
        self._subqueries = 0
        kind = random.random()
        depth = random.choice((1, 2, 2, 3, 3, 4))
        if kind < 0.04:
            return self.scalar(depth)
        if instant and kind < 0.07:
            return self._selectors.ranged(random.choice(METRICS))
        if instant and kind < 0.09:
            return self._subquery(self._steady(1))
        if instant and kind < 0.095:
            return random.choice(('"text"', "'it\\'s'", "`raw\\n`"))
        if kind < 0.12:
            return self._top(depth)
        text = self.vector(depth).text
        return broken(random, text, self.scalar(1)) if kind > 0.95 else text

    def _top(self, depth: int) -> str:
        """What is compared for its order, or for its values alone, and stands at the top only."""
        inner = self._nameable(depth)
        op = self._random.choice(("topk", "bottomk", "sort", "sort_desc"))
        if op.startswith("sort"):
            return f"{op}({inner.text})"
        return f"{op}{self._selectors.grouping(inner)[0]} ({self._count()}, {inner.text})"

    # Vectors

    def vector(self, depth: int) -> Vector:
        """An instant vector."""
        if depth <= 0:
            return self._selectors.leaf()
        makers = (
            (2, self._leaf_at),
            (3, self._map),
            (6, self._over_range),
            (5, self._aggregation),
            (2, self._pick_or_quantile),
            (3, self._with_scalar),
            (4, self._one_to_one),
            (3, self._many_to_one),
            (3, self._set),
            (1, self._negative),
            (2, self._histogram),
            (2, self._relabelled),
            (1, self._absent),
            (1, self._from_scalar),
            (1, self._date),
            (1, self._clamped),
            (1, self._timestamp),
        )
        [maker] = self._random.choices([maker for _, maker in makers], weights=[weight for weight, _ in makers])
        return maker(depth - 1)

    def _nameable(self, depth: int) -> Vector:
        """A vector that a function may be applied to: none of its series differ in their name only."""
        while True:
            made = self.vector(depth)
            if not made.several:
                return made

    def _steady(self, depth: int) -> Vector:
        """A vector for a subquery: a series has the same hidden name at all steps, which `or` may change."""
        while True:
            made = self._nameable(depth)
            if " or " not in made.text:
                return made

    def _leaf_at(self, depth: int) -> Vector:
        return self._selectors.leaf()

    def _map(self, depth: int) -> Vector:
        inner, function = self._nameable(depth), self._random.choice(words.MAPS)
        exact = function in words.WHOLE or (function == "abs" and inner.exact)
        return Vector(mapped(function, inner), inner.labels, exact=exact and inner.exact)

    def _negative(self, depth: int) -> Vector:
        inner = self._nameable(depth)
        sign = self._random.choice("--+")
        named = inner.named and sign == "+"
        return replace(inner, text=f"{sign}{inner.operand()}", named=named, primary=False)

    def _clamped(self, depth: int) -> Vector:
        inner = self._nameable(depth)
        low, high = self.scalar(depth - 1), self.scalar(depth - 1)
        text = self._random.choice(
            (
                f"clamp({inner.text}, {low}, {high})",
                f"clamp({inner.text}, -5, 50)",
                f"clamp_min({inner.text}, {low})",
                f"clamp_max({inner.text}, {high})",
                f"round({inner.text})",
                f"round({inner.text}, 0.25)",
                f"round({inner.text}, {high})",
            )
        )
        return Vector(text, inner.labels)

    def _timestamp(self, depth: int) -> Vector:
        while " @ " in (inner := self._nameable(depth)).text and " offset " in inner.text:
            pass  # see known.py: an offset beside an `@` within timestamp
        return Vector(f"timestamp({inner.text})", inner.labels, exact=True)

    def _date(self, depth: int) -> Vector:
        return self._selectors.date()

    def _from_scalar(self, depth: int) -> Vector:
        return Vector(f"vector({self.scalar(depth)})", ())

    def _absent(self, depth: int) -> Vector:
        metric = self._random.choice(METRICS)
        text = self._random.choice(
            (
                f"absent({self._selectors.bare(metric)})",
                'absent(nothing{job="api", instance=~"a.*", group="x"})',
                f'absent({metric.name}{{job="nobody", job="x", env="y"}})',
                f"absent({self.vector(depth).text})",
            )
        )
        return Vector(text, ("job", "instance", "group", "env"), exact=True)

    # Over a range

    def _subquery(self, inner: Vector) -> str:
        self._subqueries += 1
        length, step = self._random.choice(words.SUBQUERY_RANGES), self._random.choice(words.SUBQUERY_STEPS)
        if "@" in inner.operand() and step == words.LONGEST_SUBQUERY_STEP:
            step = ""  # see known.py: a range without any step
        return f"{inner.operand()}[{length}:{step}]{self._selectors.moved()}"

    def _over_range(self, depth: int) -> Vector:
        random = self._random
        if random.random() < 0.4:
            return self._counter_function()
        function = random.choice(words.RANGE_FUNCTIONS)
        if depth > 0 and self._subqueries < 2 and random.random() < 0.35:
            inner = replace(self._steady(depth), distinct=False, named=False)
            argument = self._subquery(inner)
        else:
            metric = random.choice(METRICS)
            inner = self._selectors.selector(metric)
            argument = self._selectors.ranged(metric)
        if function in words.SPREADS and not inner.finite:
            function = "avg_over_time"
        if function == "predict_linear" and "@" in argument:
            function = "deriv"
        return Vector(
            self._selectors.range_call(function, argument),
            inner.labels,
            named=inner.named and function == "last_over_time",
            distinct=inner.distinct and function in words.KEEP_DISTINCT,
            exact=inner.exact and function in words.PICK | words.WHOLE_RANGE,
            finite=inner.finite and function in words.PICK | words.WHOLE_RANGE | {"avg_over_time", "sum_over_time"},
        )

    def _counter_function(self) -> Vector:
        """`rate` and the like, over series where the versions extrapolate alike: see the rule in `dataset.py`."""
        random = self._random
        function = random.choice(words.COUNTER_FUNCTIONS)
        if random.random() < 0.15 and self._subqueries < 2:
            metric = random.choice([metric for metric in METRICS if metric.dense])
            inner = Vector(metric.name, metric.labels)
            if random.random() < 0.5:
                inner = Vector(f"sum by (job) ({metric.name})", ("job",))
            return Vector(f"{function}({self._subquery(inner)})", inner.labels)
        metric = random.choice(
            [metric for metric in METRICS if metric.counter or (metric.dense and random.random() < 0.1)]
        )
        length = random.choice(words.RANGES)
        distinct = metric.name in _MOVING and length in words.LONG_RANGES and function != "irate"
        return Vector(
            f"{function}({self._selectors.ranged(metric, length)})",
            metric.labels,
            distinct=distinct,
            finite=metric.finite,
        )

    def _histogram(self, depth: int) -> Vector:
        random = self._random
        quantile = random.choice(words.QUANTILES) if random.random() < 0.8 else self.scalar(depth - 1)
        return Vector(f"histogram_quantile({quantile}, {self._selectors.buckets()})", ("job", "instance"))

    # Aggregations

    def _aggregation(self, depth: int) -> Vector:
        inner = self.vector(depth)
        op = self._aggregator(inner)
        grouping, labels = self._selectors.grouping(inner)
        text = f"{op}{grouping} ({inner.text})"
        if grouping and self._random.random() < 0.2:
            text = f"{op}({inner.text}){grouping}"
        exact = op in {"count", "group"} or (op in {"min", "max"} and inner.exact)
        return Vector(
            text,
            tuple(label for label in labels if label != "__name__"),
            several="__name__" in labels,
            exact=exact,
            finite=inner.finite or op in {"count", "group"},
        )

    def _aggregator(self, inner: Vector) -> str:
        """An aggregation that the versions agree on for these values."""
        return self._random.choice(words.AGGREGATIONS if inner.finite else words.SAFE_AGGREGATIONS)

    def _count(self) -> str:
        return self._random.choice(words.COUNTS)

    def _pick_or_quantile(self, depth: int) -> Vector:
        random = self._random
        inner = self.vector(depth)
        grouping, labels = self._selectors.grouping(inner)
        kind = random.random()
        if kind < 0.4:
            for _ in range(20):
                if inner.distinct:
                    break
                inner = self.vector(min(depth, 1))
            else:
                inner = self._selectors.selector(_BY_NAME["temperature"])
            grouping, _ = self._selectors.grouping(inner)
            return replace(
                inner, text=f"{random.choice(('topk', 'bottomk'))}{grouping} ({self._count()}, {inner.text})"
            )
        labels = tuple(label for label in labels if label != "__name__")
        if kind < 0.7:
            several = "__name__" in grouping
            parameter = random.choice(words.QUANTILES) if random.random() < 0.8 else self.scalar(depth - 1)
            if "@" in parameter + inner.text or "vector(" in inner.text:  # see known.py
                parameter = "0.75"
            return Vector(f"quantile{grouping} ({parameter}, {inner.text})", labels, several=several)
        while not inner.exact:
            inner = self._selectors.leaf()
        grouping, labels = self._selectors.grouping(inner)
        while grouping.startswith(" by") and grouping.count(",") > 1:  # see known.py
            grouping, labels = self._selectors.grouping(inner)
        label = random.choice(("value", "value", "job", "le"))
        return Vector(
            f'count_values{grouping} ("{label}", {inner.text})',
            (*(name for name in labels if name != "__name__"), label),
            several="__name__" in grouping,
            exact=True,
        )

    # Operators

    def _with_scalar(self, depth: int) -> Vector:
        random = self._random
        inner = self._nameable(depth)
        number = f"({self.scalar(depth - 1)})" if random.random() < 0.4 else random.choice(words.NUMBERS)
        left, right = (inner.operand(), number) if random.random() < 0.6 else (number, inner.operand())
        if random.random() < 0.5:
            op = random.choice(words.ARITHMETIC)
            if op == "atan2":
                left, right = f"({left} * 1)", f"({right} * 1)"  # takes the name away, see known.py
            distinct = inner.distinct and op == "*" and number in {"2", "100", "0.5"}
            return Vector(f"{left} {op} {right}", inner.labels, distinct=distinct, primary=False)
        op = random.choice(words.COMPARISONS)
        if random.random() < 0.4:
            return Vector(f"{left} {op} bool {right}", inner.labels, exact=True, primary=False)
        return replace(inner, text=f"{left} {op} {right}", primary=False)

    def shaped(self, labels: tuple[str, ...], depth: int) -> Vector:
        """A vector with at most one series for each combination of these labels."""
        random = self._random
        if depth <= 0 and labels == ("job", "instance") and random.random() < 0.5:
            made = self._selectors.selector(random.choice(PAIRED))
        elif depth > 0 and random.random() < 0.4:
            inner = self.shaped(labels, depth - 1)
            made = random.choice(
                (
                    Vector(mapped(random.choice(words.MAPS), inner), labels),
                    Vector(f"{inner.operand()} {random.choice('+-*/')} 2", labels, primary=False),
                    replace(inner, text=f"{inner.operand()} {random.choice('<>')} 1", primary=False, distinct=False),
                )
            )
        else:
            inner = self.vector(depth - 1)
            text = f"{self._aggregator(inner)} by ({', '.join(labels)}) ({inner.text})"
            made = Vector(text, labels, finite=inner.finite)
        return made

    def _operator(self) -> tuple[str, bool]:
        """An operator between vectors, and whether the left side's values and names stay."""
        random = self._random
        if random.random() < 0.6:
            return random.choice(words.ARITHMETIC), False
        op = random.choice(words.COMPARISONS)
        return (f"{op} bool", False) if random.random() < 0.4 else (op, True)

    def _one_to_one(self, depth: int) -> Vector:
        random = self._random
        op, filters = self._operator()
        labels = random.choice((("job", "instance"), ("job", "instance"), ("job",), ("job", "group"), ()))
        left, right = self.shaped(labels, depth), self.shaped(labels, depth)
        matching = ""
        if random.random() < 0.3:
            matching = f" on ({', '.join(labels)})"
        elif random.random() < 0.2:
            matching = " ignoring (nolabel)"
        elif random.random() < 0.1:  # mostly many to many: an error, or by luck none
            left = self._nameable(depth)
            matching = random.choice((" on (job)", " ignoring (instance)", ""))
        named = filters and left.named and not matching.startswith(" on")
        text = f"{beside(op, left)} {op}{matching} {beside(op, right)}"
        return Vector(text, left.labels, named=named, primary=False)

    def _many_to_one(self, depth: int) -> Vector:
        random = self._random
        op, filters = self._operator()
        many = self._nameable(depth)
        if "instance" in many.labels and random.random() < 0.5:
            on, one = ("job", "instance"), self.shaped(("job", "instance"), depth)
            include = ()
            if random.random() < 0.4:
                one, include = Vector("build_info", ("job", "instance", "version"), named=True), ("version",)
        else:
            on, one, include = ("job",), self.shaped(("job",), depth), ()
        matching = f"on ({', '.join(on)})"
        if random.random() < 0.15:
            others = (name for name in ("instance", "group", "env", "le", "kind", "version", "scale") if name not in on)
            matching = f"ignoring ({', '.join(others)})"
        labels = f" ({', '.join(include)})" if include or random.random() < 0.5 else ""
        if random.random() < 0.5:
            text = f"{beside(op, many)} {op} {matching} group_left{labels} {beside(op, one)}"
            named = filters and many.named
        else:
            text = f"{beside(op, one)} {op} {matching} group_right{labels} {beside(op, many)}"
            named = False
        return Vector(text, tuple({*many.labels, *include}), named=named, primary=False)

    def _set(self, depth: int) -> Vector:
        random = self._random
        left, right, op = self._nameable(depth), self._nameable(depth), random.choice(words.SETS)
        matching = random.choice(("", "", " on (job)", " on (job, instance)", " ignoring (le, group)"))
        if random.random() < 0.03:
            matching = " on ()"
        text = f"{left.operand()} {op}{matching} {right.operand()}"
        if op == "or":
            labels = tuple(dict.fromkeys((*left.labels, *right.labels)))
            return replace(
                left,
                text=text,
                labels=labels,
                named=left.named and right.named,
                distinct=False,
                exact=left.exact and right.exact,
                finite=left.finite and right.finite,
                primary=False,
            )
        return replace(left, text=text, primary=False)

    def _relabelled(self, depth: int) -> Vector:
        return self._selectors.relabelled(self._nameable(depth))

    # Scalars

    def scalar(self, depth: int) -> str:
        """A scalar."""
        random = self._random
        choice = random.random()
        if depth <= 0 or choice < 0.3:
            return random.choice((*words.NUMBERS, "time()", "pi()"))
        if choice < 0.6:
            inner = self.vector(depth - 1)
            return f"scalar({self._aggregator(inner)}({inner.text}))"
        if choice < 0.7:
            return f"scalar({self.vector(depth - 1).text})"
        if choice < 0.75:
            return f"-({self.scalar(depth - 1)})"
        op = random.choice((*words.ARITHMETIC, *(f"{op} bool" for op in words.COMPARISONS)))
        return f"({self.scalar(depth - 1)}) {op} ({self.scalar(depth - 1)})"
