"""A bar on stderr and rows on stdout never share a line, also where a pipe leads the rows to the same terminal."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.scripted import QUERY_ID, Request, Script, arrow_stream, query, scripted_coordinator
from tests.cli.search_answers import SEARCH, begin, done, progress, rows, send
from tests.cli.terminal import Terminal, at_terminal, plain, screen

WORDS = ("select 1", "data")


@pytest.fixture
def script() -> Iterator[Script]:
    with scripted_coordinator() as script:
        yield script


def scanned_in_two_parts(script: Script, has_bar: threading.Event, has_row: threading.Event) -> None:
    """The first part when the bar is there, the second when the first is on the screen."""
    first = arrow_stream({"host": ["a", "b"]}, end=False)
    whole = arrow_stream({"host": ["a", "b"]}, {"host": ["c"]})

    def answer(request: Request) -> None:
        assert has_bar.wait(30)
        request.rows(first, finish=False)
        assert has_row.wait(30)
        send(request, whole[len(first) :])

    script.answers["/v1/scan"] = answer
    script.answers[f"/v1/queries/{QUERY_ID}"] = (200, query())


def searched_in_two_parts(script: Script, has_row: threading.Event) -> None:
    def answer(request: Request) -> None:
        begin(request)
        send(request, progress(bytes_done=1_600_000_000))
        send(request, rows({"msg": "first"}))
        assert has_row.wait(30)
        send(request, progress(bytes_done=3_200_000_000) + rows({"msg": "last"}) + done())

    script.answers[SEARCH] = answer


def until(terminal: Terminal, *words: str) -> None:
    terminal.read_until(lambda written: all(word in plain(written) for word in words))


@pytest.mark.parametrize("through", ["", "cat"])
@pytest.mark.parametrize("form", ["ndjson", "csv"])
def test_rows_of_a_search_have_lines_of_their_own(script: Script, form: str, through: str) -> None:
    has_row = threading.Event()
    searched_in_two_parts(script, has_row)
    with at_terminal("search", "*", "x", "--url", script.url, "--format", form, through=through) as terminal:
        until(terminal, "first" if form == "ndjson" else "1.6 of 3.2 GB")
        has_row.set()
        seen = screen(terminal.read_all())
    wanted = ['{"msg": "first"}', '{"msg": "last"}'] if form == "ndjson" else ["msg", "first", "last"]
    assert [line for line in seen if line in wanted] == wanted
    assert len(seen) == len(wanted) + 1, f"the last line is the summary: {seen}"


@pytest.mark.parametrize("through", ["", "cat"])
def test_rows_of_a_scan_have_lines_of_their_own(script: Script, through: str) -> None:
    has_bar, has_row = threading.Event(), threading.Event()
    scanned_in_two_parts(script, has_bar, has_row)
    words = ("scan", *WORDS, "--url", script.url, "--format", "csv")
    with at_terminal(*words, through=through) as terminal:
        if through:
            until(terminal, "waiting for the first rows")
        has_bar.set()
        until(terminal, '"b"')
        has_row.set()
        seen = screen(terminal.read_all())
    assert [line for line in seen if line[0] == '"'] == ['"host"', '"a"', '"b"', '"c"']
    assert len(seen) == 5, f"the last line is the summary: {seen}"


def test_a_bar_stays_while_rows_go_into_a_file(script: Script, tmp_path: Path) -> None:
    has_row = threading.Event()
    searched_in_two_parts(script, has_row)
    words = ("search", "*", "x", "--url", script.url, "--format", "ndjson")
    with at_terminal(*words, through=f"cat >/dev/null; : >{tmp_path / 'x'}") as terminal:
        has_row.set()
        assert screen(terminal.read_all())[-1].startswith("12,345 matches")
