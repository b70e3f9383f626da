"""The page about metrics, made from the metrics."""

from collections.abc import Iterable

from quarterdeck.telemetry.contributions import MetricsOf
from quarterdeck.telemetry.exposition import new_registry
from quarterdeck.telemetry.metrics import CoordinatorMetrics, LeadershipMetrics, StoreMetrics, WorkerMetrics
from quarterdeck.telemetry.metrics.families import Audience, Description, Label
from quarterdeck.telemetry.metrics.process import OF_EVERY_PROCESS

_HEAD = """\
# Metrics

Every process answers `GET /metrics` in Prometheus' text format, or in OpenMetrics if the scraper asks for it.
OpenMetrics has exemplars: a bucket shows the `query_id` and `work_id` of one observation in it, and you find
them in logs and spans.

Ids are never labels. Label values come from closed sets, so the number of time series of a process is fixed. There are
two exceptions. The values of `node` are the nodes of the workers; if there are more than 1,000, those with the largest
numbers are shown. The values of `route` are those paths of a process that ever blocked its event loop.

Durations are in seconds, sizes in bytes. A total counts from the start of the process.
`python -m quarterdeck.reference metrics` prints this page, and a test keeps it equal to the code.

## For whom

| word | who looks at it |
|---|---|
"""

_AUDIENCES = {
    Audience.SERVICE_LEVEL: "people who are responsible for the service that users get",
    Audience.ON_CALL: "people who are called when something breaks, and need to know what and where",
    Audience.CAPACITY: "people who decide on workers, disk and memory; also autoscalers",
    Audience.TUNING: "people who change a setting or a plan, and want to know whether that helped",
}

_QUESTIONS = """\
## Questions and their answers

| question | PromQL |
|---|---|
| How long does the slowest of a hundred queries take? | `histogram_quantile(0.99, sum by (le) \
(rate(quarterdeck_coordinator_query_seconds_bucket{outcome="succeeded"}[5m])))` |
| Which share of queries ends within a second? | `sum(rate(quarterdeck_coordinator_query_seconds_bucket\
{outcome="succeeded",le="1.0"}[5m])) / sum(rate(quarterdeck_coordinator_query_seconds_count[5m]))` |
| Which share of works goes to the worker with the warm cache? | `sum(rate(\
quarterdeck_coordinator_affinity_assignments_total{result="hit"}[5m])) / sum(rate(\
quarterdeck_coordinator_affinity_assignments_total[5m]))` |
| How often does a fetched result differ from what was announced? | `sum(rate(\
quarterdeck_coordinator_checksum_mismatches_total[5m])) / sum(rate(quarterdeck_coordinator_fetch_seconds_count[5m]))` |
| Are the workers busy? | `sum(quarterdeck_worker_running_tasks) / sum(quarterdeck_worker_slots)` |
| Does work wait? | `max(quarterdeck_coordinator_oldest_work_age_seconds)` |
"""

_STANDARD = """\
prometheus-client adds its own: `process_resident_memory_bytes`, `process_cpu_seconds_total`, `process_open_fds` and
others about the process, `python_info`, and `python_gc_…` about its garbage collector.
"""


_LEADERSHIP = """\
In coordinators that elect a leader: where a capability declares state.
"""

_STORE = """\
In every process that reads or writes objects.
"""


def render(capabilities: Iterable[MetricsOf]) -> str:
    """The page, as Markdown; `capabilities` say what they add."""
    added = list(capabilities)
    coordinator, worker = CoordinatorMetrics(new_registry()), WorkerMetrics(new_registry(), ())
    for one in added:
        if one.on_coordinator is not None:
            one.on_coordinator(coordinator.families)
        if one.on_worker is not None:
            one.on_worker(worker.families)
    audiences = "".join(f"| {audience} | {who} |\n" for audience, who in _AUDIENCES.items())
    questions = "".join(f"| {asked} | `{answer}` |\n" for one in added for asked, answer in one.questions)
    services = [
        part
        for one in added
        for service in one.services
        for part in (f"## {service.title}\n", service.about + "\n", _table(service.make(new_registry()).families))
    ]
    return (
        "\n".join(
            [
                _HEAD + audiences,
                _QUESTIONS + questions,
                "## Every process\n",
                _table(OF_EVERY_PROCESS),
                _STANDARD,
                "## Coordinator\n",
                _table(coordinator.families),
                "## Worker\n",
                _table(worker.families),
                *services,
                "## Leadership\n",
                _LEADERSHIP,
                _table(LeadershipMetrics(new_registry()).families),
                "## Object stores\n",
                _STORE,
                _table(StoreMetrics(new_registry()).families),
            ]
        ).rstrip("\n")
        + "\n"
    )


def _table(descriptions: Iterable[Description]) -> str:
    rows = "".join(_row(description) for description in descriptions)
    return f"| name | type | labels | meaning | for whom |\n|---|---|---|---|---|\n{rows}"


def _row(about: Description) -> str:
    labels = "; ".join(_label(label) for label in about.labels)
    return f"| `{about.name}` | {about.type} | {labels} | {about.meaning} | {about.audience} |\n"


def _label(label: Label[str]) -> str:
    values = ", ".join(f"`{value}`" for value in label.values)
    return f"`{label.name}`: {values}" if values else f"`{label.name}`"
