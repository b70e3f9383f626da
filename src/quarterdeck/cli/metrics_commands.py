"""The commands over metrics. Heavy imports wait until a command needs them."""

from pathlib import Path
from typing import Annotated

import typer

from quarterdeck.cli import options as opt
from quarterdeck.cli.telling import exit_code_of


def import_metrics(
    files: Annotated[
        list[Path] | None,
        typer.Argument(help="OpenMetrics (.om), Prometheus' text (.prom) or Parquet; also .gz and .zst."),
    ] = None,
    format: Annotated[  # noqa: A002 - the word that people write
        opt.MetricsFormat | None, typer.Option(help="What the files are.  [default: by the ends of their names]")
    ] = None,
    metric_column: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="Parquet: the metric's name.  [default: metric]")
    ] = None,
    metric: Annotated[
        str | None, typer.Option(metavar="NAME", help="Parquet: the name for all rows, instead of a column.")
    ] = None,
    timestamp_column: Annotated[str, typer.Option(metavar="COLUMN", help="Parquet: the time.")] = "timestamp",
    timestamp_unit: Annotated[
        opt.TimestampUnit, typer.Option(help="Parquet: the unit of times that are plain numbers.")
    ] = opt.TimestampUnit.MILLISECONDS,
    value_column: Annotated[str, typer.Option(metavar="COLUMN", help="Parquet: the value.")] = "value",
    label_column: Annotated[
        list[str] | None,
        typer.Option(metavar="[LABEL=]COLUMN", help="Parquet: a column that is a label, as often as needed."),
    ] = None,
    labels_column: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN",
            help="Parquet: a column with all labels, a map or JSON.  [default: labels, without --label-column]",
        ),
    ] = None,
    tenant: Annotated[str, typer.Option(help="Whose metrics they are.")] = "default",
    shards: Annotated[
        int | None,
        typer.Option(min=1, max=64, help="Parts to store the series in, a power of two.  [default: by their number]"),
    ] = None,
    listed: Annotated[bool, typer.Option("--list", help="Show what was imported, instead of importing.")] = False,
    again: Annotated[
        bool, typer.Option("--again", help="Import what was imported before, too, and replace it.")
    ] = False,
    data_dir: Annotated[
        Path | None,
        typer.Option(
            help="The folder of the crew: catalog and segments are below it.  [default: quarterdeck-data]",
            file_okay=False,
            callback=opt.whole,
        ),
    ] = None,
    config: opt.ConfigFile = None,
    settings: opt.Settings = None,
) -> None:
    """Import metrics into the lake.

    The samples become Parquet files, sorted and sharded by series, that the crew queries and any other tool can read.
    It works whether a crew is running or not; queries see the new samples as soon as this ends. A file is imported as a
    whole or not at all, and the same file only once. Where the catalog and the segments are is a matter of the
    coordinator's settings `database_url` and `lake_url`, or of --data-dir.

    Examples:

      quarterdeck import metrics.om

    \b
      quarterdeck import samples.parquet --metric cpu_seconds_total \\
        --timestamp-column ts --value-column v --label-column host --label-column job

      quarterdeck import metrics.om.gz --set database_url=postgresql://… --set lake_url=s3://lake/metrics
    """
    from quarterdeck.cli.importing import ImportOrder, mapping_of, run, show  # noqa: PLC0415 - loaded when it is needed

    if not files and not listed:
        raise typer.BadParameter("name at least one, or --list", param_hint="FILES")
    if shards is not None and shards & (shards - 1):
        raise typer.BadParameter(f"{shards} is no power of two", param_hint="--shards")
    if not tenant or tenant != tenant.strip():
        raise typer.BadParameter("nobody could ask for such a name: X-Scope-OrgID is trimmed", param_hint="--tenant")
    try:
        mapping = mapping_of(
            metric_column, metric, timestamp_column, timestamp_unit, value_column, label_column or (), labels_column
        )
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    order = ImportOrder(files or (), format, mapping, tenant, shards, again, data_dir, config, settings or ())
    raise typer.Exit(exit_code_of(lambda: show(order) if listed else run(order)))


