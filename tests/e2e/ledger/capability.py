"""What the ledger contributes."""

from typing import Final

from quarterdeck.capability import Capability
from quarterdeck.core.named import Named

LEDGER: Final = Capability(
    name="ledger",
    declares_state=True,
    schema=Named("tests.e2e.ledger.tables:LEDGER_SCHEMA"),
    on_coordinator=Named("tests.e2e.ledger.on_coordinator:LedgerOnCoordinator"),
)
