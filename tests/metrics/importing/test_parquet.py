"""Samples from Parquet: which columns may be what, which rows are refused, and how far the reading has come."""

import datetime
import json
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow  # pyright: ignore[reportMissingTypeStubs] - it has none
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyarrow import parquet  # pyright: ignore[reportMissingTypeStubs]

from quarterdeck.core.errors import ErrorCode
from quarterdeck.metrics.importing import parquet as parquet_module
from quarterdeck.metrics.importing.batches import SampleReader
from quarterdeck.metrics.importing.column_mapping import OWN_FORM, ColumnMapping, TimeUnit
from quarterdeck.metrics.importing.errors import SourceError
from quarterdeck.metrics.importing.parquet import ParquetReader
from quarterdeck.metrics.importing.row_series import series_of
from quarterdeck.metrics.promql import labels as lb
from quarterdeck.metrics.promql.blocks import STALE_BITS
from tests.metrics.importing.files import Sample, refusal, samples

_arrow: Final[Any] = pyarrow
_parquet: Final[Any] = parquet

MS: Final = _arrow.timestamp("ms", "UTC")
MAP: Final = _arrow.map_(_arrow.string(), _arrow.string())
ONE: Final = ColumnMapping(metric=None, metric_name="m")


def written(folder: Path, columns: dict[str, Any], **options: Any) -> Path:
    path = folder / "samples.parquet"
    _parquet.write_table(_arrow.table(columns), path, **options)
    return path


def own_form(given_samples: Sequence[Sample], *, maps: bool = False) -> dict[str, Any]:
    """Columns as Quarterdeck writes them."""
    labels = [dict(lb.drop_name(one[0])) for one in given_samples]
    return {
        "metric": _arrow.array([lb.get(one[0], lb.METRIC_NAME) for one in given_samples], _arrow.string()),
        "labels": _arrow.array(
            [list(one.items()) if maps else json.dumps(one) for one in labels], MAP if maps else _arrow.string()
        ),
        "timestamp": _arrow.array([one[1] for one in given_samples], MS),
        "value": _arrow.array([one[2] for one in given_samples], _arrow.float64()),
    }


def column(values: Sequence[Any], kind: Any, **others: Any) -> dict[str, Any]:
    return {"timestamp": _arrow.array(values, kind), "value": [1.0] * len(values), **others}


def named(name: str, more: dict[str, str]) -> lb.Labels:
    return lb.from_mapping({**more, lb.METRIC_NAME: name})


ANY_TEXT = st.text(st.characters(exclude_categories=("Cs",)), max_size=8)
LABELS = st.builds(
    named,
    ANY_TEXT.filter(bool),
    st.dictionaries(ANY_TEXT.filter(lambda name: name not in ("", *lb.METADATA)), ANY_TEXT, max_size=4),
)
SAMPLES = st.lists(st.tuples(LABELS, st.integers(-(10**15), 10**15), st.floats(allow_nan=False)), max_size=30)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(SAMPLES, st.booleans(), st.sampled_from((1, 3, 1000)), st.booleans())
def test_what_is_written_in_our_own_form_is_read_back(
    tmp_path: Path, given_samples: list[Sample], maps: bool, group_rows: int, dictionaries: bool
) -> None:
    path = written(tmp_path, own_form(given_samples, maps=maps), row_group_size=group_rows, use_dictionary=dictionaries)
    assert samples(ParquetReader(path)) == given_samples


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(st.lists(st.tuples(*[st.sampled_from((None, "", "x", "y", "é")) for _ in range(3)]), min_size=1, max_size=40))
def test_label_columns_make_the_series_of_their_rows(
    tmp_path: Path, rows: list[tuple[str | None, str | None, str | None]]
) -> None:
    names = ("host", "zone", "x.y")
    columns = {name: _arrow.array([row[at] for row in rows], _arrow.string()) for at, name in enumerate(names)}
    path = written(tmp_path, column(range(len(rows)), MS, metric=["m"] * len(rows), **columns), row_group_size=7)
    found = samples(ParquetReader(path, ColumnMapping(labels=("host", "az=zone", "x.y"))))
    renamed = ("host", "az", "x.y")
    assert [labels for labels, _, _ in found] == [
        lb.from_mapping({"__name__": "m", **dict(zip(renamed, (text or "" for text in row), strict=True))})
        for row in rows
    ]


