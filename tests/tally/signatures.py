"""The command. Heavy imports wait until it needs them."""

from typing import Annotated

import typer

from quarterdeck.terminal import options as opt
from quarterdeck.terminal.telling import exit_code_of


def tally(
    text: Annotated[str, typer.Argument(help="Whose words are counted.")],
    url: opt.Url = opt.DEFAULT_URL,
    token_file: opt.TokenFile = None,
) -> None:
    """Count the words of a text on the crew."""
    from quarterdeck.terminal.client import Access  # noqa: PLC0415 - loaded when it is needed
    from tests.tally.command import run  # noqa: PLC0415

    raise typer.Exit(exit_code_of(lambda: run(Access(url, token_file), text)))
