"""One record a line, the same for everybody in the process, and a call that never fails."""

import asyncio
import io
import json
import logging
import os
import threading
import time
import warnings
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NoReturn

import pytest
import structlog

from quarterdeck.core.errors import ErrorCode, QuarterdeckError
from quarterdeck.telemetry import logs
from quarterdeck.telemetry.logs import LogFormat, LogLevel
from quarterdeck.telemetry.records import LibraryHandler

log = logs.get_logger("quarterdeck.crew.worker")


class Written(io.StringIO):
    """What was logged."""

    @property
    def lines(self) -> list[str]:
        return self.getvalue().splitlines()

    @property
    def records(self) -> list[dict[str, Any]]:
        return [json.loads(line, parse_constant=_refuse) for line in self.lines]

    @property
    def record(self) -> dict[str, Any]:
        (only,) = self.records
        return only


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")


class Terminal(Written):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def unconfigured() -> Iterator[None]:
    yield
    logs.unconfigure()


@pytest.fixture
def written() -> Written:
    stream = Written()
    logs.configure("json", "info", stream=stream, process="worker", worker_id="worker-1")
    return stream


@pytest.fixture
def console() -> Written:
    stream = Written()
    logs.configure("console", "info", stream=stream)
    return stream


class Unshowable:
    def __repr__(self) -> str:
        raise RuntimeError("do not look at me")


# The form of a record


def test_a_record_has_time_level_logger_event_process_and_fields_in_that_order(written: Written) -> None:
    log.info("work assigned", query_id="q-1", work_id="w-1")
    assert list(written.record) == [
        "timestamp",
        "level",
        "logger",
        "event",
        "process",
        "worker_id",
        "query_id",
        "work_id",
    ]
    assert written.record | {"timestamp": ""} == {
        "timestamp": "",
        "level": "info",
        "logger": "quarterdeck.crew.worker",
        "event": "work assigned",
        "process": "worker",
        "worker_id": "worker-1",
        "query_id": "q-1",
        "work_id": "w-1",
    }


def test_the_time_is_in_utc(written: Written) -> None:
    log.info("now")
    text = written.record["timestamp"]
    assert text.endswith("Z")
    assert abs(datetime.fromisoformat(text) - datetime.now(UTC)) < timedelta(minutes=1)


@pytest.mark.parametrize("level", LogLevel)
def test_records_below_the_level_are_not_written(level: LogLevel) -> None:
    stream = Written()
    logs.configure("json", level, stream=stream)
    log.debug("a")
    log.info("b")
    log.warning("c")
    log.error("d")
    said = [(record["level"], record["event"]) for record in stream.records]
    everything = [("debug", "a"), ("info", "b"), ("warning", "c"), ("error", "d")]
    assert said == everything[list(LogLevel).index(level) :]


@pytest.mark.parametrize(
    "form, level, named", [("xml", "info", "json, console"), ("json", "loud", "debug, info, warning, error")]
)
def test_a_form_or_level_that_is_none_is_an_error_that_names_those_there_are(form: str, level: str, named: str) -> None:
    with pytest.raises(QuarterdeckError, match=named) as caught:
        logs.configure(form, level)
    assert caught.value.code is ErrorCode.INVALID_ARGUMENT


def test_one_record_is_one_line_whatever_is_in_it(written: Written) -> None:
    log.info("first\nsecond", text="a\nb\u2028c\rd")
    assert len(written.getvalue().splitlines()) == 1
    assert (written.record["event"], written.record["text"]) == ("first\nsecond", "a\nb\u2028c\rd")


def test_a_bound_logger_adds_its_fields(written: Written) -> None:
    log.bind(query_id="q-1", a=1).bind(work_id="w-1").info("x", a=2)
    assert (written.record["query_id"], written.record["work_id"], written.record["a"]) == ("q-1", "w-1", 2)


def test_a_field_with_the_name_of_a_column_gets_another_name(written: Written) -> None:
    log.info("x", event="e", level="l", logger="g", timestamp="t")
    record = written.record
    assert (record["event_"], record["level_"], record["logger_"], record["timestamp_"]) == ("e", "l", "g", "t")
    assert (record["event"], record["level"], record["logger"]) == ("x", "info", "quarterdeck.crew.worker")


def test_an_exception_comes_with_its_traceback_and_its_code(written: Written) -> None:
    try:
        raise QuarterdeckError(ErrorCode.NO_WORKER, "the query was not run", "no worker joined", "start one")
    except QuarterdeckError:
        log.exception("query failed", query_id="q-1")
    record = written.record
    assert record["level"] == "error"
    assert record["error_code"] == "no_worker"
    assert record["exception"].startswith("Traceback (most recent call last):")
    assert "the query was not run: no worker joined; start one" in record["exception"]


