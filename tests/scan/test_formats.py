"""Rows as bytes: every form says what the rows say, whatever is in them and however they are divided."""

import csv
import io
import json
import math
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, cast

import pyarrow  # pyright: ignore[reportMissingTypeStubs] - it has none
import pyarrow.parquet  # pyright: ignore[reportMissingTypeStubs]
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quarterdeck.core.errors import ErrorCode, QuarterdeckError
from quarterdeck.scan.formats import Format, Writer, choose_format, make_writer, no_rows, rendered
from quarterdeck.scan.json_lines import JsonLines

_pa: Any = pyarrow
_pq: Any = pyarrow.parquet


def batch(**columns: Any) -> Any:
    return _pa.RecordBatch.from_pydict(columns)


def written(form: Format, *batches: Any) -> bytes:
    """The whole answer."""
    writer = make_writer(form)
    try:
        return b"".join(rendered(writer, iter(batches))) + writer.finish()
    finally:
        writer.close()


def read_json(data: bytes) -> list[Any]:
    """Strictly: Python's reader would take NaN for a number."""

    def refuse(word: str) -> None:
        raise AssertionError(f"{word} is no JSON")

    assert data == b"" or data.endswith(b"\n")
    return [json.loads(line, parse_constant=refuse) for line in data.decode().split("\n")[:-1]]


def read_arrow(data: bytes) -> Any:
    assert data.endswith(b"\xff\xff\xff\xff\x00\x00\x00\x00"), "a stream ends with its mark"
    return _pa.ipc.open_stream(data).read_all()


def read_csv(data: bytes) -> list[list[str]]:
    return list(csv.reader(io.StringIO(data.decode(), newline="")))


# Which form


@pytest.mark.parametrize(
    "word, accept, form",
    [
        ("arrow", "text/csv", Format.ARROW),
        ("ndjson", "", Format.NDJSON),
        ("json", "", Format.NDJSON),
        ("csv", "", Format.CSV),
        (None, "", Format.NDJSON),
        (None, "*/*", Format.NDJSON),
        (None, "text/csv", Format.CSV),
        (None, "text/html, Text/CSV;q=0.5", Format.CSV),
        (None, "application/vnd.apache.arrow.stream", Format.ARROW),
        (None, "application/x-ndjson, */*;q=0.1", Format.NDJSON),
        (None, "text/html", Format.NDJSON),
    ],
)
def test_a_word_decides_else_the_header_else_it_is_json(word: str | None, accept: str, form: Format) -> None:
    assert choose_format(word, accept) is form


def test_an_unknown_form_is_an_error_that_lists_the_known_ones() -> None:
    with pytest.raises(QuarterdeckError, match="there is no format 'xml'") as caught:
        choose_format("xml", "")
    assert caught.value.code is ErrorCode.INVALID_ARGUMENT
    assert "arrow, ndjson, json, csv" in caught.value.next_step


# Arrow


def test_a_stream_of_several_parts_is_one_stream() -> None:
    first = batch(ts=_pa.array([1, 2], _pa.timestamp("us")), host=["a", None])
    second = batch(ts=_pa.array([3], _pa.timestamp("us")), host=["c"])
    table = read_arrow(written(Format.ARROW, first, second))
    assert table.equals(_pa.Table.from_batches([first, second]))


def test_every_part_of_a_stream_is_there_as_soon_as_it_is_written() -> None:
    writer = make_writer(Format.ARROW)
    data = writer.write(batch(n=[1, 2]))
    assert _pa.ipc.open_stream(data + writer.finish()).read_all().num_rows == 2


def test_words_of_a_closed_set_may_differ_between_parts() -> None:
    parts = [batch(level=_pa.array(words).dictionary_encode()) for words in (["a", "b"], ["c"], ["b", "a"])]
    table = read_arrow(written(Format.ARROW, *parts))
    assert table.column("level").to_pylist() == ["a", "b", "c", "b", "a"]
    assert [row["level"] for row in read_json(written(Format.NDJSON, *parts))] == ["a", "b", "c", "b", "a"]


