"""Native histograms in a column."""

import math
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as _pyarrow  # pyright: ignore[reportMissingTypeStubs] - it has none
import pyarrow.parquet as _parquet  # pyright: ignore[reportMissingTypeStubs]
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quarterdeck.metrics.histogram_column import from_arrow, histogram_type, to_arrow
from quarterdeck.metrics.promql.blocks import Objects
from quarterdeck.metrics.promql.histograms.bounds import CUSTOM
from quarterdeck.metrics.promql.histograms.hints import ResetHint
from quarterdeck.metrics.promql.histograms.native import NativeHistogram
from tests.metrics.promql.histograms.strategies import custom, exponential
from tests.metrics.transfer.blocks import Blocks
from tests.metrics.transfer.likeness import exact

pa: Any = _pyarrow
pq: Any = _parquet

RICH = NativeHistogram(3, 0.001, 2.0, 9.0, math.nan, ((-2, 0.0), (5, -0.0)), ((1, math.inf),), hint=ResetHint.NOT_RESET)


def objects(found: list[NativeHistogram | None]) -> Objects:
    array: Objects = np.full(len(found), None, object)
    array[:] = found
    return array


def told(array: Objects) -> list[object]:
    return [exact(one) for one in array]


def through_parquet(column: Any, folder: Path) -> Any:
    pq.write_table(pa.table({"h": column}), folder / "h.parquet", row_group_size=7)
    return pq.read_table(folder / "h.parquet")["h"].combine_chunks()


@given(seed=st.integers(0, 2**32), count=st.integers(0, 20))
def test_histograms_come_back_bit_by_bit(seed: int, count: int) -> None:
    histograms = Blocks(seed).histograms((count,))
    column = to_arrow(histograms)
    column.validate(full=True)
    assert column.type == histogram_type()
    assert told(from_arrow(column)) == told(histograms)


@given(st.lists(st.none() | exponential() | custom(), max_size=6))
def test_real_histograms_come_back(found: list[NativeHistogram | None]) -> None:
    assert told(from_arrow(to_arrow(objects(found)))) == told(objects(found))


def test_histograms_come_back_from_parquet(tmp_path: Path) -> None:
    for seed in range(5):
        histograms = Blocks(seed).histograms((30,))
        assert told(from_arrow(through_parquet(to_arrow(histograms), tmp_path))) == told(histograms)


@pytest.mark.parametrize("found", [[], [None, None], [RICH], [None, RICH, None, NativeHistogram()]])
def test_where_there_is_no_histogram_there_is_null(found: list[NativeHistogram | None], tmp_path: Path) -> None:
    column = to_arrow(objects(found))
    assert column.is_null().to_pylist() == [one is None for one in found]
    assert told(from_arrow(column)) == told(objects(found))
    assert told(from_arrow(through_parquet(column, tmp_path))) == told(objects(found))


def test_a_part_of_a_column_has_the_histograms_of_that_part() -> None:
    histograms = Blocks(1).histograms((20,))
    column = to_arrow(histograms)
    for low in range(0, 20, 3):
        assert told(from_arrow(column.slice(low, 5))) == told(histograms[low : low + 5])


@pytest.mark.parametrize("hint", ResetHint)
def test_hints_come_back(hint: ResetHint) -> None:
    (came,) = from_arrow(to_arrow(objects([RICH.with_hint(hint)])))
    assert came.hint is hint


def test_other_tools_can_show_a_histogram(tmp_path: Path) -> None:
    bounded = NativeHistogram(CUSTOM, count=3.0, total=4.5, positive=((0, 3.0),), custom_bounds=(1.0, 2.5))
    through_parquet(to_arrow(objects([RICH, None, bounded])), tmp_path)
    with duckdb.connect() as connection:
        rows = connection.sql(f"select unnest(h) from '{tmp_path / 'h.parquet'}' where h is not null")
        assert rows.columns == [field.name for field in histogram_type()]
        one, two = rows.fetchall()
    assert one[2:5] == (3, 0.001, 2.0)
    assert one[5] == [{"index": -2, "count": 0.0}, {"index": 5, "count": 0.0}]
    assert one[8] == 2
    assert two == (3.0, 4.5, CUSTOM, 0.0, 0.0, [{"index": 0, "count": 3.0}], [], [1.0, 2.5], 0)
