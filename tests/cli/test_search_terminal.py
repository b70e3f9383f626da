"""`quarterdeck search` at a terminal: lines and tables for eyes, and a bar that is not in their way."""

import re
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest

from quarterdeck.search.commands.record_lines import RecordPainter
from quarterdeck.search.commands.search_shape import Shape, shape_of
from tests.cli.scripted import Request, Script, scripted_coordinator
from tests.cli.search_answers import SEARCH, begin, done, event, gives, problem, progress, rows, send
from tests.cli.terminal import COLOURS, MOVEMENTS, Terminal, at_terminal, plain, screen

RECORD = {"ts": "2026-01-31T12:00:00Z", "level": "error", "msg": "timed out", "host": "a", "took": 1.5}
LINE = "2026-01-31T12:00:00Z error timed out  host=a took=1.5"
SUMMARY = "12,345 matches in 3.2 GB, 48 chunks on 2 workers (1 retried), 2.31 s (1.39 GB/s)"
BY_HOST = "* | count() by host"
COUNTS = (
    {"host": "a", "count": 4_000},
    {"host": "b", "count": 2_000},
    {"host": None, "count": 1},
    {"host": "c", "count": 0},
)


@pytest.fixture
def script() -> Iterator[Script]:
    with scripted_coordinator() as script:
        gives(script, rows(RECORD), done())
        yield script


def shown(script: Script, *arguments: str, query: str = "*", columns: int = 80, **environment: str) -> tuple[str, int]:
    words = ("search", query, "x", "--url", script.url, *arguments)
    with at_terminal(*words, columns=columns, rows=24, **environment) as terminal:
        written = terminal.read_all()
    return written, terminal.process.returncode


# Lines


def test_a_record_is_a_line_in_colours(script: Script) -> None:
    written, code = shown(script)
    assert code == 0
    assert screen(written) == [LINE, SUMMARY]
    assert "\x1b[2m2026-01-31T12:00:00Z\x1b[0m" in written
    assert "\x1b[1;31merror\x1b[0m" in written


def test_no_colour_is_shown_to_who_wants_none(script: Script) -> None:
    written, _ = shown(script, NO_COLOR="1")
    assert screen(written)[0] == LINE
    assert not COLOURS.search(written)


@pytest.mark.parametrize("form", ["lines", "table", "ndjson", "csv"])
def test_what_a_terminal_would_obey_does_not_reach_it(script: Script, form: str) -> None:
    """DEL and CSI as one sign may stand in JSON as they are; the others are obeyed once JSON is read."""
    evil = {"msg": "a\x1b[2Jb", "k\x1b]0;x\x07": "c\x9b2Jd\x7f", "deep": {"e": "\x9b\r"}}
    gives(script, rows(evil), done())
    written, _ = shown(script, "--format", form, columns=200)
    rest = re.sub(r"\x1b\[[0-9;]*m|\x1b\[2K|\x1b\[1A|\x1b\[\?25[hl]", "", written)
    assert re.findall(r"[\x00-\x09\x0b\x0c\x0e-\x1f\x7f-\x9f]", rest) == []
    assert all(part in written for part in ("2Jb", "2Jd", "deep"))


def test_a_long_record_is_cut_and_that_is_said(script: Script) -> None:
    gives(script, rows({"msg": "x" * 1000}, {"msg": "y" * 160}), done())
    written, _ = shown(script, columns=40)
    assert screen(written) == [
        "x" * 159 + "…",
        "y" * 160,
        "1 long record was cut; --format ndjson shows all",
        SUMMARY,
    ]


def test_the_time_field_comes_first(script: Script) -> None:
    gives(script, rows({"a": 1, "when": 1_700_000_000.25, "ts": "x"}), done())
    assert screen(shown(script, "--time-field", "when")[0])[0] == "2023-11-14T22:13:20.250Z a=1 ts=x"


@pytest.mark.parametrize(
    ("line", "painted"),
    [
        ('{"time":1700000000123,"severity":"WARN","message":"m"}', "2023-11-14T22:13:20.123Z WARN  m"),
        ('{"@timestamp":"t","log.level":"info","log":"m"}', "t info  m"),
        ('{"level":30,"msg":"m"}', "30    m"),
        ('{"level":{"x":1},"msg":["m"],"ts":null}', 'level={"x":1} msg=["m"] ts=null'),
        ('{"msg":"","a":"","b":"1","c":"true","d":"a b","e":"/x?y"}', 'msg="" a="" b="1" c="true" d="a b" e=/x?y'),
        (
            '{"big":12345678901234567890,"small":1.0e-300,"exact":0.10}',
            "big=12345678901234567890 small=1.0e-300 exact=0.10",
        ),
        ('{"ts":1e300}', "1e300"),
        ("{}", ""),
        ("no JSON\x1b", "no JSON\\x1b"),
        ("[1]", "[1]"),
    ],
)
def test_every_record_has_a_line(line: str, painted: str) -> None:
    assert RecordPainter(columns=None, colours=False).paint(line) == painted


# Tables


def test_counts_have_bars_beside_them(script: Script) -> None:
    gives(script, rows(*COUNTS), done())
    written, _ = shown(script, query=BY_HOST, columns=60)
    assert screen(written) == [
        "host  count",
        f"a     4,000  {'█' * 40}",
        f"b     2,000  {'█' * 20}",
        "null      1  ▏",
        "c         0",
        SUMMARY,
    ]


