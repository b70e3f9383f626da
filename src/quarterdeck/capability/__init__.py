"""What a package contributes to be a capability of Quarterdeck: to a coordinator, to a worker, to the command line, to
the simulator and to the reference. The layers below get contributions as arguments and name no capability."""

from quarterdeck.capability.commands import Command
from quarterdeck.capability.coordinator import CoordinatorHost, CoordinatorPart
from quarterdeck.capability.model import Capability, World
from quarterdeck.capability.offers import Offers
from quarterdeck.capability.worker import WorkerHost, WorkerPart

__all__ = [
    "Capability",
    "Command",
    "CoordinatorHost",
    "CoordinatorPart",
    "Offers",
    "WorkerHost",
    "WorkerPart",
    "World",
]
