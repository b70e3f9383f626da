"""Traces: spans of queries and works, if somebody wants them; otherwise nothing, at next to no cost.

OpenTelemetry is optional (the extra `tracing`), and its own environment variables configure it. It is loaded only if
these ask for an exporter. Tracing never keeps a process from starting: its errors are logged.

The provider is private: the global one can be set only once in a process, and may belong to somebody else.
"""

import os
from collections.abc import Mapping
from contextlib import AbstractContextManager
from importlib.util import find_spec
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self, TypeAlias, cast

from quarterdeck.core.errors import QuarterdeckError
from quarterdeck.telemetry.logs import get_logger

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SpanExporter
    from opentelemetry.trace import Span as RecordedSpan
    from opentelemetry.trace import Tracer

AttributeValue: TypeAlias = str | bool | int | float

_log = get_logger(__name__)

_ENDPOINTS: Final = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
_PROTOCOLS: Final = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
_OTLP_BY_PROTOCOL: Final = {"http/protobuf": "otlp_proto_http", "grpc": "otlp_proto_grpc"}


class _State:
    """Where spans go now: a process has one such place."""

    provider: "TracerProvider | None" = None
    tracer: "Tracer | None" = None


class Span:
    """A stretch of time with a name, to be used in a `with` statement, around awaits too. This one is not recorded."""

    __slots__ = ()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        pass

    def set(self, **attributes: AttributeValue) -> None:
        """Adds what became known on the way."""


_NOT_RECORDED: Final = Span()


class _Recorded(Span):
    __slots__ = ("_manager", "_span")

    def __init__(self, manager: "AbstractContextManager[RecordedSpan]") -> None:
        self._manager = manager

    def __enter__(self) -> Self:
        self._span = self._manager.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        from asyncio import CancelledError  # noqa: PLC0415 - loaded already in a process that awaits, and dear in others

        if isinstance(error, QuarterdeckError):
            self.set(error_code=error.code)
        if isinstance(error, CancelledError):
            self.set(canceled=True)  # OpenTelemetry takes it for a normal end, as it is no Exception
        self._manager.__exit__(kind, error, traceback)

    def set(self, **attributes: AttributeValue) -> None:
        self._span.set_attributes(_named(attributes))


def span(name: str, *, query_id: str | None = None, work_id: str | None = None, **attributes: AttributeValue) -> Span:
    """What happens inside is part of this span, in this task and in those it starts; an exception marks it as failed.

    Attributes are exposed as `quarterdeck.<name>`. Not to be held open across the `yield` of an asynchronous generator,
    which may be closed in another context than it began in.
    """
    tracer = _State.tracer
    if tracer is None:
        return _NOT_RECORDED
    if query_id is not None:
        attributes["query_id"] = query_id
    if work_id is not None:
        attributes["work_id"] = work_id
    return _Recorded(tracer.start_as_current_span(name, attributes=_named(attributes)))


def _named(attributes: Mapping[str, AttributeValue]) -> dict[str, AttributeValue]:
    return {f"quarterdeck.{name}": value for name, value in attributes.items()}


def current_trace() -> tuple[str, str] | None:
    """The ids of the current trace and span, for logs; None when there is none."""
    if _State.tracer is None:
        return None
    from opentelemetry import trace  # noqa: PLC0415 - configuring tracing has loaded it

    context = trace.get_current_span().get_span_context()
    return (
        (trace.format_trace_id(context.trace_id), trace.format_span_id(context.span_id)) if context.is_valid else None
    )


def configure_tracing(service_name: str, *, exporter: "SpanExporter | None" = None, **resource: str) -> bool:
    """Begins to record spans if the environment asks for an exporter, or one is given; says whether it does.

    `OTEL_TRACES_EXPORTER` names exporters; without it an OTLP endpoint in the environment is enough.
    `OTEL_SERVICE_NAME` goes before `service_name`. The resource is what all spans have in common.
    """
    exporters = _exporters_asked_for() if exporter is None else [exporter]
    if not exporters:
        return False
    from opentelemetry.sdk.resources import Resource  # noqa: PLC0415 - loaded when it is needed
    from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415
    from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415

    stop_tracing()
    name = os.environ.get("OTEL_SERVICE_NAME") or service_name
    provider = TracerProvider(resource=Resource.create({**resource, "service.name": name}))
    for each in exporters:
        provider.add_span_processor(BatchSpanProcessor(each))
    _State.provider, _State.tracer = provider, provider.get_tracer("quarterdeck")
    return True


def stop_tracing() -> None:
    """Exports what is left and ends tracing. It may wait for the exporter: not for the event loop's thread."""
    provider, _State.provider, _State.tracer = _State.provider, None, None
    if provider is not None:
        provider.shutdown()


def _exporters_asked_for() -> "list[SpanExporter]":
    names = exporter_names(os.environ)
    if names and not _is_installed():
        _log.warning(
            "tracing is off",
            why="the environment asks for it, and OpenTelemetry is not installed",
            next_step="install quarterdeck[tracing], or unset OTEL_TRACES_EXPORTER and the OTLP endpoint",
        )
        return []
    return [exporter for name in names if (exporter := _load(name)) is not None]


def _is_installed() -> bool:
    return find_spec("opentelemetry") is not None and find_spec("opentelemetry.sdk") is not None


def exporter_names(environment: Mapping[str, str]) -> list[str]:
    """As OpenTelemetry's specification reads these variables, but for the default, which is none."""
    if environment.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return []
    default = "otlp" if any(environment.get(variable) for variable in _ENDPOINTS) else "none"
    asked = environment.get("OTEL_TRACES_EXPORTER", "").strip() or default
    protocol = next((environment[variable] for variable in _PROTOCOLS if environment.get(variable)), "http/protobuf")
    names = [name.strip() for name in asked.split(",")]
    return [
        _OTLP_BY_PROTOCOL.get(protocol, protocol) if name == "otlp" else name
        for name in names
        if name not in ("", "none")
    ]


def _load(name: str) -> "SpanExporter | None":
    from importlib.metadata import entry_points  # noqa: PLC0415 - loaded when it is needed

    found = entry_points(group="opentelemetry_traces_exporter", name=name)
    if not found:
        _log.warning(
            "a trace exporter is missing",
            exporter=name,
            why="no installed package has it",
            next_step="install quarterdeck[tracing], or another package that has it",
        )
        return None
    try:
        return cast("SpanExporter", next(iter(found)).load()())
    except Exception:  # noqa: BLE001 - an exporter may do anything when it starts, and the process must start all the same
        _log.exception("a trace exporter does not start", exporter=name)
        return None
