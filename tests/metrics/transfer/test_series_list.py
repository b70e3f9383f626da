"""Lists of series and refusals through an artifact."""

from typing import Any

import pytest

from quarterdeck.metrics.promql.errors import ExecutionError, LimitExceeded
from quarterdeck.metrics.promql.labels import METRIC_NAME, Labels
from quarterdeck.metrics.transfer.refusals import raise_refusal, report_of
from quarterdeck.metrics.transfer.series_list import read_series, write_series
from tests.metrics.segments.stored import Chance


class Page:
    """A sink that keeps what is written."""

    def __init__(self) -> None:
        self.schema: Any = None
        self.batches: list[Any] = []

    def open(self, schema: Any, ts_column: str | None) -> None:
        assert ts_column is None
        self.schema = schema

    def write(self, batch: Any) -> None:
        assert batch.schema == self.schema
        self.batches.append(batch)


@pytest.mark.parametrize("seed", range(5))
def test_a_list_comes_back_with_its_report(seed: int) -> None:
    chance = Chance(seed)
    series = sorted({chance.labels() for _ in range(30)})
    page = Page()
    write_series(page, series, {"samples": 1, "load_ms": 0.5, "unreadable": "a\nb"})
    found = read_series(page.batches)
    assert found.labels == tuple(series)
    assert found.report == {"samples": 1, "load_ms": 0.5, "unreadable": "a\nb"}


@pytest.mark.parametrize("series", [(), ((),), (((METRIC_NAME, "up"),),)])
def test_a_list_of_nothing_or_of_a_series_without_labels_comes_back(series: tuple[Labels, ...]) -> None:
    page = Page()
    write_series(page, series, {})
    assert read_series(page.batches).labels == series


@pytest.mark.parametrize("error", [ExecutionError("it is wrong", "mend it"), LimitExceeded("too much", "ask for less")])
def test_a_refusal_is_raised_as_the_error_that_it_was(error: ExecutionError | LimitExceeded) -> None:
    with pytest.raises(type(error)) as caught:
        raise_refusal(report_of(error))
    assert caught.value.args == error.args
    assert caught.value.message == error.message


def test_a_report_without_a_refusal_raises_nothing() -> None:
    raise_refusal({"samples": 1})
