"""`quarterdeck up`: a coordinator and workers on this machine, kept alive until somebody stops them."""

import asyncio
import shlex
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from urllib.parse import urlsplit

from rich.console import Console
from rich.markup import escape

from quarterdeck.capability import Capability
from quarterdeck.capability.settings import configuration
from quarterdeck.cli.compiled_code import compile_first
from quarterdeck.config import CoordinatorSettings
from quarterdeck.core.errors import ERROR_TABLE, ErrorCode, QuarterdeckError
from quarterdeck.engines.code_folder import share_code_in
from quarterdeck.http.listener import open_socket
from quarterdeck.local_crew.child import Child, ChildFailedError
from quarterdeck.local_crew.crew_plan import COORDINATOR, CrewPlan, CrewRequest, dialled
from quarterdeck.local_crew.supervisor import LOOK_S, ChildEvent, Supervisor
from quarterdeck.security.local_processes import LocalProcesses
from quarterdeck.security.tokens import TOKEN_NAME, SharedToken
from quarterdeck.stores.data_folder import DataFolder
from quarterdeck.terminal.client import Access, Client
from quarterdeck.terminal.documents import ask_crew
from quarterdeck.terminal.options import DEFAULT_URL
from quarterdeck.terminal.stop_requests import StopRequests
from quarterdeck.terminal.telling import counted

_JOIN_LIMIT_S = 30.0
_JOIN_LOOK_S = 0.1
_EXIT_HURRIED = ERROR_TABLE[ErrorCode.CANCELED].exit_code


def run(request: CrewRequest, capabilities: Sequence[Capability], *, show_logs: bool) -> int:
    advice = [one.in_local_crew.load() for one in capabilities if one.in_local_crew is not None]
    plan = CrewPlan.of(request, configuration(capabilities), advice)
    console = Console(highlight=False, soft_wrap=True)
    with DataFolder(request.data_dir) as folder, StopRequests() as stop:
        if plan.makes_token():
            token_file = request.data_dir / TOKEN_NAME
            SharedToken.kept_in(token_file)
            plan = replace(plan, token_file=token_file)
        asyncio.run(_check_ports(plan.coordinator))
        share_code_in(request.data_dir)
        if not compile_first(capabilities, console, stop):
            return _EXIT_HURRIED
        to_try = [command for one in capabilities for command in one.to_try]
        crew = Crew(plan, to_try, console, stop, None if show_logs else request.data_dir / "logs")
        with crew.supervisor:
            return crew.live(folder)