def test_what_files_say_of_themselves_does_not_make_them_differ() -> None:
    parts = [batch(n=[number]).replace_schema_metadata({"written by": str(number)}) for number in range(2)]
    table = read_arrow(written(Format.ARROW, *parts))
    assert (table.column("n").to_pylist(), table.schema.metadata) == ([0, 1], None)


# JSON


TYPES: list[tuple[Any, list[Any]]] = [
    (_pa.array([0, -1, 2**63 - 1, -(2**63), None]), [0, -1, 2**63 - 1, -(2**63), None]),
    (_pa.array([2**64 - 1], _pa.uint64()), [2**64 - 1]),
    (_pa.array([True, False, None]), [True, False, None]),
    (_pa.array([0.1, 1e300, 5e-324, -0.0, None]), [0.1, 1e300, 5e-324, -0.0, None]),
    (
        _pa.array([math.nan, math.inf, -math.inf, 1.5, None]),
        ["NaN", "Infinity", "-Infinity", 1.5, None],
    ),
    (_pa.array([math.nan, 0.5], _pa.float32()), ["NaN", 0.5]),
    (_pa.array([None, None], _pa.float64()), [None, None]),
    (_pa.array([None], _pa.null()), [None]),
    (
        _pa.array(['"', "\\", "a\nb\r\t", "\x00\x1f", "Zürich €😀", "", "NaN", "null", None]),
        ['"', "\\", "a\nb\r\t", "\x00\x1f", "Zürich €😀", "", "NaN", "null", None],
    ),
    (
        _pa.array([1_709_251_199_123_456, -62_135_596_800_000_000, None], _pa.timestamp("us")),
        ["2024-02-29 23:59:59.123456", "0001-01-01 00:00:00", None],
    ),
    (
        _pa.array([datetime(2024, 2, 29, tzinfo=UTC)], _pa.timestamp("us", "Europe/Berlin")),
        ["2024-02-29 00:00:00+00"],
    ),
    (_pa.array([1_700_000_000_123_456_789], _pa.timestamp("ns")), ["2023-11-14 22:13:20.123456789"]),
    (_pa.array([date(2024, 2, 29), None]), ["2024-02-29", None]),
    (_pa.array([time(1, 2, 3, 456)]), ["01:02:03.000456"]),
    (_pa.array([timedelta(days=1)]), ["24:00:00"]),
    (_pa.array([[1, None], [], None]), [[1, None], [], None]),
    (_pa.array([[[1], None], [[]]]), [[[1], None], [[]]]),
    (_pa.array([[1.5, math.nan], [], None]), [[1.5, "NaN"], [], None]),
    (_pa.array([[1.5, math.inf]], _pa.list_(_pa.float64(), 2)), [[1.5, "Infinity"]]),
    (_pa.array([{"a": 1, "b": None}, None]), [{"a": 1, "b": None}, None]),
    (
        _pa.array([{"it's": {"x": [math.nan, None]}, "n": 1}, {"it's": None, "n": None}, None]),
        [{"it's": {"x": ["NaN", None]}, "n": 1}, {"it's": None, "n": None}, None],
    ),
    (_pa.array([[{"v": -math.inf}], None]), [[{"v": "-Infinity"}], None]),
    (_pa.array([[{"v": [[math.nan], [1.0]]}, None]]), [[{"v": [["NaN"], [1.0]]}, None]]),
    (
        _pa.array([[("k", 1.5), ("j", math.nan)], [], None], _pa.map_(_pa.string(), _pa.float64())),
        [{"k": 1.5, "j": "NaN"}, {}, None],
    ),
    (_pa.array([[("k", 1)], None], _pa.map_(_pa.string(), _pa.int64())), [{"k": 1}, None]),
    (_pa.array([b"abc", b"\x00\xff\\", b"", None]), ["abc", "\\x00\\xFF\\x5C", "", None]),
]


