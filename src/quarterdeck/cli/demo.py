"""`quarterdeck demo`: one query, three workers, and a kill -9 in the middle, told as it happens.

The real coordinator and worker code plays it on a simulated network and clock; this module only tells what they did.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass, field

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from quarterdeck.core.ids import WorkId
from quarterdeck.core.workcoord.coordinator import effects as ef
from quarterdeck.core.workcoord.coordinator import events as ev
from quarterdeck.core.workcoord.messages import AssignWork, Goodbye, WorkAccepted, WorkProgressed, WorkReady
from quarterdeck.simulation.faults import Crash, Drain, Fault, SlowPeer
from quarterdeck.simulation.scenario import QueryLoad, Scenario, WorkLoad
from quarterdeck.simulation.trace import Entry
from quarterdeck.simulation.world import Outcome, play

_WORKS = 9
_LINES = 12
_COLOURS = {"waiting": "dim", "assigned": "yellow", "running": "cyan", "ready": "blue", "done": "green"}


def scenario() -> Scenario:
    """A query over nine segments; a worker is killed while it works, another is told to stop and drains."""
    durations_s = (1.6, 2.2, 1.1, 1.9, 1.4, 2.4, 1.2, 1.7, 2.0)
    query = QueryLoad(0.3, "c0", tuple(WorkLoad(duration_s) for duration_s in durations_s))
    faults: tuple[Fault, ...] = (
        Crash(1.6, "w1", 2.5),
        SlowPeer(2.2, "w0", 0.5, 0.05),
        Drain(3.0, "w2", None, 2.0),
    )
    return Scenario(
        seed=7,
        coordinators=1,
        workers=3,
        slots=2,
        queue_places=1,
        coordinators_dial=False,
        fragments=0,
        epoch_replicas=0,
        drop_durable_at_s=None,
        queries=(query,),
        faults=faults,
    )


@dataclass
class Story:
    """What is on the screen: where each work is, and the last things that happened."""

    works: dict[WorkId, tuple[str, str, int]] = field(default_factory=dict[WorkId, tuple[str, str, int]])
    """State, worker and attempt of each."""
    lines: list[str] = field(default_factory=list[str])
    sessions: dict[str, str] = field(default_factory=dict[str, str])
    gone: set[str] = field(default_factory=set[str])
    """Sessions that ended with a goodbye."""
    moved: list[str] = field(default_factory=list[str])

    def tell(self, entry: Entry) -> Iterator[str]:
        """Takes one entry of the trace, and puts into words what a person would want to know of it."""
        match entry.what:
            case Crash(_, host):
                yield f"[bold red]kill -9 {host}[/]: no goodbye, its artifacts are gone with it"
            case Drain(_, host):
                yield f"[bold yellow]SIGTERM {host}[/]: it drains: takes nothing new, hands back what it has not begun"
            case SlowPeer(_, host, for_s):
                yield f"[bold yellow]the network to {host} is slow[/] for {for_s:g} s"
            case str(note) if "heals" not in note:
                yield note
            case ev.SessionOpened(session_id, register):
                self.sessions[session_id] = register.worker.worker_id
                yield f"{register.worker.worker_id} registers with the coordinator"
            case ev.SessionLost(session_id, reason) if session_id not in self.gone:
                self._lost(self.sessions[session_id])
                yield f"the coordinator lost {self.sessions[session_id]} ({reason}): its works move at once"
            case ev.MessageReceived(session_id, Goodbye(reason)):
                self.gone.add(session_id)
                yield f"{self.sessions[session_id]} says goodbye: {reason}"
            case ev.MessageReceived(_, message):
                self._heard(message)
            case ev.WorkSubmitted(spec):
                self.works[spec.key.work_id] = ("waiting", "", 0)
            case _:
                pass
        for effect in entry.effects:
            yield from self._done(effect)

    def _lost(self, worker: str) -> None:
        for work_id, (state, where, number) in self.works.items():
            if where == worker and state != "done":
                self.works[work_id] = ("waiting", "", number)

    def _heard(self, message: object) -> None:
        match message:
            case WorkAccepted(attempt) | WorkProgressed(attempt):
                self._now(attempt.key.work_id, "running")
            case WorkReady(attempt):
                self._now(attempt.key.work_id, "ready")
            case _:
                pass

    def _done(self, effect: object) -> Iterator[str]:
        match effect:
            case ef.SendToWorker(session_id, AssignWork() as assignment):
                work_id, number = assignment.spec.key.work_id, assignment.number
                worker = self.sessions[session_id]
                self.works[work_id] = ("assigned", worker, number)
                if number > 1:
                    self.moved.append(work_id)
                    yield f"[cyan]{_short(work_id)}[/] goes to {worker}, attempt {number}"
            case ef.DeliverResult(attempt):
                work_id = attempt.key.work_id
                self._now(work_id, "done")
                yield f"[green]{_short(work_id)}[/] fetched from {self.works[work_id][1]}, verified"
            case ef.EndQuery(_, outcome):
                yield f"[bold green]the query has {outcome}[/]"
            case _:
                pass

    def _now(self, work_id: WorkId, state: str) -> None:
        _, worker, number = self.works[work_id]
        self.works[work_id] = (state, worker, number)

    def screen(self) -> Group:
        table = Table("segment", "state", "worker", "attempt", box=None, padding=(0, 3, 0, 0))
        for work_id, (state, worker, number) in self.works.items():
            table.add_row(_short(work_id), Text(state, style=_COLOURS[state]), worker, str(number or ""))
        return Group(table, "", *(Text.from_markup(line) for line in self.lines[-_LINES:]))


def _short(work_id: str) -> str:
    return "segment " + work_id.rpartition("/")[2]


def run(speed: float) -> int:
    """Plays the scenario, then tells it at a person's pace; without a terminal, as plain lines at once."""
    console = Console(highlight=False)
    console.print(
        "A coordinator asks three workers to read nine segments. One worker will be killed, one told to stop.\n"
        "The code is the real one; the network and the clock are simulated.\n"
    )
    outcome = play(scenario())
    entries = [e for e in _until_answered(outcome) if e.host in ("c0", "----")]
    story = Story()
    if console.is_terminal:
        _tell_live(console, story, entries, speed)
    else:
        for entry in entries:
            for line in story.tell(entry):
                console.print(f"{entry.at_s:6.2f} s  {line}")
    return _conclude(console, story, outcome)


