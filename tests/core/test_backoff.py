"""Backoff: growth, cap, jitter, and what is refused."""

from math import inf, nan

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quarterdeck.core.backoff import Backoff

MIDDLE = 0.5
ALMOST_ONE = 1 - 2**-53


def test_the_wait_doubles_from_the_base_up_to_the_cap() -> None:
    waits = [Backoff().delay_s(attempt, MIDDLE) for attempt in range(1, 10)]
    assert waits == [0.5, 1, 2, 4, 8, 16, 30, 30, 30]


def test_jitter_goes_a_quarter_down_and_a_quarter_up() -> None:
    backoff = Backoff(base_s=4)
    assert backoff.delay_s(1, 0) == pytest.approx(3)
    assert backoff.delay_s(1, ALMOST_ONE) == pytest.approx(5)


def test_those_who_reached_the_cap_still_spread() -> None:
    backoff = Backoff(cap_s=30)
    assert backoff.delay_s(50, 0) == pytest.approx(22.5)
    assert backoff.delay_s(50, ALMOST_ONE) == pytest.approx(37.5)


def test_without_jitter_the_number_drawn_has_no_influence() -> None:
    backoff = Backoff(jitter=0)
    assert backoff.delay_s(3, 0) == backoff.delay_s(3, ALMOST_ONE) == 2.0


@pytest.mark.parametrize("attempt", [1_000, 100_000, 10**400])
def test_a_huge_attempt_number_waits_as_long_as_the_cap(attempt: int) -> None:
    assert Backoff(cap_s=30).delay_s(attempt, MIDDLE) == 30


@pytest.mark.parametrize("attempt", [1, 2, 10**400])
def test_a_factor_of_one_always_waits_as_long_as_the_base(attempt: int) -> None:
    assert Backoff(base_s=3.0, factor=1.0).delay_s(attempt, MIDDLE) == 3


@settings(derandomize=True, deadline=None)
@given(
    base_s=st.floats(1e-6, 1e3),
    growth=st.floats(1, 1e6),
    factor=st.floats(1, 10),
    jitter=st.floats(0, 0.99),
    attempt=st.integers(1, 10_000),
    unit=st.floats(0, 1, exclude_max=True),
)
def test_the_wait_stays_within_jitter_of_base_and_cap_and_never_gets_shorter(
    base_s: float, growth: float, factor: float, jitter: float, attempt: int, unit: float
) -> None:
    backoff = Backoff(base_s=base_s, cap_s=base_s * growth, factor=factor, jitter=jitter)
    wait_s = backoff.delay_s(attempt, unit)
    slack = 1e-9
    assert base_s * (1 - jitter) * (1 - slack) <= wait_s <= backoff.cap_s * (1 + jitter) * (1 + slack)
    assert wait_s <= backoff.delay_s(attempt + 1, unit) * (1 + slack)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *(("base_s", value) for value in (0.0, -1.0, inf, nan)),
        *(("cap_s", value) for value in (0.4, -1.0, inf, nan)),
        *(("factor", value) for value in (0.9, -2.0, inf, nan)),
        *(("jitter", value) for value in (-0.1, 1.0, inf, nan)),
    ],
)
def test_a_policy_that_makes_no_sense_is_refused_by_name(field: str, value: float) -> None:
    with pytest.raises(ValueError, match=f"^{field} is "):
        Backoff(**{field: value})


@pytest.mark.parametrize("attempt", [0, -1])
def test_attempts_are_counted_from_one(attempt: int) -> None:
    with pytest.raises(ValueError, match="counted from 1"):
        Backoff().delay_s(attempt, MIDDLE)


@pytest.mark.parametrize("unit", [-0.01, 1.0, nan])
def test_a_drawn_number_outside_its_range_is_refused(unit: float) -> None:
    with pytest.raises(ValueError, match=r"^unit is "):
        Backoff().delay_s(1, unit)
