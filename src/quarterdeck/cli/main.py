"""The `quarterdeck` command: what there is, and where it lives. Heavy imports wait until a command needs them."""

from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from quarterdeck import __version__
from quarterdeck.cli import options as opt
from quarterdeck.cli.telling import exit_code_of


class LightGroup(TyperGroup):
    """Typer has pydantic judge every value that is not a boolean already, and that no --help was given is None to it. A
    default spares the help of every command three tenths of a second."""

    def get_help_option(self, ctx: Any) -> Any:
        option = super().get_help_option(ctx)
        if option is not None:
            option.default = False
        return option


app = typer.Typer(
    name="quarterdeck",
    cls=LightGroup,
    help="Answers from a data lake: one coordinator plans, a crew of workers runs, and a lost one costs a retry.",
    epilog="Begin with `quarterdeck demo`, or with `quarterdeck up` and, in another terminal, `quarterdeck status`.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"quarterdeck {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and leave.")
    ] = False,
) -> None:
    pass


@app.command(short_help="See a query survive the loss of a worker.")
def demo(
    rows: Annotated[int, typer.Option(min=1000, help="How many rows to make and to ask about.")] = 10_000_000,
) -> None:
    """See a query survive the loss of a worker.

    Writes some Parquet files into a temporary folder, starts a coordinator and four workers, asks a question over all
    files, kills one worker with SIGKILL while it works, and compares the answer with the one that DuckDB gives alone.
    It takes half a minute, needs nothing that runs already, and leaves nothing behind.

    Examples:

      quarterdeck demo

      quarterdeck demo --rows 2000000
    """
    from quarterdeck.cli.demo import run  # noqa: PLC0415 - loaded when it is needed

    raise typer.Exit(exit_code_of(lambda: run(rows)))


@app.command(short_help="Run a coordinator and workers on this machine.")
def up(
    workers: Annotated[
        int | None, typer.Option(min=1, max=1000, help="How many.  [default: as many as cores, at least 2]")
    ] = None,
    data_dir: Annotated[
        Path, typer.Option(help="Where all of them keep their files; one `up` at a time may have it.", file_okay=False)
    ] = opt.DEFAULT_DATA_DIR,
    http_port: Annotated[
        int | None, typer.Option(help="Where people and programs ask; 0 takes any free one.  [default: 7070]")
    ] = None,
    control_port: Annotated[
        int | None, typer.Option(help="Where more workers join; 0 takes any free one.  [default: 7071]")
    ] = None,
    logs: Annotated[
        bool, typer.Option("--logs", help="Show what they log here, instead of writing it to files.")
    ] = False,
    config: opt.ConfigFile = None,
    settings: opt.Settings = None,
) -> None:
    """Run a coordinator and workers on this machine.

    The workers share the cores and the memory. One that dies is started again. Ctrl-C stops them all in order: queries
    that run may finish for a while. A second Ctrl-C ends them at once.

    --set goes to all processes that have the setting; `worker.` or `coordinator.` before the name goes to these only.

    Examples:

      quarterdeck up

      quarterdeck up --workers 8 --data-dir /var/lib/quarterdeck

      quarterdeck up --http-port 8080 --set log_level=debug --set worker.slots=2
    """
    from quarterdeck.cli.crew_plan import CrewRequest  # noqa: PLC0415 - loaded when it is needed
    from quarterdeck.cli.up import run  # noqa: PLC0415

    opt.parse_settings(settings)
    request = CrewRequest(workers, data_dir, http_port, control_port, config, settings or ())
    raise typer.Exit(exit_code_of(lambda: run(request, show_logs=logs)))


@app.command(short_help="Show the crew and its queries, live.")
def status(
    url: opt.Url = opt.DEFAULT_URL,
    watch: Annotated[
        bool | None,
        typer.Option("--watch/--once", help="Go on until Ctrl-C, or look once.  [default: watch, on a terminal]"),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="As JSON, for programs; with --watch a line each second.")
    ] = False,
    token_file: opt.TokenFile = None,
    authority: opt.Authority = None,
) -> None:
    """Show the crew and its queries, live.

    Each worker with its state, what it has in flight, its disk and when it was last heard; above it what waits, below
    it the last queries.

    Examples:

      quarterdeck status

      quarterdeck status --once --url http://10.0.0.7:7070

      quarterdeck status --json | jq '.crew.workers[].state'
    """
    from quarterdeck.cli.client import Access  # noqa: PLC0415 - loaded when it is needed
    from quarterdeck.cli.status import run  # noqa: PLC0415

    access = Access(url, token_file, authority)
    raise typer.Exit(exit_code_of(lambda: run(access, watch=watch, as_json=as_json)))