@pytest.mark.parametrize("values, told", TYPES)
def test_each_type_has_a_form_in_json(values: Any, told: list[Any]) -> None:
    read = read_json(written(Format.NDJSON, batch(v=values)))
    assert [row["v"] for row in read] == told
    signs = [math.copysign(1, value) for value in told if isinstance(value, float)]
    assert [math.copysign(1, row["v"]) for row in read if isinstance(row["v"], float)] == signs


def test_decimals_keep_every_digit() -> None:
    values = [Decimal("1.50"), Decimal("-99999999999999999999999999999999999.999"), None]
    data = written(Format.NDJSON, batch(v=_pa.array(values, _pa.decimal128(38, 3))))
    assert [json.loads(line, parse_float=Decimal)["v"] for line in data.splitlines()] == values


@pytest.mark.parametrize("names", [["batch"], ["rows", "c0"], ["a", "A", "ä"], [""], ["it's", 'a"b', "x y", "select"]])
def test_columns_keep_their_names_and_their_order(names: list[str]) -> None:
    part = _pa.RecordBatch.from_arrays([_pa.array([number]) for number in range(len(names))], names=names)
    (row,) = read_json(written(Format.NDJSON, part))
    assert list(row.items()) == [(name, number) for number, name in enumerate(names)]


def test_rows_keep_their_order_over_all_parts() -> None:
    parts = [batch(n=list(range(first, first + 3000))) for first in range(0, 12_000, 3000)]
    assert [row["n"] for row in read_json(written(Format.NDJSON, *parts))] == list(range(12_000))


def test_rows_that_were_told_are_not_held() -> None:
    lines = JsonLines()
    lines.render(batch(n=[1]))
    before = _pa.total_allocated_bytes()
    part = batch(n=_pa.array(range(100_000)))
    lines.render(part)
    del part
    assert _pa.total_allocated_bytes() <= before
    lines.close()


def test_many_columns_are_no_problem() -> None:
    part = _pa.RecordBatch.from_arrays([_pa.array([1.0])] * 1500, names=[f"column {n}" for n in range(1500)])
    (row,) = read_json(written(Format.NDJSON, part))
    assert len(row) == 1500


@pytest.mark.parametrize("values, told", TYPES)
def test_a_part_of_a_batch_has_its_own_rows(values: Any, told: list[Any]) -> None:
    read = read_json(written(Format.NDJSON, batch(v=_pa.concat_arrays([values, values]).slice(1, len(values)))))
    assert [row["v"] for row in read] == [*told[1:], told[0]]


def nested_lists(inner: Any, depth: int) -> Any:
    for _ in range(depth):
        inner = _pa.ListArray.from_arrays([0, 1], inner)
    return inner


def nested_structs(inner: Any, depth: int) -> Any:
    for _ in range(depth):
        inner = _pa.StructArray.from_arrays([inner, inner], ["a", "b"])
    return inner


@pytest.mark.parametrize("value", [1.5, math.nan])
def test_how_deep_a_value_stands_costs_no_more_than_its_size(value: float) -> None:
    """With SQL that says how to tell each NaN, 40 lists would take DuckDB years, and 2,048 fields minutes."""
    said = "NaN" if math.isnan(value) else value
    (row,) = read_json(written(Format.NDJSON, batch(v=nested_lists(_pa.array([value]), 40))))
    assert str(row["v"]) == "[" * 40 + repr(said) + "]" * 40
    data = written(Format.NDJSON, batch(v=nested_structs(_pa.array([value]), 11)))
    assert data.count(b"NaN" if math.isnan(value) else b"1.5") == 2048
    entries = nested_lists(_pa.array([[("k", value)]], _pa.map_(_pa.string(), _pa.float64())), 20)
    (row,) = read_json(written(Format.NDJSON, batch(v=entries)))
    assert str({"k": said}) in str(row["v"])


