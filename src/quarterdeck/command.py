"""The `quarterdeck` command with all capabilities: where the list meets the command line."""

from typing import Final, NoReturn

from quarterdeck.capabilities import CAPABILITIES
from quarterdeck.cli.main import make_app, run

app: Final = make_app(CAPABILITIES)


def main() -> NoReturn:
    run(app)
