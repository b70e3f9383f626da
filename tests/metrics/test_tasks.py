"""Tasks on their way: they come back as they were, and what is none is refused with a reason."""

import json
from dataclasses import replace

import pytest

from quarterdeck.core.errors import ErrorCode, QuarterdeckError
from quarterdeck.metrics.model import Part, SegmentRef
from quarterdeck.metrics.promql.syntax.ast import Matcher, MatchOp
from quarterdeck.metrics.tasks import LeafTask, QueryTimes, SeriesTask, Task, WorkLimits, decode_task, encode_task
from quarterdeck.stores.objects import ObjectRef

SEGMENTS = (
    SegmentRef(7, ObjectRef("/lake/é/1", 10, ""), "xxh3_128:00", -5, 2**53, 4),
    SegmentRef(2**62, ObjectRef("s3://lake/2", 2**40, '"tag"'), "xxh3_128:01", 0, 0, 1),
)
LEAF = LeafTask(
    'sum(up{job="é\\xff"})',
    QueryTimes(-1, 2, 3, 4, 5),
    1,
    "leaf-id",
    SEGMENTS,
    Part(3, 4),
    WorkLimits(6, 7, 8, 9),
    partial_allowed=True,
)
SERIES = SeriesTask(
    (
        (Matcher("job", MatchOp.NOT_REGEX, "é.*"), Matcher("\udcfe", MatchOp.EQUAL, "a\udcff\U0001f600")),
        tuple(Matcher("a", op, "") for op in MatchOp),
        (),
    ),
    -10,
    10,
    SEGMENTS,
    Part(),
    99,
)


@pytest.mark.parametrize("task", [LEAF, SERIES, replace(LEAF, segments=()), replace(SERIES, selectors=())])
def test_a_task_comes_back_as_it_was(task: Task) -> None:
    assert decode_task(encode_task(task)) == task


def broken(task: Task, **changes: object) -> bytes:
    document = json.loads(encode_task(task))
    return json.dumps({**document, **changes}).encode()


@pytest.mark.parametrize("task", [LEAF, SERIES])
@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("version", 2),
        ("version", "1"),
        ("kind", "epoch"),
        ("segments", [[1, 2]]),
        ("segments", None),
        ("part", [4, 4]),
        ("part", [-1, 4]),
        ("part", [0, 0]),
        ("part", [0]),
        ("times", [1.5, 2]),
        ("partial_allowed", "yes"),
        ("something_new", 1),
    ],
)
def test_a_task_of_another_version_or_with_anything_unknown_is_refused(task: Task, field: str, value: object) -> None:
    with pytest.raises(QuarterdeckError) as caught:
        decode_task(broken(task, **{field: value}))
    assert caught.value.code is ErrorCode.PROTOCOL
    assert "version 1" in caught.value.message


@pytest.mark.parametrize("matcher", [["a", "==", "b"], ["a", "=", "\u1234"], ["a", "=", 1], ["a"]])
def test_a_matcher_that_is_none_is_refused(matcher: object) -> None:
    with pytest.raises(QuarterdeckError, match="cannot be read"):
        decode_task(broken(SERIES, selectors=[[matcher]]))


@pytest.mark.parametrize("payload", [b"", b"{}", b"[]", b"null", b"\xff", b'{"kind":"leaf"}', b"x" * 1000])
def test_garbage_is_refused(payload: bytes) -> None:
    with pytest.raises(QuarterdeckError, match="its task cannot be read"):
        decode_task(payload)


def test_every_field_is_needed() -> None:
    for task in (LEAF, SERIES):
        document = json.loads(encode_task(task))
        for name in document:
            with pytest.raises(QuarterdeckError):
                decode_task(json.dumps({key: value for key, value in document.items() if key != name}).encode())
