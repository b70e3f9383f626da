"""OpenMetrics text: what is read, what is refused, with which line and which remedy."""

import math
from pathlib import Path

import pytest

from quarterdeck.core.errors import ErrorCode
from quarterdeck.metrics.importing import line_source, text_reader
from quarterdeck.metrics.importing.errors import SourceError, shown
from quarterdeck.metrics.importing.openmetrics import OpenMetricsReader
from quarterdeck.metrics.model import MetricMetadata
from tests.metrics.importing.files import open_metrics, open_metrics_refusal, refusal, samples, write

UP = (("__name__", "up"),)
WHOLE = """\
# HELP http_requests All requests,\\nwith \\"quotes\\" and \\\\.
# TYPE http_requests counter
http_requests_total{code="200",path="/a b"} 10 1700000000.123 # {trace_id="abc def"} 0.5 1700000000.1
http_requests_total{path="/a b",code="200"} 11.5 1700000015
http_requests_created{code="200",path="/a b"} 1.69e9 1700000015
# TYPE disk_bytes gauge
# UNIT disk_bytes bytes
disk_bytes{empty=""} +Inf 1700000000
disk_bytes -inf 1.7e9
disk_bytes NaN 1700000000.9996
{"my.metric","label.x"="v # {1} 2"} -0 0
# EOF
"""


def test_a_whole_file_is_read_in_its_order(tmp_path: Path) -> None:
    reader = OpenMetricsReader(write(tmp_path, WHOLE))
    assert reader.read_bytes == 0
    found = samples(reader)
    requests = (("__name__", "http_requests_total"), ("code", "200"), ("path", "/a b"))
    created = (("__name__", "http_requests_created"), ("code", "200"), ("path", "/a b"))
    disk = (("__name__", "disk_bytes"),)
    assert [(labels, time) for labels, time, _ in found] == [
        (requests, 1_700_000_000_123),
        (requests, 1_700_000_015_000),
        (created, 1_700_000_015_000),
        (disk, 1_700_000_000_000),
        (disk, 1_700_000_000_000),
        (disk, 1_700_000_000_999),
        ((("__name__", "my.metric"), ("label.x", "v # {1} 2")), 0),
    ]
    values = [value for _, _, value in found]
    assert values[:5] == [10, 11.5, 1.69e9, math.inf, -math.inf]
    assert math.isnan(values[5])
    assert math.copysign(1, values[6]) == -1
    assert reader.read_bytes == reader.size_bytes == len(WHOLE)


def test_metadata_is_there_at_the_end(tmp_path: Path) -> None:
    reader = OpenMetricsReader(write(tmp_path, WHOLE))
    samples(reader)
    assert reader.metadata == {
        "http_requests": MetricMetadata("http_requests", "counter", 'All requests,\nwith "quotes" and \\.'),
        "disk_bytes": MetricMetadata("disk_bytes", "gauge", unit="bytes"),
    }


@pytest.mark.parametrize(
    "name", ["counter", "gauge", "histogram", "gaugehistogram", "summary", "info", "stateset", "unknown"]
)
def test_every_type_is_known_and_names_may_be_quoted(name: str, tmp_path: Path) -> None:
    reader = OpenMetricsReader(write(tmp_path, f'# TYPE "my.metric" {name}\n# HELP "my.metric" \n# EOF\n'))
    assert samples(reader) == []
    assert reader.metadata == {"my.metric": MetricMetadata("my.metric", name)}


def test_of_metadata_told_twice_the_later_counts(tmp_path: Path) -> None:
    lines = "# TYPE a gauge\n# HELP a x\n# TYPE a gauge\n# HELP a y\n# TYPE a counter\n# EOF\n"
    reader = OpenMetricsReader(write(tmp_path, lines))
    samples(reader)
    assert reader.metadata == {"a": MetricMetadata("a", "counter", "y")}