def test_an_exception_can_be_given_and_none_is_fine(written: Written) -> None:
    log.warning("given", exc_info=ValueError("given one"))
    log.exception("none is being handled")  # noqa: LOG004 - what it is about
    assert "ValueError: given one" in written.records[0]["exception"]
    assert "exception" not in written.records[1]


# A call never raises


def test_values_that_are_not_json_are_shown_by_their_repr(written: Written) -> None:
    log.info("x", path=Path("/a"), several={1}, code=ErrorCode.PROTOCOL, data=b"\xff", nothing=None)
    record = written.record
    assert record["path"] == repr(Path("/a"))
    assert (record["several"], record["code"], record["data"], record["nothing"]) == (
        "{1}",
        "protocol",
        "b'\\xff'",
        None,
    )


@pytest.mark.parametrize("form", LogFormat)
@pytest.mark.parametrize(
    "value",
    [Unshowable(), {"deep": Unshowable()}, [Unshowable()], float("nan"), {(1, 2): 3}, {"a": float("inf")}, "\ud800"],
    ids=["unshowable", "inside a mapping", "inside a list", "nan", "tuple as key", "infinity", "half a character"],
)
def test_a_value_that_objects_costs_only_itself(form: LogFormat, value: object) -> None:
    stream = Written()
    logs.configure(form, "info", stream=stream)
    log.info("work assigned", query_id="q-1", value=value)
    assert "work assigned" in stream.getvalue()
    assert "q-1" in stream.getvalue()
    assert logs.records_lost() == 0
    if form is LogFormat.JSON:
        assert stream.record["query_id"] == "q-1"


@pytest.mark.parametrize("form", LogFormat)
def test_a_value_that_objects_is_no_harm_where_it_is_bound_or_of_the_process(form: LogFormat) -> None:
    stream = Written()
    logs.configure(form, "info", stream=stream, of_process=Unshowable())
    with logs.bound(of_context=Unshowable()):
        log.info("work assigned", query_id="q-1")
    assert "q-1" in stream.getvalue()
    assert stream.getvalue().count("<Unshowable that cannot be shown: RuntimeError>") == 2


def test_a_value_that_contains_itself_is_cut_off(written: Written) -> None:
    circle: dict[str, object] = {}
    circle["self"] = circle
    log.info("x", circle=circle)
    assert "self" in written.record["circle"]


def test_an_exception_beside_a_value_that_objects_keeps_its_traceback(written: Written) -> None:
    try:
        raise ValueError("the true reason")
    except ValueError:
        log.exception("failed", value=Unshowable())
    assert "ValueError: the true reason" in written.record["exception"]
    assert written.record["value"] == "<Unshowable that cannot be shown: RuntimeError>"


def test_a_stream_that_is_closed_costs_the_record_and_is_counted(written: Written) -> None:
    written.close()
    log.info("nobody hears this")
    logging.getLogger("uvicorn.error").info("nor this")
    assert logs.records_lost() == 2


# Secrets


def test_secrets_are_masked_however_deep_they_are(written: Written) -> None:
    log.info(
        "connected",
        token="s3cret",
        headers={"Authorization": "Bearer s3cret", "Accept": "text/plain"},
        pairs=[(b"authorization", b"s3cret"), (b"accept", b"*/*")],
        options={"s3": [{"secret_access_key": "s3cret", "region": "eu"}]},
        AWS_SESSION_TOKEN="s3cret",
        tokens_used=5,
    )
    assert "s3cret" not in written.getvalue()
    record = written.record
    assert record["headers"] == {"Authorization": "***", "Accept": "text/plain"}
    assert record["options"] == {"s3": [{"secret_access_key": "***", "region": "eu"}]}
    assert (record["token"], record["AWS_SESSION_TOKEN"], record["tokens_used"]) == ("***", "***", 5)


def test_secrets_are_masked_when_a_value_objects(written: Written) -> None:
    log.info("x", bad=Unshowable(), token="s3cret", nested={"token": "s3cret", (1, 2): 3})
    assert "s3cret" not in written.getvalue()


def test_secrets_of_libraries_and_of_the_process_are_masked() -> None:
    stream = Written()
    logs.configure("json", "info", stream=stream, token="s3cret")
    logging.getLogger("aiohttp.client").warning("sent", extra={"authorization": "s3cret"})
    with logs.bound(token="s3cret"):
        log.info("x")
    assert "s3cret" not in stream.getvalue()


# Libraries


