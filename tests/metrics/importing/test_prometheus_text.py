"""Prometheus' text format: as free as it is, and with times in milliseconds."""

from pathlib import Path

import pytest

from quarterdeck.metrics.importing.prometheus_text import PrometheusTextReader
from quarterdeck.metrics.model import MetricMetadata
from tests.metrics.importing.files import prometheus, refusal, samples, write

UP = (("__name__", "up"),)
WHOLE = """\
# HELP up Whether it is "up" \\\\ or \\n down.
# TYPE up untyped

  # just a comment
#another # { one
#  TYPE \t up2   gauge \t
\t up \t 1 \t 1000
up{a="1"} 2 -2000
up { a = "1" , } +Inf 3000
# UNIT up seconds
# EOF
up 5 4000
"""


def test_blanks_tabs_comments_and_empty_lines_are_free(tmp_path: Path) -> None:
    reader = PrometheusTextReader(write(tmp_path, WHOLE, "a.prom"))
    other = (*UP, ("a", "1"))
    assert samples(reader) == [(UP, 1000, 1), (other, -2000, 2), (other, 3000, float("inf")), (UP, 4000, 5)]
    assert reader.metadata == {
        "up": MetricMetadata("up", "unknown", 'Whether it is "up" \\ or \n down.'),
        "up2": MetricMetadata("up2", "gauge"),
    }


def test_no_samples_are_fine(tmp_path: Path) -> None:
    assert prometheus(tmp_path, "") == []
    assert prometheus(tmp_path, "\n# nothing\n") == []


@pytest.mark.parametrize(
    "line, why",
    [
        ("up 1", "no time"),
        ("up 1 1.5", "`1.5` is no time"),
        ("up 1 0x10", "`0x10` is no time"),
        ("up 1 9200000000000001", "from 1970"),
        ("up 1 1 2", "`2` stands after the time"),
        ('up 1 1 # {a="b"} 1', "stands after the time"),
        ("up{}1 1", "stands after the series"),
        ("# TYPE up info", "not a type"),
        ("# TYPE", "names no metric"),
        ("# HELP 1 x", "names no metric"),
        ("up 1 1\r", "carriage return"),
    ],
)
def test_a_wrong_line_is_named(line: str, why: str, tmp_path: Path) -> None:
    error = refusal(PrometheusTextReader(write(tmp_path, f"up 1 1\n\n{line}\nup 1 1\n", "a.prom")))
    assert "a.prom line 3 " in error.what
    assert why in error.why


def test_a_last_line_without_its_end_may_be_truncated(tmp_path: Path) -> None:
    error = refusal(PrometheusTextReader(write(tmp_path, "up 1 1000\nup 1 10", "a.prom")))
    assert "a.prom line 2 " in error.what
    assert "truncated" in error.why
    assert "line feed" in error.next_step


def test_samples_without_a_time_take_the_one_that_is_given_and_the_others_keep_theirs(tmp_path: Path) -> None:
    page = '# TYPE up gauge\nup 1\nup{a="b c"} 2\nup{a="d"}\t3\nup{a="e"} 4 1000\n'
    reader = PrometheusTextReader(write(tmp_path, page, "a.prom"), at_ms=5000)
    times = {(labels[1:], time, value) for labels, time, value in samples(reader)}
    assert times == {((), 5000, 1), ((("a", "b c"),), 5000, 2), ((("a", "d"),), 5000, 3), ((("a", "e"),), 1000, 4)}


def test_without_a_time_for_them_it_is_told_how_to_give_one(tmp_path: Path) -> None:
    error = refusal(PrometheusTextReader(write(tmp_path, "up 1\n", "a.prom")))
    assert "the sample has no time" in error.why
    assert "--at now" in error.next_step


def test_a_file_that_was_copied_is_told_by_the_name_that_it_has_for_people(tmp_path: Path) -> None:
    copy = write(tmp_path, "up x 1\n", "copy")
    assert refusal(PrometheusTextReader(copy, name="s3://b/a.prom")).what == "s3://b/a.prom line 1 cannot be imported"
    gone = PrometheusTextReader(copy, name="s3://b/a.prom")
    copy.unlink()
    assert refusal(gone).what == "s3://b/a.prom cannot be imported"
