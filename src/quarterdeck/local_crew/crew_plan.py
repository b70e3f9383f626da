"""A whole crew on one machine: which processes, with which settings, in which folders.

Settings are read here once, as each process will read them again: what is wrong with them is told before anything is
started. What every process must have of its own is decided here, and cannot be set for all of them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from quarterdeck.config import Configuration, CoordinatorSettings, InvalidSettingsError, WorkerSettings
from quarterdeck.config.host import cores, memory_bytes
from quarterdeck.config.problems import Problem, hint
from quarterdeck.config.section import find_field, former_names, setting_names
from quarterdeck.config.shared import ProcessSettings
from quarterdeck.local_crew.worker_to_be import Advice, WorkerToBe
from quarterdeck.security.exposure import is_loopback
from quarterdeck.security.tokens import TOKEN_VARIABLE, SharedToken
from quarterdeck.terminal.options import parse_settings

COORDINATOR: Final = "coordinator"
_WORKER: Final = "worker"
_MARGIN_S: Final = 5.0
"""A process that does not stop ends itself by force; we wait a little longer than that."""
_DECIDED: Final = {
    "data_dir": "each process has a folder of its own below --data-dir",
    "http_port": "the coordinator's is --http-port, and workers take free ones",
    "control_port": "it is --control-port",
    "worker_id": "workers are called worker-1, worker-2 and so on",
    "join": "the workers join the coordinator that is started with them",
    "join_dns": "the workers join the coordinator that is started with them",
    "control_listen": "the workers join the coordinator that is started with them",
}
_ANYWHERE: Final = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - to be told apart, not to be listened on


@dataclass(frozen=True, slots=True)
class CrewRequest:
    """What somebody asked for."""

    workers: int | None
    """None is as many as cores, and at least two."""
    data_dir: Path
    http_port: int | None = None
    control_port: int | None = None
    config: Path | None = None
    settings: Sequence[str] = field(default=(), repr=False)
    """Each NAME=VALUE, for all processes that have the setting, or `worker.NAME=VALUE` for one kind."""
    keep_back: int = 1
    """Workers that nobody may reserve: the first ones."""


@dataclass(frozen=True, slots=True)
class CrewPlan:
    request: CrewRequest
    workers: int
    coordinator: CoordinatorSettings
    worker: WorkerSettings
    by_kind: Mapping[str, Sequence[str]] = field(repr=False)
    """The settings that were asked for, of each kind of process."""
    advice: Sequence[Advice] = ()
    """What workers are told besides."""
    token_file: Path | None = None
    """Of the token that the crew has for itself, if nobody gave it one."""

    def makes_token(self) -> bool:
        """Whether the crew gets a token of its own: nobody gave it one, and only this machine can reach it."""
        hosts = (self.coordinator.http_host, self.coordinator.control_host, self.worker.http_host)
        given = self.coordinator.token_file is not None or SharedToken.from_environment(TOKEN_VARIABLE) is not None
        return not given and all(map(is_loopback, hosts))

    @classmethod
    def of(cls, request: CrewRequest, configuration: Configuration, advice: Sequence[Advice] = ()) -> "CrewPlan":
        by_kind = _by_kind(configuration, request.settings)
        folder = request.data_dir
        ports = {"http_port": request.http_port, "control_port": request.control_port}
        coordinator = configuration.load_coordinator(
            request.config,
            {**parse_settings(by_kind[COORDINATOR]), **ports, "data_dir": folder / COORDINATOR},
        )
        worker = configuration.load_worker(
            request.config, {**parse_settings(by_kind[_WORKER]), "data_dir": folder / "worker-1"}
        )
        return cls(request, request.workers or max(2, cores()), coordinator, worker, by_kind, advice)

    @property
    def worker_names(self) -> list[str]:
        return [f"worker-{number}" for number in range(1, self.workers + 1)]

    def folder_of(self, name: str) -> Path:
        return self.request.data_dir.absolute() / name

    def coordinator_arguments(self, addresses: Mapping[str, object] | None = None) -> list[str]:
        """`addresses` are those of an earlier start: it is found where it was."""
        arguments = ["coordinator", *self._file()]
        ports = (self.request.http_port, self.request.control_port)
        if addresses is not None:
            ports = (port_of(addresses["http"]), port_of(addresses["control"]))
        for name, port in zip(("--http-port", "--control-port"), ports, strict=True):
            arguments += [] if port is None else [name, str(port)]
        return arguments

    def coordinator_settings(self) -> list[str]:
        given = self.by_kind[COORDINATOR]
        is_shared = "memory_bytes" not in self.coordinator.model_fields_set
        share = [f"memory_bytes={self._memory_bytes}"] if is_shared else []
        return [*given, *_readable_log(self.coordinator), *self._token(self.coordinator), *share]

    def worker_arguments(self, control: str) -> list[str]:
        """`control` is where the coordinator is joined."""
        return ["worker", "--join", dialled(control), "--http-port", "0", *self._file()]

    def worker_arguments_ahead(self) -> list[str]:
        """Without where the coordinator is joined: that comes with the settings."""
        return ["worker", "--http-port", "0", *self._file()]

    @property
    def workers_load_all(self) -> bool:
        """Whether they execute every kind of work, so that what they need is known before their settings."""
        return "kinds" not in self.worker.model_fields_set

    def worker_settings(self, name: str, url: str) -> list[str]:
        """`url` is where the coordinator is asked."""
        number = self.worker_names.index(name)
        told = WorkerToBe(number, self.worker, url, self.request.keep_back)
        own: dict[str, object] = {"worker_id": name, **self._shares(number)}
        for advice in self.advice:
            own.update(advice(told))
        given = [*self.by_kind[_WORKER], *_readable_log(self.worker), *self._token(self.worker)]
        return [*given, *(f"{setting}={value}" for setting, value in own.items())]

    @property
    def coordinator_stop_s(self) -> float:
        return self.coordinator.shutdown_grace_s + self.coordinator.shutdown_max_s + _MARGIN_S

    @property
    def worker_stop_s(self) -> float:
        return self.worker.drain_max_s + self.worker.shutdown_max_s + _MARGIN_S

    @property
    def _memory_bytes(self) -> int:
        """Of each process: the workers have one each, and the coordinator one more."""
        return memory_bytes() // (self.workers + 1)

    def _shares(self, number: int) -> dict[str, int]:
        """What this machine has, divided among the workers, unless somebody has set it."""
        per_worker, left_over = divmod(cores(), self.workers)
        shares = {
            "slots": max(1, per_worker + (number < left_over)),
            "memory_bytes": self._memory_bytes,
        }
        return {name: value for name, value in shares.items() if name not in self.worker.model_fields_set}

    def _token(self, settings: ProcessSettings) -> list[str]:
        """The crew's own, if it has one."""
        if self.token_file is None:
            return []
        token = [f"token_file={self.token_file.absolute()}"]
        return token if "reading_needs_token" in settings.model_fields_set else [*token, "reading_needs_token=false"]

    def _file(self) -> list[str]:
        return [] if self.request.config is None else ["--config", str(self.request.config)]


