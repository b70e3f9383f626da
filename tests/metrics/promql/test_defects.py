"""What nobody expected while a query is evaluated: a mistake of ours is final and named, what may pass is neither."""

from collections.abc import Callable
from typing import Any

import pytest

from quarterdeck.core.errors import ErrorCode
from quarterdeck.metrics.promql.defects import defect
from quarterdeck.metrics.promql.engine import Engine
from quarterdeck.metrics.promql.errors import DefectError, ExecutionError
from quarterdeck.metrics.promql.exec import binary, buckets
from quarterdeck.metrics.promql.kernels.threads import Stopped
from quarterdeck.metrics.promql.result import Result
from tests.metrics.promql.samples import source


def broken_by(error: Exception) -> Callable[..., Any]:
    def break_(*_: object) -> Any:
        raise error

    return break_


def ask(text: str) -> Result:
    with Engine() as engine:
        return engine.instant([source({"m": [1.0]})], text, 0)


def test_a_mistake_of_ours_names_the_innermost_operation_that_met_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(binary, "operate", broken_by(ZeroDivisionError("float division by zero")))
    with pytest.raises(DefectError) as caught:
        ask("sum(abs(m * 2))")
    assert caught.value.doing == "* number on the right"
    assert (caught.value.code, caught.value.retryable) == (ErrorCode.INTERNAL, False)
    for words in ("* number on the right", "ZeroDivisionError: float division by zero", "defect", "report"):
        assert words in caught.value.message
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


def test_a_function_that_breaks_is_named_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(buckets, "_lay_out", broken_by(IndexError("list index out of range")))
    with pytest.raises(DefectError, match="histogram_quantile failed with IndexError: list index out of range"):
        ask("1 + histogram_quantile(0.5, m)")


@pytest.mark.parametrize(
    "error",
    [
        OSError(5, "the disk does not answer"),
        MemoryError(),
        Stopped(),
        ExecutionError("vector cannot contain metrics with the same labelset"),
    ],
)
def test_what_retrying_may_cure_and_what_was_raised_on_purpose_stays_what_it_is(
    monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    monkeypatch.setattr(binary, "operate", broken_by(error))
    with pytest.raises(type(error)) as caught:
        ask("sum(m * 2)")
    assert caught.value is error


def test_what_is_told_of_a_mistake_is_short_whatever_the_query_and_the_exception_say() -> None:
    told = defect(f'up{{ship="{"a" * 100_000}"}}', ValueError("b" * 100_000))
    assert len(told.message) < 1_000
    assert told.message.count("…") == 2