def query(
    query: Annotated[str, typer.Argument(help="PromQL, in quotes.", show_default=False)],
    last: Annotated[
        str | None, typer.Option(metavar="DURATION", help="A range query over so long, until --end: 30m, 6h, 7d.")
    ] = None,
    start: opt.Start = None,
    end: opt.End = None,
    at: opt.At = None,
    step: Annotated[
        str | None,
        typer.Option(metavar="DURATION", help="From one point to the next.  [default: what the chart has room for]"),
    ] = None,
    format: Annotated[  # noqa: A002 - the word that people write
        opt.QueryFormat | None,
        typer.Option(help="[default: table; of a range a chart on a terminal, csv in a pipe]"),
    ] = None,
    timeout: opt.Timeout = None,
    tenant: opt.Tenant = None,
    partial: Annotated[
        opt.Partial | None, typer.Option(help="Whether an answer without what cannot be read is better than none.")
    ] = None,
    url: opt.Url = opt.DEFAULT_URL,
    token_file: opt.TokenFile = None,
    authority: opt.Authority = None,
    insecure: opt.InClear = False,
) -> None:
    """Ask PromQL, and see a chart, a table, JSON or CSV.

    Without times it is an instant query: a table with a row for each series. With --last or --start it is a range
    query: a chart on a terminal, and CSV with every sample in a pipe or a file. A TIME is now, now-2h,
    2026-01-31T12:00:00Z (local time without the zone) or seconds since 1970.

    Any server of the Prometheus HTTP API can be asked. JSON is its answer as it came. Warnings are on stderr.

    Examples:

      quarterdeck query up

      quarterdeck query 'sum by (job) (rate(http_requests_total[5m]))' --last 6h

      quarterdeck query 'topk(5, up)' --at now-2h --url http://localhost:9090

    \b
      quarterdeck query 'rate(http_requests_total[5m])' --format csv \\
        --start 2026-01-31T00:00:00Z --end 2026-02-01T00:00:00Z --step 1m > rates.csv
    """
    from quarterdeck.cli.client import Access  # noqa: PLC0415 - loaded when it is needed
    from quarterdeck.cli.query import QueryOrder, run  # noqa: PLC0415
    from quarterdeck.cli.query_times import TimeOptions  # noqa: PLC0415

    times = TimeOptions(at, start, end, last, step)
    opt.check_times(at, start, end, last, step)
    if format is opt.QueryFormat.CHART and not times.is_range:
        raise typer.BadParameter("a chart needs a range: add --last 1h", param_hint="--format")
    order = QueryOrder(query, times, format, timeout, tenant, partial)
    access = Access(url, token_file, authority, insecure)
    raise typer.Exit(exit_code_of(lambda: run(access, order)))


def explain(
    query: Annotated[str, typer.Argument(help="PromQL, in quotes.", show_default=False)],
    last: Annotated[
        str, typer.Option(metavar="DURATION", help="As a range query over so long; 0 makes it an instant query.")
    ] = "1h",
    step: Annotated[str, typer.Option(metavar="DURATION", help="From one point of the range to the next.")] = "1m",
    analyze: Annotated[
        bool, typer.Option("--analyze", help="Run it on the crew, and show where the time went.")
    ] = False,
    end: Annotated[
        str | None, typer.Option(metavar="TIME", help="With --analyze: where the range ends.  [default: now]")
    ] = None,
    timeout: opt.Timeout = None,
    tenant: opt.Tenant = None,
    url: opt.Url = opt.DEFAULT_URL,
    token_file: opt.TokenFile = None,
    authority: opt.Authority = None,
    insecure: opt.InClear = False,
) -> None:
    """Show how a PromQL query would be evaluated, or where it is wrong.

    The tree at the top is what is left for the coordinator. Each leaf below it runs where the samples are: a selector,
    what can be computed series by series, and the aggregation on top if its parts can be put together. Nothing is read
    and nothing needs to run.

    With --analyze a coordinator runs the query, and below the plan there is a bar for each work: how long it waited,
    how long a worker had it, and how long its result took to come.

    Examples:

      quarterdeck explain 'sum by (job) (rate(http_requests_total[5m]))'

      quarterdeck explain 'histogram_quantile(0.9, sum by (le) (rate(latency_bucket[5m])))' --last 6h --step 30s

      quarterdeck explain 'topk(5, up)' --last 0

      quarterdeck explain 'sum(rate(http_requests_total[5m]))' --analyze --last 6h
    """
    if analyze:
        from quarterdeck.cli.client import Access  # noqa: PLC0415 - loaded when it is needed
        from quarterdeck.cli.explain_analyze import AnalyzeOrder  # noqa: PLC0415
        from quarterdeck.cli.explain_analyze import run as run_analyze  # noqa: PLC0415

        order = AnalyzeOrder(query, last, step, end, timeout, tenant)
        access = Access(url, token_file, authority, insecure)
        raise typer.Exit(exit_code_of(lambda: run_analyze(access, order)))
    from quarterdeck.cli.explain import run  # noqa: PLC0415 - loaded when it is needed

    for option, value in (("--end", end), ("--timeout", timeout), ("--tenant", tenant)):
        if value is not None:
            raise typer.BadParameter("nothing is run without --analyze", param_hint=option)
    raise typer.Exit(exit_code_of(lambda: run(query, last, step)))