@pytest.mark.parametrize("library", ["uvicorn.error", "grpc._cython.cygrpc", "asyncio", "aiohttp.access", "anything"])
def test_libraries_speak_through_the_same_renderer(written: Written, library: str) -> None:
    logging.getLogger(library).warning(
        "%d connections", 3, extra={"peer": "here", "color_message": "\x1b[1m3", "level": 9}
    )
    assert written.record | {"timestamp": ""} == {
        "timestamp": "",
        "level": "warning",
        "logger": library,
        "event": "3 connections",
        "process": "worker",
        "worker_id": "worker-1",
        "peer": "here",
        "level_": 9,
    }


def test_a_library_that_had_its_own_handler_speaks_once() -> None:
    before, stream = Written(), Written()
    library = logging.getLogger("uvicorn")
    library.addHandler(logging.StreamHandler(before))
    library.propagate = False
    logs.configure("json", "info", stream=stream)
    library.info("started")
    assert (before.lines, stream.record["event"]) == ([], "started")


def test_handlers_that_somebody_put_there_on_purpose_stay() -> None:
    class Mine(logging.NullHandler):
        pass

    mine = Mine()
    logging.getLogger("asyncio").addHandler(mine)
    try:
        logs.configure("json", "info", stream=Written())
        assert mine in logging.getLogger("asyncio").handlers
    finally:
        logging.getLogger("asyncio").removeHandler(mine)


def test_a_library_whose_arguments_do_not_fit_is_heard_all_the_same(written: Written) -> None:
    (ours,) = [handler for handler in logging.getLogger().handlers if isinstance(handler, LibraryHandler)]
    # Not through the logger: pytest's own handler raises for such a record.
    ours.handle(logging.makeLogRecord({"name": "grpc", "msg": "%d channels", "args": ("many",)}))
    assert written.record["event"] == "%d channels"
    assert written.record["arguments"] == "['many']"
    assert "TypeError" in written.record["logging_error"]


def test_an_exception_of_a_library_has_its_traceback(written: Written) -> None:
    try:
        raise OSError("no route")
    except OSError:
        logging.getLogger("asyncio").exception("task failed")
    assert "OSError: no route" in written.record["exception"]


def test_warnings_of_python_are_records() -> None:
    stream = Written()
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        logs.configure("json", "info", stream=stream)
        warnings.warn("this is old", DeprecationWarning, stacklevel=1)
        logs.unconfigure()
    assert stream.record["logger"] == "py.warnings"
    assert "this is old" in stream.record["event"]


def test_who_uses_structlog_itself_speaks_through_the_same_renderer(written: Written) -> None:
    structlog.get_logger().info("native", query_id="q-1", token="s3cret")
    record = written.record
    assert (record["event"], record["level"], record["query_id"], record["token"]) == ("native", "info", "q-1", "***")


# Context


def test_what_is_bound_is_on_everything_inside_and_on_nothing_after(written: Written) -> None:
    with logs.bound(query_id="q-1"):
        log.info("ours")
        logging.getLogger("aiohttp").info("theirs")
        with logs.bound(query_id="q-2", work_id="w-2"):
            log.info("inner")
        log.info("ours again")
    log.info("after")
    assert [record.get("query_id") for record in written.records] == ["q-1", "q-1", "q-2", "q-1", None]
    assert [record.get("work_id") for record in written.records] == [None, None, "w-2", None, None]


def test_a_field_of_the_call_goes_before_what_is_bound(written: Written) -> None:
    with logs.bound(query_id="outer"):
        log.info("x", query_id="inner")
    assert written.record["query_id"] == "inner"


def test_requests_served_at_once_do_not_mix_their_queries(written: Written) -> None:
    async def handle(query_id: str, turn: asyncio.Barrier) -> None:
        with logs.bound(query_id=query_id):
            await turn.wait()
            log.info("handled", expected=query_id)
            await asyncio.create_task(_log_inside(query_id))
            await asyncio.to_thread(log.info, "in a thread", expected=query_id)

    async def _log_inside(query_id: str) -> None:
        log.info("in a task", expected=query_id)

    async def serve() -> None:
        turn = asyncio.Barrier(3)
        await asyncio.gather(*(handle(f"q-{number}", turn) for number in range(3)))

    asyncio.run(serve())
    assert len(written.records) == 9
    assert all(record["query_id"] == record["expected"] for record in written.records)


class Halting(Written):
    """Lets other threads run in the middle of a line."""

    def write(self, text: str) -> int:
        half = len(text) // 2
        super().write(text[:half])
        time.sleep(0)
        super().write(text[half:])
        return len(text)


