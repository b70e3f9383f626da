"""`python -m tests.e2e.pantry`: the command, with the pantry among its capabilities."""

from quarterdeck.capabilities import CAPABILITIES
from quarterdeck.cli.main import make_app, run
from tests.e2e.pantry.capability import PANTRY

run(make_app((*CAPABILITIES, PANTRY)))
