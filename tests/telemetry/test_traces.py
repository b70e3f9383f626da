"""Spans when they are wanted, nothing when they are not."""

import asyncio
import importlib.metadata
import io
import json
import sys
from collections.abc import Iterator, Sequence

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import ConsoleSpanExporter, SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

from quarterdeck.core.errors import ErrorCode, QuarterdeckError
from quarterdeck.telemetry import logs, traces
from quarterdeck.telemetry.traces import configure_tracing, current_trace, exporter_names, span, stop_tracing

VARIABLES = (
    "OTEL_SDK_DISABLED",
    "OTEL_TRACES_EXPORTER",
    "OTEL_SERVICE_NAME",
    "OTEL_RESOURCE_ATTRIBUTES",
    "OTEL_EXPORTER_OTLP_ENDPOINT",
    "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
    "OTEL_EXPORTER_OTLP_PROTOCOL",
    "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL",
)


@pytest.fixture(autouse=True)
def quiet_environment(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    yield
    stop_tracing()


class Recorded:
    """Spans that were recorded, once tracing has stopped."""

    def __init__(self) -> None:
        self.exporter = InMemorySpanExporter()
        assert configure_tracing("coordinator", exporter=self.exporter, coordinator_id="c-1")

    def spans(self) -> dict[str, ReadableSpan]:
        stop_tracing()
        return {found.name: found for found in self.exporter.get_finished_spans()}


@pytest.fixture
def recorded() -> Recorded:
    return Recorded()


def test_a_span_has_the_ids_of_its_query_and_work(recorded: Recorded) -> None:
    with span("fetch", query_id="q-1", work_id="w-1", size_bytes=5) as fetch:
        fetch.set(rows=7)
    attributes = recorded.spans()["fetch"].attributes
    assert dict(attributes or {}) == {
        "quarterdeck.query_id": "q-1",
        "quarterdeck.work_id": "w-1",
        "quarterdeck.size_bytes": 5,
        "quarterdeck.rows": 7,
    }


def test_a_span_inside_another_is_its_child_in_tasks_too(recorded: Recorded) -> None:
    async def fetch() -> None:
        with span("fetch"):
            await asyncio.sleep(0)

    async def query(name: str) -> None:
        with span(name):
            await asyncio.create_task(fetch())

    async def both() -> None:
        with span("all"):
            await asyncio.gather(query("query 1"), query("query 2"))

    asyncio.run(both())
    stop_tracing()
    spans = recorded.exporter.get_finished_spans()
    names = {found.context.span_id: found.name for found in spans if found.context is not None}
    parents = sorted((found.name, names[found.parent.span_id]) for found in spans if found.parent is not None)
    assert parents == [("fetch", "query 1"), ("fetch", "query 2"), ("query 1", "all"), ("query 2", "all")]


def test_an_error_marks_the_span_and_goes_on(recorded: Recorded) -> None:
    with pytest.raises(QuarterdeckError), span("query"):
        raise QuarterdeckError(ErrorCode.NO_WORKER, "the query was not run", "no worker joined", "start one")
    query = recorded.spans()["query"]
    assert query.status.status_code is StatusCode.ERROR
    assert (query.attributes or {})["quarterdeck.error_code"] == "no_worker"
    assert [event.name for event in query.events] == ["exception"]


def test_a_canceled_span_is_no_error_and_says_so(recorded: Recorded) -> None:
    async def cancel_it() -> None:
        async def work() -> None:
            with span("work"):
                await asyncio.Event().wait()

        task = asyncio.create_task(work())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancel_it())
    work = recorded.spans()["work"]
    assert work.status.status_code is StatusCode.UNSET
    assert (work.attributes or {})["quarterdeck.canceled"] is True


def test_the_resource_says_which_process_it_was(recorded: Recorded) -> None:
    with span("x"):
        pass
    resource = recorded.spans()["x"].resource.attributes
    assert (resource["service.name"], resource["coordinator_id"]) == ("coordinator", "c-1")


