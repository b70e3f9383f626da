"""The times of a query as people write them."""

import time
from collections.abc import Iterator

import pytest

from quarterdeck.core.errors import ErrorCode, QuarterdeckError
from quarterdeck.metrics.commands.query_times import Instant, Range, TimeOptions, choose_step_s, resolve_times
from quarterdeck.terminal.times import parse_time_s

NOW_S = 1_700_000_000.5


@pytest.fixture
def local_time(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "CET-1CEST,M3.5.0,M10.5.0/3")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def resolve(points: int = 250, **options: str) -> Instant | Range:
    return resolve_times(TimeOptions(**options), NOW_S, points)


@pytest.mark.parametrize(
    ("text", "at_s"),
    [
        ("now", NOW_S),
        ("now-2h", NOW_S - 7200),
        ("now+1h30m", NOW_S + 5400),
        ("now-90", NOW_S - 90),
        ("1700000000", 1_700_000_000),
        ("1700000000.25", 1_700_000_000.25),
        ("2023-11-14T22:13:20Z", 1_700_000_000),
        ("2023-11-14T23:13:20.5+01:00", 1_700_000_000.5),
    ],
)
def test_a_time_has_many_forms(text: str, at_s: float) -> None:
    assert parse_time_s("--at", text, NOW_S) == at_s


@pytest.mark.parametrize(
    ("text", "at_s"), [("2023-11-14 22:13:20", 1_700_000_000), ("2023-07-01", 1_688_169_600), ("-2h", NOW_S - 7200)]
)
def test_a_time_without_a_zone_is_utc_wherever_it_is_typed(local_time: None, text: str, at_s: float) -> None:
    assert parse_time_s("--at", text, NOW_S) == at_s


@pytest.mark.parametrize("text", ["", "now-", "now2h", "soon", "1e9", "nan", "2023-13-01", "now-1h-1h"])
def test_what_is_no_time_names_its_option(text: str) -> None:
    with pytest.raises(QuarterdeckError) as raised:
        parse_time_s("--start", text, NOW_S)
    assert raised.value.code is ErrorCode.INVALID_ARGUMENT
    assert "--start" in raised.value.what


def test_without_times_it_is_an_instant_at_the_servers_now() -> None:
    assert resolve() == Instant(None)
    assert resolve(at="now-1m") == Instant(NOW_S - 60)


def test_a_range_is_said_in_many_ways() -> None:
    assert resolve(last="1h") == Range(NOW_S - 3600, NOW_S, 15)
    assert resolve(last="1h", end="now-1d") == Range(NOW_S - 90_000, NOW_S - 86_400, 15)
    assert resolve(start="1000", last="1h") == Range(1000, 4600, 15)
    assert resolve(start="1000", end="2000") == Range(1000, 2000, 5)
    assert resolve(start="now-1h") == Range(NOW_S - 3600, NOW_S, 15)
    assert resolve(start="now", end="now", step="500ms") == Range(NOW_S, NOW_S, 0.5)


def test_a_range_that_ends_before_it_begins_is_refused() -> None:
    with pytest.raises(QuarterdeckError, match="it begins 1000 s after its end"):
        resolve(start="2000", end="1000")


@pytest.mark.parametrize(
    ("length_s", "step_s"),
    [
        (0, 1),
        (60, 1),
        (300, 2),
        (3600, 15),
        (6 * 3600, 120),
        (86_400, 600),
        (7 * 86_400, 3600),
        (365 * 86_400, 172_800),
    ],
)
def test_a_step_is_one_that_people_count_in(length_s: float, step_s: float) -> None:
    assert choose_step_s(length_s, 250) == step_s


def test_no_length_has_more_points_than_wanted() -> None:
    for length_s in range(1, 400_000_000, 1_234_567):
        assert length_s / choose_step_s(length_s, 100) <= 100 or length_s > 100 * 365 * 86_400