def _by_kind(configuration: Configuration, texts: Sequence[str]) -> Mapping[str, Sequence[str]]:
    """The settings of each kind of process."""
    kinds: Mapping[str, type[ProcessSettings]] = {
        COORDINATOR: configuration.coordinator,
        _WORKER: configuration.worker,
    }
    found: dict[str, list[str]] = {kind: [] for kind in kinds}
    problems: list[Problem] = []
    for text in texts:
        parse_settings([text])
        kind, dot, rest = text.strip().partition(".")
        named = dot and kind in kinds
        name = (rest if named else text).partition("=")[0].strip().replace("-", "_")
        asked = {kind: kinds[kind]} if named else kinds
        having = [kind for kind, model in asked.items() if find_field(model, tuple(name.split("."))) is not None]
        if name in _DECIDED:
            problems.append(Problem(name, f"is not for --set here: {_DECIDED[name]}"))
        elif not having:
            why = _why_not(asked, name, f"(given as --set {text.partition('=')[0]}=…)")
            problems.append(Problem(name, why))
        for kind in having:
            found[kind].append(rest if named else text)
    if problems:
        raise InvalidSettingsError("crew", problems)
    return found


def _why_not(kinds: Mapping[str, type[ProcessSettings]], name: str, origin: str) -> str:
    """Why no process has a setting, as the rest of a sentence."""
    former = [(kind, *names[name]) for kind, model in kinds.items() if name in (names := former_names(model))]
    if former:
        return f"is called {' and '.join(map('.'.join, former))} now {origin}"
    known = [setting for model in kinds.values() for setting in setting_names(model)]
    return f"is not a setting {origin}{hint(name, known)}"


def _readable_log(settings: ProcessSettings) -> list[str]:
    """The log goes to a file that a person reads, unless somebody wants it otherwise."""
    return ["log_format=console"] if settings.log_format == "auto" else []


def port_of(address: Any) -> int:
    """Of an address that a process has announced.

    >>> port_of("http://127.0.0.1:7070"), port_of("[::1]:7071")
    (7070, 7071)
    """
    return int(str(address).rpartition(":")[2])


def dialled(address: str) -> str:
    """An address that was listened on, as it is dialled from this machine.

    >>> dialled("0.0.0.0:7071"), dialled("http://[::]:7070"), dialled("10.0.0.7:7071")
    ('127.0.0.1:7071', 'http://[::1]:7070', '10.0.0.7:7071')
    """
    for anywhere, here in _ANYWHERE.items():
        for host in (f"[{anywhere}]:", f"{anywhere}:"):
            scheme, separator, rest = address.rpartition("://")
            if rest.startswith(host):
                return f"{scheme}{separator}{host.replace(anywhere, here)}{rest.removeprefix(host)}"
    return address
