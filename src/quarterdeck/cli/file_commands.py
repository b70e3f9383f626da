"""The commands over files on the crew. Heavy imports wait until a command needs them."""

from pathlib import Path
from typing import Annotated

import typer

from quarterdeck.terminal import options as opt
from quarterdeck.terminal.telling import exit_code_of


def scan(
    sql: Annotated[
        str, typer.Argument(help="One SELECT over the table `files`. The answer is the one over all files.")
    ],
    sources: Annotated[
        list[str],
        typer.Argument(help="Parquet files, folders and globs: paths that the workers see too, or s3://bucket/…"),
    ],
    merge: Annotated[
        str | None,
        typer.Option(
            metavar="SQL",
            help="Each group of files runs the first SELECT by itself, and this one makes the answer of their rows, "
            "the table `parts`.",
        ),
    ] = None,
    parts: Annotated[
        bool,
        typer.Option("--parts", help="Each group of files runs the SELECT by itself, and all their rows are shown."),
    ] = False,
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
    insecure: opt.InClear = False,
) -> None:
    """Run SQL over Parquet files on the crew.

    The files are divided into groups, and the SQL with them: groups, sums, averages, DISTINCT, ORDER BY and LIMIT make
    one answer, the same as over all files at once. SQL that cannot be divided (windows, medians, joins of files with
    files) runs in one work, and is refused over more files than one work reads; the error shows the --merge to write.
    A folder means the *.parquet in it and below. Folders such as date=2026-11-01 are columns, and so is filename for
    SQL that names it. An answer is whole, or the exit code is not 0.

    Examples:

      quarterdeck scan "select * from files where status = 500" 'logs/*.parquet'

    \b
      quarterdeck scan 'select host, count(*) n, avg(ms) from files
        group by host order by n desc limit 10' logs

    \b
      quarterdeck scan 'select host, ms from files where status = 500' logs \\
        --merge 'select host, median(ms) from parts group by host'

    \b
      quarterdeck scan 'select ts, path from files' s3://lake/requests \\
        --output paths.parquet
    """
    from quarterdeck.scan.commands.scan import ScanOrder, run  # noqa: PLC0415
    from quarterdeck.terminal.client import Access  # noqa: PLC0415 - loaded when it is needed

    if output is not None and output.suffix != ".parquet":
        raise typer.BadParameter(f"{output} does not end with .parquet", param_hint="--output")
    if output is not None and format is not None:
        raise typer.BadParameter("rows go to a file or are shown, not both", param_hint="--output and --format")
    if merge is not None and parts:
        raise typer.BadParameter("rows are merged or shown as they are, not both", param_hint="--merge and --parts")
    shown = format or opt.RowFormat.TABLE
    order = ScanOrder(sql, sources, shown, output, merge, files_per_work, timeout_s, parts=parts)
    access = Access(url, token_file, authority, insecure)
    raise typer.Exit(exit_code_of(lambda: run(access, order)))


def search(
    query: Annotated[str, typer.Argument(help="What to find, and what to make of it; in quotes. '*' is every record.")],
    sources: Annotated[
        list[str],
        typer.Argument(
            help="Files, folders and globs of NDJSON (plain, .gz, .zst) and Parquet: paths that the workers see too, "
            "or s3://bucket/…"
        ),
    ],
    last: Annotated[
        str | None,
        typer.Option(metavar="DURATION", help="Records of so long: up to now, or from --start, or to --end."),
    ] = None,
    start: Annotated[str | None, typer.Option(metavar="TIME", help="Records from here on.")] = None,
    end: Annotated[str | None, typer.Option(metavar="TIME", help="Records before this.")] = None,
    order: Annotated[
        opt.SearchOrder | None,
        typer.Option(help="Of records that no stage sorts: by time, as in the files, or as found.  [default: time]"),
    ] = None,
    time_field: Annotated[
        str | None,
        typer.Option(
            metavar="FIELD", help="What holds a record's time.  [default: ts, timestamp, time, @timestamp, _time]"
        ),
    ] = None,
    max_workers: Annotated[
        int | None, typer.Option(min=1, max=100, help="How many workers to reserve at most.  [default: 16]")
    ] = None,
    format: Annotated[  # noqa: A002 - the word that people write
        opt.SearchFormat,
        typer.Option(help="auto is lines or a table on a terminal, and ndjson in a pipe. csv comes when all is found."),
    ] = opt.SearchFormat.AUTO,
    output: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write all rows there instead, as NDJSON.", dir_okay=False)
    ] = None,
    timeout_s: Annotated[float | None, typer.Option(min=0.001, help="Give up after so many seconds.")] = None,
    local: Annotated[
        bool, typer.Option("--local", help="Search with this process and all its cores; no coordinator is needed.")
    ] = False,
    url: opt.Url = opt.DEFAULT_URL,
    token_file: opt.TokenFile = None,
    authority: opt.Authority = None,
    insecure: opt.InClear = False,
) -> None:
    """Search logs on the crew.

    Words and "phrases" are found anywhere in a record, whatever their case. Conditions are on fields: level=error,
    status>=500, path=/api/*, host!=a, msg=~"time.?out". All must hold, unless `or` stands between them; `not` and
    parentheses are there. Behind a | come stages: count() sum(f) avg(f) min(f) max(f) with `by`, sort, head, tail, cut,
    uniq, fields. A TIME, here and inside the search, is now, now-2h, -2h, 2026-01-31, 2026-01-31T12:00:00+01:00 (UTC
    without a zone) or seconds since 1970. Read on in docs/search.md.

    Idle workers are reserved for the search, and given back when it ends. Lines that are no records are counted and
    their files named; then the exit code is 80, though all else was searched.

    Examples:

      quarterdeck search 'level=error "timed out" | count() by host' logs/

      quarterdeck search 'status>=500 not path=/health' 's3://lake/access/*.ndjson.gz' --last 2h

      quarterdeck search 'user.id=42 | cut ts, msg | head 20' logs/app.ndjson --local

      quarterdeck search '* | avg(duration_ms), max(duration_ms) by route | sort -r avg_duration_ms' logs/

      quarterdeck search 'level=warn or level=error' logs/ --order none | jq .msg
    """
    from quarterdeck.search.commands.search import SearchRequest, run  # noqa: PLC0415
    from quarterdeck.terminal.client import Access  # noqa: PLC0415 - loaded when it is needed

    if start is not None and end is not None and last is not None:
        raise typer.BadParameter("two of --start, --end and --last say where a range is", param_hint="--last")
    if output is not None and format not in (opt.SearchFormat.AUTO, opt.SearchFormat.NDJSON):
        raise typer.BadParameter("a file is NDJSON", param_hint="--output and --format")
    times = {"start": start, "end": end, "last": last}
    request = SearchRequest(
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
    )
    access = Access(url, token_file, authority, insecure)
    raise typer.Exit(exit_code_of(lambda: run(access, request)))
