"""Logs: one record per line on stderr, as JSON for machines or as text for people, including the records of libraries.

A process calls `configure` once. Modules have `_log = get_logger(__name__)` and say what happened in a few words that
are always the same, with everything that varies in fields: `_log.info("work assigned", query_id=…, work_id=…)`. Records
about a query have `query_id`, and records about a work also `work_id`. `bound` adds them to everything that is logged
inside, also by libraries.

Rules: a call never raises. A value that cannot be shown is shown by its `repr`; a record that cannot be written is
counted. Values under the names of secrets are masked. Before `configure`, as in tests, records go to the standard
library as text, with the fields in `record.fields`, and structlog is not loaded.
"""

import logging
import sys
from collections.abc import Generator
from contextlib import contextmanager
from enum import StrEnum
from typing import TYPE_CHECKING, Final, TextIO, TypeVar, cast

from quarterdeck.core.errors import ErrorCode, QuarterdeckError
from quarterdeck.telemetry.masking import MASK, as_text, is_secret

if TYPE_CHECKING:
    from quarterdeck.telemetry.records import Recorder


class LogFormat(StrEnum):
    JSON = "json"
    """One object a line."""
    CONSOLE = "console"
    """Columns for people, in colours on a terminal."""


class LogLevel(StrEnum):
    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


_NUMBERS: Final = {
    LogLevel.DEBUG: logging.DEBUG,
    LogLevel.INFO: logging.INFO,
    LogLevel.WARNING: logging.WARNING,
    LogLevel.ERROR: logging.ERROR,
}
_NAMES: Final = {number: name.value for name, number in _NUMBERS.items()}
_RESERVED: Final = frozenset({"event", "level", "logger", "timestamp"})
"""Names that every record has; a field of such a name gets an underscore at its end."""
_LIBRARIES: Final = frozenset({"asyncio", "grpc", "uvicorn"})
"""Libraries that may have set up a handler of their own before `configure` was called."""

ChoiceT = TypeVar("ChoiceT", bound=StrEnum)


class _State:
    """Where records go now: a process has one such place."""

    recorder: "Recorder | None" = None
    """None before `configure`."""
    threshold: int = logging.NOTSET
    """Below this nothing is recorded. Before `configure` the standard library decides that."""
    root_level: int = logging.WARNING
    """What `configure` found, and `unconfigure` puts back."""


def configure(
    format: str,  # noqa: A002 - the word that people write in configuration
    level: str,
    *,
    stream: TextIO | None = None,
    **process_fields: object,
) -> None:
    """From now on records at `level` and above go to stderr, or to the stream, each with the fields of the process.

    Once for a process; again replaces what was before.
    """
    from quarterdeck.telemetry.records import Recorder  # noqa: PLC0415 - loaded when it is needed

    threshold = _NUMBERS[_chosen(LogLevel, level, "log level")]
    as_json = _chosen(LogFormat, format, "log format") is LogFormat.JSON
    unconfigure()
    recorder = Recorder(stream, as_json=as_json, process_fields=process_fields)
    recorder.configure_structlog(threshold)
    root = logging.getLogger()
    _remove_handlers_of_others(root)
    _State.recorder, _State.threshold, _State.root_level = recorder, threshold, root.level
    root.addHandler(recorder.handler)
    root.setLevel(threshold)
    logging.captureWarnings(capture=True)


def unconfigure() -> None:
    """Back to how it was before `configure`; for tests."""
    recorder, _State.recorder, _State.threshold = _State.recorder, None, logging.NOTSET
    if recorder is not None:
        recorder.unconfigure_structlog()
        root = logging.getLogger()
        root.removeHandler(recorder.handler)
        root.setLevel(_State.root_level)
        logging.captureWarnings(capture=False)


def _chosen(among: type[ChoiceT], text: str, what: str) -> ChoiceT:
    try:
        return among(text.lower())
    except ValueError:
        next_step = f"choose one of: {', '.join(among)}"
        raise QuarterdeckError(
            ErrorCode.INVALID_ARGUMENT, "logging was not set up", f"there is no {what} {text!r}", next_step
        ) from None