@app.command(short_help="Run SQL over Parquet files on the crew.")
def scan(
    sql: Annotated[
        str, typer.Argument(help="One SELECT over the table `files`. Each group of files runs it by itself.")
    ],
    sources: Annotated[
        list[str],
        typer.Argument(help="Parquet files, folders and globs: paths that the workers see too, or s3://bucket/…"),
    ],
    merge: Annotated[
        str | None,
        typer.Option(metavar="SQL", help="One more SELECT, over all rows that came back: the table `parts`."),
    ] = None,
    format: Annotated[  # noqa: A002 - the word that people write
        opt.RowFormat | None,
        typer.Option(help="A table of the first rows, or all rows as they come.  [default: table]"),
    ] = None,
    output: Annotated[
        Path | None, typer.Option(metavar="FILE.parquet", help="Write all rows there instead.", dir_okay=False)
    ] = None,
    files_per_work: Annotated[
        int | None, typer.Option(min=1, max=10_000, help="Files in a group.  [default: up to 32 files or 64 MiB]")
    ] = None,
    timeout_s: Annotated[float | None, typer.Option(min=0.001, help="Give up after so many seconds.")] = None,
    url: opt.Url = opt.DEFAULT_URL,
    token_file: opt.TokenFile = None,
    authority: opt.Authority = None,
) -> None:
    """Run SQL over Parquet files on the crew.

    The files are divided into groups, each worker runs the SQL over one group at a time, and the rows of all groups
    come back in the order of the files. What the SQL aggregates it aggregates within a group; --merge makes one answer
    of them. An answer is whole, or the exit code is not 0.

    Examples:

      quarterdeck scan "select * from files where status = 500" 'logs/*.parquet'

    \b
      quarterdeck scan 'select host, count(*) n from files group by host' logs \\
        --merge 'select host, sum(n) n from parts group by host order by n desc'

    \b
      quarterdeck scan 'select ts, path from files' s3://lake/requests \\
        --output paths.parquet
    """
    from quarterdeck.cli.client import Access  # noqa: PLC0415 - loaded when it is needed
    from quarterdeck.cli.scan import ScanOrder, run  # noqa: PLC0415

    if output is not None and output.suffix != ".parquet":
        raise typer.BadParameter(f"{output} does not end with .parquet", param_hint="--output")
    if output is not None and format is not None:
        raise typer.BadParameter("rows go to a file or are shown, not both", param_hint="--output and --format")
    order = ScanOrder(sql, sources, format or opt.RowFormat.TABLE, output, merge, files_per_work, timeout_s)
    access = Access(url, token_file, authority)
    raise typer.Exit(exit_code_of(lambda: run(access, order)))


@app.command("import", short_help="Import metrics into the lake.")
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


@app.command(short_help="Ask PromQL, and see a chart, a table, JSON or CSV.")
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
    access = Access(url, token_file, authority)
    raise typer.Exit(exit_code_of(lambda: run(access, order)))


@app.command(short_help="Show how a PromQL query would be evaluated, or was.")
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
        access = Access(url, token_file, authority)
        raise typer.Exit(exit_code_of(lambda: run_analyze(access, order)))
    from quarterdeck.cli.explain import run  # noqa: PLC0415 - loaded when it is needed

    for option, value in (("--end", end), ("--timeout", timeout), ("--tenant", tenant)):
        if value is not None:
            raise typer.BadParameter("nothing is run without --analyze", param_hint=option)
    raise typer.Exit(exit_code_of(lambda: run(query, last, step)))


@app.command(short_help="Run a coordinator.")
def coordinator(
    config: opt.ConfigFile = None,
    data_dir: opt.DataDir = None,
    http_host: Annotated[str | None, typer.Option(help="Where people and programs ask.  [default: 127.0.0.1]")] = None,
    http_port: Annotated[int | None, typer.Option(help="0 takes any free one.  [default: 7070]")] = None,
    control_host: Annotated[str | None, typer.Option(help="Where workers join.  [default: 127.0.0.1]")] = None,
    control_port: Annotated[int | None, typer.Option(help="0 takes any free one.  [default: 7071]")] = None,
    dial: Annotated[
        list[str] | None, typer.Option(metavar="HOST:PORT", help="Dial this worker, as often as needed.")
    ] = None,
    insecure: opt.Insecure = None,
    log_level: opt.LogLevel = None,
    settings: opt.Settings = None,
    lifeline: opt.Lifeline = None,
) -> None:
    """Run a coordinator: it plans, gives work to the crew, and answers over HTTP.

    Workers join it, or it dials those that were started with --listen. It stops on SIGTERM: running queries may finish
    for a while, then they are canceled. A second signal stops it at once.

    Examples:

      quarterdeck coordinator

      quarterdeck coordinator --http-port 8080 --dial 10.0.0.7:7072 --dial 10.0.0.8:7072
    """
    from quarterdeck.cli.processes import run_coordinator  # noqa: PLC0415 - loaded when it is needed

    flags = opt.merge_flags(
        opt.parse_settings(settings),
        data_dir=data_dir,
        http_host=http_host,
        http_port=http_port,
        control_host=control_host,
        control_port=control_port,
        workers=dial,
        insecure=insecure,
        log_level=log_level,
    )
    raise typer.Exit(exit_code_of(lambda: run_coordinator(config, flags, lifeline)))


