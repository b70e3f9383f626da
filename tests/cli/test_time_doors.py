"""A time text means the same at every door: options of commands, inside a search, and in each of the HTTP APIs."""

import os
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pyarrow  # pyright: ignore[reportMissingTypeStubs] - it has none
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quarterdeck.core.errors import QuarterdeckError
from quarterdeck.core.time_texts import UNITS_US, Moment, parse_length_us, parse_moment, show_moment
from quarterdeck.engines.duckdb_database import open_database
from quarterdeck.metrics.api.parameters import labels_parameters, query_parameters, range_parameters
from quarterdeck.metrics.api.stream_request import parse_moment_ms
from quarterdeck.metrics.api.times import parse_length_ms
from quarterdeck.metrics.commands.query_csv import _shown_time as in_csv  # pyright: ignore[reportPrivateUsage]
from quarterdeck.metrics.commands.query_times import Instant, Range, TimeOptions, resolve_times
from quarterdeck.metrics.importing.column_mapping import TimeUnit
from quarterdeck.metrics.importing.column_numbers import times_of
from quarterdeck.metrics.promql.syntax.durations import UNITS_MS, parse_duration_ms
from quarterdeck.search.commands.record_lines import shown_time as in_a_line
from quarterdeck.search.engine.values import time_of_text
from quarterdeck.search.language.ast import TimeRange
from quarterdeck.search.language.parser import parse_search
from quarterdeck.search.root import planning
from quarterdeck.terminal.shown_times import shown_time
from quarterdeck.terminal.times import parse_length_s, resolve_bounds

_arrow: Any = pyarrow
NOW_MS = 1_785_412_800_125
NOW_US = NOW_MS * 1_000


@pytest.fixture(autouse=True, scope="module")
def far_from_utc() -> Iterator[None]:
    before = os.environ.get("TZ")
    os.environ["TZ"] = "AEST-10AEDT,M10.1.0,M4.1.0/3"
    time.tzset()
    yield
    os.environ.pop("TZ")
    if before is not None:
        os.environ["TZ"] = before
    time.tzset()


def in_a_search(text: str) -> int:
    condition = parse_search(f"[{text}, ]").condition
    assert isinstance(condition, TimeRange)
    assert condition.start is not None
    return condition.start.at_us + (NOW_US if condition.start.relative else 0)


def beside_a_search(text: str) -> int:
    read = planning._time  # pyright: ignore[reportPrivateUsage]
    at_us = read(text, "start", NOW_US)
    assert at_us is not None
    return at_us


def option_of_search(text: str) -> int:
    start, _ = resolve_bounds(text, None, None, NOW_MS / 1000)
    assert start is not None
    return beside_a_search(start)


FINE: dict[str, Callable[[str], int]] = {
    "inside a search": in_a_search,
    "POST /v1/search": beside_a_search,
    "search --start": option_of_search,
}


def option_at(text: str) -> int:
    asked = resolve_times(TimeOptions(at=text), NOW_MS / 1000, 100)
    assert isinstance(asked, Instant)
    return query_parameters({"query": ["m"], "time": [asked.fields()["time"]]}, 0).time_ms


def option_start(text: str) -> int:
    asked = resolve_times(TimeOptions(start=text, end=text), NOW_MS / 1000, 100)
    assert isinstance(asked, Range)
    return range_parameters({"query": ["m"], **{name: [value] for name, value in asked.fields().items()}}).start_ms


WHOLE_MS: dict[str, Callable[[str], int]] = {
    "query --at": option_at,
    "query --start": option_start,
    "api/v1/query": lambda text: query_parameters({"query": ["m"], "time": [text]}, NOW_MS).time_ms,
    "api/v1/query_range": lambda text: (
        range_parameters({"query": ["m"], "start": [text], "end": [text], "step": ["1"]}, NOW_MS).start_ms
    ),
    "api/v1/labels": lambda text: labels_parameters({"start": [text]}, NOW_MS).start_ms,
    "api/v1/metrics/query": lambda text: parse_moment_ms("s", text, {"now": NOW_MS}),
}


def check_doors(text: str) -> None:
    at_us = parse_moment(text).since_1970_us(NOW_US)
    assert {name: read(text) for name, read in FINE.items()} == dict.fromkeys(FINE, at_us)
    read_ms = {name: read(text) for name, read in WHOLE_MS.items()}
    assert len(set(read_ms.values())) == 1, read_ms
    assert abs(next(iter(read_ms.values())) * 1_000 - at_us) < 1_000


@st.composite
def lengths(draw: st.DrawFn) -> str:
    units = draw(st.lists(st.sampled_from(list(UNITS_US)[:-1]), min_size=1, unique=True))
    return "".join(f"{draw(st.integers(0, 99))}{unit}" for unit in UNITS_US if unit in units)