def test_the_name_in_the_environment_goes_before_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_SERVICE_NAME", "production-coordinator")
    recorded = Recorded()
    with span("x"):
        pass
    assert recorded.spans()["x"].resource.attributes["service.name"] == "production-coordinator"


def test_logs_inside_a_span_carry_its_ids(recorded: Recorded) -> None:
    stream = io.StringIO()
    logs.configure("json", "info", stream=stream)
    try:
        with span("x"):
            inside = current_trace()
            logs.get_logger("quarterdeck").info("inside")
        logs.get_logger("quarterdeck").info("outside")
    finally:
        logs.unconfigure()
    first, second = (json.loads(line) for line in stream.getvalue().splitlines())
    assert inside is not None
    assert (first["trace_id"], first["span_id"]) == inside
    assert "trace_id" not in second


def test_without_an_exporter_nothing_is_recorded_and_nothing_made() -> None:
    assert configure_tracing("worker") is False
    with span("x", query_id="q-1") as first, span("y") as second:
        first.set(rows=1)
        assert first is second
    assert current_trace() is None


def test_an_error_passes_through_a_span_that_is_not_recorded() -> None:
    with pytest.raises(ValueError, match="odd"), span("x"):
        raise ValueError("odd")


def test_stopping_twice_and_configuring_again_is_fine() -> None:
    first, second = Recorded(), Recorded()
    with span("x"):
        pass
    assert list(second.spans()) == ["x"]
    assert first.exporter.get_finished_spans() == ()
    stop_tracing()


@pytest.mark.parametrize(
    "environment, exporters",
    [
        ({}, []),
        ({"OTEL_TRACES_EXPORTER": "none"}, []),
        ({"OTEL_TRACES_EXPORTER": "console"}, ["console"]),
        ({"OTEL_TRACES_EXPORTER": "otlp"}, ["otlp_proto_http"]),
        ({"OTEL_TRACES_EXPORTER": " otlp , console "}, ["otlp_proto_http", "console"]),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318"}, ["otlp_proto_http"]),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://collector:4318"}, ["otlp_proto_http"]),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "x", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, ["otlp_proto_grpc"]),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "x", "OTEL_TRACES_EXPORTER": "none"}, []),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": ""}, []),
        ({"OTEL_TRACES_EXPORTER": "console", "OTEL_SDK_DISABLED": "TRUE"}, []),
    ],
)
def test_the_environment_says_where_spans_go(environment: dict[str, str], exporters: list[str]) -> None:
    assert exporter_names(environment) == exporters


def test_an_exporter_that_is_asked_for_gets_the_spans(monkeypatch: pytest.MonkeyPatch) -> None:
    exported: list[str] = []

    def export(_self: ConsoleSpanExporter, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        exported.extend(found.name for found in spans)
        return SpanExportResult.SUCCESS

    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "console")
    monkeypatch.setattr(ConsoleSpanExporter, "export", export)
    assert configure_tracing("worker")
    with span("execute", work_id="w-1"):
        pass
    stop_tracing()
    assert exported == ["execute"]


def test_an_exporter_that_nobody_has_is_a_warning(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "carrier-pigeon")
    assert configure_tracing("worker") is False
    assert "a trace exporter is missing exporter=carrier-pigeon" in caplog.text


def test_an_exporter_that_does_not_start_is_an_error_in_the_log(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    class Broken:
        def load(self) -> object:
            raise RuntimeError("no certificate")

    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "console")

    def found(**_: str) -> list[Broken]:
        return [Broken()]

    monkeypatch.setattr(importlib.metadata, "entry_points", found)
    assert configure_tracing("worker") is False
    assert "no certificate" in caplog.text


def test_opentelemetry_that_is_not_installed_is_a_warning(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "otlp")

    def find_nothing(_name: str) -> None:
        return None

    monkeypatch.setattr(traces, "find_spec", find_nothing)
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    assert configure_tracing("worker") is False
    assert "OpenTelemetry is not installed" in caplog.text
