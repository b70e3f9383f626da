"""The `quarterdeck` command: what there is, and where it lives. Heavy imports wait until a command needs them."""

from pathlib import Path
from typing import Annotated

import typer

from quarterdeck import __version__

app = typer.Typer(
    name="quarterdeck",
    help="Answers from a data lake: one coordinator plans, a crew of workers runs, and a lost one costs a retry.",
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


@app.command()
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


@app.command()
def demo(
    speed: Annotated[float, typer.Option(min=0.01, help="How many simulated seconds pass in a second.")] = 1.0,
) -> None:
    """Watch a query survive: a worker is killed in the middle, and the answer is still whole.

    Until there are processes to start, this plays a simulation of them, told as it happens.
    """
    from quarterdeck.cli.demo import run  # noqa: PLC0415 - loaded when it is needed

    raise typer.Exit(run(speed))


def main() -> None:
    app()