def test_threads_do_not_break_each_others_lines() -> None:
    stream = Halting()
    logs.configure("json", "info", stream=stream)

    def say(number: int) -> None:
        for _ in range(50):
            log.info("x", number=number)

    threads = [threading.Thread(target=say, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(stream.records) == 200


# The console


def test_the_console_form_is_for_people(console: Written) -> None:
    log.info("work assigned", query_id="q-1", text="two words")
    (line,) = console.lines
    assert "[info     ] work assigned" in line
    assert line.endswith("[quarterdeck.crew.worker] query_id=q-1 text='two words'")


def test_a_traceback_on_the_console_is_as_python_prints_it(console: Written) -> None:
    try:
        raise ValueError("odd")
    except ValueError:
        log.exception("failed")
    assert console.lines[1] == "Traceback (most recent call last):"
    assert console.lines[-1] == "ValueError: odd"


def test_the_console_shows_no_local_variables_of_a_traceback(console: Written) -> None:
    password = "s3" + "cret"
    try:
        raise ValueError(f"of {len(password)} characters")
    except ValueError:
        log.exception("failed")
    assert "s3cret" not in console.getvalue()


def test_no_text_can_move_the_cursor_of_a_terminal(console: Written) -> None:
    log.info("clear\x1b[2J", one="\x1b[2J", two="a \x1b[2J b", deep={"k": "\x1b[2J"})
    logging.getLogger("aiohttp").warning("from outside: %s", "\x1b]0;title\x07")
    try:
        raise ValueError("\x1b[2J")
    except ValueError:
        log.exception("failed")
    assert "\x1b" not in console.getvalue()
    assert "\x07" not in console.getvalue()


@pytest.mark.parametrize(
    "stream, environment, coloured",
    [
        (Written, {"TERM": "xterm"}, False),
        (Terminal, {"TERM": "xterm"}, True),
        (Terminal, {"TERM": "xterm", "NO_COLOR": "1"}, False),
        (Terminal, {"TERM": "dumb"}, False),
    ],
)
def test_colours_are_for_terminals_that_want_them(
    stream: type[Written], environment: dict[str, str], coloured: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    for name, text in environment.items():
        monkeypatch.setenv(name, text)
    written = stream()
    logs.configure("console", "info", stream=written)
    log.info("x")
    assert ("\x1b[" in written.getvalue()) == coloured


# Configuring


def test_without_a_stream_records_go_to_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure("json", "info")
    log.info("x")
    captured = capsys.readouterr()
    assert captured.out == ""
    assert json.loads(captured.err)["event"] == "x"


def test_configuring_again_replaces_what_was_before() -> None:
    first, second = Written(), Written()
    logs.configure("json", "info", stream=first)
    logs.configure("json", "debug", stream=second)
    log.debug("x")
    logging.getLogger("grpc").debug("y")
    assert (first.lines, [record["event"] for record in second.records]) == ([], ["x", "y"])


def test_unconfiguring_leaves_nothing_behind() -> None:
    root = logging.getLogger()
    level, handlers = root.level, list(root.handlers)
    root.setLevel(35)
    try:
        logs.configure("json", "debug", stream=Written())
        logs.unconfigure()
        assert (root.level, root.handlers) == (35, handlers)
    finally:
        root.setLevel(level)
    assert not structlog.is_configured()


def test_before_configuring_records_go_to_the_standard_library(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO), logs.bound(query_id="q-1"):
        log.debug("not this")
        log.info("100% done", work_id="w-1", token="s3cret", bad=Unshowable())
    (record,) = caplog.records
    assert record.getMessage() == (
        "100% done query_id=q-1 work_id=w-1 token=*** bad=<Unshowable that cannot be shown: RuntimeError>"
    )
    assert (record.name, record.levelname) == ("quarterdeck.crew.worker", "INFO")
    fields: dict[str, object] = vars(record)["fields"]
    assert (fields["query_id"], fields["work_id"]) == ("q-1", "w-1")


def test_before_configuring_an_exception_has_its_traceback(caplog: pytest.LogCaptureFixture) -> None:
    try:
        raise ValueError("odd")
    except ValueError:
        log.exception("failed", query_id="q-1")
    assert "failed query_id=q-1" in caplog.text
    assert "ValueError: odd" in caplog.text


def test_a_pipe_that_nobody_reads_any_more_costs_the_records_and_nothing_else() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    stream = os.fdopen(writer, "w")
    logs.configure("json", "info", stream=stream)
    log.info("x")
    with suppress(BrokenPipeError):
        stream.close()
    assert logs.records_lost() == 1
