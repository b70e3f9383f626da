"""What the pantry contributes."""

from typing import Final

from quarterdeck.capability import Capability
from quarterdeck.core.named import Named
from quarterdeck.core.reconcile.model import HeldKind

JAR: Final = HeldKind("jar")

PANTRY: Final = Capability(
    name="pantry",
    held_kinds=(JAR,),
    on_coordinator=Named("tests.e2e.pantry.parts:PantryOnCoordinator"),
    on_worker=Named("tests.e2e.pantry.parts:PantryOnWorker"),
)
