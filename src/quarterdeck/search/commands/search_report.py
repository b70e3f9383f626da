"""What stderr shows when a search is over: files that have problems, and what the search took."""

from typing import TYPE_CHECKING, Final

from quarterdeck.core.errors import PARTIAL_EXIT_CODE
from quarterdeck.search.commands.search_events import Done, Problem, ToldProgress, ToldStatus
from quarterdeck.terminal.short_numbers import short_bytes, short_share
from quarterdeck.terminal.telling import counted, printable

if TYPE_CHECKING:
    from rich.console import Console

_MOST_PROBLEMS: Final = 10


def conclude(console: "Console", done: Done) -> int:
    """Tells how it went; the exit code of it."""
    if done.problems:
        named = {problem.url for problem in done.problems}
        files = f"{'more than ' if '' in named else ''}{counted(len(named - {''}), 'file')}"
        console.print(f"the answer is partial: {files} could not be searched in full", style="bold yellow")
    for problem in done.problems[:_MOST_PROBLEMS]:
        console.print(f"  {_shown_problem(problem)}", style="yellow", markup=False)
    if len(done.problems) > _MOST_PROBLEMS:
        console.print(f"  and {len(done.problems) - _MOST_PROBLEMS:,} more", style="yellow")
    console.print(summary(done), style="dim")
    return 0 if done.status is ToldStatus.OK else PARTIAL_EXIT_CODE


def summary(done: Done) -> str:
    """
    >>> summary(Done(Status.OK, None, (), 12345, 3_200_000_000, 48, 2, 1, 2.31))
    '12,345 matches in 3.2 GB, 48 chunks on 2 workers (1 retried), 2.31 s (1.39 GB/s)'
    """
    crew = f"on {counted(done.workers, 'worker')}" if done.workers else "in one process"
    retried = f" ({done.retried:,} retried)" if done.retried else ""
    rate = f" ({short_bytes(done.searched_bytes / done.seconds)}/s)" if done.seconds > 0 else ""
    return (
        f"{counted(done.matches, 'match', 'matches')} in {short_bytes(done.searched_bytes)}, "
        f"{counted(done.chunks, 'chunk')} {crew}{retried}, {done.seconds:.2f} s{rate}"
    )


def how_far(progress: ToldProgress | None) -> str:
    """For somebody who did not wait for the end."""
    if progress is None:
        return "nothing was searched yet"
    matches = counted(progress.matches, "match", "matches")
    return f"{short_share(progress.done_bytes, progress.total_bytes)} were searched, with {matches} so far"


def _shown_problem(problem: Problem) -> str:
    lines = f" ({counted(problem.lines, 'line')})" if problem.lines else ""
    return f"{printable(problem.url)}: {printable(problem.why)}{lines}".removeprefix(": ")
