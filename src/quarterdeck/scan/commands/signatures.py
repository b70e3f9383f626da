"""The commands of scans, as they are typed. Heavy imports wait until a command needs them."""

from pathlib import Path
from typing import Annotated

import typer

from quarterdeck.scan.commands.choices import RowFormat
from quarterdeck.terminal import options as opt
from quarterdeck.terminal.telling import exit_code_of


def demo(
    rows: Annotated[int, typer.Option(min=1000, help="How many rows to write and query.")] = 10_000_000,
) -> None:
    """See a query survive the loss of a worker.

    Writes some Parquet files into a temporary folder, starts a coordinator and four workers, asks a question over all
    files, kills one worker with SIGKILL while it works, and compares the answer with the one that DuckDB gives alone.
    It takes half a minute, needs no running crew, and leaves nothing behind.

    Examples:

      quarterdeck demo

      quarterdeck demo --rows 2000000
    """
    from quarterdeck.scan.commands.demo import run  # noqa: PLC0415 - loaded when it is needed

    raise typer.Exit(exit_code_of(lambda: run(rows)))


def scan(
    sql: Annotated[str, typer.Argument(help="One SELECT over the table `files`, which has all files.")],
    sources: Annotated[
        list[str],
        typer.Argument(help="Parquet files, folders and globs: paths that the workers also see, or s3://bucket/…"),
    ],
    merge: Annotated[
        str | None,
        typer.Option(
            metavar="SQL",
            help="Run the first SELECT over each group of files by itself, and this SELECT over all their rows, the "
            "table `parts`.",
        ),
    ] = None,
    parts: Annotated[
        bool,
        typer.Option("--parts", help="Run the SELECT over each group of files by itself, and show all their rows."),
    ] = False,
    format: Annotated[  # noqa: A002 - the word that people write
        RowFormat | None,
        typer.Option(help="A table of the first rows, or all rows as they arrive.  [default: table]"),
    ] = None,
    output: Annotated[
        Path | None, typer.Option(metavar="FILE.parquet", help="Write all rows to this file instead.", dir_okay=False)
    ] = None,
    files_per_work: Annotated[
        int | None,
        typer.Option(min=1, max=10_000, help="How many files are a group.  [default: up to 32 files or 64 MiB]"),
    ] = None,
    timeout_s: Annotated[float | None, typer.Option(min=0.001, help="Give up after this many seconds.")] = None,
    url: opt.Url = opt.DEFAULT_URL,
    token_file: opt.TokenFile = None,
    authority: opt.Authority = None,
    insecure: opt.InClear = False,
) -> None:
    """Run SQL over Parquet files on the crew.

    Workers share the files, in groups. The answer is the same as over all files at once, also with groups, sums,
    averages, DISTINCT, ORDER BY and LIMIT. SQL that cannot be divided (windows, medians, joins of files with files)
    runs in one work. Over more files than one work reads it is refused, and the error shows the --merge to write. A
    folder means the *.parquet files in it and below. Folders such as date=2026-11-01 are columns, and so is filename
    for SQL that names it. Either the answer is complete, or the exit code is not 0.

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
    shown = format or RowFormat.TABLE
    order = ScanOrder(sql, sources, shown, output, merge, files_per_work, timeout_s, parts=parts)
    access = Access(url, token_file, authority, insecure)
    raise typer.Exit(exit_code_of(lambda: run(access, order)))
