"""The token that a thread and the one who cancels it share."""

import pytest

from quarterdeck.core.errors import ErrorCode
from quarterdeck.crew.cancel import CancelToken, WorkCanceledError


def test_checking_raises_once_it_is_canceled_and_not_before() -> None:
    token = CancelToken()
    token.check()
    assert not token.is_canceled
    token.cancel()
    assert token.is_canceled
    with pytest.raises(WorkCanceledError) as caught:
        token.check()
    assert caught.value.code is ErrorCode.CANCELED


def test_canceling_calls_what_is_registered_each_time() -> None:
    token, calls = CancelToken(), list[str]()
    with token.on_cancel(lambda: calls.append("a")), token.on_cancel(lambda: calls.append("b")):
        assert not calls
        token.cancel()
        token.cancel()
    assert calls == ["a", "b", "a", "b"]


def test_what_is_registered_after_the_cancel_is_called_at_once() -> None:
    token, calls = CancelToken(), list[str]()
    token.cancel()
    with token.on_cancel(lambda: calls.append("a")):
        assert calls == ["a"]


def test_after_its_block_nothing_is_called_however_the_block_ended() -> None:
    token, calls = CancelToken(), list[str]()
    with pytest.raises(ZeroDivisionError), token.on_cancel(lambda: calls.append("a")):
        raise ZeroDivisionError
    token.cancel()
    assert not calls