class Crew:
    """One coordinator and its workers, from the start to the end."""

    def __init__(
        self, plan: CrewPlan, to_try: Sequence[str], console: Console, stop: StopRequests, logs: Path | None
    ) -> None:
        self._plan = plan
        self._to_try = to_try
        self._console = console
        self._stop = stop
        self._logs = logs
        self.supervisor = Supervisor(self._tell, log_folder=logs)

    def live(self, folder: DataFolder) -> int:
        try:
            is_up = self._start()
        except ChildFailedError as error:
            for line in error.lines:
                self._console.print(f"  {line}", markup=False)
            raise
        if is_up:
            folder.announce(http=self._url, control=self._control)
            self._welcome()
            self.supervisor.keep_alive = True
            while not self._stop.once():
                self.supervisor.look()
                time.sleep(LOOK_S)
        return self._end(is_up)

    # Starting

    def _start(self) -> bool:
        """Whether all are up; somebody may want to stop before that."""
        plan, supervisor = self._plan, self.supervisor
        with self._busy(f"starting a coordinator and {counted(plan.workers, 'worker')}"):
            # The coordinator first: should it fail because another one has its port, no worker must join that one.
            coordinator = supervisor.start(
                COORDINATOR,
                plan.folder_of(COORDINATOR),
                plan.coordinator_arguments(),
                settings=plan.coordinator_settings(),
                stop_limit_s=plan.coordinator_stop_s,
            )
            ahead = [self._start_ahead(name) for name in plan.worker_names if plan.workers_load_all]
            if not supervisor.wait_up([coordinator], self._stop.once):
                return False
            coordinator.arguments = plan.coordinator_arguments(coordinator.addresses)
            self._url = dialled(str(coordinator.addresses["http"]))
            self._control = dialled(str(coordinator.addresses["control"]))
            for child in ahead:
                settings = plan.worker_settings(child.name, self._url)
                now = [*settings, f"join={self._control}"]
                supervisor.go_on(child, now, arguments=plan.worker_arguments(self._control), settings=settings)
            for name in plan.worker_names[len(ahead) :]:
                supervisor.start(
                    name,
                    plan.folder_of(name),
                    plan.worker_arguments(self._control),
                    settings=plan.worker_settings(name, self._url),
                    stop_limit_s=plan.worker_stop_s,
                )
            return supervisor.wait_up(self._workers(), self._stop.once) and self._wait_joined()

    def _start_ahead(self, name: str) -> Child:
        """A worker loads its libraries while the coordinator starts, and joins it when that is up."""
        plan = self._plan
        arguments = plan.worker_arguments_ahead()
        return self.supervisor.start_ahead(name, plan.folder_of(name), arguments, stop_limit_s=plan.worker_stop_s)

    def _wait_joined(self) -> bool:
        """Until the coordinator knows all workers, and they take work."""
        settings = self._plan.coordinator
        token_file = self._plan.token_file or settings.token_file
        client = Client(Access(self._url, token_file, settings.tls_authority, settings.insecure))
        until = time.monotonic() + _JOIN_LIMIT_S
        missing = set(self._plan.worker_names)
        while not self._stop.once():
            missing -= {worker.worker_id for worker in ask_crew(client).workers if worker.state == "accepting"}
            if not missing:
                return True
            if time.monotonic() > until:
                raise _not_joined(missing, self._logs)
            time.sleep(_JOIN_LOOK_S)
        return False

    def _welcome(self) -> None:
        plan = self._plan
        say = self._console.print
        say(f"[bold green]Quarterdeck is up[/]: 1 coordinator, {counted(plan.workers, 'worker')}\n")
        say(f"  ask it    [bold]{self._url}[/]")
        say(f"  join it   {self._control}")
        say(f"  data      {escape(str(plan.request.data_dir))}")
        if self._logs is not None:
            say(f"  logs      {escape(str(self._logs))}/*.log")
        say("\nTry this in another terminal:\n")
        for command in suggestions(plan, self._to_try, self._url, self._control, LocalProcesses()):
            say(f"  {command}", markup=False, style="cyan")
        say("\nCtrl-C stops it.")

    # Ending

    def _end(self, was_up: bool) -> int:
        """Whatever is asked still has its workers while the coordinator lets it finish; then there is nothing left for
        the workers to do, and they go."""
        if was_up:
            self._console.print("\nstopping: running queries may finish; Ctrl-C again ends them")
        supervisor = self.supervisor
        unclean = supervisor.stop([supervisor.children[COORDINATOR]], self._stop.twice)
        unclean += supervisor.stop(self._workers(), self._stop.twice)
        if self._stop.twice():
            self._console.print("ended at once")
        if self._stop.twice() or not was_up:
            return _EXIT_HURRIED
        for child in unclean:
            self._console.print(f"{child.name} {child.how_it_ended()}")
        if not unclean:
            self._console.print("stopped")
            return 0
        return max(unclean[0].exit_code or 0, 0) or ERROR_TABLE[ErrorCode.INTERNAL].exit_code

    # Telling

    def _tell(self, event: ChildEvent) -> None:
        at = datetime.now().astimezone().strftime("%H:%M:%S")
        self._console.print(f"[dim]{at}[/]  [bold]{event.name}[/] {escape(event.text)}")
        for line in event.lines:
            self._console.print(f"            {line}", markup=False, style="dim")

    def _busy(self, text: str) -> AbstractContextManager[object]:
        if self._console.is_terminal and self._logs is not None:
            return self._console.status(text)
        self._console.print(text)
        return nullcontext()

    def _workers(self) -> list[Child]:
        return [child for name, child in self.supervisor.children.items() if name != COORDINATOR]


def suggestions(plan: CrewPlan, to_try: Sequence[str], url: str, control: str, processes: LocalProcesses) -> list[str]:
    """Commands to try, as they have to be written for this crew."""
    folder = plan.request.data_dir
    at = "" if url == DEFAULT_URL else f" --url {url}"
    token = ""
    place = urlsplit(url)
    if plan.token_file is not None and processes.find(place.hostname or "", place.port or 0) is None:
        token = f" --token-file {_quoted(plan.token_file)}"  # without it, what is pasted would be refused
    join = f"quarterdeck worker --join {control} --data-dir {_quoted(folder / 'one-more')}"
    return [
        *(f"{command}{at}{token}" for command in ("quarterdeck status", *to_try)),
        f"{join} --set {_quoted(f'token_file={plan.token_file}')}" if token else join,
    ]


def _quoted(text: object) -> str:
    """As a shell takes it for one word."""
    return shlex.quote(str(text))


async def _check_ports(settings: CoordinatorSettings) -> None:
    """A busy port is told at once, and not after the seconds that a process takes to find out."""
    for host, port in ((settings.http_host, settings.http_port), (settings.control_host, settings.control_port)):
        (await open_socket(host, port)).close()


def _not_joined(missing: set[str], logs: Path | None) -> QuarterdeckError:
    return QuarterdeckError(
        ErrorCode.UNAVAILABLE,
        f"{', '.join(sorted(missing))} did not join the coordinator",
        f"they are up, and had {_JOIN_LIMIT_S:.0f} s",
        "see what they wrote above" if logs is None else f"see their logs in {logs}",
    )
