"""What a query makes of labels: text has a limit of its own, and is on the query's account."""

import time
import tracemalloc

import numpy as np
import pytest

from quarterdeck.core.errors import ErrorCode
from quarterdeck.metrics.promql.blocks import Axis
from quarterdeck.metrics.promql.engine import Engine, EngineOptions
from quarterdeck.metrics.promql.errors import LimitExceeded
from quarterdeck.metrics.promql.kernels.warm import warm
from quarterdeck.metrics.promql.labels import Labels, from_mapping, get
from quarterdeck.metrics.promql.limits import LABEL_CHARACTERS, PAIR_BYTES, ROW_BYTES, Limits, Memory
from quarterdeck.metrics.promql.memory import MemorySource, Series
from quarterdeck.metrics.promql.result import Vector

MIB = 1 << 20
NOW_MS = 60_000


@pytest.fixture(autouse=True, scope="module")
def compiled() -> None:
    """Compiled code is no memory of a query."""
    warm()


def source(*labels: Labels) -> MemorySource:
    times = np.array([NOW_MS], np.int64)
    return MemorySource.of(Series(one, times, np.array([float(number)])) for number, one in enumerate(labels))


def series(count: int, **more: str) -> MemorySource:
    return source(*(from_mapping({"__name__": "m", "i": f"{number:05}", **more}) for number in range(count)))


def doubled(times: int, query: str = "m") -> str:
    return "label_replace(" * times + query + ', "x", "$1$1", "x", "(.*)")' * times


def refused(samples: MemorySource, query: str, limit_bytes: int = 1 << 30) -> tuple[LimitExceeded, int]:
    """Why, and what it took until then."""
    with Engine(EngineOptions(limits=Limits(memory_bytes=limit_bytes)), threads=1) as engine:
        tracemalloc.start()
        try:
            with pytest.raises(LimitExceeded) as caught:
                engine.instant([samples], query, NOW_MS)
            return caught.value, tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()


def test_a_chain_that_doubles_a_label_is_refused_before_it_takes_memory_or_time() -> None:
    samples = series(3, x="abcd")
    began_s = time.process_time()
    error, peak_bytes = refused(samples, doubled(40))
    assert time.process_time() - began_s < 1.0
    assert peak_bytes < 4 * MIB
    assert error.code is ErrorCode.RESOURCE_EXHAUSTED
    reason = "a label's value that label_replace() makes would have 131,072 characters and may have 65,536"
    assert error.reason == reason


def test_a_value_is_refused_before_it_is_made() -> None:
    text = "y" * 60_000
    replaced = 'label_replace(m, "z", "' + "$1" * 5000 + '", "x", "(.*)")'
    joined = 'label_join(m, "z", ""' + ', "x"' * 5000 + ")"
    for query in (replaced, joined):
        error, peak_bytes = refused(series(1, x=text), query)
        assert "would have 300,000,000 characters and may have 65,536" in error.reason
        assert peak_bytes < 8 * MIB


def test_values_up_to_the_limit_are_made() -> None:
    samples = series(1, x="ab")
    with Engine(threads=1) as engine:
        found = engine.instant([samples], doubled(15), NOW_MS).value
        assert isinstance(found, Vector)
        assert get(found.labels[0], "x") == "ab" * (LABEL_CHARACTERS // 2)
        joined = engine.instant([samples], f'label_join({doubled(14)}, "z", "", "x", "x")', NOW_MS).value
        assert isinstance(joined, Vector)
        assert len(get(joined.labels[0], "z")) == LABEL_CHARACTERS
        with pytest.raises(LimitExceeded, match=r"label_join\(\) makes would have 65,537 characters"):
            engine.instant([samples], f'label_join({doubled(14)}, "z", "-", "x", "x")', NOW_MS)


def test_all_texts_of_a_chain_are_on_the_account_together() -> None:
    """Each function's labels fit by themselves; twenty of them do not."""
    query = "m"
    for number in range(20):
        query = f'label_replace({query}, "y{number}", "{number}$1", "x", "(.*)")'
    samples = series(100, x="z" * 5_000)
    error, peak_bytes = refused(samples, query, limit_bytes=4 * MIB)
    assert "of memory and the limit of a query is 4 MiB" in error.reason
    assert peak_bytes < 6 * MIB
    with Engine(EngineOptions(limits=Limits(memory_bytes=4 * MIB)), threads=1) as engine:
        found = engine.instant([samples], 'label_replace(m, "y", "0$1", "x", "(.*)")', NOW_MS).value
        assert isinstance(found, Vector)
        assert len(found.labels) == 100


def test_labels_that_are_made_anew_give_back_what_the_last_ones_took(monkeypatch: pytest.MonkeyPatch) -> None:
    accounts: list[Memory] = []

    class Watched(Memory):
        def __init__(self, limit_bytes: int) -> None:
            super().__init__(limit_bytes)
            accounts.append(self)

    monkeypatch.setattr("quarterdeck.metrics.promql.engine.Memory", Watched)
    times = np.arange(100, dtype=np.int64) * NOW_MS
    samples = MemorySource.of([Series(from_mapping({"__name__": "m"}), times, times.astype(np.float64))])
    query = 'label_replace(count_values("v", m), "x", "' + "-" * 10_000 + '$1", "v", "(.*)")'
    with Engine(EngineOptions(limits=Limits(block_cells=1)), threads=1) as engine:
        held = [accounts[0].held_bytes for _ in engine.stream([samples], query, 0, 99 * NOW_MS, NOW_MS)]
    assert len(held) == 100
    assert max(held) < 40_000


def test_series_with_many_labels_take_more_than_series_with_few() -> None:
    few = Axis.of([from_mapping({"a": str(number)}) for number in range(1000)])
    wide = from_mapping({f"label_{number}": "x" for number in range(50)})
    assert few.row_bytes == ROW_BYTES
    assert Axis.of([wide] * 1000).row_bytes == 50 * PAIR_BYTES
    assert Axis.of(()).row_bytes == ROW_BYTES


@pytest.mark.parametrize(
    "query",
    [
        "m * on(i) group_left(a, b) m",
        "sum without (a) (m)",
        "info(m)",
        'histogram_quantiles(m, "q", 0.5, 0.9)',
    ],
)
def test_labels_that_are_copied_are_asked_for_before_they_are_made(query: str) -> None:
    wide = {f"label_{number}": "x" for number in range(60)}
    rows = [
        from_mapping({"__name__": "m", "i": f"{number:04}", "le": "1", "job": "j", **wide}) for number in range(500)
    ]
    info = from_mapping({"__name__": "target_info", "job": "j", "version": "1"})
    error, peak_bytes = refused(source(*rows, info), query, limit_bytes=MIB)
    assert "of memory and the limit of a query is 1 MiB" in error.reason
    assert peak_bytes < MIB
