"""What the rules of the plan do to a query, one by one and together."""

from dataclasses import replace

import pytest

from quarterdeck.metrics.promql.blocks import Grid
from quarterdeck.metrics.promql.errors import ExecutionError, ParseError
from quarterdeck.metrics.promql.plan import nodes as pn
from quarterdeck.metrics.promql.plan.explain import selector
from quarterdeck.metrics.promql.plan.leaves import BaseExpr, Merge, canonical
from quarterdeck.metrics.promql.plan.lower import PlanTimes, labels_of_absent, lower
from quarterdeck.metrics.promql.plan.pipeline import QueryPlan, plan_query
from quarterdeck.metrics.promql.plan.rules.find_resets import find_resets
from quarterdeck.metrics.promql.syntax.ast import Call
from quarterdeck.metrics.promql.syntax.parser import parse

HOUR_MS = 3_600_000


def plan(text: str, start_ms: int = 0, end_ms: int = HOUR_MS, step_ms: int = 60_000) -> QueryPlan:
    return plan_query(text, start_ms, end_ms, step_ms, 60_000)


def leaf_kinds(query: QueryPlan) -> list[tuple[str, Merge]]:
    return [(type(leaf.plan).__name__, leaf.merge) for leaf in query.leaves]


def test_arithmetic_between_constants_is_done_before_evaluation() -> None:
    assert plan("vector(2 * (3 + 4) ^ 2 - -1 % 5)").plan == pn.VectorOf(pn.Number(99.0))
    assert plan("vector(max_of(1, 2) > bool min_of(3, 4))").plan == pn.VectorOf(pn.Number(0.0))


def test_start_end_step_and_range_are_those_of_the_query() -> None:
    query = plan("vector(start() + 10 * end() + 100 * step() + range())", 60_000, 300_000, 120_000)
    assert query.plan == pn.VectorOf(pn.Number(60.0 + 3000.0 + 12_000.0 + 240.0))


@pytest.mark.parametrize(("text", "at_ms"), [("m @ start()", 0), ("m @ end()", HOUR_MS), ("m @ 5.5", 5500)])
def test_an_anchor_becomes_a_time(text: str, at_ms: int) -> None:
    (leaf,) = plan(text).leaves
    assert isinstance(leaf.plan, pn.Select)
    assert leaf.plan.timing.at == at_ms


def test_what_looks_at_a_fixed_time_is_evaluated_once() -> None:
    query = plan("sum(rate(m[5m] @ 600)) * time()")
    assert isinstance(query.plan, pn.VectorScalar)
    assert isinstance(query.plan.vector, pn.StepInvariant)
    assert [leaf.grid.count for leaf in query.leaves] == [1]


@pytest.mark.parametrize(
    "text",
    [
        "m",
        "timestamp(abs(m @ 600))",
        "predict_linear(m[5m] @ 600, 60)",
        "sum(m @ 600) + m",
        "sum_over_time((m @ 600)[5m:1m])",
    ],
)
def test_what_depends_on_the_step_is_not_evaluated_once(text: str) -> None:
    assert not isinstance(plan(text).plan, pn.StepInvariant)


def test_the_inside_of_a_subquery_is_evaluated_once_if_only_that_is_fixed() -> None:
    query = plan("sum_over_time((m @ 600)[5m:1m])")
    assert any(isinstance(node, pn.StepInvariant) for node in pn.walk(query.plan))
    assert [leaf.grid.count for leaf in query.leaves] == [1]


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("m", [("Select", Merge.UNION)]),
        ("-abs(m) * 2 + time()", [("VectorScalar", Merge.UNION)]),
        ("rate(m[5m])", [("RangeCall", Merge.UNION)]),
        ("max_over_time(rate(m[1m])[5m:1m])", [("RangeCall", Merge.UNION)]),
        ("sum by (a) (rate(m[5m]) > 1)", [("Aggregate", Merge.COMBINE)]),
        ("avg(m)", [("Aggregate", Merge.COMBINE)]),
        ("stddev without (a) (m)", [("Aggregate", Merge.COMBINE)]),
        ("topk(3, m)", [("Aggregate", Merge.UNION)]),
        ('count_values("v", m)', [("Aggregate", Merge.ADD)]),
        ("quantile(0.5, m)", [("Select", Merge.UNION)]),
        ("sum(m) / sum(n)", [("Aggregate", Merge.COMBINE), ("Aggregate", Merge.COMBINE)]),
        ("sum(sum by (a) (m))", [("Aggregate", Merge.COMBINE)]),
        ("histogram_quantile(0.9, rate(m[5m]))", [("RangeCall", Merge.UNION)]),
        ("absent(m)", [("Aggregate", Merge.COMBINE)]),
        ("absent_over_time(m[5m])", [("Aggregate", Merge.COMBINE)]),
        ("m * scalar(n)", [("Select", Merge.UNION), ("Select", Merge.UNION)]),
        ("quantile_over_time(scalar(n), m[5m])", [("SelectRange", Merge.SAMPLES), ("Select", Merge.UNION)]),
        ("max_over_time(sum(m)[5m:1m])", [("Aggregate", Merge.COMBINE)]),
    ],
)
def test_leaves_go_as_far_up_as_each_series_can_be_computed_alone(text: str, kinds: list[tuple[str, Merge]]) -> None:
    assert leaf_kinds(plan(text)) == kinds


