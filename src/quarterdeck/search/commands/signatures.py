"""The commands of log search, as they are typed. Heavy imports wait until a command needs them."""

from pathlib import Path
from typing import Annotated

import typer

from quarterdeck.local_crew.handed_settings import taken_over
from quarterdeck.search.commands.choices import SearchFormat, SearchOrder
from quarterdeck.terminal import options as opt
from quarterdeck.terminal.telling import exit_code_of


def search(
    ctx: typer.Context,
    query: Annotated[
        str, typer.Argument(help="What to find, and what to do with it, in quotes. '*' finds every record.")
    ],
    sources: Annotated[
        list[str],
        typer.Argument(
            help="Files, folders and globs of NDJSON (plain, .gz, .zst) and Parquet: paths that the workers also see, "
            "or s3://bucket/…"
        ),
    ],
    last: Annotated[
        str | None,
        typer.Option(metavar="DURATION", help="Records of this time: up to now, from --start, or up to --end."),
    ] = None,
    start: Annotated[str | None, typer.Option(metavar="TIME", help="Records from this time on.")] = None,
    end: Annotated[str | None, typer.Option(metavar="TIME", help="Records before this time.")] = None,
    order: Annotated[
        SearchOrder | None,
        typer.Option(
            help="Order of records, unless a stage sorts: by time, as in the files, or as found.  [default: time]"
        ),
    ] = None,
    time_field: Annotated[
        str | None,
        typer.Option(
            metavar="FIELD", help="The field with a record's time.  [default: ts, timestamp, time, @timestamp, _time]"
        ),
    ] = None,
    max_workers: Annotated[
        int | None, typer.Option(min=1, max=100, help="How many workers to reserve at most.  [default: 16]")
    ] = None,
    format: Annotated[  # noqa: A002 - the word that people write
        SearchFormat,
        typer.Option(
            help="auto is lines or a table on a terminal, and ndjson in a pipe. csv comes when everything is found."
        ),
    ] = SearchFormat.AUTO,
    output: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write all rows to this file instead, as NDJSON.", dir_okay=False),
    ] = None,
    timeout_s: Annotated[float | None, typer.Option(min=0.001, help="Give up after this many seconds.")] = None,
    local: Annotated[
        bool, typer.Option("--local", help="Search in this process, on all cores, without a crew.")
    ] = False,
    tenant: opt.AskingTenant = None,
    url: opt.Url = opt.DEFAULT_URL,
    token_file: opt.TokenFile = None,
    authority: opt.Authority = None,
    insecure: opt.InClear = False,
) -> None:
    """Search logs on the crew.

    Words and "phrases" are found anywhere in a record, in upper and lower case. Conditions are on fields: level=error,
    status>=500, path=/api/*, host!=a, msg=~"time.?out". All must match, unless `or` stands between them; `not` and
    parentheses work too. After a | come stages: count() sum(f) avg(f) min(f) max(f) with `by`, sort, head, tail, cut,
    uniq, fields. A TIME, here and inside the search, is now, now-2h, -2h, 2026-01-31, 2026-01-31T12:00:00+01:00 (UTC
    without a zone) or seconds since 1970. Read more in docs/search.md.

    Idle workers are reserved for the search, and given back when it ends. Lines that are not records are counted, and
    their files are named. So are files that cannot be read. Everything else is searched: the answer is partial, with
    exit code 85, which no failure has (docs/exit-codes.md).

    Examples:

      quarterdeck search 'level=error "timed out" | count() by host' logs/

      quarterdeck search 'status>=500 not path=/health' 's3://lake/access/*.ndjson.gz' --last 2h

      quarterdeck search 'user.id=42 | cut ts, msg | head 20' logs/app.ndjson --local

      quarterdeck search '* | avg(duration_ms), max(duration_ms) by route | sort -r avg_duration_ms' logs/

      quarterdeck search 'level=warn or level=error' logs/ --order none | jq .msg
    """
    from quarterdeck.search.commands.search import TerminalSearch, run  # noqa: PLC0415
    from quarterdeck.terminal.client import Access  # noqa: PLC0415 - loaded when it is needed

    if start is not None and end is not None and last is not None:
        raise typer.BadParameter("two of --start, --end and --last say where a range is", param_hint="--last")
    if output is not None and format not in (SearchFormat.AUTO, SearchFormat.NDJSON):
        raise typer.BadParameter("a file is NDJSON", param_hint="--output and --format")
    if local and tenant is not None:
        raise typer.BadParameter("this process alone has no tenants", param_hint="--tenant and --local")
    times = {"start": start, "end": end, "last": last}
    request = TerminalSearch(
        query,
        sources,
        **times,
        order=order,
        time_field=time_field,
        max_workers=max_workers,
        format=format,
        output=output,
        timeout_s=timeout_s,
        local=local,
        tenant=tenant,
    )
    access = Access(url, token_file, authority, insecure)
    raise typer.Exit(exit_code_of(lambda: run(access, request, ctx.obj)))


def recruiter(
    ctx: typer.Context,
    config: opt.ConfigFile = None,
    data_dir: opt.DataDir = None,
    http_host: Annotated[
        str | None, typer.Option(help="Address where workers register and searches recruit.  [default: 127.0.0.1]")
    ] = None,
    http_port: Annotated[int | None, typer.Option(help="Its port; 0 takes any free port.  [default: 7073]")] = None,
    insecure: opt.Insecure = None,
    log_level: opt.LogLevel = None,
    settings: opt.Settings = None,
    lifeline: opt.Lifeline = None,
    handed_settings: opt.HandedSettings = None,
) -> None:
    """Run a recruiter by itself: idle workers register with it, and it gives them to long jobs.

    Every coordinator is also a recruiter; this command runs the recruiter alone. It stores nothing: workers that it
    gave away do not need it, and the others register again after a restart, or with another recruiter. It stops on
    SIGTERM: registered workers leave at once, and running requests may finish for a while. A second signal stops it at
    once.

    Examples:

      quarterdeck recruiter

      quarterdeck recruiter --http-host 10.0.0.5 --http-port 8080 --config crew.yaml
    """
    from quarterdeck.search.commands.recruiter import run as run_recruiter  # noqa: PLC0415 - as above

    flags = opt.merge_flags(
        opt.parse_settings([*taken_over(handed_settings), *(settings or ())]),
        data_dir=data_dir,
        http_host=http_host,
        http_port=http_port,
        insecure=insecure,
        log_level=log_level,
    )
    raise typer.Exit(exit_code_of(lambda: run_recruiter(ctx.obj, config, flags, lifeline)))
