"""count_values."""

import math
from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from quarterdeck.metrics.promql.kernels import groups as g

VALUES = st.sampled_from([math.nan, -math.nan, math.inf, -math.inf, 0.0, -0.0, 1.0, 2.0, -1.0, 0.5]) | st.floats()


@st.composite
def rows(draw: st.DrawFn) -> tuple[list[list[float | None]], list[int]]:
    steps = draw(st.integers(0, 3))
    drawn = draw(st.lists(st.lists(VALUES | st.none(), min_size=steps, max_size=steps), max_size=8))
    return drawn, draw(st.lists(st.integers(0, 2), min_size=len(drawn), max_size=len(drawn)))


@given(rows())
def test_values_are_counted_as_they_print(drawn: tuple[list[list[float | None]], list[int]]) -> None:
    cells, groups = drawn
    steps = len(cells[0]) if cells else 0
    expected = Counter[tuple[int, str, int]]()
    for row, group in zip(cells, groups, strict=True):
        for step, value in enumerate(row):
            if value is not None:
                expected[group, str(value), step] += 1
    present = np.array([[cell is not None for cell in row] for row in cells], np.bool_).reshape(len(cells), steps)
    values = np.array([[0.0 if cell is None else cell for cell in row] for row in cells]).reshape(len(cells), steps)

    result = g.count_values(values, present, np.array(groups, np.int64), 3)

    counted = Counter[tuple[int, str, int]]()
    for pair, (group, value) in enumerate(zip(result.groups.tolist(), result.values.tolist(), strict=True)):
        for step in range(steps):
            assert result.present[pair, step] == (result.counts[pair, step] > 0)
            if result.present[pair, step]:
                counted[group, str(value), step] += int(result.counts[pair, step])
    assert counted == expected
    assert len({(group, str(value)) for group, value in zip(result.groups, result.values, strict=True)}) == len(
        result.groups
    )


def test_pairs_come_by_group_then_value_and_not_a_number_last() -> None:
    values = np.array([[math.nan], [0.0], [-0.0], [-math.inf], [3.0], [-2.0], [7.0]])
    groups = np.array([0, 0, 0, 0, 0, 0, 2], np.int64)
    result = g.count_values(values, np.ones((7, 1), np.bool_), groups, 3)
    assert [str(value) for value in result.values] == ["-inf", "-2.0", "-0.0", "0.0", "3.0", "nan", "7.0"]
    assert result.groups.tolist() == [0, 0, 0, 0, 0, 0, 2]


def test_few_cells_in_many_groups_need_no_table_of_all_pairs() -> None:
    values = np.array([[1.0, 2.0], [2.0, 2.0]])
    result = g.count_values(values, np.ones((2, 2), np.bool_), np.array([5, 10**12], np.int64), 10**12 + 1)
    assert result.groups.tolist() == [5, 5, 10**12]
    assert result.values.tolist() == [1.0, 2.0, 2.0]
    assert result.counts.tolist() == [[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]
