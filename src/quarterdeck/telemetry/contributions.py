"""What a package measures besides the processes themselves, for the page about metrics."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from quarterdeck.telemetry.metrics.families import Families

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry


class HasFamilies(Protocol):
    families: Families


@dataclass(frozen=True, slots=True)
class Service:
    """Metrics under a prefix of their own, the same in every kind of process that has the service."""

    title: str
    about: str
    """Which processes have it."""
    make: "Callable[[CollectorRegistry], HasFamilies]"


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricsOf:
    """Everything that one package measures."""

    on_coordinator: Callable[[Families], object] | None = None
    """Declares what it adds to a coordinator's own."""
    on_worker: Callable[[Families], object] | None = None
    """Declares what it adds to a worker's own."""
    services: tuple[Service, ...] = ()
    questions: tuple[tuple[str, str], ...] = ()
    """Each with its answer in PromQL."""