def test_many_label_columns_make_no_number_too_large(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    texts = {f"l{at}": rng.integers(0, 900, 1000).astype(str).tolist() for at in range(9)}
    path = written(tmp_path, column(range(1000), MS, **texts))
    found = samples(ParquetReader(path, ColumnMapping(metric=None, metric_name="m", labels=tuple(texts))))
    assert [labels for labels, _, _ in found] == [
        lb.from_mapping({"__name__": "m", **{name: values[at] for name, values in texts.items()}}) for at in range(1000)
    ]


@pytest.mark.parametrize(
    "kind",
    [
        _arrow.string(),
        _arrow.large_string(),
        _arrow.string_view(),
        _arrow.dictionary(_arrow.int8(), _arrow.string()),
        _arrow.dictionary(_arrow.int32(), _arrow.large_string()),
    ],
    ids=str,
)
def test_text_may_be_of_any_type_of_text(kind: Any, tmp_path: Path) -> None:
    columns = {
        name: _arrow.array(values, _arrow.string()).cast(kind)
        if not str(kind).startswith("dict")
        else _arrow.array(values, kind)
        for name, values in {
            "metric": ["a", "b", "a"],
            "host": ["x", None, "y"],
            "labels": ['{"z":"1"}', "{}", None],
        }.items()
    }
    path = written(tmp_path, column([1, 2, 3], MS, **columns))
    found = samples(ParquetReader(path, ColumnMapping(labels=("host",), labels_column="labels")))
    assert [labels for labels, _, _ in found] == [
        (("__name__", "a"), ("host", "x"), ("z", "1")),
        (("__name__", "b"),),
        (("__name__", "a"), ("host", "y")),
    ]


def test_whole_numbers_and_truth_can_be_labels(tmp_path: Path) -> None:
    path = written(tmp_path, column([1, 2], MS, shard=_arrow.array([7, None], _arrow.int16()), on=[True, False]))
    found = samples(ParquetReader(path, ColumnMapping(metric=None, metric_name="m", labels=("shard", "on"))))
    assert [labels for labels, _, _ in found] == [
        (("__name__", "m"), ("on", "true"), ("shard", "7")),
        (("__name__", "m"), ("on", "false")),
    ]


@pytest.mark.parametrize(
    "kind, unit, numbers, times",
    [
        (MS, TimeUnit.NANOSECONDS, [1, -1], [1, -1]),
        (_arrow.timestamp("s"), TimeUnit.MILLISECONDS, [1, -1], [1000, -1000]),
        (_arrow.timestamp("us", "Europe/Berlin"), TimeUnit.MILLISECONDS, [1499, 1500, 2500, -1501], [1, 2, 2, -2]),
        (_arrow.timestamp("ns"), TimeUnit.MILLISECONDS, [1_499_999, 1_500_000, 500_000], [1, 2, 0]),
        (_arrow.int64(), TimeUnit.MILLISECONDS, [1_700_000_000_123], [1_700_000_000_123]),
        (_arrow.int64(), TimeUnit.SECONDS, [1_700_000_000], [1_700_000_000_000]),
        (_arrow.int32(), TimeUnit.SECONDS, [1_700_000_000], [1_700_000_000_000]),
        (_arrow.int64(), TimeUnit.MICROSECONDS, [1_700_000_000_123_456], [1_700_000_000_123]),
        (_arrow.uint64(), TimeUnit.NANOSECONDS, [1_700_000_000_123_456_789], [1_700_000_000_123]),
        (_arrow.float64(), TimeUnit.SECONDS, [1_700_000_000.867, -0.0015], [1_700_000_000_867, -2]),
    ],
)
def test_times_of_any_unit_become_milliseconds(
    kind: Any, unit: TimeUnit, numbers: list[float], times: list[int], tmp_path: Path
) -> None:
    path = written(tmp_path, column(numbers, kind))
    mapping = ColumnMapping(metric=None, metric_name="m", timestamp_unit=unit)
    assert [time for _, time, _ in samples(ParquetReader(path, mapping))] == times


def test_a_time_without_a_zone_is_in_utc(tmp_path: Path) -> None:
    moment = datetime.datetime(2024, 3, 31, 2, 30, 0, 123_000)  # noqa: DTZ001 - the point
    path = written(tmp_path, column([moment], _arrow.timestamp("ms")))
    assert [time for _, time, _ in samples(ParquetReader(path, ONE))] == [1_711_852_200_123]


@pytest.mark.parametrize(
    "kind, value",
    [
        *[(kind(), 7) for kind in (_arrow.int8, _arrow.uint16, _arrow.int64, _arrow.uint64)],
        (_arrow.float16(), np.float16(2.5)),
        (_arrow.float32(), 2.5),
        (_arrow.float64(), 1e300),
        (_arrow.int64(), (1 << 62) + 1),
        (_arrow.decimal128(10, 2), Decimal("1.25")),
    ],
)
def test_values_may_be_any_number(kind: Any, value: Any, tmp_path: Path) -> None:
    path = written(tmp_path, {"timestamp": _arrow.array([1], MS), "value": _arrow.array([value], kind)})
    assert [found for _, _, found in samples(ParquetReader(path, ONE))] == [float(value)]


def test_staleness_markers_keep_their_bits(tmp_path: Path) -> None:
    values = np.array([STALE_BITS, 0x7FF8000000000001], np.uint64).view(np.float64)
    path = written(tmp_path, {"timestamp": _arrow.array([1, 2], MS), "value": values})
    (batch,) = ParquetReader(path, ONE).batches()
    assert (batch.values.view(np.uint64) == values.view(np.uint64)).all()


FOUR: Final[dict[str, Any]] = {
    "metric": ["a"] * 4,
    "labels": ["{}"] * 4,
    "timestamp": _arrow.array(range(4), MS),
    "value": [1.0] * 4,
}


@pytest.mark.parametrize(
    "change, why",
    [
        ({"metric": ["a", "a", None, "a"]}, "column 'metric' has no metric's name"),
        ({"metric": ["a", "a", "", "a"]}, "no metric's name"),
        ({"value": [1, 1, None, 1]}, "column 'value' is null"),
        ({"timestamp": _arrow.array([1, 1, None, 1], MS)}, "column 'timestamp' is null"),
        ({"timestamp": [1, 1, 9_200_000_000_000_001, 1]}, "from 1970"),
        ({"timestamp": [1, 1, -9_200_000_000_000_001, 1]}, "from 1970"),
        ({"timestamp": _arrow.array([1, 1, (1 << 64) - 1, 1], _arrow.uint64())}, "from 1970"),
        ({"timestamp": _arrow.array([1, 1, (1 << 63) - 1, 1], _arrow.timestamp("us"))}, "from 1970"),
        ({"labels": ["{}", "{}", "{", "{}"]}, "`{`, which is no JSON object"),
        ({"labels": ["{}", "{}", "[]", "{}"]}, "no JSON object"),
        ({"labels": ["{}", "{}", '"a"', "{}"]}, "no JSON object"),
        ({"labels": ["{}", "{}", '{"a": 1}', "{}"]}, "no JSON object of strings"),
        ({"labels": ["{}", "{}", '{"a": {}}', "{}"]}, "no JSON object of strings"),
        ({"labels": ["{}", "{}", '{"a": null}', "{}"]}, "no JSON object of strings"),
        ({"labels": ["{}", "{}", '{"a": "\\ud800"}', "{}"]}, "no JSON object of strings"),
        ({"labels": ["{}", "{}", "[" * 100_000, "{}"]}, "no JSON object of strings"),
        ({"labels": ["{}", "{}", '{"a": "1", "a": "2"}', "{}"]}, "`a` appears twice"),
        ({"labels": ["{}", "{}", '{"": "1"}', "{}"]}, "empty name"),
        ({"labels": ["{}", "{}", '{"__name__": "b"}', "{}"]}, "two names"),
        ({"labels": _arrow.array([[], [], [("a", "1"), ("a", "2")], []], MAP)}, "`a` appears twice"),
        ({"labels": _arrow.array([[], [], [("", "1")], []], MAP)}, "empty name"),
    ],
)
@pytest.mark.parametrize("group_rows", [1, 4])
def test_a_wrong_row_is_named_with_a_remedy(change: dict[str, Any], why: str, group_rows: int, tmp_path: Path) -> None:
    path = written(tmp_path, FOUR | change, row_group_size=group_rows)
    error = refusal(ParquetReader(path))
    assert error.what == f"{path} row 3 cannot be imported"
    assert why in error.why
    assert error.next_step
    assert error.code is ErrorCode.INVALID_ARGUMENT


def test_seconds_that_are_no_number_are_refused(tmp_path: Path) -> None:
    path = written(tmp_path, column([1.0, float("nan")], _arrow.float64()))
    mapping = ColumnMapping(metric=None, metric_name="m", timestamp_unit=TimeUnit.SECONDS)
    assert "row 2 " in refusal(ParquetReader(path, mapping)).what


def test_of_several_wrong_rows_the_first_is_told(tmp_path: Path) -> None:
    labels = ["{}", "{}", "{", "{}"]
    for column_name, value in (("metric", None), ("value", None), ("timestamp", None)):
        for row in (1, 3):
            values: list[Any] = FOUR[column_name] if isinstance(FOUR[column_name], list) else [1, 1, 1, 1]
            changed = [*values[:row], value, *values[row + 1 :]]
            kind = MS if column_name == "timestamp" else None
            path = written(tmp_path, FOUR | {"labels": labels, column_name: _arrow.array(changed, kind)})
            assert f"row {min(row, 2) + 1} " in refusal(ParquetReader(path)).what


@pytest.mark.parametrize(
    "mapping, missing, option",
    [
        (OWN_FORM, "timestamp", "--timestamp-column"),
        (ColumnMapping(timestamp="ts", value="v"), "metric", "--metric-column"),
        (ColumnMapping(metric=None), "timestamp", "--timestamp-column"),
        (ColumnMapping(metric=None, timestamp="ts"), "value", "--value-column"),
        (ColumnMapping(None, "ts", "v", labels=("x=host",)), "host", "--label-column"),
        (ColumnMapping(None, "ts", "v", labels_column="all"), "all", "--labels-column"),
    ],
)
def test_a_missing_column_is_told_with_those_there_are_and_the_option(
    mapping: ColumnMapping, missing: str, option: str, tmp_path: Path
) -> None:
    path = written(tmp_path, {"ts": _arrow.array([1], MS), "v": [1.0]})
    with pytest.raises(SourceError) as caught:
        ParquetReader(path, mapping)
    error = caught.value
    assert str(path) in error.what
    assert option in error.next_step
    assert f"no column {missing!r}; the columns are ts, v" in error.why


@pytest.mark.parametrize(
    "change, option",
    [
        ({"metric": [1]}, "--metric-column"),
        ({"timestamp": ["1"]}, "--timestamp-column"),
        ({"timestamp": [1.5]}, "--timestamp-unit"),
        ({"timestamp": _arrow.array([1], _arrow.date32())}, "--timestamp-column"),
        ({"value": ["1"]}, "--value-column"),
        ({"value": [True]}, "--value-column"),
        ({"labels": [b"{}"]}, "--labels-column"),
        ({"labels": _arrow.array([[("a", 1)]], _arrow.map_(_arrow.string(), _arrow.int64()))}, "--labels-column"),
    ],
)
def test_a_column_of_another_type_is_told_before_anything_is_read(
    change: dict[str, Any], option: str, tmp_path: Path
) -> None:
    one: dict[str, Any] = {"metric": ["a"], "labels": ["{}"], "timestamp": _arrow.array([1], MS), "value": [1.0]}
    path = written(tmp_path, one | change)
    with pytest.raises(SourceError) as caught:
        ParquetReader(path)
    assert option in caught.value.next_step
    assert f"column {next(iter(change))!r} is " in caught.value.why


def test_a_column_of_nothing_is_no_label(tmp_path: Path) -> None:
    path = written(tmp_path, column([1, 2], MS, host=_arrow.nulls(2)))
    found = samples(ParquetReader(path, ColumnMapping(metric=None, metric_name="m", labels=("host",))))
    assert [labels for labels, _, _ in found] == [(("__name__", "m"),)] * 2


def test_one_column_may_be_two_things(tmp_path: Path) -> None:
    path = written(tmp_path, {"timestamp": [5, 6], "value": [1.0, 2.0]})
    found = samples(ParquetReader(path, ColumnMapping(None, labels=("at=timestamp",), metric_name="m")))
    assert found == [((("__name__", "m"), ("at", "5")), 5, 1.0), ((("__name__", "m"), ("at", "6")), 6, 2.0)]
    with pytest.raises(SourceError, match="a value is a number"):
        ParquetReader(written(tmp_path, column([1], MS, v=["x"])), ColumnMapping("v", value="v"))


def test_a_label_column_of_fractions_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path, column([1], MS, host=[1.5]))
    with pytest.raises(SourceError, match="a label is text"):
        ParquetReader(path, ColumnMapping(metric=None, metric_name="m", labels=("host",)))