@pytest.mark.parametrize("form", Format)
def test_large_batches_are_told_a_few_megabytes_at_a_time(form: Format) -> None:
    texts = ["\x01" * 3_000_000, "b", "c" * 3_000_000, "d" * 10_000_000, *("e" * 1_000 for _ in range(5_000))]
    writer = make_writer(form)
    parts = list(rendered(writer, iter([batch(n=list(range(len(texts))), s=texts)])))
    assert max(map(len, parts)) <= 4 * 1024 * 1024
    data = b"".join([*parts, writer.finish()])
    writer.close()
    match form:
        case Format.ARROW:
            assert read_arrow(data).column("s").to_pylist() == texts
        case Format.NDJSON:
            assert [(row["n"], row["s"]) for row in read_json(data)] == list(enumerate(texts))
        case Format.CSV:
            assert data.count(b"e" * 1_000) == 5_000


def test_a_part_of_structs_within_structs_is_told() -> None:
    values = [{"a": {"b": number, "c": "x" * 1_000}} for number in range(6_000)]
    assert [row["v"] for row in read_json(written(Format.NDJSON, batch(v=values)))] == values


JSON = st.recursive(
    st.none() | st.floats() | st.text(st.characters(codec="utf-8"), max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.fixed_dictionaries({"a": inner, "b'": inner}),
    max_leaves=6,
)


def told(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, list):
        return [told(each) for each in cast("list[Any]", value)]
    if isinstance(value, dict):
        return {name: told(each) for name, each in cast("dict[str, Any]", value).items()}
    return value


def test_whatever_is_nested_in_whatever_is_told_as_it_is() -> None:
    lines = JsonLines()

    @settings(max_examples=60, deadline=None, derandomize=True)
    @given(JSON)
    def is_told(value: Any) -> None:
        try:
            values = _pa.array([value, None, value])
        except (_pa.ArrowInvalid, _pa.ArrowTypeError):  # a list of different things
            return
        once = told(values[0].as_py())
        assert [row["v"] for row in read_json(lines.render(batch(v=values)))] == [once, None, once]

    is_told()
    lines.close()


@pytest.mark.parametrize("values", [_pa.array([1.5], _pa.float16()), _pa.array([10**18], _pa.timestamp("s"))])
def test_what_has_no_form_in_json_is_an_error_that_says_what_to_do(values: Any) -> None:
    writer = make_writer(Format.NDJSON)
    with pytest.raises(QuarterdeckError, match="cannot be told in JSON") as caught:
        writer.write(batch(v=values))
    assert caught.value.code is ErrorCode.WORK_FAILED
    assert "\n" not in str(caught.value)
    writer.close()


# CSV


def test_csv_has_its_header_once() -> None:
    data = written(Format.CSV, batch(n=[1], s=["a"]), batch(n=[2], s=["b"]))
    assert read_csv(data) == [["n", "s"], ["1", "a"], ["2", "b"]]


def test_text_in_csv_is_what_it_was_and_null_is_not_empty_text() -> None:
    texts = ['"', "a,b", "a\nb", "Zürich €😀", " "]
    data = written(Format.CSV, batch(s=texts, t=texts))
    assert read_csv(data)[1:] == [[text, text] for text in texts]
    assert written(Format.CSV, batch(a=["", None], b=["x", "y"])) == b'"a","b"\n"","x"\n,"y"\n'


def test_numbers_and_times_have_a_form_in_csv() -> None:
    part = batch(
        i=[-(2**63)],
        f=[math.nan],
        d=_pa.array([Decimal("1.50")], _pa.decimal128(38, 2)),
        t=_pa.array([1_709_164_800_000_000], _pa.timestamp("us")),
        z=_pa.array([datetime(2024, 2, 29, tzinfo=UTC)], _pa.timestamp("us", "UTC")),
        b=[True],
        e=_pa.array(["x"]).dictionary_encode(),
        n=_pa.nulls(1),
    )
    assert read_csv(written(Format.CSV, part))[1] == [
        "-9223372036854775808",
        "nan",
        "1.50",
        "2024-02-29 00:00:00.000000",
        "2024-02-29 00:00:00.000000Z",
        "true",
        "x",
        "",
    ]


@pytest.mark.parametrize("values", [_pa.array([[1]]), _pa.array([{"a": 1}]), _pa.array([b"abc"])])
@pytest.mark.parametrize("rows", [0, 1])
def test_what_has_no_form_in_csv_is_an_error_before_the_first_row(values: Any, rows: int) -> None:
    with pytest.raises(QuarterdeckError, match="column 'deep' is") as caught:
        make_writer(Format.CSV).write(batch(n=[1], deep=values).slice(0, rows))
    assert caught.value.code is ErrorCode.INVALID_ARGUMENT


# No rows


@pytest.mark.parametrize("in_memory", [True, False])
def test_a_file_without_rows_has_its_columns(tmp_path: Path, in_memory: bool) -> None:
    schema = _pa.schema([("ts", _pa.timestamp("us")), ("hosts", _pa.list_(_pa.string()))])
    path = tmp_path / "empty.parquet"
    _pq.write_table(schema.empty_table(), path)
    found = no_rows(path.read_bytes() if in_memory else path)
    assert (found.num_rows, found.schema.names) == (0, ["ts", "hosts"])
    assert found.schema.field("ts").type == _pa.timestamp("us")


def test_an_answer_without_rows_is_whole_in_every_form() -> None:
    empty = batch(n=_pa.array([], _pa.int64()), s=_pa.array([], _pa.string()))
    table = read_arrow(written(Format.ARROW, empty, empty))
    assert (table.num_rows, table.schema.names) == (0, ["n", "s"])
    assert written(Format.NDJSON, empty, empty) == b""
    assert list(rendered(make_writer(Format.NDJSON), iter([empty]))) == []
    assert written(Format.CSV, empty, empty) == b'"n","s"\n'


def test_a_part_without_rows_changes_nothing() -> None:
    empty, full = batch(n=_pa.array([], _pa.int64())), batch(n=[1])
    for parts in ([empty, full], [full, empty], [full]):
        assert read_arrow(written(Format.ARROW, *parts)).column("n").to_pylist() == [1]
        assert written(Format.NDJSON, *parts) == b'{"n":1}\n'
        assert written(Format.CSV, *parts) == b'"n"\n1\n'


# Parts that differ


@pytest.mark.parametrize("form", Format)
def test_a_part_of_another_type_is_brought_to_that_of_the_first(form: Format) -> None:
    parts = (batch(n=_pa.array([1], _pa.int64())), batch(n=_pa.array([2], _pa.int32())))
    assert written(form, *parts) == written(form, parts[0], batch(n=[2]))


@pytest.mark.parametrize("form", Format)
@pytest.mark.parametrize(
    "second",
    [
        batch(m=[1]),
        batch(n=[1], m=[1]),
        batch(n=["one"]),
        batch(n=[2**40]),
        batch(n=[1.5]),
        batch(n=[{"a": 1}]),
        batch(n=[[1]]),
    ],
)
def test_a_part_that_does_not_fit_is_an_error_that_says_what_to_do(form: Format, second: Any) -> None:
    writer = make_writer(form)
    writer.write(batch(n=_pa.array([1], _pa.int32())))
    with pytest.raises(QuarterdeckError, match="the parts of the answer do not fit together") as caught:
        writer.write(second)
    assert caught.value.code is ErrorCode.WORK_FAILED
    assert "cast" in caught.value.next_step
    assert "\n" not in str(caught.value)
    writer.close()


# The writers


@pytest.mark.parametrize("form", Format)
def test_a_writer_is_closed_however_it_ended_and_again(form: Format) -> None:
    unused, used, finished = (make_writer(form) for _ in range(3))
    for writer in (used, finished):
        writer.write(batch(n=[1]))
    finished.finish()
    writers: list[Writer] = [unused, used, finished]
    for writer in [*writers, *writers]:
        writer.close()
