"""`quarterdeck demo`: its data and its question, what it reads from the log, and all of it with real processes."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import duckdb
import pyarrow  # pyright: ignore[reportMissingTypeStubs] - it has none
import pytest

from quarterdeck.core.errors import ErrorCode, QuarterdeckError
from quarterdeck.scan.commands.demo import EXIT_WRONG, conclude
from quarterdeck.scan.commands.demo_question import FILES, SQL, Alone, merged, write_files
from quarterdeck.scan.commands.demo_story import Aftermath, Kill
from quarterdeck.terminal.documents import WorkerReport

arrow: Any = pyarrow
QUARTERDECK = str(Path(sys.executable).with_name("quarterdeck"))
WAIT_S = 100.0


def test_the_files_are_the_same_each_time_and_have_all_rows(tmp_path: Path) -> None:
    counted: list[int] = []
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        write_files(tmp_path / name, 9_999, lambda number: bool(counted.append(number)))
    names = sorted(path.name for path in (tmp_path / "a").iterdir())
    assert len(names) == FILES
    assert counted == [*range(1, FILES + 1)] * 2
    assert all((tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes() for name in names)
    alone = Alone(tmp_path / "a")
    try:
        assert sum(row[1] for row in alone.answer()) == 9_999
    finally:
        alone.close()


def test_writing_stops_when_it_is_told_to(tmp_path: Path) -> None:
    write_files(tmp_path, 10_000, lambda number: number == 3)
    assert len(list(tmp_path.iterdir())) == 3


def test_files_that_cannot_be_written_are_told_with_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(QuarterdeckError, match="TMPDIR") as caught:
        write_files(tmp_path / "missing", 10_000, lambda _: False)
    assert caught.value.code is ErrorCode.RESOURCE_EXHAUSTED


def test_what_groups_of_files_answer_each_is_merged_into_what_all_answer(tmp_path: Path) -> None:
    write_files(tmp_path, 20_000, lambda _: False)
    parts: list[Any] = []
    with duckdb.connect(":memory:") as engine:
        for path in sorted(tmp_path.iterdir()):
            engine.read_parquet(str(path)).create_view("files", replace=True)
            parts.append(engine.sql(SQL).to_arrow_table())
    alone = Alone(tmp_path)
    try:
        assert merged(arrow.concat_tables(parts)) == alone.answer()
        assert merged(arrow.concat_tables(parts[1:])) != alone.answer()
        assert merged(arrow.concat_tables([*parts, parts[0]])) != alone.answer()
    finally:
        alone.close()


def test_a_wrong_answer_is_an_error_that_says_what_is_wrong() -> None:
    said: list[str] = []
    assert conclude([("a", 1), ("b", 2)], [("a", 1), ("b", 3)], said.append) == EXIT_WRONG == 1
    assert "The answer is wrong" in said[0]
    assert said[1:] == ["  DuckDB alone has ('b', 3)", "  the crew has ('b', 2)"]


def test_a_right_answer_is_told() -> None:
    said: list[str] = []
    assert conclude([("a", 1)], [("a", 1)], said.append) == 0
    assert "to the last bit" in said[0]


KILL = Kill(WorkerReport("worker-2", "host", "accepting", 3, 1, 3, 0.1, None), 4711, 1_800_000_000.0, 16)


def log(tmp_path: Path, *records: tuple[float, str, dict[str, str]]) -> Path:
    path = tmp_path / "coordinator.log"
    lines = [
        json.dumps(
            {"timestamp": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(at)) + f".{round(at % 1 * 1e6):06}Z"}
            | {"event": event, **fields}
        )
        for at, event, fields in records
    ]
    path.write_text("some text\n" + "\n".join(lines) + "\n")
    return path


def test_the_log_tells_when_the_loss_was_noticed_and_when_works_went_to_others(tmp_path: Path) -> None:
    path = log(
        tmp_path,
        (1_799_999_990.0, "worker registers", {"worker_id": "worker-1", "session_id": "s1"}),
        (1_799_999_990.0, "worker registers", {"worker_id": "worker-2", "session_id": "s2"}),
        (1_799_999_999.0, "work assigned again", {}),
        (1_800_000_000.25, "session ended", {"session_id": "s2"}),
        (1_800_000_000.5, "work assigned again", {}),
        (1_800_000_001.5, "work assigned again", {}),
        (1_800_000_009.0, "session ended", {"session_id": "s1"}),
    )
    assert Aftermath.of(KILL, path) == Aftermath(0.25, (0.5, 1.5))


def test_a_log_that_does_not_tell_is_not_made_up(tmp_path: Path) -> None:
    assert Aftermath.of(KILL, log(tmp_path, (1_800_000_001.5, "work assigned again", {}))) is None


def start(tmp_path: Path, rows: int) -> "subprocess.Popen[str]":
    not_for_the_demo = {"QUARTERDECK_WORKER_SLOTS": "wrong", "http_proxy": "http://127.0.0.1:1"}
    environment = {**os.environ, **not_for_the_demo, "TMPDIR": str(tmp_path)}
    return subprocess.Popen(
        [QUARTERDECK, "demo", "--rows", str(rows)],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_a_worker_is_killed_and_the_answer_is_right(tmp_path: Path) -> None:
    with start(tmp_path, 700_000) as process:
        said, complaints = process.communicate(timeout=WAIT_S)
    assert process.returncode == 0, said + complaints
    assert complaints == ""
    (killed,) = re.findall(
        r"^ +[\d.]+ s  kill -9 (worker-\d) \(process \d+\), with \d works? in flight$", said, re.MULTILINE
    )
    assert re.search(rf"^ +[\d.]+ s  the coordinator has lost {killed}; its works go to others$", said, re.MULTILINE)
    # The demo looks at the crew some times a second: on a busy machine more than a third may be delivered by then.
    (delivered,) = re.findall(
        rf"^{killed} was killed when (\d+) of 48 works were delivered; it had \d in flight\.$", said, re.MULTILINE
    )
    assert 16 <= int(delivered) < 48
    (again,) = re.findall(r"The coordinator noticed after \d+ ms\. (\d+) works? went to others", said)
    (attempts,) = re.findall(r"48 works took (\d+) attempts; every result was counted once\.", said)
    assert int(attempts) == 48 + int(again) > 48
    assert "to the last bit" in said
    assert list(tmp_path.iterdir()) == []


def test_an_interrupted_demo_leaves_nothing_behind(tmp_path: Path) -> None:
    with start(tmp_path, 10_000_000) as process:
        assert process.stdout is not None
        while "writing" not in process.stdout.readline():
            pass
        process.send_signal(signal.SIGINT)
        _, complaints = process.communicate(timeout=WAIT_S)
    assert process.returncode == 130
    assert complaints == "quarterdeck: the demo was stopped: somebody asked for it; start it again any time\n"
    assert list(tmp_path.iterdir()) == []
