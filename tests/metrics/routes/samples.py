"""What the tests of the routes ask about: a few minutes of several metrics, and one that takes long to ask about."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from quarterdeck.metrics.importing import importer
from quarterdeck.metrics.importing.openmetrics import OpenMetricsReader
from quarterdeck.metrics.tables import METRICS_SCHEMA
from quarterdeck.stores.database.opening import open_database
from quarterdeck.stores.objects import ObjectStores

START_S = 1_700_000_000
INTERVAL_S = 15
STEPS = 41
END_S = START_S + INTERVAL_S * (STEPS - 1)
"""Ten minutes later, when the last samples are."""
DAY_S = 86_400
TORN_SERIES = 16

HEAVY = "max_over_time(double_exponential_smoothing(load[4d], 0.3, 0.3)[4d:1s])"
"""Seconds of work for a worker, at any time within days after the samples."""


class LakeFolder:
    """A lake beside a coordinator's folder, where it looks for one."""

    def __init__(self, parent: Path) -> None:
        self.folder = parent / "lake"
        self.segments = self.folder / "segments"
        self.segments.mkdir(parents=True)

    def add(self, name: str, lines: Iterator[str], tenant: str = "default") -> list[Path]:
        """Imports lines of OpenMetrics; the files that they are in."""
        source = self.folder / f"{name}.om"
        source.write_text("\n".join([*lines, "# EOF", ""]))
        before = set(self.segments.rglob("*.parquet"))
        with closing(open_database(str(self.folder / "catalog.db"), (METRICS_SCHEMA,))) as database:
            database.upgrade()
            lake = importer.Lake(database, ObjectStores(), str(self.segments))
            read = importer.ImportSource(source, "openmetrics", lambda: OpenMetricsReader(source))
            importer.import_file(lake, read, tenant, shard_count=2)
        return sorted(set(self.segments.rglob("*.parquet")) - before)


def requests() -> Iterator[str]:
    """A counter of four series: each rises by its own number from one sample to the next."""
    yield "# TYPE http_requests counter"
    yield "# HELP http_requests Requests that were answered."
    for number, (job, code) in enumerate((job, code) for job in ("api", "web") for code in ("200", "500")):
        for step in range(STEPS):
            labels = f'job="{job}",code="{code}"'
            yield f"http_requests_total{{{labels}}} {step * (number + 1)} {START_S + step * INTERVAL_S}"


def gauges() -> Iterator[str]:
    yield "# TYPE memory_bytes gauge"
    yield "# UNIT memory_bytes bytes"
    yield "# HELP memory_bytes Memory\\nin use."
    for job in ("api", "web"):
        yield from (f'memory_bytes{{job="{job}"}} {step} {START_S + step * INTERVAL_S}' for step in range(STEPS))
    yield "# TYPE odd gauge"
    values = ("NaN", "+Inf", "-Inf", "0.1")
    yield from (f"odd {value} {START_S + step * INTERVAL_S}" for step, value in enumerate(values))
    for name in ("twin_a", "twin_b"):
        yield f"# TYPE {name} gauge"
        yield from (f'{name}{{job="api"}} {step} {START_S + step * INTERVAL_S}' for step in range(STEPS))


def load() -> Iterator[str]:
    """A day, every half minute."""
    yield "# TYPE load gauge"
    for host in range(10):
        for step in range(DAY_S // 30):
            yield f'load{{host="h{host}"}} {(host * 31 + step * 7) % 101} {START_S - DAY_S + step * 30}'


def torn() -> Iterator[str]:
    """So many series that each of two shards has some."""
    yield "# TYPE torn gauge"
    yield from (f'torn{{place="{place}"}} 1 {START_S}' for place in range(TORN_SERIES))


def secrets() -> Iterator[str]:
    yield "# TYPE secret gauge"
    yield f'secret{{hidden="yes"}} 1 {START_S}'
