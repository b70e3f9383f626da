"""The `quarterdeck` command with one capability more: `python -m tests.tally`."""

from quarterdeck.capabilities import CAPABILITIES
from quarterdeck.cli.main import make_app, run
from tests.tally.capability import TALLY

run(make_app((*CAPABILITIES, TALLY)))
