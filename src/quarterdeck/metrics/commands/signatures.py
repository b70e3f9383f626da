"""The commands over metrics. Heavy imports wait until a command needs them."""

from pathlib import Path
from typing import Annotated

import typer

from quarterdeck.metrics.commands.choices import ListFormat, MetricsFormat, PartialChoice, QueryFormat, TimestampUnit
from quarterdeck.terminal import options as opt
from quarterdeck.terminal.telling import exit_code_of


def import_metrics(
    ctx: typer.Context,
    files: Annotated[
        list[str] | None,
        typer.Argument(
            help="OpenMetrics (.om), Prometheus' text (.prom) or Parquet; also .gz and .zst. In a bucket also folders "
            "and globs: s3://bucket/2026/*.om. - is standard input."
        ),
    ] = None,
    format: Annotated[  # noqa: A002 - the word that people write
        MetricsFormat | None, typer.Option(help="What the files are.  [default: by their names]")
    ] = None,
    at: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Text: the time of samples without a time, such as now or now-1h."),
    ] = None,
    metric_column: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="Parquet: the column with the metric's name.  [default: metric]"),
    ] = None,
    metric: Annotated[
        str | None, typer.Option(metavar="NAME", help="Parquet: the metric's name for all rows, instead of a column.")
    ] = None,
    timestamp_column: Annotated[
        str, typer.Option(metavar="COLUMN", help="Parquet: the column with the time.")
    ] = "timestamp",
    timestamp_unit: Annotated[
        TimestampUnit, typer.Option(help="Parquet: the unit of times that are plain numbers.")
    ] = TimestampUnit.MILLISECONDS,
    start_timestamp_column: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN", help="Parquet: the column with the time when a counter began to count, in the same unit."
        ),
    ] = None,
    value_column: Annotated[str, typer.Option(metavar="COLUMN", help="Parquet: the column with the value.")] = "value",
    label_column: Annotated[
        list[str] | None,
        typer.Option(metavar="[LABEL=]COLUMN", help="Parquet: a column that is a label. Repeat for more."),
    ] = None,
    labels_column: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN",
            help="Parquet: a column with all labels, a map or JSON.  [default: labels, without --label-column]",
        ),
    ] = None,
    created_timestamps: Annotated[
        bool,
        typer.Option(
            "--created-timestamps",
            help="OpenMetrics: read _created lines as the times when counters began to count, not as metrics.",
        ),
    ] = False,
    tenant: Annotated[str, typer.Option(help="Whose metrics they are.")] = "default",
    shards: Annotated[
        int | None,
        typer.Option(
            min=1, max=64, help="In how many parts series are stored, a power of two.  [default: by their number]"
        ),
    ] = None,
    listed: Annotated[bool, typer.Option("--list", help="List what was imported, and import nothing.")] = False,
    again: Annotated[
        bool, typer.Option("--again", help="Also import what was imported before, and replace it.")
    ] = False,
    url: opt.Url = opt.DEFAULT_URL,
    token_file: opt.TokenFile = None,
    authority: opt.Authority = None,
    insecure: opt.InClear = False,
    offline: opt.Offline = False,
    data_dir: opt.CrewFolder = None,
    config: opt.ConfigFile = None,
    settings: opt.Settings = None,
) -> None:
    """Import metrics into the lake of the running crew.

    The samples become Parquet files, sorted and sharded by series. The crew queries them, and any other tool can read
    them. Queries see the samples as soon as the import ends. A file is imported whole or not at all, and only once.

    The command asks the crew at --url where its lake is, and names the lake before and after. The crew does not tell
    the keys of a bucket or the password of a database: they are in --config, --set or the environment, as for the
    coordinator. With --data-dir no crew is asked. If no crew answers, the import goes to ./quarterdeck-data if that is
    the folder of a crew.

    A TIME is now, now-2h, -2h, 2026-01-31, 2026-01-31T12:00:00+01:00 (UTC without a zone) or seconds since 1970.

    Examples:

      quarterdeck import metrics.om

      curl -s http://127.0.0.1:7070/metrics | quarterdeck import - --format prometheus --at now

      quarterdeck import 's3://backup/2026/*.om.gz' --data-dir /var/lib/quarterdeck

    \b
      quarterdeck import samples.parquet --metric cpu_seconds_total \\
        --timestamp-column ts --value-column v \\
        --label-column host --label-column job

      quarterdeck import --list
    """
    from quarterdeck.metrics.commands.importing import ImportOrder, mapping_of, run, show  # noqa: PLC0415
    from quarterdeck.metrics.commands.lake_target import TargetOrder  # noqa: PLC0415
    from quarterdeck.terminal.client import Access  # noqa: PLC0415 - loaded when it is needed

    if not files and not listed:
        raise typer.BadParameter("name at least one, or --list", param_hint="FILES")
    if shards is not None and shards & (shards - 1):
        raise typer.BadParameter(f"{shards} is not a power of two", param_hint="--shards")
    opt.check_tenant(tenant)
    try:
        mapping = mapping_of(
            metric_column,
            metric,
            timestamp_column,
            timestamp_unit,
            value_column,
            label_column or (),
            labels_column,
            start_timestamp_column,
        )
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    access = Access(url, token_file, authority, insecure)
    target = TargetOrder(ctx.obj, access, data_dir, config, settings or (), offline)
    order = ImportOrder(files or (), format, mapping, tenant, shards, again, target, at, created_timestamps)
    raise typer.Exit(exit_code_of(lambda: show(order) if listed else run(order)))


