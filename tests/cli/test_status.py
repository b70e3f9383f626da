"""`quarterdeck status`: what is on the screen, and what when there is no coordinator."""

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from rich.console import Console
from typer.testing import CliRunner, Result

from quarterdeck.cli import status as status_module
from quarterdeck.command import app
from quarterdeck.terminal.crew_table import crew_screen
from quarterdeck.terminal.documents import CrewReport, DiskReport, QueryReport, WorkerReport
from tests.cli.scripted import Script, crew, error, query, scripted_coordinator, worker


@pytest.fixture
def script() -> Iterator[Script]:
    with scripted_coordinator() as script:
        yield script


def status(url: str, *arguments: str) -> Result:
    return CliRunner().invoke(app, ["status", "--url", url, *arguments], env={"COLUMNS": "200"})


def lines(result: Result) -> list[list[str]]:
    return [line.split() for line in result.stdout.splitlines()]


def test_the_crew_is_shown_with_all_its_figures(script: Script) -> None:
    script.answers["/v1/crew"] = (
        200,
        crew(
            worker("worker-10"),
            worker("worker-2", state="draining", in_flight=0, disk=None),
            queue_depth=7,
            oldest_age_s=1.25,
            queries=2,
        ),
    )
    result = status(script.url)
    assert result.exit_code == 0
    shown = [" ".join(line) for line in lines(result)]
    assert shown[0] == "host-1234 2 queries running, 7 works waiting, the oldest for 1.2 s"
    assert shown[2] == "worker node state busy credit cache results free disk heard"
    assert shown[3] == "worker-2 host draining 0/2 6 0.2 s"
    assert shown[4] == "worker-10 host accepting 1/2 6 0 B 1.5 KiB 20.0 GiB 0.2 s"


@pytest.mark.parametrize(
    "leader, words",
    [
        (None, "nobody leads"),
        ({"name": "c1", "fence": 3, "is_this_one": False}, "c1 leads"),
        ({"name": "host-1234", "fence": 3, "is_this_one": True}, "leads"),
    ],
)
def test_where_a_leader_is_elected_the_first_line_says_which(
    script: Script, leader: dict[str, Any] | None, words: str
) -> None:
    script.answers["/v1/crew"] = (200, {**crew(), "leader": leader})
    assert (
        status(script.url).stdout.splitlines()[0].rstrip()
        == f"host-1234   0 queries running, 0 works waiting   {words}"
    )


def test_in_a_narrow_window_the_name_of_the_node_gives_way(script: Script) -> None:
    script.answers["/v1/crew"] = (200, crew(worker(node="a-machine-with-a-long-name.example.net")))
    result = CliRunner().invoke(app, ["status", "--url", script.url], env={"COLUMNS": "80"})
    assert "a-mach" in result.stdout
    console = Console(width=80)
    disk = DiskReport(0, 1536, 20 * 1024**3)
    told = WorkerReport("worker-1", "a-machine-with-a-long-name", "accepting", 1, 2, 6, 0.25, disk)
    with console.capture() as capture:
        console.print(crew_screen(CrewReport("c", 0, 0.0, 0, (told,)), ()))
    shown = capture.get().splitlines()[3]
    assert len(shown) <= 80
    assert re.fullmatch(r"worker-1 +a-mach\S*… +accepting +1/2 +6 +1\.5 KiB +0 B +20\.0 GiB +0\.2 s *", shown)


def test_the_last_queries_are_shown(script: Script) -> None:
    running = query(
        query_id="f" * 32, kind="search", text="level=error", state="running", delivered=2, duration_s=None, attempts=3
    )
    script.answers["/v1/queries"] = (200, [running, *[query() for _ in range(9)]])
    shown = lines(status(script.url))
    assert ["query", "kind", "state", "text", "works", "rows", "age", "took"] in shown
    (first,) = [line for line in shown if line[:1] == ["f" * 8]]
    assert first[1:] == ["search", "running", "level=error", "2/4", "1,234", "1", "min"]
    ended = [line for line in shown if line[:1] == ["01234567"]]
    assert len(ended) == 4
    text = ["select", "count(*)", "from", "files"]
    assert ended[0][1:] == ["scan", "succeeded", *text, "4/4", "+2", "1,234", "1", "min", "1.50", "s"]


def test_why_a_query_failed_stands_below_it(script: Script) -> None:
    failed = query(state="failed", error={"code": "work_failed", "message": "there is no column x"})
    gone = query(query_id="e" * 32, state="canceled", error={"code": "canceled", "message": "y" * 1000})
    script.answers["/v1/queries"] = (200, [failed, query(), gone])
    shown = status(script.url).stdout
    assert "01234567 failed: there is no column x\n" in shown
    assert "eeeeeeee canceled:" in shown
    assert shown.count("y") < 500


def queries_at(width: int, *told: QueryReport) -> list[str]:
    console = Console(width=width)
    with console.capture() as capture:
        console.print(crew_screen(CrewReport("c", 0, 0.0, 0, ()), told))
    lines = capture.get().splitlines()
    return lines[lines.index(next(line for line in lines if line.startswith("query"))) :]


def a_query(**fields: Any) -> QueryReport:
    plain = QueryReport(
        "0123456789abcdef", "metrics", "x" * 500, "default", "succeeded", 120, 120, 123, {}, 1_234_567, 60.0, 12.5, None
    )
    return replace(plain, **fields)


@pytest.mark.parametrize("width", [80, 200])
def test_the_text_of_a_query_takes_what_is_left_of_the_window(width: int) -> None:
    _, row = queries_at(width, a_query())
    assert len(row) == width
    assert row.startswith("01234567 metrics succeeded xxx")
    assert row.rstrip().endswith("x… 120/120 +3 1,234,567 1 min 12.50 s")
    assert row.count("x") == width - 64


