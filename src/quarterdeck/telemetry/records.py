"""How a log record becomes a line on stderr: one chain of structlog's processors, for our records and those of
libraries.

Only this module knows structlog's insides, and only `logs.configure` imports it: structlog takes a third of a second to
load, mostly for Rich, which we do not use here.
"""

import json
import logging
import os
import sys
import threading
from collections.abc import Callable, Mapping, MutableMapping
from typing import Any, Final, TextIO, TypeAlias, cast

from quarterdeck.core.errors import QuarterdeckError
from quarterdeck.telemetry.hidden_modules import hidden
from quarterdeck.telemetry.masking import as_text, masked_fields
from quarterdeck.telemetry.traces import current_trace

with hidden("rich"):  # structlog would load it, and with it Pygments, for tracebacks that we do not write: 8 MB
    import structlog
    from structlog.typing import Processor

Record: TypeAlias = MutableMapping[str, Any]
"""A record on its way through the chain: structlog's event dictionary."""

_FIRST: Final = ("timestamp", "level", "logger", "event")
"""How a record begins, in JSON as on the console."""
_STANDARD_ATTRIBUTES: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
_NOT_WORTH_A_FIELD: Final = frozenset({"color_message"})
"""uvicorn repeats its message there, in colours."""


class Sink:
    """Where lines end: whole lines, whichever threads write."""

    def __init__(self, stream: TextIO | None) -> None:
        self._stream = stream
        self._lock = threading.RLock()

    @property
    def stream(self) -> TextIO:
        """stderr is looked up each time: whoever redirects it means us too."""
        return sys.stderr if self._stream is None else self._stream

    def write(self, line: str) -> None:
        with self._lock:
            self.stream.write(line + "\n")
            self.stream.flush()

    # By these names structlog's own loggers call it.
    debug = info = warning = error = critical = write


class LibraryHandler(logging.Handler):
    """Takes what libraries say to the standard library."""

    def __init__(self, recorder: "Recorder") -> None:
        super().__init__()
        self._recorder = recorder

    def emit(self, record: logging.LogRecord) -> None:
        fields: dict[str, object] = {
            f"{name}_" if name in _FIRST else name: value
            for name, value in vars(record).items()
            if name not in _STANDARD_ATTRIBUTES and name not in _NOT_WORTH_A_FIELD
        }
        if record.exc_info:
            fields["exc_info"] = record.exc_info
        try:
            event = record.getMessage()
        except Exception as error:  # noqa: BLE001 - a library whose arguments do not fit its message
            event = as_text(record.msg)
            fields.update(logging_error=repr(error), arguments=as_text(record.args))
        self._recorder.record(record.name, record.levelname.lower(), event, fields)


class Recorder:
    """The place where all records of a process go."""

    def __init__(self, stream: TextIO | None, *, as_json: bool, process_fields: Mapping[str, object]) -> None:
        self._sink = Sink(stream)
        self._process_fields = {name: as_text(value) for name, value in masked_fields(process_fields).items()}
        self._gather: tuple[Processor, ...] = (
            structlog.contextvars.merge_contextvars,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            _add_trace,
            _add_error_code,
            structlog.processors.format_exc_info,  # plain: Rich's, the console's default, shows local variables
        )
        """What belongs to the record, and does not look at the values in it."""
        self._render = _as_json if as_json else _console(self._sink.stream)
        self.handler: Final = LibraryHandler(self)
        self.lost = 0
        """Records that could not be written."""

    def configure_structlog(self, threshold: int) -> None:
        """For libraries that use structlog itself."""
        structlog.configure(
            processors=[structlog.processors.add_log_level, *self._gather, self._arranged, self._render],
            wrapper_class=structlog.make_filtering_bound_logger(threshold),
            logger_factory=lambda *_: self._sink,
            cache_logger_on_first_use=False,
        )

    def unconfigure_structlog(self) -> None:
        structlog.reset_defaults()

    def record(self, logger: str, level: str, event: str, fields: Mapping[str, object]) -> None:
        """Writes a line. Never raises: whatever a value or the stream does wrong, the caller has other work to do."""
        try:
            self._write(logger, level, event, fields)
        except Exception as error:  # noqa: BLE001 - see above
            try:
                self._write(logger, level, event, {**fields, "logging_error": repr(error)}, texts_only=True)
            except Exception:  # noqa: BLE001 - the stream itself failed, and there is no other place to say so; the count is a metric
                self.lost += 1

    def _write(
        self, logger: str, level: str, event: str, fields: Mapping[str, object], *, texts_only: bool = False
    ) -> None:
        record: Any = {**fields, "logger": logger, "level": level, "event": event}
        for process in self._gather:
            record = process(None, level, record)
        if texts_only:
            record = {name: as_text(value) for name, value in record.items()}
        self._sink.write(self._render(None, level, self._arranged(None, level, record)))

    def _arranged(self, _logger: object, _method: str, record: Record) -> Record:
        """Secrets masked; what every record has comes first, then what the process is, then the rest."""
        fields = masked_fields(record)
        first = {name: fields.pop(name) for name in _FIRST if name in fields}
        return {**first, **self._process_fields, **fields}


def _add_trace(_logger: object, _method: str, record: Record) -> Record:
    trace = current_trace()
    if trace is not None:
        record["trace_id"], record["span_id"] = trace
    return record


def _add_error_code(_logger: object, _method: str, record: Record) -> Record:
    exc_info = record.get("exc_info")
    error = cast("tuple[object, object, object]", exc_info)[1] if isinstance(exc_info, tuple) else exc_info
    if isinstance(error, QuarterdeckError):
        record.setdefault("error_code", error.code)
    return record


_ENCODER: Final = json.JSONEncoder(default=repr, allow_nan=False)
"""NaN is not JSON; a record that has one is written as texts."""


def _as_json(_logger: object, _method: str, record: Record) -> str:
    return _ENCODER.encode(record)


def _console(stream: TextIO) -> Callable[[object, str, Record], str]:
    colors = stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    render = structlog.dev.ConsoleRenderer(colors=colors, sort_keys=False)

    def as_text_for_people(logger: object, method: str, record: Record) -> str:
        for name, value in record.items():
            if isinstance(value, str) and not value.isprintable():
                record[name] = _LINES.get(name, _harmless)(value)
        return render(logger, method, record)

    return as_text_for_people


def _harmless(text: str) -> str:
    """A text that cannot move the cursor of a terminal. One with spaces in it the renderer quotes by itself."""
    return text if any(character in text for character in " \t=\r\n\"'") else repr(text)[1:-1]


def _harmless_lines(text: str) -> str:
    return "\n".join(line if line.isprintable() else repr(line)[1:-1] for line in text.split("\n"))


_LINES: Final[Mapping[str, Callable[[str], str]]] = {"event": _harmless_lines, "exception": _harmless_lines}
"""Fields that are printed as they are, in several lines if they have them."""