def sample_data(
    ctx: typer.Context,
    folder: Annotated[Path, typer.Option("--dir", help="A new folder for logs and tables.", file_okay=False)] = Path(
        "quarterdeck-sample"
    ),
    hours: Annotated[
        float, typer.Option(min=0.1, max=168, help="How many hours of metrics and logs to make, up to now.")
    ] = 6.0,
    seed: Annotated[int, typer.Option(min=0, help="Another seed makes other data.")] = 1,
    tenant: Annotated[str, typer.Option(help="Whose metrics they are.")] = "default",
    url: opt.Url = opt.DEFAULT_URL,
    token_file: opt.TokenFile = None,
    authority: opt.Authority = None,
    insecure: opt.InClear = False,
    offline: opt.Offline = False,
    data_dir: opt.CrewFolder = None,
    config: opt.ConfigFile = None,
    settings: opt.Settings = None,
) -> None:
    """Make metrics, logs and tables to try things with, right after `quarterdeck up`.

    The metrics of a small web site go into the lake of the running crew, as with `quarterdeck import`: some hours of
    counters, gauges, classic and native histograms, up to now. A folder gets logs (NDJSON) to search, and requests
    (Parquet, a folder for each day) to scan. In the end the command prints commands to paste. There is something to
    find: an instance that was away, and a quarter of an hour with slow answers and errors.

    If you run it again, it replaces what it made before, up to the new now.

    Examples:

      quarterdeck sample-data

      quarterdeck sample-data --dir /tmp/sample --hours 24 --tenant team-a
    """
    from quarterdeck.metrics.commands.lake_target import TargetOrder  # noqa: PLC0415
    from quarterdeck.metrics.commands.sample_data import SampleOrder, run  # noqa: PLC0415
    from quarterdeck.terminal.client import Access  # noqa: PLC0415 - loaded when it is needed

    opt.check_tenant(tenant)
    target = TargetOrder(
        ctx.obj, Access(url, token_file, authority, insecure), data_dir, config, settings or (), offline
    )
    order = SampleOrder(target, folder, tenant, hours, seed)
    raise typer.Exit(exit_code_of(lambda: run(order)))


def list_metrics(
    pattern: Annotated[
        str, typer.Argument(help="Only names that contain this, or match it with * and ?.", show_default=False)
    ] = "",
    format: Annotated[  # noqa: A002 - the word that people write
        ListFormat, typer.Option(help="JSON and CSV also have the number of samples and the help texts.")
    ] = ListFormat.TABLE,
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="How many metrics to list at most.")] = 1000,
    tenant: opt.Tenant = None,
    url: opt.Url = opt.DEFAULT_URL,
    token_file: opt.TokenFile = None,
    authority: opt.Authority = None,
    insecure: opt.InClear = False,
) -> None:
    """List the metrics, and when they have samples.

    For each metric the list shows its type if an import gave one, the number of its series, and the times of its first
    and last sample. `quarterdeck query` takes these times as --at, --start and --end. A number after ≥ is a lower
    bound. The coordinator knows all this from its catalog. Another server of the Prometheus HTTP API gives only names.

    Examples:

      quarterdeck metrics

      quarterdeck metrics http

      quarterdeck metrics 'node_*_total' --format csv
    """
    from quarterdeck.metrics.commands.metrics_list import run  # noqa: PLC0415
    from quarterdeck.terminal.client import Access  # noqa: PLC0415 - loaded when it is needed

    access = Access(url, token_file, authority, insecure)
    raise typer.Exit(exit_code_of(lambda: run(access, pattern, limit, tenant, format)))


