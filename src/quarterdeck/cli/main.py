"""The `quarterdeck` command: what there is, and where it lives. Heavy imports wait until a command needs them."""

import sys
from typing import Annotated, Final

import typer

from quarterdeck import __version__
from quarterdeck.cli import completion, crew_commands, file_commands
from quarterdeck.metrics.commands import signatures as metrics_commands
from quarterdeck.terminal.light_group import ANY_WIDTH, BAD_INPUT, LightGroup
from quarterdeck.terminal.telling import exit_code_of

app = typer.Typer(
    name="quarterdeck",
    cls=LightGroup,
    help="Answers from a data lake: one coordinator plans, a crew of workers runs, and a lost one costs a retry.",
    epilog="Begin with `quarterdeck demo`, or with `quarterdeck up` and, in another terminal, `quarterdeck status`. "
    f"Whatever was typed wrong has the exit code {BAD_INPUT}; docs/exit-codes.md lists the others.",
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": ANY_WIDTH},
    no_args_is_help=True,
    add_completion=False,  # `completion` prints the scripts, and does not guess for which shell
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


# In the order of the help.
app.command(short_help="See a query survive the loss of a worker.")(crew_commands.demo)
app.command(short_help="Run a coordinator and workers on this machine.")(crew_commands.up)
app.command(short_help="Show the crew and its queries, live.")(crew_commands.status)
app.command(short_help="Print the token of a crew of yours, for curl.")(crew_commands.token)
app.command(short_help="Search logs on the crew, or alone.")(file_commands.search)
app.command(short_help="Run SQL over Parquet files on the crew.")(file_commands.scan)
app.command("import", short_help="Import metrics into the lake.")(metrics_commands.import_metrics)
app.command("sample-data", short_help="Make metrics, logs and tables to try things with.")(metrics_commands.sample_data)
app.command("metrics", short_help="List the metrics, and when they have samples.")(metrics_commands.list_metrics)
app.command(short_help="Ask PromQL, and see a chart, a table, JSON or CSV.")(metrics_commands.query)
app.command(short_help="Show how a PromQL query would be evaluated, or was.")(metrics_commands.explain)
app.command(short_help="Run a coordinator.")(crew_commands.coordinator)
app.command(short_help="Run a worker.")(crew_commands.worker)
app.command(short_help="Run a recruiter by itself.")(crew_commands.recruiter)
app.command(short_help="Compile ahead what the first start would, for images.")(crew_commands.warm)
app.command(short_help="Run random disasters, and check every promise.")(crew_commands.simulate)
app.command(short_help="Print what makes a shell complete these commands.")(completion.completion)


_HAS_THREADS_WITHOUT_END: Final = "obstore"
"""Its threads, which nobody can end, touch Python's objects for a moment after each answer. One that does so while the
interpreter ends aborts the process, whatever its exit code was to be (PyO3/pyo3-async-runtimes, issue 40)."""


def main() -> None:
    try:
        code: object = exit_code_of(app)
    except SystemExit as ended:
        code = ended.code
    if _HAS_THREADS_WITHOUT_END in sys.modules and (code is None or isinstance(code, int)):
        from quarterdeck.crew.process.lifecycle import leave  # noqa: PLC0415 - few commands need it

        leave(code or 0)
    raise SystemExit(code)
