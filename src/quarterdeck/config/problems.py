"""What is wrong with settings, told all at once: which one, what it is, where that came from, what is allowed."""

import difflib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from quarterdeck.core.errors import ErrorCode, QuarterdeckError

_LONGEST_SHOWN: Final = 80
_PASSWORD: Final = re.compile(r"(?<=://)([^\s:/@]*):\S*@")
"""In a URL, up to the last `@`: there may be one in the password as well."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing to mend."""

    name: str
    """The setting, as `worker.slots`, or the file."""
    text: str
    """What is wrong with it, as the rest of a sentence that begins with the name."""

    def __str__(self) -> str:
        return f"{self.name} {self.text}"


class InvalidSettingsError(QuarterdeckError):
    """Everything that is wrong; `problems` has it one by one, for who wants to print a list."""

    def __init__(self, process: str, problems: Sequence[Problem], undone: str | None = None) -> None:
        """`undone` is what was not done for it, when nobody wanted to start the process."""
        several = len(problems) > 1
        told = (f"({number}) {problem}" if several else str(problem) for number, problem in enumerate(problems, 1))
        super().__init__(
            ErrorCode.INVALID_ARGUMENT,
            f"{undone or f'the {process} was not started'}, because its settings are wrong",
            ", ".join(told),
            f"correct them and {'try' if undone else 'start'} again; docs/configuration.md explains each setting",
        )
        self.problems: Final = tuple(problems)
        self.args = (process, self.problems, undone)  # from which copy and pickle make it anew


def hint(name: str, names: Iterable[str]) -> str:
    """What was probably meant, as the end of a sentence; nothing when that is not clear."""
    close = difflib.get_close_matches(name, names, n=1)
    return f"; did you mean {close[0]}?" if close else ""


def shown(value: object) -> str:
    """A value as it is repeated to who wrote it, without a password in a URL.

    >>> shown("http://me:hunter2@worker-1:7072")
    "'http://me:***@worker-1:7072'"
    """
    text = _PASSWORD.sub(r"\1:***@", repr(value))
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}…"