@pytest.mark.parametrize("above", ["sum({})", "abs({})", "{} > 5", "rate({}[5m:1m])", "topk(1, {})"])
def test_nothing_is_pushed_down_past_a_change_of_labels(above: str) -> None:
    relabelled = 'label_replace(m, "a", "$1", "b", "(.*)")'
    assert leaf_kinds(plan(above.format(relabelled))) == [("Relabel", Merge.UNION)]


def test_equal_leaves_are_evaluated_once() -> None:
    query = plan("rate(m[5m]) / rate(m[5m])")
    assert len(query.leaves) == 1
    assert isinstance(query.plan, pn.VectorVector)
    assert (query.plan.lhs, query.plan.rhs) == (pn.LeafRef(0, 0), pn.LeafRef(0, 0))
    assert isinstance(query.plan.rhs, pn.LeafRef)
    assert query.plan.rhs.start == 14


def test_the_order_of_matchers_makes_no_other_leaf() -> None:
    assert len(plan('m{a="1",b="2"} - m{b="2",a="1"}').leaves) == 1


@pytest.mark.parametrize(
    "text",
    ["rate(m[5m]) / rate(m[6m])", "m / m offset 1m", 'm{a="1"} / m{a="2"}', "m / m @ 60", "sum(m) / sum by (a) (m)"],
)
def test_leaves_that_differ_in_anything_are_two(text: str) -> None:
    assert len(plan(text).leaves) == 2


def test_a_leaf_has_the_same_id_in_every_query_and_another_one_at_other_times() -> None:
    def id_of(text: str, end_ms: int = HOUR_MS) -> str:
        (leaf,) = plan(text, end_ms=end_ms).leaves
        return leaf.id

    assert id_of("rate(m[5m])") == id_of("  rate( m [300s] )") == id_of("sort(rate(m[5m]))")
    assert id_of("rate(m[5m])") != id_of("rate(m[5m])", end_ms=2 * HOUR_MS)
    assert id_of("rate(m[5m])") != id_of("increase(m[5m])")


def test_the_id_of_a_leaf_never_changes_between_versions_unnoticed() -> None:
    (leaf,) = plan('sum by (job) (rate(m{a=~"b|c"}[5m] offset 1m))').leaves
    assert canonical(leaf.plan).startswith(
        "Aggregate(sum RangeCall('rate' SelectRange([Matcher('__name__' = 'm') Matcher('a' =~ 'b|c')]"
    )
    assert leaf.id == BaseExpr(leaf.plan, leaf.grid, leaf.merge, start=99, scope=7).id


def test_a_subquery_gives_its_leaf_the_steps_that_its_windows_contain() -> None:
    (leaf,) = plan("max_over_time(sum(m)[5m:90s] offset 30s)", 600_000, 1_200_000, 300_000).leaves
    # Windows end at 570, 870 and 1170 s and reach back 5 m, open on the left: (270, 1170], in multiples of 90 s.
    assert leaf.grid == Grid(360_000, 90_000, 10)


@pytest.mark.parametrize(
    ("text", "kind"), [("m[5m]", "range vector"), ("m[5m:1m]", "range vector"), ('"text"', "string")]
)
def test_a_range_query_of_what_has_no_steps_is_refused(text: str, kind: str) -> None:
    with pytest.raises(ParseError, match=f'invalid expression type "{kind}" for range query') as caught:
        plan(text)
    assert caught.value.span.start == 0
    assert caught.value.reason.startswith("invalid expression type")


def test_a_function_that_no_plan_can_be_made_of_is_refused_by_name() -> None:
    call = parse("abs(m)")
    assert isinstance(call, Call)
    with pytest.raises(ParseError, match="function haul_keel is not supported"):
        lower(replace(call, function="haul_keel"), "haul_keel(m)", PlanTimes(0, HOUR_MS, 60_000, 60_000))


def info_series(text: str) -> tuple[str, pn.Timing]:
    """The selector of info series in the plan of a query, and when it looks."""
    selects = [leaf.plan for leaf in plan(text).leaves if isinstance(leaf.plan, pn.Select)]
    (found,) = [select for select in selects if select.keeps_histograms]
    return selector(found.matchers), found.timing