@app.command(short_help="Run a worker.")
def worker(
    config: opt.ConfigFile = None,
    data_dir: opt.DataDir = None,
    join: Annotated[
        list[str] | None,
        typer.Option(metavar="HOST:PORT", help="Join this coordinator, as often as needed.  [default: 127.0.0.1:7071]"),
    ] = None,
    listen: Annotated[
        str | None,
        typer.Option(metavar="HOST:PORT", help="Let coordinators dial this worker, instead of joining them."),
    ] = None,
    slots: Annotated[int | None, typer.Option(min=1, help="Works at the same time.  [default: the cores]")] = None,
    http_host: Annotated[str | None, typer.Option(help="Where results are fetched.  [default: 127.0.0.1]")] = None,
    http_port: Annotated[int | None, typer.Option(help="0 takes any free one.  [default: 0]")] = None,
    insecure: opt.Insecure = None,
    log_level: opt.LogLevel = None,
    settings: opt.Settings = None,
    lifeline: opt.Lifeline = None,
) -> None:
    """Run a worker: it executes what coordinators give it, and caches what it reads.

    It stops on SIGTERM: nothing new is taken, what has not begun is handed back, what runs is finished and fetched. A
    second signal stops it at once.

    Examples:

      quarterdeck worker --join 127.0.0.1:7071

      quarterdeck worker --listen 127.0.0.1:7072 --slots 4 --data-dir /var/lib/quarterdeck/worker
    """
    from quarterdeck.cli.processes import run_worker  # noqa: PLC0415 - loaded when it is needed

    flags = opt.merge_flags(
        opt.parse_settings(settings),
        data_dir=data_dir,
        join=join,
        control_listen=listen,
        slots=slots,
        http_host=http_host,
        http_port=http_port,
        insecure=insecure,
        log_level=log_level,
    )
    raise typer.Exit(exit_code_of(lambda: run_worker(config, flags, lifeline)))


@app.command(short_help="Run random disasters, and check every promise.")
def simulate(
    seed: Annotated[int | None, typer.Option(help="Replay this one seed, and print what happened.")] = None,
    seeds: Annotated[int, typer.Option(min=1, help="Play this many seeds, one disaster each.")] = 1000,
    start: Annotated[int, typer.Option(min=0, help="The first of them.")] = 0,
    minutes: Annotated[float | None, typer.Option(min=0, help="Go on for this long instead of a number.")] = None,
    faults: Annotated[
        str, typer.Option(help="Which disasters may happen: names with commas between, `all`, or `none`.")
    ] = "all",
    scenario: Annotated[
        Path | None, typer.Option(help="Replay a scenario that was written down when it failed.", dir_okay=False)
    ] = None,
    jobs: Annotated[int | None, typer.Option(min=1, help="Processes at a time; as many as cores if not given.")] = None,
    shrink: Annotated[bool, typer.Option(help="Make a failing scenario as small as it can be.")] = True,
    trace: Annotated[bool, typer.Option(help="With --seed or --scenario: print everything that happened.")] = False,
) -> None:
    """Run random disasters through the coordinator and the workers, and check that nothing was lost.

    The real coordinator and worker code runs on a simulated network, clock and disk. Processes crash and pause,
    connections break, replies are lost after their effect, clocks jump. After every step the promises are checked: no
    work is committed twice, forgotten or left behind. A failing seed is printed and can be replayed by anyone.

    Examples:

      quarterdeck simulate --seeds 1000

      quarterdeck simulate --seed 42 --trace

      quarterdeck simulate --minutes 10 --faults crash,partition
    """
    from quarterdeck.cli.simulate import replay, replay_file, run_many  # noqa: PLC0415 - loaded when it is needed

    if scenario is not None:
        raise typer.Exit(replay_file(scenario, show_trace=trace, shrinking=shrink))
    if seed is not None:
        raise typer.Exit(replay(seed, faults, show_trace=trace, shrinking=shrink))
    raise typer.Exit(run_many(start, seeds, minutes, faults, jobs, shrinking=shrink))


def main() -> None:
    app()