def _tell_live(console: Console, story: Story, entries: list[Entry], speed: float) -> None:
    began = time.monotonic()
    with Live(console=console, refresh_per_second=20) as live:
        for entry in entries:
            time.sleep(max(0.0, entry.at_s / speed - (time.monotonic() - began)))
            story.lines += [f"[dim]{entry.at_s:6.2f} s[/]  {line}" for line in story.tell(entry)]
            live.update(story.screen())


def _until_answered(outcome: Outcome) -> Iterator[Entry]:
    for entry in outcome.trace.entries:
        yield entry
        if any(isinstance(effect, ef.EndQuery) for effect in entry.effects):
            return


def _conclude(console: Console, story: Story, outcome: Outcome) -> int:
    done = sum(state == "done" for state, _, _ in story.works.values())
    console.print(
        f"\n{done} of {_WORKS} segments were delivered, each once; {len(set(story.moved))} had to be done again "
        f"elsewhere. Nothing was lost, nothing was left behind."
        if outcome.violation is None and done == _WORKS
        else f"\n[bold red]a promise was broken[/]: {outcome.violation}; please report this"
    )
    console.print("Try it with a thousand random disasters: [bold].venv/bin/quarterdeck simulate --seeds 1000[/]")
    return 0 if outcome.violation is None and done == _WORKS else 1
