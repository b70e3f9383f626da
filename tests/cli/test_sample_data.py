"""`quarterdeck sample-data`: the same again, never twice, and never in place of what is somebody's own."""

import json
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest
from typer.testing import CliRunner, Result

from quarterdeck.command import app
from quarterdeck.metrics.commands import sample_data
from quarterdeck.metrics.commands.sample_files import write_files
from quarterdeck.metrics.commands.sample_metrics import SampleMetrics
from quarterdeck.metrics.promql.histograms.native import NativeHistogram
from quarterdeck.metrics.promql.labels import METRIC_NAME
from tests.cli.test_import import NOBODY, samples_in

END_S = 1_700_000_000


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("QUARTERDECK_URL", NOBODY)
    return tmp_path


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["sample-data", "--data-dir", "crew", *arguments], env={"COLUMNS": "200"})


def samples(end_s: int = END_S, seed: int = 1) -> Mapping[tuple[tuple[str, str], ...], Any]:
    (batch,) = SampleMetrics(end_s, 6, seed).batches()
    assert batch.histograms is not None
    return {
        labels: (
            batch.timestamps[batch.series == at],
            batch.values[batch.series == at],
            batch.histograms[batch.series == at],
        )
        for at, labels in enumerate(batch.labels)
    }


def test_the_same_seed_and_end_make_the_same_and_another_seed_another(tmp_path: Path) -> None:
    first, again, other = samples(), samples(), samples(seed=2)
    assert first.keys() == again.keys() == other.keys()
    assert all(np.array_equal(first[one][1], again[one][1]) for one in first)
    assert not all(np.array_equal(first[one][1], other[one][1]) for one in first)
    for folder in ("a", "b"):
        write_files(tmp_path / folder, END_S, 6, 1)
    for path in (tmp_path / "a").rglob("*.*"):
        assert path.read_bytes() == (tmp_path / "b" / path.relative_to(tmp_path / "a")).read_bytes()


def test_there_are_counters_gauges_and_both_kinds_of_histograms_until_now() -> None:
    found = samples()
    metrics = {dict(labels)[METRIC_NAME] for labels in found}
    assert {"up", "http_requests_total", "http_request_duration_seconds_bucket", "rpc_duration_seconds"} <= metrics
    assert max(times[-1] for times, _, _ in found.values()) == END_S // 15 * 15 * 1000
    assert all((np.diff(times) > 0).all() for times, _, _ in found.values())
    native = [some for labels, (_, _, some) in found.items() if dict(labels)[METRIC_NAME] == "rpc_duration_seconds"]
    assert len(native) == 3
    assert all(isinstance(one, NativeHistogram) and one.count > 0 for some in native for one in some[5:50])
    known = SampleMetrics(END_S, 6, 1).metadata
    assert (known["http_requests"].type, known["rpc_duration_seconds"].type) == ("counter", "histogram")


def test_an_instance_was_away_and_its_counters_began_anew() -> None:
    found = samples()
    up = next(
        values
        for labels, (_, values, _) in found.items()
        if set(labels) >= {(METRIC_NAME, "up"), ("instance", "api-2")}
    )
    assert 0 < np.count_nonzero(up == 0) < 100
    falls = {
        dict(labels)["instance"]: int(np.count_nonzero(np.diff(values) < 0))
        for labels, (_, values, _) in found.items()
        if dict(labels)[METRIC_NAME] == "http_request_duration_seconds_count"
    }
    assert falls == {"api-1": 0, "api-2": 1, "api-3": 0, "web-1": 0, "web-2": 0}


def test_buckets_of_a_classic_histogram_add_up() -> None:
    found = samples()
    buckets = {
        dict(labels)["le"]: values
        for labels, (_, values, _) in found.items()
        if set(labels) >= {(METRIC_NAME, "http_request_duration_seconds_bucket"), ("instance", "web-1")}
    }
    bounds = sorted(buckets, key=float)
    assert all((buckets[low] <= buckets[high]).all() for low, high in pairwise(bounds))
    (count,) = (
        values
        for labels, (_, values, _) in found.items()
        if set(labels) >= {(METRIC_NAME, "http_request_duration_seconds_count"), ("instance", "web-1")}
    )
    assert np.array_equal(buckets["+Inf"], count)


