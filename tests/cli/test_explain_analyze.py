"""`quarterdeck explain --analyze`: the plan, a bar for each attempt, and the totals."""

from collections.abc import Iterator
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from quarterdeck.command import app
from quarterdeck.metrics.commands.explain_report import AttemptReport
from quarterdeck.metrics.commands.explain_timeline import bar, show_shards
from tests.cli.answers import failure, matrix
from tests.cli.scripted import Script, scripted_coordinator
from tests.cli.terminal import COLOURS, MOVEMENTS, at_terminal, plain

RANGE = "/api/v1/query_range"
ANALYZE = ("--analyze", "--last", "6h", "--end", "1700000000")


def attempt(worker: str, *times_ms: float | None, outcome: str = "done", error: str | None = None) -> dict[str, Any]:
    assigned_ms, ready_ms, fetched_ms = times_ms
    return {
        "worker_id": worker,
        "outcome": outcome,
        "error": error,
        "assigned_ms": assigned_ms,
        "ready_ms": ready_ms,
        "fetched_ms": fetched_ms,
    }


def work(number: int, *attempts: dict[str, Any]) -> dict[str, Any]:
    report = {
        "samples": 890_000 + number,
        "series": 312,
        "cache_hits": 4,
        "cache_misses": 1,
        "bytes_read": 1024,
        "row_groups_read": 12,
        "row_groups_pruned": 30,
        "load_ms": 3.0,
        "evaluate_ms": 12.0,
        "write_ms": 1.0,
    }
    return {
        "work_id": f"work-{number}",
        "shards": [2 * number, 2 * number + 1],
        "segments": 4,
        "rows_estimated": 900_000,
        "attempts": list(attempts),
        "report": report if attempts else None,
        "artifact_bytes": 12_345,
    }


def leaf(text: str, *works: dict[str, Any]) -> dict[str, Any]:
    return {"id": text, "text": text, "merge": "combine", "segments": {"pruned": 128, "read": 32}, "works": list(works)}


def explanation(*leaves: dict[str, Any], **more: Any) -> dict[str, Any]:
    phases = {"queued": 0.1, "planning": 0.8, "executing": 30.0, "fetching": 3.1, "evaluating": 4.0}
    return {
        "query_id": "q-7",
        "plan": "361 steps of 1m\nleaf 0",
        "total_ms": 40.0,
        "phases": {f"{name}_ms": value for name, value in phases.items()},
        "segments": {"known": 160, "pruned": 128, "read": 32, "unreadable": 0},
        "leaves": list(leaves),
        "samples": 7_100_000,
        "series": 5000,
        "bytes_fetched": 2048,
        "peak_memory_bytes": 3 * 1024**2,
        **more,
    }


LOST = attempt("w2", 10.0, None, None, outcome="lost", error="the session\x1b ended")
TWO_LEAVES = (
    leaf("rate(m[5m])", work(0, attempt("w1", 0.0, 20.0, 30.0)), work(1, LOST, attempt("w3", 20.0, 30.0, 40.0))),
    leaf("up", work(2, attempt("worker-with-a-very-long-name", 5.0, 5.0, 5.0))),
)


@pytest.fixture
def script() -> Iterator[Script]:
    with scripted_coordinator() as script:
        explain_as(script, explanation(*TWO_LEAVES))
        yield script


def explain_as(script: Script, explained: Any, **more: Any) -> None:
    status, document = matrix(({}, [1]), **more)
    document["data"]["explain"] = explained
    script.answers[RANGE] = (status, document)


def explain(script: Script, *words: str) -> Result:
    arguments = ["explain", "sum(m)", "--url", script.url, *(words or ANALYZE)]
    return CliRunner().invoke(app, arguments, env={"COLUMNS": "80"})


def test_the_query_is_run_and_asked_to_explain_itself(script: Script) -> None:
    assert explain(script, *ANALYZE, "--tenant", "t", "--timeout", "5s").exit_code == 0
    [(_, path, headers, form)] = script.asked
    assert path == RANGE
    assert headers["x-scope-orgid"] == "t"
    assert form == {
        "query": "sum(m)",
        "start": str(1_700_000_000 - 6 * 3600),
        "end": "1700000000",
        "step": "60",
        "timeout": "5s",
        "explain": "analyze",
    }


def test_an_instant_query_can_be_analyzed(script: Script) -> None:
    script.answers["/api/v1/query"] = script.answers[RANGE]
    assert explain(script, "--analyze", "--last", "0").exit_code == 0
    assert script.asked[0][3] == {"query": "sum(m)", "explain": "analyze"}


