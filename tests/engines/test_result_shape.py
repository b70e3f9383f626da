"""A result that is too wide or too deep is refused by the engine, before anybody writes or reads it."""

from typing import Any

import pyarrow  # pyright: ignore[reportMissingTypeStubs] - it has none
import pytest

from quarterdeck.core.errors import ErrorCode, QuarterdeckError
from quarterdeck.engines.engine_wire import BrokenAnswerError, decode_schema, encode_schema
from quarterdeck.engines.result_shape import MAX_FIELDS, MAX_TYPE_DEPTH, check_shape
from tests.engines.lake import Scanner, rows_of

_pa: Any = pyarrow


def schema_of(*types: Any) -> Any:
    return _pa.schema([(f"c{place}", kind) for place, kind in enumerate(types)])


def nested_list(depth: int) -> Any:
    kind = _pa.int64()
    for _ in range(depth - 1):
        kind = _pa.list_(kind)
    return kind


@pytest.mark.parametrize(
    "schema",
    [
        schema_of(),
        schema_of(*[_pa.int64()] * MAX_FIELDS),
        schema_of(_pa.struct([(f"f{place}", _pa.int64()) for place in range(MAX_FIELDS - 1)])),
        schema_of(nested_list(MAX_TYPE_DEPTH)),
    ],
)
def test_what_is_wide_or_deep_is_fine_up_to_the_limits(schema: Any) -> None:
    check_shape(schema)


@pytest.mark.parametrize(
    "schema, why",
    [
        (schema_of(*[_pa.int64()] * (MAX_FIELDS + 1)), "more than 10,000 columns"),
        (schema_of(*[_pa.list_(_pa.int64())] * (MAX_FIELDS // 2 + 1)), "more than 10,000 columns"),
        (schema_of(_pa.struct([(f"f{place}", _pa.int64()) for place in range(MAX_FIELDS)])), "more than 10,000"),
        (schema_of(nested_list(MAX_TYPE_DEPTH + 1)), "more than 32 deep"),
    ],
)
def test_what_is_wider_or_deeper_is_refused_by_name(schema: Any, why: str) -> None:
    with pytest.raises(QuarterdeckError, match=why) as caught:
        check_shape(schema)
    assert caught.value.code is ErrorCode.WORK_FAILED
    with pytest.raises(BrokenAnswerError, match=why):
        decode_schema(encode_schema(schema))


def doubled(sql: str, again: str, times: int) -> str:
    for _ in range(times):
        sql = again.format(f"({sql})")
    return sql


@pytest.mark.parametrize(
    "sql, why",
    [
        (doubled("SELECT 1 AS a, 2 AS b", "SELECT *, * FROM {}", 13), "more than 10,000 columns"),
        (doubled("SELECT 1 AS s", "SELECT {{'a': s, 'b': s}} AS s FROM {}", 13), "more than 10,000 columns"),
        (doubled("SELECT 1 AS s", "SELECT [s] AS s FROM {}", MAX_TYPE_DEPTH), "more than 32 deep"),
    ],
)
def test_sql_that_doubles_its_columns_is_refused(scanner: Scanner, sql: str, why: str) -> None:
    with pytest.raises(QuarterdeckError, match=why) as caught:
        rows_of(scanner, sql)
    assert caught.value.code is ErrorCode.WORK_FAILED
    assert rows_of(scanner, "SELECT 7 AS seven") == [(7,)]