@pytest.mark.parametrize(("columns", "encoding"), [(80, "ascii"), (18, "utf-8")])
def test_without_room_or_signs_there_are_no_bars(script: Script, columns: int, encoding: str) -> None:
    gives(script, rows(*COUNTS), done())
    written, _ = shown(script, query=BY_HOST, columns=columns, PYTHONIOENCODING=encoding)
    assert screen(written)[:3] == ["host  count", "a     4,000", "b     2,000"]


@pytest.mark.parametrize(
    ("query", "shape"),
    [
        ("level=error", Shape()),
        ("* | sort host | head 3", Shape()),
        ("* | cut host, count", Shape()),
        ("* | uniq", Shape()),
        ("* | count()", Shape(is_table=True)),
        ("* | count() by a, b", Shape(is_table=True)),
        ("* | count(), sum(x) by a", Shape(is_table=True)),
        ("* | avg(x) by a", Shape(is_table=True)),
        ("* | count() by a", Shape(is_table=True, counts="count")),
        ("* | count(x) as n by a | sort -r n | head 5", Shape(is_table=True, counts="n")),
        ("* | count() by a | cut a", Shape(is_table=True)),
        ("* | count() by a | cut count, a", Shape(is_table=True, counts="count")),
        ("* | fields", Shape(is_table=True, counts="count")),
        ("* | uniq -c", Shape(is_table=True, counts="count")),
        ("* | count() by a | count()", Shape(is_table=True)),
        ("* | something new", Shape()),
    ],
)
def test_the_query_says_what_its_rows_are(query: str, shape: Shape) -> None:
    assert shape_of(query) == shape


def test_a_table_of_a_failed_search_is_not_shown(script: Script) -> None:
    gives(script, rows(*COUNTS), event("nothing"), finish=False)
    written, code = shown(script, query=BY_HOST)
    assert code == 69
    assert "4,000" not in written


# The bar


def held(script: Script, *parts: bytes) -> threading.Event:
    """Sends parts, and the rest once the event is set."""
    seen = threading.Event()

    def answer(request: Request) -> None:
        begin(request)
        for part in parts:
            send(request, part)
        assert seen.wait(30)
        send(request, rows({"msg": "last"}) + done())

    script.answers[SEARCH] = answer
    return seen


def watch(terminal: Terminal, *words: str) -> str:
    return terminal.read_until(lambda written: all(word in plain(written) for word in words))


def test_a_bar_shows_how_far_it_is_and_is_gone_at_the_end(script: Script) -> None:
    told = progress(bytes_done=1_200_000_000, matches=1_234, workers=2, workers_lost=1, bad_lines=7)
    seen = held(script, told)
    with at_terminal("search", "*", "x", "--url", script.url, columns=120) as terminal:
        written = watch(terminal, "1.2 of 3.2 GB", "B/s", "left", "1,234 matches", "2 workers", "1 lost", "7 bad lines")
        seen.set()
        written = terminal.read_all()
    assert screen(written) == ["last", SUMMARY]


def test_rows_stand_above_the_bar_and_are_whole(script: Script) -> None:
    """Also those that come when all was searched, and those that are wider than the window."""
    half, whole = progress(bytes_done=1_600_000_000), progress(bytes_done=3_200_000_000)
    wide = {"msg": "w" * 100}
    seen = held(script, half, rows(RECORD), half, rows(RECORD, wide), whole, rows({"msg": "late"}))
    with at_terminal("search", "*", "x", "--url", script.url) as terminal:
        watch(terminal, "late", "3.2 of 3.2 GB")
        seen.set()
        written = terminal.read_all()
    assert screen(written) == [LINE, LINE, "w" * 100, "late", "last", SUMMARY]


def test_rows_in_a_file_leave_the_bar_alone_on_the_terminal(script: Script) -> None:
    seen = held(script, progress(bytes_done=1_600_000_000))
    with at_terminal("search", "*", "x", "--url", script.url, "--output", "/dev/null") as terminal:
        watch(terminal, "1.6 of 3.2 GB")
        seen.set()
        written = terminal.read_all()
    assert screen(written) == [SUMMARY]


def test_a_dumb_terminal_has_no_bar(script: Script) -> None:
    gives(script, progress(bytes_done=5), rows(RECORD), done())
    written, _ = shown(script, TERM="dumb")
    assert not MOVEMENTS.search(written)
    assert plain(written).splitlines() == [LINE, SUMMARY]


def test_nothing_of_a_bar_is_in_a_pipe(script: Script) -> None:
    gives(script, progress(bytes_done=5), rows(RECORD), done())
    command = [sys.executable, "-m", "quarterdeck", "search", "*", "x", "--url", script.url]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    assert result.stderr == f"{SUMMARY}\n"
    assert "\x1b" not in result.stdout


def test_files_with_problems_are_yellow(script: Script) -> None:
    gives(script, rows(RECORD), done(status="partial", problems=[problem("/logs/a", lines=2)]))
    written, code = shown(script)
    assert code == 85
    assert "\x1b[33m  /logs/a: it is no JSON (2 lines)\x1b[0m" in written