@pytest.mark.parametrize(
    ("vector", "offset_ms", "at_ms"),
    [
        ("m", 0, None),
        ("rate(m[5m] offset 1m)", 60_000, None),
        ("m offset -1m", -60_000, None),
        ("sum by (job) (m @ 600)", 0, 600_000),
        ("m @ 600 offset 1m", 0, 540_000),
        ("m @ end()", 0, HOUR_MS),
        ("max_over_time((m offset 1m)[5m:1m] offset 2m)", 180_000, None),
        ("max_over_time((m offset 1m)[5m:1m] @ 600 offset 2m)", 0, 420_000),
        ("max_over_time((m @ 60)[5m:1m] @ 600 offset 2m)", 0, 60_000),
        ("m @ 600 + on(job) n @ 660 offset 1m", 0, 600_000),
        ("m offset 1m or n", 0, None),
        ("m @ 600 or n", 0, None),
        ("m @ 600 or vector(1)", 0, None),
        ("hour()", 0, None),
        ("scalar(n @ 60) * m @ 600", 0, 600_000),
        ("topk(scalar(n @ 60), m @ 600)", 0, 600_000),
        ('label_replace(m @ 600, "a", "", "", "")', 0, 600_000),
        ("absent(m @ 600)", 0, 600_000),
        ("timestamp(m @ 600)", 0, 600_000),
    ],
)
def test_info_series_are_looked_at_when_all_samples_of_the_vector_are(
    vector: str, offset_ms: int, at_ms: int | None
) -> None:
    assert info_series(f"info({vector})") == ("target_info", pn.Timing(offset_ms, at_ms))


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ('info(m{job="a", instance=~"b.+", x="y"})', 'target_info{instance=~"b.+", job="a"}'),
        ('info(rate(m{job="a"}[5m]) * 2, {"i"})', 'i{job="a"}'),
        ('info(m{job!="a", instance=~".*"})', "target_info"),
        ('info(sum by (job) (m{job="a"}))', "target_info"),
        ('info(label_replace(m{job="a"}, "job", "b", "", ""))', "target_info"),
        ('info(m{job="a"} + n{job="a"})', "target_info"),
    ],
)
def test_info_series_are_read_only_of_the_jobs_and_instances_that_the_vector_names(text: str, shown: str) -> None:
    assert info_series(text)[0] == shown


def test_info_at_a_fixed_time_is_evaluated_once() -> None:
    assert isinstance(plan("info(m @ 600)").plan, pn.StepInvariant)
    mixed = plan("info(m @ 600 or n @ 660)").plan
    assert isinstance(mixed, pn.Info)
    assert isinstance(mixed.vector, pn.StepInvariant)


def test_the_series_and_the_info_series_are_leaves_of_their_own() -> None:
    assert leaf_kinds(plan("sum(info(rate(m[5m])))")) == [("RangeCall", Merge.UNION), ("Select", Merge.UNION)]


@pytest.mark.parametrize(
    ("text", "known"),
    [
        ('nobody{port!="a", port=~"b|c", port="b"}', (("port", "b"),)),
        ('nobody{port="b", port!="a"}[5m]', ()),
        ('nobody{port="b", pier="x", port="b"}', (("pier", "x"),)),
    ],
)
def test_what_is_absent_has_the_labels_of_equalities_unless_more_is_said_after(
    text: str, known: tuple[tuple[str, str], ...]
) -> None:
    # No script can say this: they also run what is printed of a query, and that has its matchers in another order.
    assert labels_of_absent(parse(text)) == known


def test_scalars_cannot_be_trimmed_which_is_told_after_all_that_is_wrong_in_the_text() -> None:
    with pytest.raises(ExecutionError) as caught:
        plan("vector(1 </ time()) + (1 >/ 2)")
    assert caught.value.reason == 'operator "</" not allowed for Scalar operations'
    with pytest.raises(ParseError, match="non-empty matcher"):
        plan("(1 </ 2) + {}")
    plan("1 </ foo")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("histogram_count(sum(m))", True),
        ("histogram_sum(rate(m[5m]) * 2)", True),
        ("histogram_avg(m) + sum(m)", None),
        ("histogram_stddev(m)", False),
        ("histogram_count(m </ 5)", False),
        ("histogram_count(m >/ on () n)", False),
        ("histogram_count(m * on () histogram_stdvar(n))", None),
        ("histogram_quantile(0.5, histogram_count(m))", False),
        ("histogram_count(sum_over_time(m[5m:1m]))", False),
        ("sum_over_time(histogram_count(m)[5m:1m])", False),
    ],
)
def test_histograms_come_without_buckets_where_nobody_needs_them(text: str, found: bool | None) -> None:
    times = PlanTimes(0, HOUR_MS, 60_000, 60_000)
    asked = [part.finds_resets for part in selectors(find_resets(lower(parse(text), text, times)))]
    assert set(asked) == ({True, False} if found is None else {found})


def selectors(node: pn.Plan) -> list[pn.Select | pn.SelectRange]:
    if isinstance(node, pn.Select | pn.SelectRange):
        return [node]
    found: list[pn.Select | pn.SelectRange] = []

    def look(child: pn.Plan) -> pn.Plan:
        found.extend(selectors(child))
        return child

    pn.map_children(node, look)
    return found
