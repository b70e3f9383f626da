"""`quarterdeck simulate`: a progress bar while it runs, what was met when it is over, the story of what failed."""

from collections.abc import Collection
from itertools import count
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from quarterdeck.simulation.faults import FAULTS
from quarterdeck.simulation.runner import Summary, all_moves, run_seeds
from quarterdeck.simulation.scenario import Scenario, from_json, generate
from quarterdeck.simulation.shrink import shrink
from quarterdeck.simulation.world import Outcome, play

EXIT_BROKEN = 1
EXIT_USAGE = 2
_LAST_EVENTS = 40

_out = Console(highlight=False, soft_wrap=True)
_err = Console(stderr=True, highlight=False, soft_wrap=True)


def run_many(start: int, number: int, minutes: float | None, faults: str, jobs: int | None, *, shrinking: bool) -> int:
    kinds = _kinds(faults)
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

        summary = run_seeds(seeds, kinds, jobs=jobs, minutes=minutes, on_progress=advance)
    _print_summary(summary, kinds)
    if summary.failures:
        _tell_failure(play(generate(summary.failures[0].seed, kinds)), faults, shrinking=shrinking)
        return EXIT_BROKEN
    return 0


def replay(seed: int, faults: str, *, show_trace: bool, shrinking: bool) -> int:
    kinds = _kinds(faults)
    if kinds is None:
        return EXIT_USAGE
    return _replay(generate(seed, kinds), faults, show_trace=show_trace, shrinking=shrinking)


def replay_file(path: Path, *, show_trace: bool, shrinking: bool) -> int:
    try:
        scenario = from_json(path.read_text())
    except (OSError, ValueError) as error:
        _err.print(f"cannot replay {path}: {error}")
        return EXIT_USAGE
    return _replay(scenario, "all", show_trace=show_trace, shrinking=shrinking)


def _replay(scenario: Scenario, faults: str, *, show_trace: bool, shrinking: bool) -> int:
    outcome = play(scenario)
    _print_scenario(scenario)
    if show_trace:
        for entry in outcome.trace.entries:
            _out.print(str(entry), markup=False)
    _out.print(
        f"seed {scenario.seed}: {outcome.steps:,} events in {outcome.virtual_s:.1f} virtual seconds, "
        f"{outcome.works} works, trace {outcome.trace.digest()}"
    )
    if outcome.violation is None:
        _out.print("[green]all promises kept[/]")
        return 0
    _tell_failure(outcome, faults, shrinking=shrinking)
    return EXIT_BROKEN


def _kinds(faults: str) -> Collection[str] | None:
    """The faults that were asked for; None, after saying why, if one is not known."""
    if faults in ("all", "none"):
        return tuple(FAULTS) if faults == "all" else ()
    kinds = [name.strip() for name in faults.split(",")]
    unknown = [name for name in kinds if name not in FAULTS]
    if unknown:
        _err.print(f"no such fault: {', '.join(unknown)}. There are: all, none, {', '.join(FAULTS)}.")
        return None
    return kinds


def _print_summary(summary: Summary, kinds: Collection[str]) -> None:
    wall_s = max(summary.wall_s, 1e-9)
    ends = ", ".join(f"{number:,} {name}" for name, number in sorted(summary.ends.items()))
    met, there = len(all_moves()) - len(summary.unmet_moves()), len(all_moves())
    table = Table.grid(padding=(0, 2))
    table.add_row("seeds", f"{summary.seeds:,} in {wall_s:.1f} s, {summary.seeds / wall_s:.0f}/s")
    rate = f"{summary.steps / wall_s:,.0f}/s"
    table.add_row("simulated", f"{summary.virtual_s / 3600:.1f} hours, {summary.steps:,} events, {rate}")
    table.add_row("works", f"{summary.works:,}")
    table.add_row("queries", ends)
    table.add_row("transitions", f"{met} of {there} met" + _unmet(summary.unmet_moves()))
    faults = ", ".join(f"{name} {summary.faults[name]:,}" for name in kinds)
    table.add_row("faults", (faults or "none") + _unmet(summary.unmet_faults(kinds)))
    _out.print(table)
    if not summary.failures:
        _out.print("[green]no work was lost, done twice or left behind[/]")


def _unmet(names: list[str]) -> str:
    return f"; not met: {'; '.join(names)}" if names else ""


def _print_scenario(scenario: Scenario) -> None:
    dialling = "coordinators dial" if scenario.coordinators_dial else "workers dial"
    _out.print(
        f"{scenario.coordinators} coordinators, {scenario.workers} workers with {scenario.slots} slots and "
        f"{scenario.queue_places} queue places, {dialling}; "
        f"{scenario.fragments} fragments, {scenario.epoch_replicas} epoch replicas"
    )
    for query in scenario.queries:
        _out.print(f"  {query}", markup=False)
    for fault in scenario.faults:
        _out.print(f"  {fault}", markup=False)


def _tell_failure(outcome: Outcome, faults: str, *, shrinking: bool) -> None:
    seed = outcome.scenario.seed
    again = f"quarterdeck simulate --seed {seed}" + ("" if faults == "all" else f" --faults {faults}")
    _out.print(f"\n[bold red]seed {seed} broke a promise[/]: ", end="")
    _out.print(outcome.violation, markup=False)
    _out.print(f"replay it with: {again}")
    if shrinking:
        with _err.status("looking for the smallest scenario that fails"):
            outcome = shrink(outcome)
        path = Path(f"scenario-{seed}.json")
        path.write_text(outcome.scenario.to_json())
        _out.print(
            f"\nthe smallest scenario found that fails, also in {path} (quarterdeck simulate --scenario {path}):"
        )
        _print_scenario(outcome.scenario)
        _out.print(f"  it breaks: {outcome.violation}", markup=False)
    about = f" that touch {outcome.work_id}" if outcome.work_id else ""
    _out.print(f"\nthe last {_LAST_EVENTS} events{about}:")
    for entry in outcome.trace.touching(outcome.work_id, _LAST_EVENTS):
        _out.print(str(entry), markup=False)