@pytest.mark.parametrize(
    "lines, why",
    [
        ("up 1", "no time"),
        ('up{a="b c"} 1', "no time"),
        ('up 1 # {a="b"} 1', "no time"),
        ("up", "no value"),
        ("up ", "a space too many"),
        ("up  1 2", "a space too many"),
        ("up 1  2", "a space too many"),
        (" up 1 2", "no metric's name"),
        ("up 1 2 ", "stands after the time"),
        ("up 1 2 3", "`3` stands after the time"),
        ("up 1 2 garbage", "`garbage` stands after the time"),
        ('up{a="1"}1 2', "`1` stands after the series"),
        ("up\t1 2", "stands after the series"),
        ('up {a="1"} 1 2', '`{a="1"}` is no value'),
        ("up x 2", "`x` is no value"),
        ("up 0x10 2", "`0x10` is no value"),
        ("up 1_0 2", "`1_0` is no value"),
        ("up 1e999 2", "`1e999` is no value"),
        ("up -NaN 2", "`-NaN` is no value"),
        ("up 1 x", "`x` is no time"),
        ("up 1 NaN", "`NaN` is no time"),
        ("up 1 9300000000000", "from 1970"),
        ("up 1 -9300000000000", "from 1970"),
        ("up 1 2\r", "carriage return"),
        ("", "empty"),
        ("# a comment", "no other lines with #"),
        ("#EOF", "no other lines with #"),
        ("# EOF ", "no other lines with #"),
        ("# TYPE up", "no other lines with #"),
        ("# TYPE  up gauge", "no other lines with #"),
        ("# TYPE up untyped", "`untyped` is not a type"),
        ("# UNIT up seconds", "does not end in its unit"),
        ('up{a="1",a="2"} 1 2', "`a` appears twice"),
        ('{a="1"} 1 2', "no metric's name"),
        (r'up{a="\t"} 1 2', r"`\t` is not an escape"),
        ("up 1 2 # x", "does not begin with {"),
        ("up 1 2 # {} ", "is no value"),
        ("up 1 2 # {}", "no value"),
        ("up 1 2 # {}1", "no value"),
        ("up 1 2 # {} 1 2 3", "more than a value and a time"),
        ("up 1 2 # {} x", "`x` is no value"),
        ("up 1 2 # {} 1 x", "`x` is no time"),
        ('up 1 2 # {a="1",a="2"} 1', "appears twice"),
        ('up 1 2 # {"a"} 1', "has no value"),
        ('up 1 2 # {a="\\x"} 1', "is not an escape"),
        ("# EOF", "after # EOF"),
    ],
)
def test_a_wrong_line_is_named_and_shown_with_a_remedy(lines: str, why: str, tmp_path: Path) -> None:
    before = 'up 1 1\nup{a="b"} 2 2 # {} 1\n'
    error = open_metrics_refusal(tmp_path, f"{before}{lines}\nup 3 3\n# EOF\n")
    line = 4 if lines == "# EOF" else 3
    assert error.what == f"{tmp_path / 'metrics.om'} line {line} cannot be imported"
    assert why in error.why
    assert error.next_step
    assert error.code is ErrorCode.INVALID_ARGUMENT
    assert error.why.endswith(f", in `{shown(b'up 3 3' if line == 4 else lines.encode())}`")


@pytest.mark.parametrize(
    "line",
    [
        'up{ a="1" , } 1 2',
        'up{a="1",} 1 2',
        'up{a="1"} 1 2 # {} 1',
        'up{a="1"} 1 2 # {} 1 2',
        'up{a="1"} 1 2 # {x="y",z=" # {"} NaN -2.5e0',
        'up{a="1"} 1 2 # {x="\\"} 1 2"} 1E+2 2',
        'up{a="1"} 1.0e0 2.0',
        'up{a="1"} 1 2.0000000000000000000000000001',
    ],
)
def test_unusual_lines_are_read_like_usual_ones(line: str, tmp_path: Path) -> None:
    assert open_metrics(tmp_path, line) == [((("__name__", "up"), ("a", "1")), 2000, 1.0)]


def test_lines_read_in_either_way_stay_in_order(tmp_path: Path) -> None:
    lines = [f"m{at % 5}{'{ }' if at % 3 == 0 else ''} {at} {at}" for at in range(20)]
    expected = [((("__name__", f"m{at % 5}"),), at * 1000, float(at)) for at in range(20)]
    assert open_metrics(tmp_path, "\n".join(lines)) == expected


def test_samples_come_as_they_are_unsorted_and_twice(tmp_path: Path) -> None:
    found = open_metrics(tmp_path, "up 2 2\nup 1 1\nup 2 2\nup 3 2")
    assert [(time, value) for _, time, value in found] == [(2000, 2), (1000, 1), (2000, 2), (2000, 3)]


@pytest.mark.parametrize(
    "content, why",
    [
        ("", "ends after line 0 without # EOF"),
        ("up 1 1\nup 2 2\n", "ends after line 2 without # EOF"),
        ("up 1 1\nup 2 16999", "the file ends within this line"),
        ("up 1 1\n# EO", "the file ends within this line"),
        ('up 1 1\nup{a="é'.encode()[:-1], "the file ends within this line"),
    ],
)
def test_a_file_without_its_end_is_truncated(content: str | bytes, why: str, tmp_path: Path) -> None:
    error = open_metrics_refusal(tmp_path, content)
    assert why in error.why
    assert "truncated" in error.why
    assert str(tmp_path / "metrics.om") in error.what
    assert "again" in error.next_step


def test_the_last_line_needs_no_line_end(tmp_path: Path) -> None:
    assert samples(OpenMetricsReader(write(tmp_path, "up 1 1\n# EOF"))) == [(UP, 1000, 1.0)]


@pytest.mark.parametrize("rest", ["\n", "up 1 1\n", "# EOF\n", "# EOF", "up 1", "\xff"])
def test_nothing_may_follow_the_end(rest: str, tmp_path: Path) -> None:
    error = open_metrics_refusal(tmp_path, b"up 1 1\n# EOF\n" + rest.encode("latin-1"))
    assert "line 3" in error.what
    assert "after # EOF" in error.why


