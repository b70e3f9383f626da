"""A capability: everything that its package contributes, by name.

It is light: whoever lists capabilities loads none of them. What takes time to load is `Named`, and loaded by the
process that needs it: a worker does not load what only a coordinator needs, and the command line loads the command that
was called.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from quarterdeck.capability.commands import Command
from quarterdeck.core.named import Named

if TYPE_CHECKING:
    from quarterdeck.capability.coordinator import CoordinatorHost, CoordinatorPart
    from quarterdeck.capability.worker import WorkerHost, WorkerPart
    from quarterdeck.config import ProcessSettings, Section
    from quarterdeck.core.reconcile.model import HeldKind
    from quarterdeck.core.workcoord.kinds import WorkKind
    from quarterdeck.engines.first_compile import OnProgress, OnWait
    from quarterdeck.local_crew.worker_to_be import Advice
    from quarterdeck.simulation.dramas import Drama
    from quarterdeck.stores.database.schema import Schema
    from quarterdeck.telemetry.contributions import MetricsOf


@dataclass(frozen=True, slots=True)
class World:
    """Something that `quarterdeck simulate` can play."""

    name: str
    """What chooses it, as `--name`."""
    help: str
    drama: Named["Drama[Any]"]


@dataclass(frozen=True, slots=True)
class CompiledCode:
    """What a capability has that is compiled once on a machine."""

    packages: tuple[str, ...]
    """Those with the sources of it, by their dotted names."""
    make: Named["Callable[[OnProgress, OnWait], None]"]
    """Compiles what is not there yet, and tells how far it is."""


@dataclass(frozen=True, slots=True)
class OwnProcess:
    """A kind of process that a capability has besides coordinator and worker. One of its commands starts it."""

    name: str
    """Of its section in a file of settings."""
    settings: Named[type["ProcessSettings"]]
    """With its sections."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Capability:
    name: str
    """Its name everywhere: of its package, its section of the settings, its tables."""
    coordinator_settings: Named[type["Section"]] | None = None
    """Its section of a coordinator's settings."""
    worker_settings: Named[type["Section"]] | None = None
    """Its section of a worker's settings."""
    processes: tuple[OwnProcess, ...] = ()
    schema: Named["Schema"] | None = None
    """The tables that a coordinator's database has for it."""
    declares_state: bool = False
    """Whether its part of a coordinator needs to know who leads. If no capability does, nobody is elected."""
    held_kinds: tuple["HeldKind", ...] = ()
    """Of things that its part of a coordinator declares, and its part of a worker holds. It needs a leader, too."""
    metrics: Named["MetricsOf"] | None = None
    """What it measures, for the reference."""
    on_coordinator: Named["Callable[[CoordinatorHost], CoordinatorPart | None]"] | None = None
    """Makes its part of a coordinator; None where the settings leave it nothing to do."""
    on_worker: Named["Callable[[WorkerHost], WorkerPart | None]"] | None = None
    """Makes its part of a worker; None where the settings leave it nothing to do."""
    kinds: tuple["WorkKind", ...] = ()
    """Of work that its part of a worker executes, if the worker is to take them."""
    old_kinds: Mapping[str, "WorkKind"] = field(default_factory=dict[str, "WorkKind"])
    """What kinds of its works were called once, for whoever still says so."""
    compiled: CompiledCode | None = None
    in_local_crew: Named["Advice"] | None = None
    """What each worker is told that `quarterdeck up` starts."""
    commands: tuple[Command, ...] = ()
    to_try: tuple[str, ...] = ()
    """Commands that `quarterdeck up` proposes to whoever sees it for the first time."""
    worlds: tuple[World, ...] = ()
