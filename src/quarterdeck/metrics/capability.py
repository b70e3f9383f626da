"""Metrics: PromQL over samples in Parquet, with the API of Prometheus."""

from typing import Final

from quarterdeck.capability import Capability, Command, CompiledCode
from quarterdeck.core.named import Named
from quarterdeck.core.workcoord.kinds import WorkKind

_SIGNATURES: Final = "quarterdeck.metrics.commands.signatures"

METRICS: Final = Capability(
    name="metrics",
    coordinator_settings=Named("quarterdeck.metrics.settings:MetricsSettings"),
    worker_settings=Named("quarterdeck.metrics.settings:LeafSettings"),
    schema=Named("quarterdeck.metrics.tables:METRICS_SCHEMA"),
    metrics=Named("quarterdeck.metrics.metering:METRICS_OF_METRICS"),
    on_coordinator=Named("quarterdeck.metrics.on_coordinator:MetricsOnCoordinator"),
    on_worker=Named("quarterdeck.metrics.on_worker:MetricsOnWorker"),
    kinds=(WorkKind("leaf"),),
    compiled=CompiledCode(
        ("quarterdeck.metrics.promql.kernels", "quarterdeck.metrics.api"), Named("quarterdeck.metrics.warming:warm_all")
    ),
    to_try=("quarterdeck sample-data", "quarterdeck import METRICS.om", "quarterdeck metrics"),
    commands=(
        Command("import", "Import metrics into the lake.", Named(f"{_SIGNATURES}:import_metrics")),
        Command(
            "sample-data", "Make metrics, logs and tables to try things with.", Named(f"{_SIGNATURES}:sample_data")
        ),
        Command("metrics", "List the metrics, and when they have samples.", Named(f"{_SIGNATURES}:list_metrics")),
        Command("query", "Ask PromQL, and see a chart, a table, JSON or CSV.", Named(f"{_SIGNATURES}:query")),
        Command("explain", "Show how a PromQL query would be evaluated, or was.", Named(f"{_SIGNATURES}:explain")),
    ),
)