def test_bytes_that_are_no_text_are_refused_with_their_line(tmp_path: Path) -> None:
    error = open_metrics_refusal(tmp_path, b'up 1 1\nup{a="\xff"} 1 1\nup x 1\n# EOF\n')
    assert "line 2" in error.what
    assert "UTF-8" in error.why
    assert r"\xff" in error.why


def test_the_first_wrong_line_is_told_whatever_is_wrong_with_it(tmp_path: Path) -> None:
    wrong = [b"up x 1", b'up{a="1",a="1"} 1 1', b"", b'up{a="\xff"} 1 1', b"# EOF", b"up 1", b"a" * 2_000_000]
    for first in wrong:
        for second in wrong:
            error = open_metrics_refusal(tmp_path, b"\n".join([b"up 1 1", first, second, b"up 1 1", b"# EOF", b""]))
            assert f"line {3 if first == b'# EOF' else 2} " in error.what


def test_what_is_shown_of_a_line_is_short_and_harmless(tmp_path: Path) -> None:
    twice = "x" * 10_000
    for line in ("up\x1b[2J " + "x" * 10_000, f'up{{"\x1b{twice}"="1","\x1b{twice}"="2"}} 1 1'):
        error = open_metrics_refusal(tmp_path, f"{line}\n# EOF\n")
        assert "\x1b" not in str(error)
        assert len(str(error)) < 2000


@pytest.mark.parametrize("size_bytes", [1 << 20, 2 << 20, 9 << 20, 19 << 20])
@pytest.mark.parametrize("end", ["\n# EOF\n", ""])
def test_a_very_long_line_is_refused_and_not_read_to_its_end(size_bytes: int, end: str, tmp_path: Path) -> None:
    reader = OpenMetricsReader(write(tmp_path, 'up 1 1\nup{a="' + "x" * size_bytes + f'"}} 1 1{end}'))
    error = refusal(reader)
    assert "line 2" in error.what
    assert "longer than 1048576 bytes" in error.why
    assert reader.read_bytes < 6 << 20


def test_a_long_line_is_fine(tmp_path: Path) -> None:
    value = "x" * ((1 << 20) - 13)
    assert open_metrics(tmp_path, f'up{{a="{value}"}} 1 1') == [((*UP, ("a", value)), 1000, 1.0)]


@pytest.mark.parametrize("piece_bytes", [1, 7, 64, 1000])
@pytest.mark.parametrize("batch_samples", [1, 3, 1000])
def test_where_a_file_is_cut_makes_no_difference(
    piece_bytes: int, batch_samples: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = WHOLE.replace("NaN", "5")
    expected = samples(OpenMetricsReader(write(tmp_path, text)))
    monkeypatch.setattr(line_source, "PIECE_BYTES", piece_bytes)
    monkeypatch.setattr(text_reader, "BATCH_SAMPLES", batch_samples)
    assert samples(OpenMetricsReader(write(tmp_path, text))) == expected
    for wrong in ("up 1", "# EOF", 'up{a="1",a="2"} 1 1'):
        lines = [*text.splitlines()[:8], wrong, *text.splitlines()[8:], ""]
        error = refusal(OpenMetricsReader(write(tmp_path, "\n".join(lines))))
        assert f"line {10 if wrong == '# EOF' else 9} " in error.what


def test_batches_have_about_as_many_samples_as_they_should(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(line_source, "PIECE_BYTES", 256)
    monkeypatch.setattr(text_reader, "BATCH_SAMPLES", 100)
    lines = "".join(f"m{at % 7} 1 {at}\n" for at in range(1000))
    reader = OpenMetricsReader(write(tmp_path, f"{lines}# EOF\n"))
    progress: list[int] = []
    for batch in reader.batches():
        assert len(batch.labels) == 7
        assert 100 <= batch.values.size <= 200 or reader.read_bytes == reader.size_bytes
        progress.append(reader.read_bytes)
    assert progress == sorted(progress)
    assert len(progress) > 5


def test_more_series_than_can_be_remembered_are_read_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("quarterdeck.metrics.importing.series_table._REMEMBERED_SERIES", 3)
    found = open_metrics(tmp_path, "\n".join(f"m{at % 11} 1 {at}" for at in range(50)))
    assert [labels[0][1] for labels, _, _ in found] == [f"m{at % 11}" for at in range(50)]


def test_a_reader_left_on_its_way_closes_its_file(tmp_path: Path) -> None:
    batches = OpenMetricsReader(write(tmp_path, WHOLE)).batches()
    next(batches)
    del batches


def test_a_file_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"nowhere\.om cannot be imported: there is no such file") as caught:
        OpenMetricsReader(tmp_path / "nowhere.om")
    assert caught.value.code is ErrorCode.NOT_FOUND


def test_a_folder_is_told(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="folder"):
        samples(OpenMetricsReader(tmp_path))