def test_tenants_are_shown_where_there_are_any() -> None:
    assert "tenant" not in queries_at(80, a_query())[0]
    head, _, row = queries_at(80, a_query(), a_query(tenant="a-tenant-with-a-long-name", text="up"))
    assert head.split()[3] == "tenant"
    assert row.split()[3:5] == ["a-tenant-wi…", "up"]


def test_no_workers_is_told_with_what_to_do(script: Script) -> None:
    script.answers["/v1/crew"] = (200, crew())
    assert "no workers: start one with `quarterdeck worker`" in status(script.url).stdout


def test_names_are_shown_as_they_are_and_move_no_cursor(script: Script) -> None:
    script.answers["/v1/crew"] = (200, crew(worker("[/x]w"), worker("[red]\x1b[2J", node="[bold]n")))
    result = status(script.url)
    assert result.exit_code == 0
    assert [line.split()[:2] for line in result.stdout.splitlines()[3:5]] == [
        ["[/x]w", "host"],
        ["[red]\\x1b[2J", "[bold]n"],
    ]


def test_workers_that_do_not_fit_are_counted() -> None:
    workers = tuple(WorkerReport(f"worker-{n}", "host", "accepting", 0, 1, 3, 0.1, None) for n in range(1, 31))
    console = Console(width=150, record=True)
    with console.capture() as capture:
        console.print(crew_screen(CrewReport("c", 0, 0.0, 0, workers), (), most_workers=10))
    assert "worker-10 " in capture.get()
    assert "worker-11 " not in capture.get()
    assert "… and 20 more workers" in capture.get()


def test_as_json_it_is_what_the_coordinator_told(script: Script) -> None:
    result = status(script.url, "--json")
    assert json.loads(result.stdout) == {"crew": crew(worker()), "queries": [query()]}
    assert len(result.stdout.splitlines()) == 1


def test_a_tenant_is_named_in_the_header_of_both_questions(script: Script) -> None:
    assert status(script.url, "--tenant", "acme").exit_code == 0
    assert [(path, headers.get("x-scope-orgid")) for _, path, headers, _ in script.asked] == [
        ("/v1/crew", "acme"),
        ("/v1/queries", "acme"),
    ]


def test_no_coordinator_is_told_in_one_line_with_what_to_do() -> None:
    for arguments in ((), ("--once",), ("--json",)):
        result = status("http://127.0.0.1:1", *arguments)
        assert result.exit_code == 69
        assert result.stderr == (
            "quarterdeck: no coordinator answers at http://127.0.0.1:1: connection refused; "
            "start one with `quarterdeck up`, or say with --url where it is\n"
        )


def test_the_address_comes_from_the_environment_too(script: Script) -> None:
    result = CliRunner().invoke(app, ["status", "--json"], env={"QUARTERDECK_URL": script.url})
    assert result.exit_code == 0


# Watching


@pytest.fixture
def on_each_pause(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Instead of pausing, the next of these is done; after the last somebody presses Ctrl-C."""

    def set_up(*steps: Callable[[], object]) -> None:
        left = list(steps)

        def pause(_seconds: float) -> None:
            if not left:
                raise KeyboardInterrupt
            left.pop(0)()

        monkeypatch.setattr(status_module.time, "sleep", pause)

    return set_up


def nothing() -> None:
    pass


def test_watching_goes_on_until_it_is_interrupted(script: Script, on_each_pause: Callable[..., None]) -> None:
    on_each_pause(nothing, nothing)
    result = status(script.url, "--watch", "--json")
    assert result.exit_code == 0
    assert len(result.stdout.splitlines()) == 3


def test_watching_goes_on_when_the_coordinator_is_away_and_says_so(
    script: Script, on_each_pause: Callable[..., None]
) -> None:
    answers = dict(script.answers)

    def goes_away() -> None:
        script.answers["/v1/crew"] = lambda request: request.connection.close()

    def comes_back() -> None:
        script.answers.update(answers)

    on_each_pause(goes_away, nothing, comes_back)
    result = status(script.url, "--watch", "--json")
    assert result.exit_code == 0
    assert len(result.stdout.splitlines()) == 2
    assert result.stderr.count("no coordinator answers") == 2


def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rich takes it for one."""
    original = status_module.Console

    def console(**options: Any) -> Console:
        return original(force_terminal=True, width=120, height=40, **options)

    monkeypatch.setattr(status_module, "Console", console)


def test_on_a_terminal_it_is_watched_and_the_last_sight_stays_when_the_coordinator_goes(
    script: Script, on_each_pause: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal(monkeypatch)

    def goes_away() -> None:
        script.answers["/v1/crew"] = lambda request: request.connection.close()

    on_each_pause(goes_away)
    result = status(script.url)
    assert result.exit_code == 0
    before, after = result.stdout.split("no coordinator answers at", 1)
    assert "worker-1" in before
    assert "trying again; below is how it was 0 s ago" in after
    assert "worker-1" in after


def test_on_a_terminal_nobody_there_is_told_and_tried_again(
    on_each_pause: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal(monkeypatch)
    on_each_pause(nothing)
    result = status("http://127.0.0.1:1")
    assert result.exit_code == 0
    assert "trying again for 0 s now; start one with `quarterdeck up`" in result.stdout


def test_what_trying_again_does_not_cure_ends_watching(script: Script, on_each_pause: Callable[..., None]) -> None:
    on_each_pause(nothing)
    refused = error("invalid_argument", "the request was not let in", "it has no token", "send it")
    script.answers["/v1/crew"] = (401, refused)
    result = status(script.url, "--watch", "--json")
    assert result.exit_code == 65
    assert "was not let in" in result.stderr
