"""`quarterdeck simulate`: a progress bar while it runs, a summary when it is over, and the story of what failed."""

from collections.abc import Collection, Iterable, Sequence
from itertools import count
from pathlib import Path
from typing import Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from quarterdeck.capability import Capability, World
from quarterdeck.core.errors import ERROR_TABLE, ErrorCode
from quarterdeck.core.named import Named
from quarterdeck.simulation.dramas import CREW, Drama
from quarterdeck.simulation.outcome import AnyScenario, PlayOutcome
from quarterdeck.simulation.runner import Summary, run_seeds

EXIT_BROKEN = 1
EXIT_USAGE = ERROR_TABLE[ErrorCode.INVALID_ARGUMENT].exit_code
_LAST_EVENTS = 40
_DECLARED = World(
    "declared",
    "Play things that are declared and held: what is declared is held, what is withdrawn is gone, and nothing is told "
    "before it is committed.",
    Named("quarterdeck.simulation.declared.drama:DECLARED"),
)
"""Of no capability: what several stand on."""

_out = Console(highlight=False, soft_wrap=True)
_err = Console(stderr=True, highlight=False, soft_wrap=True)


def chosen_drama(capabilities: Iterable[Capability], flags: Sequence[str]) -> Drama[Any]:
    """The world that is asked for by its own flag; the crew's when there is none."""
    worlds = {
        f"--{world.name}": world for world in (_DECLARED, *(world for one in capabilities for world in one.worlds))
    }
    unknown = [flag for flag in flags if flag not in worlds]
    if unknown:
        raise typer.BadParameter(f"there is no {unknown[0]}; worlds are {', '.join(worlds) or 'none'}")
    if len(flags) > 1:
        raise typer.BadParameter(f"one world at a time: {flags[0]} or {flags[1]}")
    return worlds[flags[0]].drama.load() if flags else CREW


def run_many(
    drama: Drama[Any],
    start: int,
    number: int,
    minutes: float | None,
    faults: str,
    jobs: int | None,
    *,
    shrinking: bool,
) -> int:
    kinds = _kinds(drama, faults)
    if kinds is None:
        return EXIT_USAGE
    seeds = count(start) if minutes is not None else range(start, start + number)
    total = None if minutes is not None else number
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[rate]}"),
    )
    with Progress(*columns, console=_err, transient=True) as progress:
        bar = progress.add_task("playing seeds", total=total, rate="")

        def advance(summary: Summary) -> None:
            progress.update(bar, completed=summary.seeds, rate=f"{summary.seeds / summary.wall_s:.0f} seeds/s")

        summary = run_seeds(seeds, kinds, drama=drama, jobs=jobs, minutes=minutes, on_progress=advance)
    _print_summary(drama, summary, kinds)
    if summary.failures:
        failing = drama.generate(summary.failures[0].seed, kinds)
        _tell_failure(drama, drama.play(failing), faults, shrinking=shrinking)
        return EXIT_BROKEN
    return 0


def replay(drama: Drama[Any], seed: int, faults: str, *, show_trace: bool, shrinking: bool) -> int:
    kinds = _kinds(drama, faults)
    if kinds is None:
        return EXIT_USAGE
    return _replay(drama, drama.generate(seed, kinds), faults, show_trace=show_trace, shrinking=shrinking)


def replay_file(drama: Drama[Any], path: Path, *, show_trace: bool, shrinking: bool) -> int:
    try:
        scenario = drama.from_json(path.read_text())
    except (OSError, ValueError) as error:
        _err.print(f"cannot replay {path}: {error}")
        return EXIT_USAGE
    return _replay(drama, scenario, "all", show_trace=show_trace, shrinking=shrinking)


def _replay(drama: Drama[Any], scenario: AnyScenario, faults: str, *, show_trace: bool, shrinking: bool) -> int:
    outcome = drama.play(scenario)
    _print_scenario(scenario)
    if show_trace:
        for entry in outcome.trace.entries:
            _out.print(str(entry), markup=False)
    _out.print(
        f"seed {scenario.seed}: {outcome.steps:,} events in {outcome.virtual_s:.1f} virtual seconds, "
        f"{outcome.works} {drama.works}, trace {outcome.trace.digest()}"
    )
    if outcome.violation is None:
        _out.print("[green]all promises kept[/]")
        return 0
    _tell_failure(drama, outcome, faults, shrinking=shrinking)
    return EXIT_BROKEN


def _kinds(drama: Drama[Any], faults: str) -> Collection[str] | None:
    """The faults that were asked for; None, after saying why, if one is not known."""
    if faults in ("all", "none"):
        return tuple(drama.faults) if faults == "all" else ()
    kinds = [name.strip() for name in faults.split(",")]
    unknown = [name for name in kinds if name not in drama.faults]
    if unknown:
        _err.print(f"no such fault: {', '.join(unknown)}. There are: all, none, {', '.join(drama.faults)}.")
        return None
    return kinds


def _print_summary(drama: Drama[Any], summary: Summary, kinds: Collection[str]) -> None:
    wall_s = max(summary.wall_s, 1e-9)
    ends = ", ".join(f"{number:,} {name}" for name, number in sorted(summary.ends.items()))
    unmet, there = summary.unmet_moves(drama), len(drama.moves())
    table = Table.grid(padding=(0, 2))
    table.add_row("seeds", f"{summary.seeds:,} in {wall_s:.1f} s, {summary.seeds / wall_s:.0f}/s")
    rate = f"{summary.steps / wall_s:,.0f}/s"
    table.add_row("simulated", f"{summary.virtual_s / 3600:.1f} hours, {summary.steps:,} events, {rate}")
    table.add_row(drama.works, f"{summary.works:,}")
    table.add_row(drama.questions, ends)
    table.add_row("transitions", f"{there - len(unmet)} of {there} met" + _unmet(unmet))
    faults = ", ".join(f"{name} {summary.faults[name]:,}" for name in kinds)
    table.add_row("faults", (faults or "none") + _unmet(summary.unmet_faults(kinds)))
    _out.print(table)
    if not summary.failures:
        _out.print(f"[green]{drama.promise}[/]")


def _unmet(names: list[str]) -> str:
    return f"; not met: {'; '.join(names)}" if names else ""


def _print_scenario(scenario: AnyScenario) -> None:
    _out.print(scenario.headline())
    for part in scenario.parts():
        _out.print(f"  {part}", markup=False)


def _tell_failure(drama: Drama[Any], outcome: PlayOutcome[Any], faults: str, *, shrinking: bool) -> None:
    seed = outcome.scenario.seed
    command = "quarterdeck simulate" + ("" if drama is CREW else f" --{drama.name}")
    again = f"{command} --seed {seed}" + ("" if faults == "all" else f" --faults {faults}")
    _out.print(f"\n[bold red]seed {seed} broke a promise[/]: ", end="")
    _out.print(outcome.violation, markup=False)
    _out.print(f"replay it with: {again}")
    if shrinking:
        with _err.status("looking for the smallest scenario that fails"):
            outcome = drama.shrink(outcome)
        path = Path(f"scenario-{seed}.json")
        path.write_text(outcome.scenario.to_json())
        _out.print(f"\nthe smallest scenario found that fails, also in {path} ({command} --scenario {path}):")
        _print_scenario(outcome.scenario)
        _out.print(f"  it breaks: {outcome.violation}", markup=False)
    about = f" that touch {outcome.work_id}" if outcome.work_id else ""
    _out.print(f"\nthe last {_LAST_EVENTS} events{about}:")
    for entry in outcome.trace.touching(outcome.work_id, _LAST_EVENTS):
        _out.print(str(entry), markup=False)
