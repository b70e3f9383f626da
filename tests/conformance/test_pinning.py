"""Queries made independent of the time they are evaluated at."""

import pytest

from tests.conformance.pinning import other_times_ms, pinned


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("up", "up @ 60.000"),
        ("up @ 5", "up @ 5.000"),
        ("up @ start()", "up @ 60.000"),
        ("rate(up[5m] offset 1m)", "rate(up[5m] @ 60.000 offset 1m)"),
        ("rate(up[5m:1m])", "rate(up[5m:1m] @ 60.000)"),
        ("rate(sum(up)[5m:1m] @ 7)", "rate(sum(up)[5m:1m] @ 7.000)"),
        ("-(a + on (x) b)", "-(a @ 60.000 + on (x) b @ 60.000)"),
        ("topk(scalar(a), b)", "topk(scalar(a @ 60.000), b @ 60.000)"),
        ("time() + up", None),
        ("sum(timestamp(up))", None),
        ("max_over_time(time()[5m:1m])", "max_over_time(time()[5m:1m] @ 60.000)"),
    ],
)
def test_every_selector_outside_subqueries_is_pinned(query: str, expected: str | None) -> None:
    assert pinned(query, 60_000) == expected


def test_pinned_queries_are_run_at_upstreams_times() -> None:
    assert other_times_ms(0) == (-1000, 0, 1000)
    assert other_times_ms(300_000) == (-3_000_000, 0, 60_000, 300_000, 3_000_000)