def test_two_columns_of_one_name_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "twice.parquet"
    names = ["metric", "labels", "timestamp", "value", "value"]
    _parquet.write_table(_arrow.table([["a"], ["{}"], _arrow.array([1], MS), [1.0], [2.0]], names=names), path)
    with pytest.raises(SourceError, match="several columns 'value'"):
        ParquetReader(path)


def test_a_name_may_come_from_the_labels(tmp_path: Path) -> None:
    path = written(tmp_path, column([1, 2], MS, labels=['{"__name__": "a"}', "{}"]))
    error = refusal(ParquetReader(path, ColumnMapping(metric=None, labels_column="labels")))
    assert "row 2 " in error.what
    path = written(tmp_path, column([1], MS, labels=['{"__name__": "a"}']))
    found = samples(ParquetReader(path, ColumnMapping(metric=None, labels_column="labels")))
    assert found == [((("__name__", "a"),), 1, 1.0)]


def test_one_name_and_no_labels_is_one_series(tmp_path: Path) -> None:
    assert samples(ParquetReader(written(tmp_path, column([1, 2], MS)), ONE)) == [
        ((("__name__", "m"),), 1, 1.0),
        ((("__name__", "m"),), 2, 1.0),
    ]


@pytest.mark.parametrize("labels", [("a", "a=b"), ("",), ("=b",)])
def test_a_mapping_that_says_two_things_is_refused(labels: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match="each label"):
        ColumnMapping(labels=labels)
    with pytest.raises(ValueError, match="not both"):
        ColumnMapping(metric="a", metric_name="b")