@st.composite
def dates(draw: st.DrawFn) -> str:
    at_us = draw(st.integers(-2_000_000_000_000_000, 4_000_000_000_000_000))
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=at_us)
    form = draw(st.sampled_from(["%Y-%m-%d", "%Y-%m-%d %H:%M", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%dT%H:%M:%S.%fZ", "iso"]))
    zone = timezone(timedelta(minutes=draw(st.integers(-1439, 1439))))
    return moment.astimezone(zone).isoformat() if form == "iso" else moment.strftime(form)


numbers = st.integers(-(10**10), 10**10).map(str) | st.decimals(-(10**10), 10**10, places=5).map(lambda one: f"{one:f}")
relative = st.tuples(st.sampled_from("+-"), lengths()).map(lambda pair: f"now{pair[0]}{pair[1]}")


@given(dates() | relative | numbers | lengths().map(lambda length: f"-{length}"))
def test_every_door_reads_the_same_time(text: str) -> None:
    check_doors(text)


@pytest.mark.parametrize(
    "text",
    [
        *("now", "now-2h", "-2h", "now+1h30m", "now-90", "now-1y2w", "0", "1785412800", "1785412800.7815", "-1.5"),
        *("2026-07-31", "2026-07-31 08:00", "2026-07-31T08:00:00.78191", "2026-07-31T08:00:00+10:00"),
        *(
            "2026-07-31T08:00:00.78191Z",
            "2026-07-31t08:00:00z",
            "2026-07-31 08:00 +02:00",
            "2026-07-31T8:00:00Z",
            "2026-07-31 08:00+02",
        ),
    ],
)
def test_these_are_times_at_every_door(text: str) -> None:
    check_doors(text)


@pytest.mark.parametrize(
    "text", ["yesterday", "now-1mo", "now-1m1h", "now-1.5h", "2h", "2026-13-01", "2026-07-31T25:00", "now-", "12:30"]
)
def test_what_is_no_time_at_one_door_is_none_at_any(text: str) -> None:
    for name, read in {**FINE, **WHOLE_MS}.items():
        with pytest.raises(QuarterdeckError):
            pytest.fail(f"{name} takes {text} for {read(text)}")


@given(lengths())
def test_a_length_has_the_units_of_promql(text: str) -> None:
    assert {unit: unit_us // 1_000 for unit, unit_us in UNITS_US.items() if unit != "us"} == UNITS_MS
    length_us = parse_length_us(text)
    assert parse_duration_ms(text) * 1_000 == parse_length_ms(text) * 1_000 == length_us
    if length_us:
        assert parse_length_s("--last", text) * 1_000_000 == pytest.approx(length_us)


# Values in data


WRITTEN = [
    *("2026-07-31", "2026-07-31 08:00", "2026-07-31 08:00:01,781", "2026-07-31T08:00:00.78191", "2026-07-31t08:00:00z"),
    *("2026-07-31T08:00:00+10:00", "2026-07-31 08:00 +02:00", "2026-07-31 08:00:00+02", "2026-07-31 08:00:00.5 -0330"),
]


@pytest.mark.parametrize("text", WRITTEN)
def test_a_time_in_a_record_is_the_time_that_is_asked_for_with_the_same_text(text: str) -> None:
    database = open_database(threads=1, memory_limit_bytes=64 * 1024**2)
    try:
        sql = f"SELECT {time_of_text('one')} FROM (SELECT ?::VARCHAR AS one)"
        assert database.execute(sql, [text]).fetchall() == [(parse_moment(text).at_us,)]
    finally:
        database.close()
    if "," not in text:  # which ends the time of a range in a search
        check_doors(text)


def test_a_time_in_sql_and_in_an_imported_column_is_utc_without_a_zone() -> None:
    written = datetime(2026, 7, 31, 8, 0, 0, 781_000)  # noqa: DTZ001 - without a zone is what it is about
    at_us = parse_moment("2026-07-31 08:00:00.781").at_us
    times, far = times_of(
        _arrow.chunked_array([_arrow.array([written], _arrow.timestamp("us"))]), TimeUnit.MILLISECONDS
    )
    assert (times.tolist(), far) == ([at_us // 1_000], [])
    database = open_database(threads=1, memory_limit_bytes=64 * 1024**2)
    try:
        told = database.execute(f"SELECT epoch_us(TIMESTAMP '{written}'), epoch_us('{written}'::TIMESTAMPTZ)")
        assert told.fetchall() == [(at_us, at_us)]
    finally:
        database.close()


def test_a_time_that_is_told_can_be_asked_for() -> None:
    for at_us in (0, NOW_US, parse_moment("1969-12-31T23:59:59.5Z").at_us):
        at_ms = at_us // 1_000
        for told in (shown_time(at_ms), in_csv(at_ms / 1_000), show_moment(Moment(at_ms * 1_000))):
            assert told.endswith("Z")
            assert parse_moment(told).at_us == at_ms * 1_000
    assert parse_moment(in_a_line(NOW_MS)).at_us == NOW_US
