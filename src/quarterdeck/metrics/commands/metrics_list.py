"""`quarterdeck metrics`: which metrics there are, of what type, of how many series, and when they have samples."""

import csv
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, TextIO

from quarterdeck.metrics.commands.choices import ListFormat
from quarterdeck.metrics.commands.metric_answers import MetricAnswer, ask_names, ask_ranges
from quarterdeck.metrics.name_patterns import name_pattern
from quarterdeck.terminal.client import Access, Client
from quarterdeck.terminal.shown_times import shown_span, shown_time
from quarterdeck.terminal.telling import printable, reader_gone

_COLUMNS = ("metric", "type", "series", "samples", "first", "last", "help")


def run(access: Access, pattern: str, limit: int, tenant: str | None, form: ListFormat) -> int:
    client = Client(access)
    told = ask_ranges(client, pattern, limit, tenant)
    if told is None:  # a server of the Prometheus API that is none of ours
        told = _by_name(client, pattern, limit, tenant)
    metrics, are_more = told
    try:
        _write(metrics, form)
        sys.stdout.flush()
    except BrokenPipeError:
        return reader_gone()
    whose = f"the tenant {tenant or 'default'}"
    if not metrics and pattern:
        _say(f"no metric of {whose} is like {pattern}; `quarterdeck metrics` lists all")
    elif not metrics:
        _say(f"there are no metrics for {whose}; `quarterdeck import` and `quarterdeck sample-data` bring some")
    if are_more:
        _say(f"there are more: narrow them with a PATTERN, or raise --limit {limit}")
    return 0


def _by_name(client: Client, pattern: str, limit: int, tenant: str | None) -> tuple[list[MetricAnswer], bool]:
    names = ask_names(client, 0, tenant)
    if names is None:
        raise client.stranger("it has no list of metrics")
    matches = name_pattern(pattern).fullmatch if pattern else None
    found = [MetricAnswer(name) for name in names if matches is None or matches(name)]
    return found[:limit], len(found) > limit


def _write(metrics: Sequence[MetricAnswer], form: ListFormat) -> None:
    match form:
        case ListFormat.JSON:
            json.dump([_document(one) for one in metrics], sys.stdout, indent=2)
            sys.stdout.write("\n")
        case ListFormat.CSV:
            _write_csv(metrics, sys.stdout)
        case ListFormat.TABLE:
            if metrics:
                _print_table(metrics)


def _document(one: MetricAnswer) -> dict[str, Any]:
    first, last = _times(one)
    return {**asdict(one), "first": first or None, "last": last or None}


def _write_csv(metrics: Sequence[MetricAnswer], out: TextIO) -> None:
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(_COLUMNS)
    for one in metrics:
        series, samples = "" if one.series is None else one.series, "" if one.samples is None else one.samples
        writer.writerow([one.metric, one.type, series, samples, *_times(one), one.help])


def _print_table(metrics: Sequence[MetricAnswer]) -> None:
    from rich.table import Table  # noqa: PLC0415 - the request comes first
    from rich.text import Text  # noqa: PLC0415

    from quarterdeck.terminal.stdout_console import StdoutConsole  # noqa: PLC0415

    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim", pad_edge=False)
    table.add_column("metric", overflow="fold")
    table.add_column("type")
    table.add_column("series", justify="right", no_wrap=True)
    table.add_column("first", no_wrap=True)
    table.add_column("last", no_wrap=True)
    for one in metrics:
        table.add_row(Text(printable(one.metric)), Text(printable(one.type)), _series(one), *_times(one))
    console = StdoutConsole()
    if console.has_room(table):
        console.print_whole(table)
    else:
        for one in metrics:
            console.print(Text(printable(one.metric)))
            console.print(Text(f"  {_details(one)}", style="dim"))
    if any(one.first_ms is not None and not one.times_are_exact for one in metrics):
        _say("some were imported by an earlier release: their samples are within the times that are shown")


def _series(one: MetricAnswer) -> str:
    return "" if one.series is None else f"{'' if one.series_are_all else '≥ '}{one.series:,}"


def _details(one: MetricAnswer) -> str:
    """All but the name, below it: in a narrow window a name is not cut for it."""
    series = _series(one)
    told = (printable(one.type), f"{series} series" if series else "", shown_span(one.first_ms, one.last_ms))
    return ", ".join(part for part in told if part)


def _times(one: MetricAnswer) -> tuple[str, str]:
    if one.first_ms is None or one.last_ms is None:
        return "", ""
    return shown_time(one.first_ms), shown_time(one.last_ms)


def _say(text: str) -> None:
    sys.stderr.write(f"{printable(text)}\n")
