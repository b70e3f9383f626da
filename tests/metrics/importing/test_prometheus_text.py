"""Prometheus' text format: as free as it is, and with times in milliseconds."""

from pathlib import Path

import pytest

from quarterdeck.metrics.importing.batches import MetricMetadata
from quarterdeck.metrics.importing.prometheus_text import PrometheusTextReader
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
        ("# TYPE up info", "no type"),
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