def test_plan_timeline_and_totals_are_shown(script: Script) -> None:
    result = explain(script)
    assert result.exit_code == 0
    lines = [line.rstrip() for line in result.stdout.splitlines()]
    bars = 120 - len("shards") - 16 - 2 - 20
    quarter = bars // 4
    assert lines[:2] == ["361 steps of 1m", "leaf 0"]
    assert lines[3] == "·· waiting  ██ executing  ▒▒ fetching  xx in vain"
    assert lines[5] == "rate(m[5m])  combine; 32 segments read, 128 pruned; 2 works"
    worker = "worker".ljust(16)
    assert lines[6].startswith(f"shards {worker} 0{' ' * (bars - 5)}40.0")
    rows = [line.split(None, 2) for line in lines[7:10]]
    assert rows[0][:2] == ["0-1", "w1"]
    assert rows[0][2].split() == ["█" * (bars // 2) + "▒" * quarter, "30.0", "890,000"]
    assert rows[1][:2] == ["2-3", "w2"]
    assert rows[1][2].split() == ["·" * quarter + "x" * quarter, "10.0", "lost"]
    assert lines[9].split() == ["w3", "·" * 2 * quarter + "█" * quarter + "▒" * (bars - 3 * quarter), "20.0", "890,001"]
    assert lines[10] == r"shards 2-3: w2 lost: the session\x1b ended"
    assert any(line.startswith("4-5    worker-with-a-v… ") for line in lines)


def test_the_totals_add_up(script: Script) -> None:
    lines = [" ".join(line.split()) for line in explain(script).stdout.splitlines()]
    assert lines[lines.index("query q-7") :] == [
        "query q-7",
        "time 40.0 ms: queued 0.1, planning 0.8, executing 30.0, fetching 3.1, evaluating 4.0",
        "segments 32 read, 128 pruned of 160",
        "samples 7,100,000 of 5,000 series",
        "works 3, 1 attempt repeated",
        "cache 12 hits, 3 misses",
        "row groups 36 read, 90 pruned",
        "read 3.0 KiB",
        "fetched 2.0 KiB",
        "memory 3.0 MiB at most",
    ]


def test_segments_that_could_not_be_read_are_loud(script: Script) -> None:
    segments = {"known": 2, "pruned": 0, "read": 1, "unreadable": 1}
    explain_as(script, explanation(segments=segments), warnings=["partial answer"])
    result = explain(script)
    assert "1 UNREADABLE" in result.stdout
    assert "THE ANSWER IS NOT WHOLE" in result.stderr


def test_of_many_works_the_slowest_are_shown(script: Script) -> None:
    works = [work(number, attempt("w", 0.0, number / 10, number / 10)) for number in range(300)]
    explain_as(script, explanation(leaf("m", *works)))
    lines = explain(script).stdout.splitlines()
    assert [line.split()[0] for line in lines if "█" in line][1:] == [f"{2 * n}-{2 * n + 1}" for n in range(280, 300)]
    assert "… and 280 more works, each faster than these" in lines


def test_a_query_without_works_and_a_work_that_nobody_had_are_shown(script: Script) -> None:
    explain_as(script, explanation(leaf("m", work(0)), leaf("n")))
    assert "nobody" in explain(script).stdout
    explain_as(script, explanation())
    assert "no work was given to the crew" in explain(script).stdout


def test_a_bar_at_a_terminal_is_coloured_by_phase(script: Script) -> None:
    with at_terminal("explain", "m", "--url", script.url, *ANALYZE, columns=100) as terminal:
        written = terminal.read_all()
    assert COLOURS.search(written)
    assert not MOVEMENTS.search(written)
    assert "\x1b[32m█" in written
    assert "\x1b[36m▒" in written
    assert max(len(line) for line in plain(written).splitlines()) <= 100


def attempted(assigned_ms: float | None, ready_ms: float | None, fetched_ms: float | None) -> AttemptReport:
    return AttemptReport("w", "done", None, assigned_ms, ready_ms, fetched_ms)


@pytest.mark.parametrize(
    ("times_ms", "total_ms", "drawn"),
    [
        ((2, 6, 8), 10, "··████▒▒"),
        ((0, 10, 10), 10, "██████████"),
        ((5, 5.01, 5.02), 10, "·····█"),
        ((10, 10, 10), 10, "·········█"),
        ((0, 0, 0), 0, "█"),
        ((0, 50, 90), 10, "██████████"),
    ],
)
def test_a_bar_is_always_seen_and_never_too_long(times_ms: Any, total_ms: float, drawn: str) -> None:
    one = attempted(*times_ms)
    assert bar(one, times_ms[2], total_ms, 10).plain == drawn


def test_shards_are_short() -> None:
    assert [show_shards(shards) for shards in ([3, 4, 5], [1, 3], [2])] == ["3-5", "1,3", "2"]


# Errors


def test_a_server_that_does_not_explain_is_no_coordinator_of_this_release(script: Script) -> None:
    wrong: list[Any] = [None, {}, [], {"query_id": 1}, explanation(leaves=[{}]), explanation(samples=None)]
    for explained in wrong:
        explain_as(script, explained)
        result = explain(script)
        assert result.exit_code == 76, explained
        assert result.stdout == ""


def test_a_wrong_query_is_shown_with_its_place(script: Script) -> None:
    script.answers[RANGE] = failure(400, "bad_data", "1:4: parse error: no")
    result = explain(script)
    assert result.exit_code == 65
    assert result.stderr.splitlines()[1:] == ["  sum(m)", "     ^"]


@pytest.mark.parametrize("option", ["--end", "--timeout", "--tenant"])
def test_what_is_for_running_needs_a_run(script: Script, option: str) -> None:
    assert explain(script, option, "1").exit_code == 65
    assert script.asked == []
