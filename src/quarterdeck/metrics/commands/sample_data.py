"""`quarterdeck sample-data`: something to try right after `up`. It makes metrics in the lake, and files to scan and
search."""

import shlex
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from quarterdeck.core.tenants import DEFAULT_TENANT
from quarterdeck.metrics.commands.importing import opened_lake
from quarterdeck.metrics.commands.lake_target import LakeTarget, TargetOrder, find_target
from quarterdeck.metrics.commands.sample_files import LOGS, REQUESTS, write_files
from quarterdeck.metrics.commands.sample_metrics import SampleMetrics
from quarterdeck.metrics.importing.importer import Imported, ImportSource, import_file
from quarterdeck.security.exposure import is_loopback
from quarterdeck.terminal.options import DEFAULT_URL
from quarterdeck.terminal.shown_times import shown_span
from quarterdeck.terminal.telling import counted, printable
from quarterdeck.terminal.times import now_s

_NAME: Final = "sample-data"


@dataclass(frozen=True, slots=True)
class SampleOrder:
    """What somebody asked for."""

    target: TargetOrder
    folder: Path
    tenant: str
    hours: float
    seed: int


def run(order: SampleOrder) -> int:
    """All of it takes the place of what an earlier run has made."""
    target = find_target(order.target)
    sys.stderr.write(f"importing into {target.told}\n")
    end_s = int(now_s())
    files = write_files(order.folder, end_s, order.hours, order.seed)
    metrics = _import(target, order, end_s)
    record = metrics.record
    say = sys.stdout.write
    series = counted(record.series_count, "series", "series")
    span = shown_span(record.first_ms, record.last_ms)
    say(f"metrics: {counted(record.sample_count, 'sample')} of {series}, {span}\n")
    folder = printable(str(order.folder.absolute()))
    say(f"files: {counted(files.lines, 'log line')} and {counted(files.rows, 'request')} in {folder}\n")
    say(f"lake: {target.told}\n\n")
    for line in _suggested(order, target):
        say(f"{line}\n")
    return 0


def _import(target: LakeTarget, order: SampleOrder, end_s: int) -> Imported:
    # The options are always the same, whatever the hours and the seed: so there is one such import, and it is replaced.
    source = ImportSource(None, _NAME, lambda: SampleMetrics(end_s, order.hours, order.seed), _NAME)
    with opened_lake(target) as lake:
        return import_file(lake, source, order.tenant, again=True)


def _suggested(order: SampleOrder, target: LakeTarget) -> list[str]:
    """What to try, as it has to be written for this crew and from here."""
    access = order.target.access
    flags = "" if access.url == DEFAULT_URL else f" --url {shlex.quote(access.url)}"
    flags += "" if access.token_file is None else f" --token-file {shlex.quote(str(access.token_file))}"
    flags += "" if access.authority is None else f" --authority {shlex.quote(str(access.authority))}"
    flags += " --insecure" if access.insecure else ""
    whose = "" if order.tenant == DEFAULT_TENANT else f" --tenant {shlex.quote(order.tenant)}"
    last = f"--last {order.hours:g}h"
    requests, logs = (shlex.quote(str(order.folder / name)) for name in (REQUESTS, LOGS))
    slowest = "histogram_quantile(0.9, sum by (job, le) (rate(http_request_duration_seconds_bucket[5m])))"
    by_status = "'select date, status, count(*) as n from files group by all order by all'"
    queries = [
        f"quarterdeck query 'sum by (job) (rate(http_requests_total[5m]))' {last}{whose}{flags}",
        f"quarterdeck query '{slowest}' {last}{whose}{flags}",
        f"quarterdeck metrics{whose}{flags}",
    ]
    files = [
        f"quarterdeck scan {by_status} {requests}{flags}",
        f"quarterdeck search 'level=error | count() by service, path' {logs}{flags}",
    ]
    lines = ["Try this:", "", *(f"  {command}" for command in (*queries, *files))]
    if target.crew is None:
        lines.insert(0, "No crew was asked; these need one that has this lake.")
    elif not is_loopback(urlsplit(target.crew).hostname or ""):
        lines += ["", "The last two need a crew that sees these files: they are on this machine."]
    return lines
