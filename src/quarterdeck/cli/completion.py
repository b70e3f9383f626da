"""`quarterdeck completion`: the script that a shell runs, so that Tab completes our commands and options."""

from enum import StrEnum
from typing import Annotated

import typer


class Shell(StrEnum):
    """Those that can."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


def completion(shell: Annotated[Shell, typer.Argument(help="The shell.", show_default=False)]) -> None:
    """Print a script that lets a shell complete these commands and their options.

    Let the shell run the script, once or each time it starts.

    Examples:

      quarterdeck completion bash >> ~/.bashrc

      quarterdeck completion zsh >> ~/.zshrc

      quarterdeck completion fish > ~/.config/fish/completions/quarterdeck.fish

      source <(quarterdeck completion bash)
    """
    # Loaded when it is needed. Typer has an option that prints it, which guesses for which shell.
    from typer._completion_shared import get_completion_script  # noqa: PLC0415

    names = {"prog_name": "quarterdeck", "complete_var": "_QUARTERDECK_COMPLETE"}
    typer.echo(get_completion_script(shell=shell.value, **names))