def _remove_handlers_of_others(root: logging.Logger) -> None:
    """Whatever writes on its own would say everything twice, or in another form."""
    names = [name for name in logging.Logger.manager.loggerDict if name.split(".", 1)[0] in _LIBRARIES]
    libraries = [logging.getLogger(name) for name in names]
    for library in libraries:
        library.propagate = True
    for logger in (root, *libraries):
        for handler in list(logger.handlers):
            if handler.__class__ is logging.StreamHandler:  # handlers of other classes are somebody's intention
                logger.removeHandler(handler)


def records_lost() -> int:
    """How many records could not be written: the stream is closed, or its disk full."""
    return 0 if _State.recorder is None else _State.recorder.lost


@contextmanager
def bound(**fields: object) -> Generator[None]:
    """Everything that is logged inside, in this task and in those it starts, carries these fields.

    A thread has them only when it was started with the context, as `asyncio.to_thread` does.
    """
    from structlog.contextvars import bound_contextvars  # noqa: PLC0415 - loaded when it is needed

    with bound_contextvars(**fields):
        yield


class Logger:
    """Says what happened. Any thread may use it."""

    __slots__ = ("_fields", "_name", "_plain")

    def __init__(self, name: str, fields: dict[str, object]) -> None:
        self._name = name
        self._fields = fields
        self._plain = logging.getLogger(name)

    def bind(self, **fields: object) -> "Logger":
        """A logger whose records all carry these fields too."""
        return Logger(self._name, {**self._fields, **fields})

    def debug(self, event: str, /, **fields: object) -> None:
        """What helps to follow one work step by step. Off in production: there are thousands a second."""
        if _State.threshold <= logging.DEBUG:
            self._record(logging.DEBUG, event, fields)

    def info(self, event: str, /, **fields: object) -> None:
        """What an operator wants to read afterwards: processes, sessions and queries come and go."""
        if _State.threshold <= logging.INFO:
            self._record(logging.INFO, event, fields)

    def warning(self, event: str, /, **fields: object) -> None:
        """What went wrong and was cured, such as the loss of a worker."""
        if _State.threshold <= logging.WARNING:
            self._record(logging.WARNING, event, fields)

    def error(self, event: str, /, **fields: object) -> None:
        """What went wrong and stays so until somebody does something."""
        self._record(logging.ERROR, event, fields)

    def exception(self, event: str, /, **fields: object) -> None:
        """An error, with the exception that is being handled and its traceback."""
        self._record(logging.ERROR, event, {"exc_info": sys.exc_info(), **fields})

    def _record(self, number: int, event: str, fields: dict[str, object]) -> None:
        if self._fields:
            fields = {**self._fields, **fields}
        if not _RESERVED.isdisjoint(fields):
            fields = {f"{name}_" if name in _RESERVED else name: value for name, value in fields.items()}
        recorder = _State.recorder
        if recorder is None:
            _record_plainly(self._plain, number, event, fields)
        else:
            recorder.record(self._name, _NAMES[number], event, fields)


def get_logger(name: str) -> Logger:
    """A logger; cheap, for the top of a module."""
    return Logger(name, {})


def _record_plainly(logger: logging.Logger, number: int, event: str, fields: dict[str, object]) -> None:
    if not logger.isEnabledFor(number):
        return
    contextvars = sys.modules.get("structlog.contextvars")  # not loaded, nothing is bound
    bound_fields = {} if contextvars is None else cast("dict[str, object]", contextvars.get_contextvars())
    fields = {name: MASK if is_secret(name) else value for name, value in {**bound_fields, **fields}.items()}
    exc_info = cast("BaseException | None", fields.pop("exc_info", None))
    text = " ".join([event, *(f"{name}={as_text(value)}" for name, value in fields.items())])
    logger.log(number, "%s", text, exc_info=exc_info, extra={"fields": fields})
