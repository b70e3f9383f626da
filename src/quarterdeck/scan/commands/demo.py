"""`quarterdeck demo`: real processes, a real kill -9 in the middle of a query, and an answer that is still right.

Everything is in a temporary folder and on free ports, and is gone at the end.
"""

import os
import signal
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from textwrap import indent
from typing import Any, Final, TypeVar

import pyarrow  # pyright: ignore[reportMissingTypeStubs] - it has none
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from quarterdeck.core.errors import ErrorCode, QuarterdeckError
from quarterdeck.local_crew.child import ChildFailedError
from quarterdeck.local_crew.crew_plan import COORDINATOR
from quarterdeck.local_crew.supervisor import Supervisor
from quarterdeck.scan.commands.demo_question import FILES, SQL, Alone, Rows, merged, write_files
from quarterdeck.scan.commands.demo_screen import DemoScreen
from quarterdeck.scan.commands.demo_story import Aftermath, Kill
from quarterdeck.scan.commands.scan_stream import ScanStream
from quarterdeck.security.tokens import TOKEN_NAME, SharedToken
from quarterdeck.terminal.client import Access, Client
from quarterdeck.terminal.documents import CrewReport, Look, QueryReport, ask_query
from quarterdeck.terminal.short_numbers import shown_size
from quarterdeck.terminal.stop_requests import StopRequests
from quarterdeck.terminal.telling import counted

_arrow: Final[Any] = pyarrow
WORKERS: Final = ("worker-1", "worker-2", "worker-3", "worker-4")
EXIT_WRONG: Final = 1
_LOOK_S: Final = 0.1
_STOP_S: Final = 10.0
_KILL_SHARE: Final = 3
"""The kill comes when one part in so many of the works is delivered."""
ResultT = TypeVar("ResultT")


class StoppedError(QuarterdeckError):
    def __init__(self) -> None:
        super().__init__(ErrorCode.CANCELED, "the demo was stopped", "somebody asked for it", "start it again any time")
        self.args = ()  # from which copy and pickle make it anew


@dataclass(frozen=True, slots=True)
class Asked:
    """What came of the question."""

    answer: Rows
    query: QueryReport
    kill: Kill | None
    """None when the query was over before anybody could be killed."""
    seconds: float


def run(rows: int) -> int:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="quarterdeck-demo-")))
        stop = stack.enter_context(StopRequests())
        supervisor = Supervisor(lambda _event: None, log_folder=folder / "logs", environment=_plain_environment())
        stack.enter_context(supervisor)
        console = Console(highlight=False, soft_wrap=True)
        try:
            return Demo(folder, rows, supervisor, stop, console).play()
        except ChildFailedError as error:
            for line in error.lines:
                console.print(f"  {line}", markup=False)
            step = "what it wrote last is above" if error.lines else "report it"  # its log goes with the folder
            raise QuarterdeckError(error.code, error.what, error.why, step) from None


def _plain_environment() -> dict[str, str]:
    """Without settings that somebody has made for real crews, and without proxies: it all stays on this machine."""
    return {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("QUARTERDECK_") and not name.lower().endswith("_proxy")
    }


