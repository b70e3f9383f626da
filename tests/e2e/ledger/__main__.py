"""`python -m tests.e2e.ledger`: the command, with the ledger among its capabilities."""

from quarterdeck.capabilities import CAPABILITIES
from quarterdeck.cli.main import make_app, run
from tests.e2e.ledger.capability import LEDGER

run(make_app((*CAPABILITIES, LEDGER)))
