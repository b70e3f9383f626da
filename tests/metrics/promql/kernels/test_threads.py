"""Threads: every series once, the same result on any number of threads, and an end when asked for."""

import itertools
import threading
import time

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from quarterdeck.metrics.promql.blocks import I64, Axis, Grid, SeriesBlock
from quarterdeck.metrics.promql.kernels import windows
from quarterdeck.metrics.promql.kernels.threads import INLINE_WORK, Stopped, Threads, cut
from quarterdeck.metrics.promql.kernels.windows import WindowFunction, instant, over_windows, window_bounds

PARAMETERS = {
    WindowFunction.QUANTILE: 1,
    WindowFunction.PREDICT_LINEAR: 1,
    WindowFunction.DOUBLE_EXPONENTIAL: 2,
}


def offsets_of(*samples: int) -> I64:
    return np.cumsum([0, *samples], dtype=np.int64)


@given(st.lists(st.just(0) | st.integers(0, 1000), max_size=30), st.sampled_from([0, 1, 50]), st.integers(1, 12))
@example([0, 5, 0, 0], 0, 2)
def test_parts_are_all_series_and_none_is_much_larger_than_its_share(
    samples: list[int], cells: int, parts: int
) -> None:
    cuts = cut(offsets_of(*samples), cells, parts)
    if not samples:
        assert cuts == [0]
        return
    assert cuts[0] == 0
    assert cuts[-1] == len(samples)
    assert cuts == sorted(set(cuts))
    assert len(cuts) <= parts + 1 + 1
    work = [count + cells for count in samples]
    for low, high in itertools.pairwise(cuts):
        assert sum(work[low:high]) <= sum(work) / parts + 1 + max(work)


@pytest.mark.parametrize("count", [1, 2, 5])
def test_every_series_is_in_one_part(count: int) -> None:
    offsets = offsets_of(*[1000] * 3000)
    seen = np.zeros(3000, np.int64)

    def part(low: int, high: int) -> None:
        seen[low:high] += 1

    with Threads(count) as threads:
        threads.run(offsets, 0, part)
    assert (seen == 1).all()


def test_little_work_stays_on_the_thread_that_calls_and_much_does_not() -> None:
    used: set[str] = set()
    both = threading.Barrier(2)

    def note(low: int, high: int) -> None:
        used.add(threading.current_thread().name)

    def meet(low: int, high: int) -> None:
        note(low, high)
        both.wait(timeout=10)

    with Threads(2) as threads:
        threads.run(offsets_of(10, INLINE_WORK - 11), 0, note)
        assert used == {threading.current_thread().name}
        threads.run(offsets_of(INLINE_WORK, INLINE_WORK), 0, meet)
    assert len(used) == 2


@pytest.mark.parametrize("count", [1, 2])
def test_a_caller_can_stop_between_parts(count: int) -> None:
    offsets = offsets_of(*[100_000] * 50)
    done: list[int] = []

    def part(low: int, high: int) -> None:
        done.append(low)

    with Threads(count) as threads:
        with pytest.raises(Stopped):
            threads.run(offsets, 0, part, should_stop=lambda: len(done) >= 3)
        assert 3 <= len(done) <= 3 + count
        with pytest.raises(Stopped):
            threads.until(lambda: True).run(offsets, 0, part)
        assert len(done) <= 3 + count
        threads.run(offsets, 0, part)  # the pool itself has not been told to stop
        assert len(done) > 10


@pytest.mark.parametrize("count", [1, 2])
def test_what_a_part_raises_reaches_the_caller_and_ends_the_work(count: int) -> None:
    started: list[int] = []

    def part(low: int, high: int) -> None:
        started.append(low)
        raise LookupError(str(low))

    with Threads(count) as threads, pytest.raises(LookupError):
        threads.run(offsets_of(*[100_000] * 50), 0, part)
    assert len(started) <= count


