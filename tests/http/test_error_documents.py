"""Our error as JSON: what was written is read, and what a stranger wrote instead is no error of ours."""

import json
from typing import Any

import pytest

from quarterdeck.core.errors import ErrorCode, QuarterdeckError
from quarterdeck.http.error_documents import error_document, error_of, parse_error, rendered

ERROR = QuarterdeckError(ErrorCode.NOT_FOUND, "the query was not found", "für „x“ gibt es nichts", "ask for another")


def told(**other: object) -> dict[str, Any]:
    """As `ERROR` is told, with something else in it."""
    document: Any = error_document(ERROR)["error"]
    return {**document, **other}


@pytest.mark.parametrize("code", list(ErrorCode))
@pytest.mark.parametrize("retryable", [True, False])
def test_what_was_written_is_read_as_it_was_raised(code: ErrorCode, retryable: bool) -> None:
    error = QuarterdeckError(code, "a", "b", "c", retryable)
    read = parse_error(rendered(error))
    assert (read.code, read.what, read.why, read.next_step, read.retryable) == (code, "a", "b", "c", retryable)
    assert str(parse_error(rendered(ERROR))) == str(ERROR)


def test_what_somebody_in_between_has_added_is_passed_over() -> None:
    body = json.dumps({"error": told(trace="1234"), "proxy": "nginx"}).encode()
    assert str(parse_error(body)) == str(ERROR)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"Bad Gateway",
        b"\xff\xfe",
        b"null",
        b"[]",
        b"7",
        b"{}",
        b'{"error": null}',
        b'{"error": "not found"}',
        b'{"error": []}',
        b'{"error": {}}',
        b"[" * 100_000,
        b'{"a":' * 100_000,
    ],
    ids=lambda body: repr(body[:20]),
)
def test_an_answer_of_somebody_else_is_no_error_of_ours(body: bytes) -> None:
    with pytest.raises(ValueError, match="an error that cannot be read"):
        parse_error(body)


@pytest.mark.parametrize(
    "other",
    [
        {"code": "teapot"},
        {"code": 404},
        {"code": ["not_found"]},
        {"code": None},
        {"what": 7},
        {"why": None},
        {"next_step": ["ask", "again"]},
        {"retryable": "false"},
        {"retryable": 1},
        {"retryable": None},
    ],
    ids=str,
)
def test_an_error_with_a_part_of_another_type_is_no_error_of_ours(other: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="an error that cannot be read"):
        error_of(told(**other))


@pytest.mark.parametrize("missing", ["code", "what", "why", "next_step", "retryable"])
def test_an_error_without_a_part_is_no_error_of_ours(missing: str) -> None:
    document = told()
    del document[missing]
    with pytest.raises(ValueError, match=f"an error that cannot be read: KeyError: '{missing}'"):
        error_of(document)


def test_of_a_long_error_the_beginning_is_kept() -> None:
    read = error_of(told(what="x" * 10_000, why="y" * 10_000, next_step="z" * 10_000))
    assert {len(part) for part in (read.what, read.why, read.next_step)} == {4_000}


def test_what_was_sent_instead_is_not_repeated_whole() -> None:
    with pytest.raises(ValueError, match="cannot be read") as refused:
        error_of(told(code="x" * 10_000))
    assert len(str(refused.value)) < 300


@pytest.mark.parametrize("part", ["what", "why", "next_step"])
def test_half_a_surrogate_pair_is_no_text_and_is_escaped_when_it_is_written(part: str) -> None:
    with pytest.raises(ValueError, match="surrogates not allowed"):
        error_of(told(**{part: "half \ud800"}))
    body = rendered(QuarterdeckError(ErrorCode.INTERNAL, "a", "half \ud800", "c"))
    assert b'"why": "half \\ud800"' in body