def test_small_row_groups_make_whole_batches_and_progress(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet_module, "BATCH_SAMPLES", 100)
    count = 1000
    columns = own_form([((("__name__", f"m{at % 3}"),), at, float(at)) for at in range(count)])
    reader = ParquetReader(written(tmp_path, columns, row_group_size=30))
    assert reader.read_bytes == 0
    progress: list[int] = []
    sizes: list[int] = []
    for batch in reader.batches():
        assert len(batch.labels) == 3
        progress.append(reader.read_bytes)
        sizes.append(batch.values.size)
    assert sum(sizes) == count
    assert all(100 <= size < 200 for size in sizes[:-1])
    assert progress == sorted(set(progress))
    assert reader.read_bytes == reader.size_bytes
    assert reader.metadata == {}


def test_wide_rows_are_read_few_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet_module, "_BATCH_BYTES", 1 << 16)
    texts = [f"{at:05}" * 1000 for at in range(100)]
    path = written(tmp_path, column(range(100), MS, host=texts), use_dictionary=False, compression="none")
    row_counts: list[int] = []

    def watched(columns: Any, row_count: int, *others: Any) -> Any:
        row_counts.append(row_count)
        return series_of(columns, row_count, *others)

    monkeypatch.setattr(parquet_module, "series_of", watched)
    reader = ParquetReader(path, ColumnMapping(metric=None, metric_name="m", labels=("host",)))
    assert [labels for labels, _, _ in samples(reader)] == [(("__name__", "m"), ("host", text)) for text in texts]
    assert max(row_counts) < 20