def test_logs_and_requests_can_be_read_by_any_tool(tmp_path: Path) -> None:
    write_files(tmp_path / "s", END_S, 6, 1)
    for path in (tmp_path / "s" / "logs").iterdir():
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        assert len(lines) == 5000
        assert [line["ts"] for line in lines] == sorted(line["ts"] for line in lines)
        assert {line["level"] for line in lines} == {"debug", "info", "warn", "error"}
    with duckdb.connect() as connection:
        days = connection.execute(
            f"select distinct date from '{tmp_path}/s/requests/**/*.parquet' order by 1"
        ).fetchall()
    assert [str(date) for (date,) in days] == ["2023-11-12", "2023-11-13", "2023-11-14"]


def test_twice_is_once_and_what_an_earlier_day_has_left_is_gone(
    elsewhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sample_data, "now_s", lambda: float(END_S))
    first = run()
    assert first.exit_code == 0, first.stderr
    written = list(Path("quarterdeck-sample").rglob("*.*"))
    count = samples_in(elsewhere / "crew" / "lake")
    monkeypatch.setattr(sample_data, "now_s", lambda: float(END_S + 86_400))
    assert run("--seed", "7").exit_code == 0
    assert 0.9 < samples_in(elsewhere / "crew" / "lake") / count < 1.1
    assert len(list(Path("quarterdeck-sample").rglob("*.*"))) == len(written)
    days = sorted(path.name for path in Path("quarterdeck-sample/requests").iterdir())
    assert days == ["date=2023-11-13", "date=2023-11-14", "date=2023-11-15"]
    listed = CliRunner().invoke(app, ["import", "--list", "--data-dir", "crew"])
    assert len(listed.stdout.splitlines()) == 2
    assert listed.stdout.endswith("to 2023-11-15T22:13:15Z\n")


def test_a_folder_with_something_else_in_it_is_left_alone(elsewhere: Path) -> None:
    (elsewhere / "mine").mkdir()
    (elsewhere / "mine" / "thesis.txt").write_text("long work")
    result = run("--dir", "mine")
    assert (result.exit_code, result.stdout) == (65, "")
    assert "there is something in it that this command has not written" in result.stderr
    assert [path.name for path in (elsewhere / "mine").iterdir()] == ["thesis.txt"]
    assert not (elsewhere / "crew").exists(), "and nothing was imported"


@pytest.mark.parametrize("listed", ['["../mine.txt"]', '["/etc/passwd"]', '["logs/../../mine.txt"]', "{", "[1"])
def test_a_list_that_names_what_is_not_below_is_not_followed(elsewhere: Path, listed: str) -> None:
    (elsewhere / "mine.txt").write_text("long work")
    (elsewhere / "quarterdeck-sample").mkdir()
    (elsewhere / "quarterdeck-sample" / "written-by-quarterdeck.json").write_text(listed)
    result = run()
    assert result.exit_code == 65
    assert "its list of files" in result.stderr
    assert (elsewhere / "mine.txt").read_text() == "long work"


def test_what_somebody_has_put_beside_it_stays(elsewhere: Path) -> None:
    assert run().exit_code == 0
    (elsewhere / "quarterdeck-sample" / "logs" / "mine.ndjson").write_text("{}\n")
    assert run().exit_code == 0
    assert (elsewhere / "quarterdeck-sample" / "logs" / "mine.ndjson").exists()


def test_without_a_crew_it_says_so_as_an_import_does(elsewhere: Path) -> None:
    result = CliRunner().invoke(app, ["sample-data"])
    assert (result.exit_code, result.stdout) == (69, "")
    assert "start one with `quarterdeck up`" in result.stderr
    assert list(elsewhere.iterdir()) == []
