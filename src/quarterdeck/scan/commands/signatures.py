"""The commands of scans, as they are typed. Heavy imports wait until a command needs them."""

from pathlib import Path
from typing import Annotated

import typer

from quarterdeck.terminal import options as opt
from quarterdeck.terminal.telling import exit_code_of


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
    from quarterdeck.scan.commands.demo import run  # noqa: PLC0415 - loaded when it is needed

    raise typer.Exit(exit_code_of(lambda: run(rows)))


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
