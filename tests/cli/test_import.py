"""`quarterdeck import`: what it says, what it leaves, and the exit code a script sees."""

import asyncio
import gzip
import shutil
import signal
import subprocess
import sys
import time
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pyarrow as _pyarrow  # pyright: ignore[reportMissingTypeStubs] - it has none
import pyarrow.parquet as _parquet  # pyright: ignore[reportMissingTypeStubs]
import pytest
from typer.testing import CliRunner, Result

from quarterdeck.command import app
from quarterdeck.metrics.catalog import Catalog
from quarterdeck.metrics.model import Segment
from quarterdeck.metrics.tables import METRICS_SCHEMA
from quarterdeck.stores.database.inline import InlineDatabase
from quarterdeck.stores.database.opening import open_database
from quarterdeck.terminal.short_numbers import shown_size
from tests.cli.terminal import at_terminal, plain

pq: Any = _parquet
pa: Any = _pyarrow

METRICS = 'up{job="a"} 1 1\nup{job="a"} 2 2\nup{job="b"} 3 1\n# EOF\n'
TIMES = "from 1970-01-01T00:00:01Z to 1970-01-01T00:00:02Z"
NOBODY = "http://127.0.0.1:9"
"""Where no crew answers: the port of `discard`."""


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """With the folder of a crew that does not run."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("QUARTERDECK_URL", NOBODY)
    (tmp_path / "a.om").write_text(METRICS)
    (tmp_path / "quarterdeck-data" / "coordinator").mkdir(parents=True)
    return tmp_path


def imported(*arguments: str, read: str | bytes | None = None) -> Result:
    return CliRunner().invoke(app, ["import", *arguments], input=read, env={"COLUMNS": "200"})


def segments_in(lake: Path, tenant: str = "default") -> tuple[Segment, ...]:
    with closing(open_database(lake / "catalog.db", (METRICS_SCHEMA,))) as database:
        catalog = Catalog(InlineDatabase(database), str(lake / "segments"))
        return asyncio.run(catalog.universe(tenant)).segments


def samples_in(lake: Path, tenant: str = "default") -> int:
    return sum(segment.row_count for segment in segments_in(lake, tenant))


def test_a_file_is_imported_once_and_both_times_it_is_said_what_was_done_and_where(elsewhere: Path) -> None:
    lake = elsewhere / "quarterdeck-data" / "lake"
    result = imported("a.om")
    assert result.exit_code == 0
    (segment,) = segments_in(lake)
    size = shown_size(segment.object.size_bytes)
    assert result.stdout == f"a.om: 3 samples of 2 series in 1 segment, {size}, {TIMES}\nlake: {lake}\n"
    assert result.stderr.splitlines() == [
        f"no crew answers at {NOBODY} (connection refused); the one that is started with {lake} will have it",
        f"importing into {lake}",
    ]
    again = imported("a.om")
    assert again.exit_code == 0
    assert again.stdout == f"a.om: was imported before, with 3 samples, {TIMES}; nothing to do\nlake: {lake}\n"
    assert samples_in(lake) == 3


def test_importing_again_replaces_and_the_list_has_it_once(elsewhere: Path) -> None:
    told = f"lake: {elsewhere}/quarterdeck-data/lake"
    assert imported("--list").stdout == f"{told}\nnothing was imported for default\n"
    assert not (elsewhere / "quarterdeck-data" / "lake").exists(), "a list makes nothing"
    imported("a.om")
    (segment,) = segments_in(elsewhere / "quarterdeck-data" / "lake")
    Path(segment.object.url).unlink()
    again = imported("a.om", "--again")
    assert again.exit_code == 0
    assert again.stdout.startswith("a.om: 3 samples of 2 series in 1 segment, ")
    (segment,) = segments_in(elsewhere / "quarterdeck-data" / "lake")
    assert Path(segment.object.url).is_file()
    listed = imported("--list")
    assert listed.exit_code == 0
    head, line = listed.stdout.splitlines()
    assert head == told
    assert line.endswith(f"a.om: 3 samples of 2 series, {TIMES}")
    assert line[19:22] == "Z  ", "the time of the import says its zone, as all times that are told"


def test_without_files_it_says_what_is_missing() -> None:
    result = imported()
    assert result.exit_code == 65
    assert "name at least one" in result.stderr


def test_it_goes_where_a_crew_of_that_folder_looks(elsewhere: Path) -> None:
    assert imported("a.om", "--data-dir", "crew").exit_code == 0
    assert samples_in(elsewhere / "crew" / "lake") == 3
    assert not (elsewhere / "quarterdeck-data" / "lake").exists()
    assert not (elsewhere / "crew" / "coordinator").exists()


@pytest.mark.parametrize("more", [(), ("--list",), ("--offline",)])
def test_without_a_crew_nothing_is_written_to_a_folder_that_none_has_used(
    elsewhere: Path, more: tuple[str, ...]
) -> None:
    shutil.rmtree(elsewhere / "quarterdeck-data")
    result = imported("a.om", *more)
    assert (result.exit_code, result.stdout) == (69, "")
    why = "no crew was asked" if "--offline" in more else f"no crew answers at {NOBODY} (connection refused)"
    assert (
        f"the lake was not opened: {why}, and {elsewhere}/quarterdeck-data is not the folder of a crew" in result.stderr
    )
    assert "start one with `quarterdeck up`" in result.stderr
    assert "--data-dir" in result.stderr
    assert not (elsewhere / "quarterdeck-data").exists()


def test_it_goes_where_the_settings_say(elsewhere: Path) -> None:
    (elsewhere / "c.yaml").write_text(f"coordinator:\n  metrics:\n    lake_url: {elsewhere}/x/segments\n")
    result = imported("a.om", "--config", "c.yaml", "--set", f"database_url={elsewhere}/x/catalog.db")
    assert result.exit_code == 0, result.stderr
    (segment,) = segments_in(elsewhere / "x")
    assert Path(segment.object.url).is_file()


def test_what_was_left_out_for_a_later_sample_is_told(elsewhere: Path) -> None:
    (elsewhere / "b.prom").write_text("up 1 1000\nup 2 1000\nup 3 2000\n")
    assert "; 1 sample left out for a later one of the same series and time" in imported("b.prom").stdout


def test_tenants_and_shards_are_as_asked(elsewhere: Path) -> None:
    assert imported("a.om", "--tenant", "a/b", "--shards", "4").exit_code == 0
    segments = segments_in(elsewhere / "quarterdeck-data" / "lake", "a/b")
    assert {segment.shard_count for segment in segments} == {4}
    assert samples_in(elsewhere / "quarterdeck-data" / "lake") == 0


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--shards", "3"), "3 is not a power of two"),
        (("--shards", "128"), "less than or equal to 64"),
        (("--tenant", ""), "nobody could ask for such a name"),
        (("--tenant", " a"), "nobody could ask for such a name"),
        (("--metric", "m", "--metric-column", "m"), "metric"),
        (("--set", "nonsense"), "NAME=VALUE"),
        (("--format", "csv"), "csv"),
    ],
)
def test_what_makes_no_sense_is_refused_before_anything_is_done(
    elsewhere: Path, arguments: tuple[str, ...], told: str
) -> None:
    result = imported("a.om", *arguments)
    assert result.exit_code == 65
    assert told in result.stderr
    assert not (elsewhere / "quarterdeck-data" / "lake").exists()


@pytest.mark.parametrize("words", [("a.om",), ("--list",)])
def test_wrong_settings_are_no_coordinator_that_was_not_started(elsewhere: Path, words: tuple[str, ...]) -> None:
    result = imported(*words, "--set", "s3.endpoint=http://127.0.0.1:1")
    assert result.exit_code == 65
    first, problem, last = result.stderr.splitlines()
    assert first == "quarterdeck: the lake was not opened, because its settings are wrong:"
    assert "takes s3.allow_http" in problem
    assert last.startswith("correct them and try again; ")


def test_a_setting_that_is_wrong_is_told(elsewhere: Path) -> None:
    result = imported("a.om", "--set", "database_url=mysql://x")
    assert (result.exit_code, result.stdout) == (65, "")
    assert "is not the URL of a database" in result.stderr


def test_a_name_that_says_nothing_stops_all_before_the_first(elsewhere: Path) -> None:
    (elsewhere / "b.txt").write_text(METRICS)
    result = imported("a.om", "b.txt")
    assert (result.exit_code, result.stdout) == (65, "")
    assert (
        "b.txt was not imported: its name does not end with one of .om, .openmetrics, .prom, .parquet" in result.stderr
    )
    assert "--format: openmetrics, prometheus, parquet" in result.stderr
    assert imported("b.txt", "--format", "openmetrics").exit_code == 0


def test_compressed_files_are_known_by_the_name_before_that(elsewhere: Path) -> None:
    (elsewhere / "c.OM.gz").write_bytes(gzip.compress(METRICS.encode()))
    assert imported("c.OM.gz").exit_code == 0
    (elsewhere / "d.gz").write_bytes(gzip.compress(METRICS.encode()))
    assert imported("d.gz").exit_code == 65


@pytest.mark.parametrize(
    ("name", "content", "code", "told"),
    [
        ("cut.om", METRICS.removesuffix("# EOF\n"), 65, "# EOF"),
        ("bad.om", "up{ 1\n# EOF\n", 65, "bad.om line 1 cannot be imported"),
        ("torn.om.gz", gzip.compress(METRICS.encode() * 100, mtime=0)[:-20], 65, "torn.om.gz"),
        ("not.parquet", "PAR1 and more", 65, "not.parquet"),
    ],
    ids=["cut off", "bad line", "torn", "no parquet"],
)
def test_one_that_fails_is_told_and_the_others_are_imported_all_the_same(
    elsewhere: Path, name: str, content: str | bytes, code: int, told: str
) -> None:
    (elsewhere / name).write_bytes(content.encode() if isinstance(content, str) else content)
    result = imported(name, "a.om")
    assert result.exit_code == code
    assert "\nquarterdeck: " in result.stderr
    assert told in result.stderr
    assert result.stdout.startswith("a.om: 3 samples")
    assert samples_in(elsewhere / "quarterdeck-data" / "lake") == 3


def test_a_file_that_is_not_there_and_a_folder_are_told(elsewhere: Path) -> None:
    (elsewhere / "folder.om").mkdir()
    result = imported("nothing.om", "folder.om")
    assert result.exit_code == 65
    assert "nothing.om cannot be imported: there is no such file" in result.stderr
    assert "folder.om cannot be imported: it is a folder" in result.stderr
    assert imported("nothing.om").exit_code == 66


@pytest.mark.parametrize("name", ["~/b c.om", "file://{}/home/b%20c.om", "folder/../home/b c.om"])
def test_a_name_means_here_what_it_means_to_a_scan(elsewhere: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    (elsewhere / "home").mkdir()
    (elsewhere / "home" / "b c.om").write_text(METRICS)
    (elsewhere / "folder").mkdir()
    monkeypatch.setenv("HOME", str(elsewhere / "home"))
    result = imported(name.format(elsewhere))
    assert (result.exit_code, samples_in(elsewhere / "quarterdeck-data" / "lake")) == (0, 3), result.stderr
    assert f"  {name.format(elsewhere)}: 3 samples" in imported("--list").stdout, "as it was typed"


def test_a_home_that_nobody_has_is_told_before_anything_is_done(elsewhere: Path) -> None:
    result = imported("a.om", "~nobody-of-this-name/b.om")
    assert (result.exit_code, result.stdout) == (65, "")
    assert "~nobody-of-this-name/b.om" in result.stderr


def test_a_lake_that_cannot_be_written_to_is_told_and_nothing_is_imported(elsewhere: Path) -> None:
    lake = elsewhere / "quarterdeck-data" / "lake"
    lake.mkdir(parents=True)
    (lake / "segments").write_text("in the way")
    result = imported("a.om")
    assert (result.exit_code, result.stdout) == (69, f"lake: {lake}\n")
    assert str(lake / "segments") in result.stderr
    assert samples_in(lake) == 0
    (lake / "segments").unlink()
    assert imported("a.om").exit_code == 0


PAGE = '# TYPE up gauge\nup{job="a"} 1\nup{job="b c"} 0\nold 5 1000\n'


def test_a_page_without_times_is_read_from_standard_input_and_gets_the_time_that_is_said(elsewhere: Path) -> None:
    result = imported("-", "--format", "prometheus", "--at", "2023-11-14T22:13:20Z", read=PAGE)
    assert result.exit_code == 0, result.stderr
    told, _ = result.stdout.splitlines()
    assert told.startswith("standard input: 3 samples of 3 series in 1 segment, ")
    assert told.endswith("from 1970-01-01T00:00:01Z to 2023-11-14T22:13:20Z"), "who has a time keeps it"
    other = imported("-", "--format", "prometheus", "--at", "2023-11-14T22:13:21Z", read=PAGE)
    assert "3 samples" in other.stdout, "another time is another import"
    assert "nothing to do" in imported("-", "--format", "prometheus", "--at", "1700000001", read=PAGE).stdout
    assert samples_in(elsewhere / "quarterdeck-data" / "lake") == 6


def test_of_standard_input_it_is_seen_what_it_is_where_that_is_certain(elsewhere: Path) -> None:
    assert imported("-", read=METRICS).stdout.startswith("standard input: 3 samples of 2 series")
    pq.write_table(pa.table({"metric": ["m"], "labels": ["{}"], "timestamp": [1], "value": [1.0]}), "m.parquet")
    table = (elsewhere / "m.parquet").read_bytes()
    assert imported("-", read=table).stdout.startswith("standard input: 1 sample of 1 series")
    for read, why in ((PAGE, "does not end with # EOF"), (gzip.compress(METRICS.encode()), "it is compressed")):
        result = imported("-", read=read)
        assert result.exit_code == 65
        assert why in result.stderr
        assert "--format: openmetrics, prometheus, parquet" in result.stderr
    packed = imported("-", "--format", "openmetrics", read=gzip.compress(METRICS.encode()))
    assert packed.stdout.startswith("standard input: 3 samples of 2 series")
    assert samples_in(elsewhere / "quarterdeck-data" / "lake") == 7


def test_a_mistake_in_standard_input_is_told_with_its_line_and_nothing_is_left_behind(
    elsewhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spools = elsewhere / "spools"
    spools.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(spools))
    result = imported("-", "--format", "openmetrics", read="up{ 1\n# EOF\n")
    assert result.exit_code == 65
    assert "standard input line 1 cannot be imported" in result.stderr
    assert "--at now" in imported("-", "--format", "prometheus", read=PAGE).stderr
    assert list(spools.iterdir()) == []


def test_a_stream_that_does_not_end_is_ended(elsewhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("quarterdeck.metrics.commands.import_inputs.MOST_COPIED_BYTES", 20)
    result = imported("-", "--format", "prometheus", read=PAGE)
    assert result.exit_code == 82
    assert "standard input was not imported: it is longer than" in result.stderr
    assert samples_in(elsewhere / "quarterdeck-data" / "lake") == 0


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (("-", "-"), 65, "standard input can be read once"),
        (("a.om", "--at", "yesterday"), 65, "--at was not understood"),
        (("https://example.org/a.om",), 65, "https is not a kind of store we know"),
    ],
)
def test_what_cannot_be_meant_is_told_before_anything_is_done(
    elsewhere: Path, arguments: tuple[str, ...], code: int, told: str
) -> None:
    result = imported(*arguments)
    assert (result.exit_code, result.stdout) == (code, "")
    assert told in result.stderr
    assert not (elsewhere / "quarterdeck-data" / "lake").exists()


def test_a_time_for_samples_without_one_is_not_for_parquet_and_nothing_is_done(elsewhere: Path) -> None:
    pq.write_table(pa.table({"metric": ["m"], "labels": ["{}"], "timestamp": [1], "value": [1.0]}), "m.parquet")
    result = imported("m.parquet", "a.om", "--at", "now")
    assert result.exit_code == 65
    assert "--at is for text" in result.stderr
    assert not (elsewhere / "quarterdeck-data" / "lake").exists(), "nothing was imported of the other one either"


def test_parquet_is_read_by_the_columns_that_are_named(elsewhere: Path) -> None:
    columns = {"ts": [1, 2], "v": [1.0, 2.0], "host": ["a", "b"]}
    pq.write_table(pa.table(columns), elsewhere / "t.parquet")
    named = ("--metric", "cpu", "--timestamp-column", "ts", "--timestamp-unit", "s", "--value-column", "v")
    result = imported("t.parquet", *named, "--label-column", "host")
    assert result.stdout.startswith("t.parquet: 2 samples of 2 series"), result.stderr
    missing = imported("t.parquet", *named, "--label-column", "hosts")
    assert missing.exit_code == 65
    assert "hosts" in missing.stderr
    assert imported("t.parquet").exit_code == 65
    other = imported("t.parquet", *named[:4], "--timestamp-unit", "ms", *named[6:], "--label-column", "host")
    assert "2 samples" in other.stdout, "read otherwise it is another import"
    (segment, _) = segments_in(elsewhere / "quarterdeck-data" / "lake")
    assert (segment.min_ts_ms, segment.max_ts_ms) == (1000, 2000)


def test_a_name_that_a_terminal_would_obey_is_shown_and_not_obeyed(elsewhere: Path) -> None:
    (elsewhere / "\x1b[2J.om").write_text(METRICS)
    assert imported("\x1b[2J.om").stdout.startswith("\\x1b[2J.om: 3 samples")


def test_a_terminal_shows_how_far_it_is_and_in_the_end_only_the_answer(elsewhere: Path) -> None:
    (elsewhere / "[bold]b.om").write_text("".join(f'up{{i="{i}"}} 1 1000\n' for i in range(2000)) + "# EOF\n")
    with at_terminal("import", "[bold]b.om", "--data-dir", str(elsewhere / "t"), columns=120) as terminal:
        written = terminal.read_all()
    assert terminal.process.returncode == 0
    assert "[bold]b.om" in plain(written)
    assert "samples" in plain(written)
    last, target = plain(written).strip().splitlines()[-2:]
    assert last.strip().startswith("[bold]b.om: 2,000 samples of 2,000 series")
    assert target.strip() == f"lake: {elsewhere}/t/lake"


def reads(pid: int, file: Path) -> bool:
    with suppress(FileNotFoundError):  # one may be closed while it is looked at
        return any(each.resolve() == file for each in Path(f"/proc/{pid}/fd").iterdir())
    return False


def test_who_interrupts_it_gets_one_line_and_nothing_is_imported(elsewhere: Path) -> None:
    imported("a.om")
    with (elsewhere / "slow.om").open("w") as out:
        out.writelines(f'much{{n="{number}"}} 1 {number}\n' for number in range(2_000_000))
        out.write("# EOF\n")
    process = subprocess.Popen(
        [sys.executable, "-m", "quarterdeck", "import", "slow.om"], stderr=subprocess.PIPE, cwd=elsewhere, text=True
    )
    while not reads(process.pid, elsewhere / "slow.om"):  # then it has seconds of work before it
        assert process.poll() is None
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    _, told = process.communicate(timeout=60)
    assert (process.returncode, told.splitlines()[-1]) == (130, "quarterdeck: interrupted")
    assert samples_in(elsewhere / "quarterdeck-data" / "lake") == 3


COUNTERS = """# TYPE hits counter
hits_total 1 1000
hits_created 0.5 1000
# EOF
"""


def columns_in(lake: Path) -> list[list[str]]:
    return [pq.read_schema(segment.object.url).names for segment in segments_in(lake)]


def test_created_lines_are_metrics_unless_they_are_asked_to_be_start_timestamps(elsewhere: Path) -> None:
    (elsewhere / "hits.om").write_text(COUNTERS)
    assert imported("hits.om").stdout.startswith("hits.om: 2 samples of 2 series")
    assert all("start_timestamp" not in names for names in columns_in(elsewhere / "quarterdeck-data" / "lake"))
    result = imported("hits.om", "--created-timestamps", "--data-dir", "other")
    assert result.stdout.startswith("hits.om: 1 sample of 1 series")
    assert all("start_timestamp" in names for names in columns_in(elsewhere / "other" / "lake"))
    assert "1 sample of 1 series" in imported("hits.om", "--created-timestamps").stdout, "it is another import"


def test_start_timestamps_of_parquet_are_taken_from_the_column_that_is_named(elsewhere: Path) -> None:
    columns = {"ts": pa.array([1000, 2000]), "v": pa.array([1.0, 2.0]), "began": pa.array([None, 1500], pa.int64())}
    columns["v_name"] = pa.array(["x", "x"])
    pq.write_table(pa.table(columns), elsewhere / "a.parquet")
    options = ("--metric", "m_total", "--timestamp-column", "ts", "--value-column", "v", "--label-column", "i=v_name")
    result = imported("a.parquet", *options, "--start-timestamp-column", "began")
    assert result.exit_code == 0, result.stderr
    [names] = columns_in(elsewhere / "quarterdeck-data" / "lake")
    assert names == ["metric", "labels", "timestamp", "value", "start_timestamp"]


def test_created_timestamps_of_other_formats_are_refused_before_anything_is_done(elsewhere: Path) -> None:
    (elsewhere / "b.prom").write_text("up 1 1000\n")
    result = imported("a.om", "b.prom", "--created-timestamps")
    assert result.exit_code != 0
    assert "only OpenMetrics has lines for --created-timestamps" in result.stderr
    assert not (elsewhere / "quarterdeck-data" / "lake").exists()
