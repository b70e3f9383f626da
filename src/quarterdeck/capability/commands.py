"""A command of the command line that a capability contributes: listed without being loaded."""

from collections.abc import Callable
from dataclasses import dataclass

from quarterdeck.core.named import Named


@dataclass(frozen=True, slots=True)
class Command:
    name: str
    """As it is typed."""
    short_help: str
    """For the list of commands; the docstring of the function is the whole help."""
    function: Named[Callable[..., None]]
    """With Typer's annotations for its options."""