def test_no_rows_are_fine(tmp_path: Path) -> None:
    reader = ParquetReader(written(tmp_path, own_form([])))
    assert samples(reader) == []
    assert reader.read_bytes == reader.size_bytes


@pytest.mark.parametrize("content", [b"", b"PAR1", b"no parquet at all, but long enough to look", b"PAR1" * 10])
def test_what_is_no_parquet_is_told_with_its_name(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "bad.parquet"
    path.write_bytes(content)
    with pytest.raises(SourceError) as caught:
        ParquetReader(path)
    assert str(path) in caught.value.what
    assert "no Parquet" in caught.value.why


def test_a_file_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(SourceError) as caught:
        ParquetReader(tmp_path / "nowhere.parquet")
    assert caught.value.code is ErrorCode.NOT_FOUND


def test_text_that_is_no_utf8_is_refused(tmp_path: Path) -> None:
    wrong = _arrow.Array.from_buffers(
        _arrow.string(), 1, [None, _arrow.py_buffer(np.array([0, 2], np.int32)), _arrow.py_buffer(b"a\xff")]
    )
    error = refusal(
        ParquetReader(written(tmp_path, column([1], MS, host=wrong)), ColumnMapping(None, labels=("host",)))
    )
    assert "UTF8" in error.why


def refused_file(path: Path) -> str | None:
    try:
        reader: SampleReader = ParquetReader(path)
        samples(reader)
    except SourceError as error:
        return error.what.partition(" cannot be ")[0].partition(" row ")[0]
    return None


@pytest.mark.parametrize("seed", range(8))
def test_a_damaged_file_is_read_or_refused_and_nothing_else(seed: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(seed)
    rows = [((("__name__", f"m{at % 3}"), ("a", str(at % 7))), at, at * 1.5) for at in range(200)]
    path = written(tmp_path, own_form(rows, maps=seed % 2 == 0), row_group_size=60)
    whole = path.read_bytes()
    for turn in range(40):
        data = bytearray(whole)
        for _ in range(int(rng.integers(1, 4))):
            data[int(rng.integers(len(data)))] = int(rng.integers(256))
        if turn % 4 == 0:
            del data[int(rng.integers(len(data))) :]
        path.write_bytes(bytes(data))
        assert refused_file(path) in (None, str(path))


WITH_STARTS: Final = ColumnMapping(labels_column="labels", start="began")


def starts(reader: SampleReader) -> list[int] | None:
    """Of all samples; None where no batch has any."""
    found = [batch.starts for batch in reader.batches() if batch.starts is not None]
    return np.concatenate(found).tolist() if found else None


@pytest.mark.parametrize(
    "kind, unit, numbers, found",
    [
        (MS, TimeUnit.MILLISECONDS, [5, None, -5, 0], [5, 0, -5, 0]),
        (_arrow.timestamp("us"), TimeUnit.MILLISECONDS, [1500, None, None, 9], [2, 0, 0, 0]),
        (_arrow.int64(), TimeUnit.SECONDS, [1_700_000_000, None, 1, 0], [1_700_000_000_000, 0, 1000, 0]),
        (_arrow.float64(), TimeUnit.SECONDS, [0.5, None, -0.25, 1e9], [500, 0, -250, 1_000_000_000_000]),
        (_arrow.int64(), TimeUnit.MILLISECONDS, [9_200_000_000_000_000, 1, 1, 1], [9_200_000_000_000_000, 1, 1, 1]),
    ],
)
def test_start_timestamps_come_from_a_column_of_their_own_and_a_null_is_none(
    kind: Any, unit: TimeUnit, numbers: list[Any], found: list[int], tmp_path: Path
) -> None:
    """One that is after its sample is taken as it is: queries know that it says nothing."""
    path = written(tmp_path, FOUR | {"timestamp": _arrow.array(range(4), MS), "began": _arrow.array(numbers, kind)})
    mapping = ColumnMapping(labels_column="labels", start="began", timestamp_unit=unit)
    assert starts(ParquetReader(path, mapping)) == found
    assert starts(ParquetReader(path)) is None


def test_a_column_without_any_start_timestamp_is_as_good_as_none(tmp_path: Path) -> None:
    path = written(tmp_path, FOUR | {"began": _arrow.nulls(4, MS)})
    assert starts(ParquetReader(path, WITH_STARTS)) is None


@pytest.mark.parametrize(
    "numbers, kind, unit",
    [
        ([1, 1, 9_200_000_000_000_001, 1], _arrow.int64(), TimeUnit.MILLISECONDS),
        ([1, 1, (1 << 64) - 1, 1], _arrow.uint64(), TimeUnit.MILLISECONDS),
        ([1.0, 1.0, float("nan"), 1.0], _arrow.float64(), TimeUnit.SECONDS),
        ([1.0, 1.0, float("inf"), 1.0], _arrow.float64(), TimeUnit.SECONDS),
    ],
)
def test_a_start_timestamp_that_is_no_time_is_refused_with_its_row(
    numbers: list[Any], kind: Any, unit: TimeUnit, tmp_path: Path
) -> None:
    path = written(tmp_path, FOUR | {"began": _arrow.array(numbers, kind)})
    error = refusal(ParquetReader(path, ColumnMapping(labels_column="labels", start="began", timestamp_unit=unit)))
    assert error.what == f"{path} row 3 cannot be imported"
    assert error.why.startswith("of the start timestamp in column 'began', the time ")
    assert "--timestamp-unit" in error.next_step


@pytest.mark.parametrize("change", [{}, {"began": ["yesterday"] * 4}, {"began": [1.5] * 4}])
def test_a_column_of_start_timestamps_must_be_there_and_hold_times(change: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(SourceError) as caught:
        ParquetReader(written(tmp_path, FOUR | change), WITH_STARTS)
    assert "'began'" in caught.value.why
    assert "--start-timestamp-column" in caught.value.next_step


def test_a_mapping_without_start_timestamps_is_told_as_it_always_was() -> None:
    """By this text an import knows what was imported before: it must not change with a new version."""
    assert OWN_FORM.text == (
        "ColumnMapping(metric='metric', timestamp='timestamp', value='value', labels=(), labels_column='labels', "
        "metric_name=None, timestamp_unit=<TimeUnit.MILLISECONDS: 'ms'>)"
    )
    assert WITH_STARTS.text == f"{OWN_FORM.text} start='began'"
