"""Errors: the table is whole and unambiguous, an error tells its story and survives a copy."""

import copy
import pickle
from dataclasses import FrozenInstanceError

import pytest

from quarterdeck.core.errors import ERROR_TABLE, ErrorCode, QuarterdeckError

GRPC_STATUSES = {
    "CANCELLED",
    "UNKNOWN",
    "INVALID_ARGUMENT",
    "DEADLINE_EXCEEDED",
    "NOT_FOUND",
    "ALREADY_EXISTS",
    "PERMISSION_DENIED",
    "RESOURCE_EXHAUSTED",
    "FAILED_PRECONDITION",
    "ABORTED",
    "OUT_OF_RANGE",
    "UNIMPLEMENTED",
    "INTERNAL",
    "UNAVAILABLE",
    "DATA_LOSS",
    "UNAUTHENTICATED",
}
RETRYABLE = {
    ErrorCode.NO_WORKER,
    ErrorCode.ATTEMPTS_EXHAUSTED,
    ErrorCode.RESOURCE_EXHAUSTED,
    ErrorCode.UNAVAILABLE,
    ErrorCode.DEPOSED,
}

all_codes = pytest.mark.parametrize("code", list(ErrorCode))


def error_of(code: ErrorCode, *, retryable: bool | None = None) -> QuarterdeckError:
    return QuarterdeckError(code, "the query was not run", "no worker joined", "start a worker", retryable)


def test_every_code_has_a_row_and_every_row_a_code() -> None:
    assert set(ERROR_TABLE) == set(ErrorCode)


@all_codes
def test_every_grpc_status_exists_and_means_failure(code: ErrorCode) -> None:
    assert ERROR_TABLE[code].grpc_status in GRPC_STATUSES


@all_codes
def test_every_http_status_says_error(code: ErrorCode) -> None:
    assert 400 <= ERROR_TABLE[code].http_status <= 599


def test_a_canceled_request_is_told_apart_by_its_http_status() -> None:
    with_499 = {code for code, row in ERROR_TABLE.items() if row.http_status == 499}
    assert with_499 == {ErrorCode.CANCELED}


def test_exit_codes_are_unique_and_leave_success_traceback_and_usage_alone() -> None:
    exit_codes = [row.exit_code for row in ERROR_TABLE.values()]
    assert len(exit_codes) == len(set(exit_codes))
    assert {0, 1, 2}.isdisjoint(exit_codes)
    assert all(0 <= exit_code <= 255 for exit_code in exit_codes)


@all_codes
def test_retrying_helps_where_the_trouble_may_pass_by_itself(code: ErrorCode) -> None:
    assert error_of(code).retryable == (code in RETRYABLE)


@pytest.mark.parametrize("retryable", [True, False])
@all_codes
def test_who_raises_may_know_better_whether_retrying_helps(code: ErrorCode, retryable: bool) -> None:
    assert error_of(code, retryable=retryable).retryable is retryable


def test_the_message_says_what_why_and_what_to_do_next() -> None:
    error = error_of(ErrorCode.NO_WORKER)
    assert str(error) == error.message == "the query was not run: no worker joined; start a worker"


@all_codes
def test_an_error_knows_its_row(code: ErrorCode) -> None:
    assert error_of(code).row is ERROR_TABLE[code]


@pytest.mark.parametrize("retryable", [None, False])
def test_an_error_survives_pickle_and_copy(retryable: bool | None) -> None:
    error = error_of(ErrorCode.NO_WORKER, retryable=retryable)
    for twin in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert type(twin) is QuarterdeckError
        assert (twin.code, twin.message, twin.retryable) == (error.code, error.message, error.retryable)


def test_the_table_cannot_be_changed() -> None:
    with pytest.raises(FrozenInstanceError):
        ERROR_TABLE[ErrorCode.INTERNAL].http_status = 200  # pyright: ignore[reportAttributeAccessIssue]
    with pytest.raises(TypeError):
        ERROR_TABLE[ErrorCode.INTERNAL] = ERROR_TABLE[ErrorCode.CANCELED]  # pyright: ignore[reportIndexIssue]