class Demo:
    def __init__(self, folder: Path, rows: int, supervisor: Supervisor, stop: StopRequests, console: Console) -> None:
        self._folder = folder
        self._rows = rows
        self._supervisor = supervisor
        self._stop = stop
        self._console = console
        self._screen = DemoScreen(console, WORKERS)
        self._began_at = time.monotonic()
        self._token_file = self._folder / TOKEN_NAME

    def play(self) -> int:
        say = self._screen.say
        say("[bold]A question over many files, a crew of four, and one of them is killed in the middle.[/]\n")
        data = self._prepare()
        client = self._start_crew()
        say(f"\n[dim]{escape(indent(SQL, '    '))}[/]\n")
        asked = self._ask(client, data)
        self._tell_answer(asked)
        alone, alone_s = self._ask_alone(data)
        log_file = self._supervisor.children[COORDINATOR].log_file
        assert log_file is not None, "the demo's processes write files"
        after = None if asked.kill is None else Aftermath.of(asked.kill, log_file)
        self._stop_crew()
        self._tell_story(asked, after, alone_s)
        return conclude(asked.answer, alone, say)

    # The steps

    def _prepare(self) -> Path:
        """The files; meanwhile the coordinator starts."""
        SharedToken.kept_in(self._token_file)
        arguments = ("coordinator", "--http-port", "0", "--control-port", "0")
        settings = ("log_format=json", f"token_file={self._token_file}")
        folder = self._folder / COORDINATOR
        self._supervisor.start(COORDINATOR, folder, arguments, settings=settings, stop_limit_s=_STOP_S)
        data = self._folder / "requests"
        data.mkdir()
        began_at = time.monotonic()
        with self._screen.step(f"writing {FILES} Parquet files", FILES) as moved:

            def after_each(written: int) -> bool:
                moved(written)
                return self._stop.once()

            size_bytes = write_files(data, self._rows, after_each)
        self._check_stop()
        self._screen.say(
            f"[green]✓[/] {FILES} Parquet files with {self._rows:,} web requests, {shown_size(size_bytes)}, "
            f"written in {time.monotonic() - began_at:.1f} s"
        )
        return data

    def _start_crew(self) -> Client:
        supervisor, began_at = self._supervisor, time.monotonic()
        with self._screen.step("starting a coordinator and four workers", len(WORKERS) + 1) as moved:

            def give_up() -> bool:
                moved(sum(child.state == "up" for child in supervisor.children.values()))
                return self._stop.once()

            coordinator = supervisor.children[COORDINATOR]
            supervisor.wait_up([coordinator], give_up)
            self._check_stop()
            for name in WORKERS:
                arguments = ("worker", "--join", str(coordinator.addresses["control"]), "--slots", "1")
                token = f"token_file={self._token_file}"
                settings = (f"worker_id={name}", "duckdb_threads=1", "kinds=scan", token)
                supervisor.start(name, self._folder / name, arguments, settings=settings, stop_limit_s=_STOP_S)
            supervisor.wait_up([supervisor.children[name] for name in WORKERS], give_up)
            self._check_stop()
        self._screen.say(
            f"[green]✓[/] a coordinator and four workers, up after {time.monotonic() - began_at:.1f} s more"
        )
        return Client(Access(str(coordinator.addresses["http"]), self._token_file))

    def _ask(self, client: Client, data: Path) -> Asked:
        """The question is asked in a thread; here the crew is watched, and one of it killed."""
        began_at = time.monotonic()
        document = {"sql": SQL, "sources": [str(data)], "files_per_work": 1, "merge": "none"}
        kill: Kill | None = None
        with ScanStream(client, document) as stream, self._screen.crew():

            def watch() -> None:
                nonlocal kill
                look = Look.take(client)
                query = look.queries[0] if look.queries else None
                self._screen.show(look.crew, query)
                if kill is None and query is not None:
                    kill = self._kill_in_time(look.crew, query)
                elif kill is not None and kill.worker.worker_id not in look.crew.ids:
                    self._screen.tell_once(f"the coordinator has lost {kill.worker.worker_id}; its works go to others")

            parts = self._wait(lambda: _parts(stream), stream.cut, watch)
            look = Look.take(client)
            query = ask_query(client, stream.query_id)
            self._screen.show(look.crew, query)
            self._screen.tell(f"[green]the answer is there[/]: {query.rows} rows of {query.works} works")
        return Asked(merged(parts), query, kill, time.monotonic() - began_at)

    def _kill_in_time(self, crew: CrewReport, query: QueryReport) -> Kill | None:
        if query.delivered * _KILL_SHARE < query.works:
            return None
        victim = max(crew.workers, key=lambda worker: worker.in_flight, default=None)
        if victim is None or victim.in_flight == 0:
            return None
        child = self._supervisor.children[victim.worker_id]
        kill = Kill(victim, child.pid, time.time(), query.delivered)
        child.send(signal.SIGKILL)
        self._screen.killed(victim.worker_id)
        self._screen.tell(
            f"[bold red]kill -9 {victim.worker_id}[/] (process {child.pid}), "
            f"with {counted(victim.in_flight, 'work')} in flight"
        )
        return kill

    def _ask_alone(self, data: Path) -> tuple[Rows, float]:
        began_at = time.monotonic()
        alone = Alone(data)
        try:
            with self._screen.step("asking DuckDB alone, over the same files", 1):
                return self._wait(alone.answer, alone.interrupt, lambda: None), time.monotonic() - began_at
        finally:
            alone.close()

    def _wait(self, work: Callable[[], ResultT], end: Callable[[], None], meanwhile: Callable[[], None]) -> ResultT:
        """The result of something that takes a while, in a thread; `end` makes it end when somebody says stop."""
        with ThreadPoolExecutor(1, thread_name_prefix="demo") as executor:
            future: Future[ResultT] = executor.submit(work)
            try:
                while not future.done():
                    self._check_stop()
                    meanwhile()
                    time.sleep(_LOOK_S)
                return future.result()
            except BaseException:
                end()
                raise

    def _stop_crew(self) -> None:
        supervisor = self._supervisor
        with self._screen.step("stopping the crew", 1):
            supervisor.stop([supervisor.children[COORDINATOR]], self._stop.once)
            supervisor.stop([supervisor.children[name] for name in WORKERS], self._stop.once)

    def _check_stop(self) -> None:
        if self._stop.once():
            raise StoppedError

    # What is shown

    def _tell_answer(self, asked: Asked) -> None:
        table = Table(header_style="bold")
        for number, name in enumerate(("section", "requests", "errors", "bytes", "fingerprint of all rows")):
            table.add_column(name, justify="right" if number else "left")
        for section, requests, errors, size_bytes, fingerprint in asked.answer:
            table.add_row(str(section), f"{requests:,}", f"{errors:,}", f"{size_bytes:,}", f"{fingerprint:016x}")
        self._screen.say()
        self._console.print(table)

    def _tell_story(self, asked: Asked, after: Aftermath | None, alone_s: float) -> None:
        say, query = self._screen.say, asked.query
        say()
        if asked.kill is None:
            say("The question was answered before a worker could be killed: try more --rows.")
        else:
            kill = asked.kill
            say(
                f"[bold]{kill.worker.worker_id}[/] was killed when {kill.delivered} of {query.works} works were "
                f"delivered; it had {kill.worker.in_flight} in flight."
            )
        if after is not None:
            say(f"The coordinator noticed after {after.noticed_s * 1000:.0f} ms. {_told_again(after)}")
        say(f"{query.works} works took {query.attempts} attempts; every result was counted once.")
        say(
            f"The crew took {asked.seconds:.1f} s, DuckDB alone {alone_s:.1f} s; "
            f"all of it {time.monotonic() - self._began_at:.0f} s."
        )


def _told_again(after: Aftermath) -> str:
    if not after.again_s:
        return "No work had to be done again."
    first_s, last_s = min(after.again_s), max(after.again_s)
    return (
        f"{counted(len(after.again_s), 'work')} went to others, {first_s:.2f} s after the kill the first, "
        f"{last_s:.2f} s the last."
    )


def conclude(answer: Rows, alone: Rows, say: Callable[[str], None]) -> int:
    """Compares the two, and says so."""
    if answer == alone:
        say("\n[bold green]The answer is the one that DuckDB gives alone over the same files, to the last bit.[/]")
        say("Run your own crew with [bold]quarterdeck up[/].")
        return 0
    say("\n[bold red]The answer is wrong[/]: DuckDB alone gives another one over the same files. Please report this.")
    for theirs in alone:
        if theirs not in answer:
            say(f"  DuckDB alone has {theirs}")
    for ours in answer:
        if ours not in alone:
            say(f"  the crew has {ours}")
    return EXIT_WRONG


def _parts(stream: ScanStream) -> Any:
    """All rows that come back, as a table."""
    schema = stream.begin()
    return _arrow.Table.from_batches(list(stream), schema)
