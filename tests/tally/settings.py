"""The sections of the settings."""

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from quarterdeck.config.conflicts import Conflict, at_most
from quarterdeck.config.section import Section, computed_in
from quarterdeck.config.shared import ProcessSettings
from quarterdeck.config.values import BytesOrZero, Count, Switch
from quarterdeck.config.worker import WorkerSettings


class TallySettings(Section):
    """In a coordinator."""

    section: ClassVar[str] = "tally"

    most_characters: Count = 1000
    """How long a text may be. Too low refuses texts; too high lets one hold up a worker."""
    is_open: Switch = True
    """Whether texts are taken. False makes the coordinator say that it is not ready."""


def _text_bytes(worker: Mapping[str, Any]) -> int:
    return worker["memory_bytes"] // 1000


class CountingSettings(Section):
    """In a worker."""

    section: ClassVar[str] = "tally"
    former: ClassVar[Mapping[str, str]] = {"tally_letters": "least_letters"}

    least_letters: Count = 1
    """How many letters a word has at least to be counted."""
    text_bytes: BytesOrZero = computed_in(_text_bytes, "a thousandth of `memory_bytes`")
    """What a text may take in memory. Too low refuses texts; more than there is lets the kernel end the process."""
    is_open: Switch = True
    """Whether words are counted. False makes the worker say that it is not ready."""

    def conflicts(self, process: ProcessSettings) -> Iterator[Conflict]:
        assert isinstance(process, WorkerSettings)
        yield from at_most("tally.text_bytes", self.text_bytes, "memory_bytes", process.memory_bytes)
