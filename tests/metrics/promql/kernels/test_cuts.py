"""Stretches of a long array: found, copied side by side, put in their places, and known to be in order."""

import numpy as np
import pytest

from quarterdeck.metrics.promql.kernels.cuts import first_disorder, first_from, place_at, side_by_side
from tests.each_seed import each_seed


@each_seed(range(20))
def test_stretches_are_cut_and_placed_as_slices_are(seed: int) -> None:
    random = np.random.default_rng(seed)
    offsets = np.concatenate(([0], np.cumsum(random.integers(0, 6, 8))))
    size = int(offsets[-1])
    stretches = [np.sort(random.choice(50, int(count), replace=False)) for count in np.diff(offsets)]
    timestamps = np.concatenate([*stretches, np.zeros(0, np.int64)]).astype(np.int64)
    values = random.random(size)
    first, last = offsets[:-1], offsets[1:]
    bound = int(random.integers(-5, 55))
    low = first_from(timestamps, first, last, bound)
    assert low.tolist() == [int(at + np.searchsorted(one, bound)) for at, one in zip(first, stretches, strict=True)]
    times, copied = side_by_side(timestamps, values, low, last)
    index = [row for start, end in zip(low, last, strict=True) for row in range(start, end)]
    assert times.tolist() == timestamps[index].tolist()
    assert copied.tolist() == values[index].tolist()
    order = random.permutation(8)
    places = np.empty(8, np.int64)
    places[order] = np.concatenate(([0], np.cumsum((last - low)[order])[:-1]))
    times_out, values_out = np.empty(len(index), np.int64), np.empty(len(index))
    place_at(timestamps, values, low, last, places, times_out, values_out)
    expected = [row for at in order for row in range(low[at], last[at])]
    assert times_out.tolist() == timestamps[expected].tolist()
    assert values_out.tolist() == values[expected].tolist()
    assert first_disorder(timestamps, offsets) is None


@pytest.mark.parametrize(
    ("times", "offsets", "disorder"),
    [
        ([], [0], None),
        ([], [0, 0, 0], None),
        ([5, 1, 2], [0, 1, 3], None),
        ([1, 1], [0, 2], 0),
        ([1, 2, 4, 3], [0, 2, 4], 1),
        ([1, 2, 4, 3, 9, 8], [0, 2, 4, 6], 1),
    ],
)
def test_the_first_stretch_whose_times_do_not_rise_is_found(
    times: list[int], offsets: list[int], disorder: int | None
) -> None:
    assert first_disorder(np.array(times, np.int64), np.array(offsets)) == disorder