def query(
    query: Annotated[str, typer.Argument(help="PromQL, in quotes.", show_default=False)],
    last: Annotated[
        str | None, typer.Option(metavar="DURATION", help="Ask over this time up to --end (range query): 30m, 6h, 7d.")
    ] = None,
    start: opt.Start = None,
    end: opt.End = None,
    at: opt.At = None,
    step: Annotated[
        str | None,
        typer.Option(metavar="DURATION", help="Time between two points.  [default: what the chart has room for]"),
    ] = None,
    format: Annotated[  # noqa: A002 - the word that people write
        QueryFormat | None,
        typer.Option(help="[default: table; for a range a chart on a terminal, csv in a pipe]"),
    ] = None,
    timeout: opt.Timeout = None,
    tenant: opt.Tenant = None,
    partial: Annotated[
        PartialChoice | None,
        typer.Option(help="Whether to answer without segments that cannot be read.  [default: deny]"),
    ] = None,
    url: opt.Url = opt.DEFAULT_URL,
    token_file: opt.TokenFile = None,
    authority: opt.Authority = None,
    insecure: opt.InClear = False,
) -> None:
    """Ask PromQL, and see a chart, a table, JSON or CSV.

    Without times it is an instant query: a table with a row for each series. With --last or --start it is a range
    query: a chart on a terminal, or CSV with every sample in a pipe or a file. A TIME is now, now-2h, -2h, 2026-01-31,
    2026-01-31T12:00:00+01:00 (UTC without a zone) or seconds since 1970.

    It can ask any server of the Prometheus HTTP API. --format json prints the server's answer unchanged. Warnings go to
    stderr.

    Examples:

      quarterdeck query up

      quarterdeck query 'sum by (job) (rate(http_requests_total[5m]))' --last 6h

      quarterdeck query 'topk(5, up)' --at now-2h --url http://localhost:9090

    \b
      quarterdeck query 'rate(http_requests_total[5m])' --format csv \\
        --start 2026-01-31 --end 2026-02-01 --step 1m > rates.csv
    """
    from quarterdeck.metrics.commands.query import QueryOrder, run  # noqa: PLC0415
    from quarterdeck.metrics.commands.query_times import TimeOptions  # noqa: PLC0415
    from quarterdeck.terminal.client import Access  # noqa: PLC0415 - loaded when it is needed

    times = TimeOptions(at, start, end, last, step)
    opt.check_times(at, start, end, last, step)
    if format is QueryFormat.CHART and not times.is_range:
        raise typer.BadParameter("a chart needs a range: add --last 1h", param_hint="--format")
    order = QueryOrder(query, times, format, timeout, tenant, partial)
    access = Access(url, token_file, authority, insecure)
    raise typer.Exit(exit_code_of(lambda: run(access, order)))


def explain(
    query: Annotated[str, typer.Argument(help="PromQL, in quotes.", show_default=False)],
    last: Annotated[
        str, typer.Option(metavar="DURATION", help="Explain a range query over this time; 0 makes it an instant query.")
    ] = "1h",
    step: Annotated[str, typer.Option(metavar="DURATION", help="Time between two points of the range.")] = "1m",
    analyze: Annotated[
        bool, typer.Option("--analyze", help="Run the query on the crew, and show where the time went.")
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

    The tree at the top is the coordinator's part. Each leaf below it runs where the samples are: a selector, what can
    be computed series by series, and the aggregation on top if its parts can be combined. The command reads no samples
    and needs no crew.

    With --analyze a coordinator runs the query. Below the plan there is a bar for each work: how long it waited, how
    long a worker had it, and how long fetching its result took.

    Examples:

      quarterdeck explain 'sum by (job) (rate(http_requests_total[5m]))'

      quarterdeck explain 'histogram_quantile(0.9, sum by (le) (rate(latency_bucket[5m])))' --last 6h --step 30s

      quarterdeck explain 'topk(5, up)' --last 0

      quarterdeck explain 'sum(rate(http_requests_total[5m]))' --analyze --last 6h
    """
    if analyze:
        from quarterdeck.metrics.commands.explain_analyze import AnalyzeOrder  # noqa: PLC0415
        from quarterdeck.metrics.commands.explain_analyze import run as run_analyze  # noqa: PLC0415
        from quarterdeck.terminal.client import Access  # noqa: PLC0415 - loaded when it is needed

        order = AnalyzeOrder(query, last, step, end, timeout, tenant)
        access = Access(url, token_file, authority, insecure)
        raise typer.Exit(exit_code_of(lambda: run_analyze(access, order)))
    from quarterdeck.metrics.commands.explain import run  # noqa: PLC0415 - loaded when it is needed

    for option, value in (("--end", end), ("--timeout", timeout), ("--tenant", tenant)):
        if value is not None:
            raise typer.BadParameter("nothing is run without --analyze", param_hint=option)
    raise typer.Exit(exit_code_of(lambda: run(query, last, step)))
