"""A command of the command line that a capability contributes: listed without being loaded."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto

from quarterdeck.core.named import Named


class Shelf(Enum):
    """Where the list of commands has it."""

    FIRST_STEPS = auto()
    """What one tries before anything else."""
    QUESTIONS = auto()
    """What one asks a crew, or gives it."""
    PROCESSES = auto()
    """What runs a single process."""


@dataclass(frozen=True, slots=True)
class Command:
    name: str
    """As it is typed."""
    short_help: str
    """For the list of commands; the docstring of the function is the whole help."""
    function: Named[Callable[..., None]]
    """With Typer's annotations for its options."""
    shelf: Shelf = Shelf.QUESTIONS
