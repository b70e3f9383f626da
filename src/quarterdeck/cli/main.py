"""The `quarterdeck` command: what commands there are, and where they live. Heavy imports wait until a command needs
them."""

import sys
from collections.abc import Sequence
from typing import Annotated, Final, NoReturn

import typer

from quarterdeck import __version__
from quarterdeck.capability import Capability, Shelf
from quarterdeck.cli import completion, crew_commands
from quarterdeck.cli.light_group import ANY_WIDTH, BAD_INPUT, group_with
from quarterdeck.terminal.telling import exit_code_of

_ANY_FLAGS: Final = {"allow_extra_args": True, "ignore_unknown_options": True}
"""Worlds have flags of their own, which are looked at when they are chosen from."""
_BEHIND: Final = {Shelf.QUESTIONS: "token", Shelf.PROCESSES: "worker"}


def make_app(capabilities: Sequence[Capability]) -> typer.Typer:
    """The whole command. What capabilities contribute is listed without being loaded."""
    app = typer.Typer(
        name="quarterdeck",
        cls=group_with([command for one in capabilities for command in one.commands], _BEHIND),
        help="Answers from a data lake: a coordinator plans, a crew of workers runs, and losing one costs a retry.",
        epilog="Begin with `quarterdeck demo`, or with `quarterdeck up` and, in another terminal, "
        f"`quarterdeck status`. The exit code {BAD_INPUT} means that something was typed wrong; docs/exit-codes.md "
        "lists the others.",
        context_settings={
            "help_option_names": ["-h", "--help"],
            "max_content_width": ANY_WIDTH,
            "obj": tuple(capabilities),
        },
        no_args_is_help=True,
        add_completion=False,  # `completion` prints the scripts, and does not guess for which shell
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
    )
    app.callback()(_root)
    # In the order of the help.
    app.command(short_help="Run a coordinator and workers on this machine.")(crew_commands.up)
    app.command(short_help="Show the crew and its queries, live.")(crew_commands.status)
    app.command(short_help="Print the token of a crew of yours, for curl.")(crew_commands.token)
    app.command(short_help="Run a coordinator.")(crew_commands.coordinator)
    app.command(short_help="Run a worker.")(crew_commands.worker)
    app.command(short_help="Compile ahead what the first start would compile.")(crew_commands.warm)
    app.command(short_help="Run random disasters, and check every promise.", context_settings=_ANY_FLAGS)(
        crew_commands.simulate
    )
    app.command(short_help="Print a script that lets a shell complete these commands.")(completion.completion)
    return app


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"quarterdeck {__version__}")
        raise typer.Exit


def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and leave.")
    ] = False,
) -> None:
    pass


_HAVE_THREADS_WITHOUT_END: Final = ("obstore", "pyarrow")
"""Threads that nobody can end. Those of obstore touch Python's objects for a moment after each answer: one that does so
while the interpreter ends aborts the process, whatever its exit code was to be (PyO3/pyo3-async-runtimes, issue 40). So
does one of Arrow's that is just beginning, on a busy machine: 12 of 150 processes that had read a Parquet file."""


def run(app: typer.Typer) -> NoReturn:
    """Runs the command that was typed, and ends the process."""
    try:
        code: object = exit_code_of(app)
    except SystemExit as ended:
        code = ended.code
    has_such = any(name in sys.modules for name in _HAVE_THREADS_WITHOUT_END)
    if has_such and (code is None or isinstance(code, int)):
        from quarterdeck.crew.process.lifecycle import leave  # noqa: PLC0415 - few commands need it

        leave(code or 0)
    raise SystemExit(code)