@pytest.mark.parametrize("count", [1, 2])
def test_who_still_runs_when_the_pool_is_closed_is_told_to_stop(count: int) -> None:
    pool = Threads(count)
    threads = pool.until(lambda: False)
    offsets = offsets_of(*[100_000] * 50)
    begun, closed = threading.Event(), threading.Event()
    done: list[int] = []

    def part(low: int, high: int) -> None:
        done.append(high - low)
        begun.set()
        closed.wait(timeout=10)

    closing = threading.Thread(target=lambda: (begun.wait(timeout=10), pool.close()))
    closing.start()

    def run() -> None:
        threads.run(offsets, 0, part)

    running = threading.Thread(target=run)
    running.start()
    begun.wait(timeout=10)
    for _ in range(1000):
        if pool.is_closed:
            break
        closing.join(timeout=0.01)
    closed.set()
    running.join(timeout=10)
    closing.join(timeout=10)
    assert sum(done) == 50, "what has begun is finished"
    with pytest.raises(Stopped):
        run()
    with pytest.raises(Stopped):
        pool.until(lambda: False)


def test_a_pool_without_threads_is_refused() -> None:
    with pytest.raises(ValueError, match="one thread or more"):
        Threads(0)


@settings(max_examples=3, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_results_are_bit_for_bit_the_same_on_any_number_of_threads(seed: int) -> None:
    rng = np.random.default_rng(seed)
    lengths = rng.integers(0, 900, 120)
    lengths[7] = 20_000
    size = int(lengths.sum())
    block = SeriesBlock(
        Axis.of(()),
        offsets_of(*lengths.tolist()),
        np.concatenate([np.arange(n, dtype=np.int64) * 1000 for n in lengths]),
        np.where(rng.random(size) < 0.001, np.nan, rng.normal(0, 1, size)),
    )
    grid = Grid(0, 30_000, 30)
    with Threads(1) as one, Threads(2) as two, Threads(5) as five:
        for function in WindowFunction:
            parameters = (np.full(grid.count, 0.3),) * PARAMETERS.get(function, 0)
            results = [
                over_windows(function, block, grid, 120_000, threads, parameters) for threads in (one, two, five)
            ]
            for values, present in results[1:]:
                assert values.tobytes() == results[0][0].tobytes(), function
                assert present.tobytes() == results[0][1].tobytes(), function
        for several in (two, five):
            for got, expected in zip(instant(block, grid, 9000, several), instant(block, grid, 9000, one), strict=True):
                assert got.tobytes() == expected.tobytes()
            for got, expected in zip(
                window_bounds(block, grid, 9000, several), window_bounds(block, grid, 9000, one), strict=True
            ):
                assert got.tobytes() == expected.tobytes()


def test_a_series_that_is_much_work_is_cut_into_steps_and_can_be_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(1)
    block = SeriesBlock(Axis.of(()), offsets_of(5000), np.arange(5000, dtype=np.int64) * 1000, rng.normal(0, 1, 5000))
    grid = Grid(0, 7000, 700)
    asked: list[bool] = []

    def ask() -> bool:
        asked.append(True)
        return False

    with Threads(1) as threads:
        for function in WindowFunction:
            parameters = (rng.random(grid.count),) * PARAMETERS.get(function, 0)
            values, present = over_windows(function, block, grid, 900_000, threads, parameters)
            with monkeypatch.context() as patch:
                patch.setattr(windows, "_SERIES_WORK", 100)
                asked.clear()
                cut_values, cut_present = over_windows(function, block, grid, 900_000, threads.until(ask), parameters)
            assert len(asked) > 5, function
            np.testing.assert_allclose(cut_values, values, rtol=1e-9, err_msg=function)
            assert cut_present.tobytes() == present.tobytes(), function


def test_a_median_of_long_windows_that_move_far_is_sorted_anew() -> None:
    size = 300_000
    values = np.random.default_rng(2).normal(0, 1, size)
    block = SeriesBlock(Axis.of(()), offsets_of(size), np.arange(size, dtype=np.int64), values)
    begun = time.process_time()
    with Threads(1) as threads:
        over_windows(WindowFunction.MAD, block, Grid(size // 2, 20_000, 8), size // 2, threads)
    assert time.process_time() - begun < 5
