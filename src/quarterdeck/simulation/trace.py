"""What happened in a run, in order: kept as the events themselves, put into words only when somebody reads it."""

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import cast

from quarterdeck.core.ids import WorkId
from quarterdeck.core.workcoord.model import AttemptId, WorkKey, WorkSpec


@dataclass(frozen=True, slots=True)
class Entry:
    at_s: float
    host: str
    what: object
    """An event of a machine, a fault, or a note."""
    effects: tuple[object, ...] = ()

    def __str__(self) -> str:
        lines = [f"{self.at_s:9.4f} {self.host:<4} {_short(self.what)}"]
        lines += [f"{'':14}   -> {_short(effect)}" for effect in self.effects]
        return "\n".join(lines)


class Trace:
    def __init__(self) -> None:
        self.entries: list[Entry] = []

    def add(self, at_s: float, host: str, what: object, effects: Iterable[object] = ()) -> None:
        self.entries.append(Entry(at_s, host, what, tuple(effects)))

    def digest(self) -> str:
        """The same for two runs in which the same things happened at the same times in the same order."""
        digest = hashlib.sha256()
        for entry in self.entries:
            digest.update(f"{entry.at_s!r} {entry}\n".encode())
        return digest.hexdigest()[:16]

    def touching(self, work_id: WorkId | None, last: int) -> list[Entry]:
        """The last entries that concern a work, with the faults among them; without a work, the last of all."""
        chosen = [e for e in self.entries if work_id is None or e.host == "----" or work_id in set(_work_ids(e))]
        return chosen[-last:]


def _work_ids(entry: Entry) -> Iterator[WorkId]:
    for thing in (entry.what, *entry.effects):
        yield from _find(thing, 0)


def _find(thing: object, depth: int) -> Iterator[WorkId]:
    if isinstance(thing, WorkKey):
        yield thing.work_id
    elif isinstance(thing, AttemptId | WorkSpec):
        yield thing.key.work_id
    elif depth < 3:
        for name in getattr(type(thing), "__slots__", ()):
            yield from _find(getattr(thing, name), depth + 1)


def _short(thing: object) -> str:
    """The words for something, without what never helps a reader."""
    name = type(thing).__name__
    if isinstance(thing, str | AttemptId | WorkKey):
        return str(thing)
    if isinstance(thing, WorkSpec):
        return thing.key.work_id
    if isinstance(thing, frozenset):  # in an order that does not depend on how this interpreter hashes strings
        return f"{{{', '.join(sorted(_short(part) for part in cast('frozenset[object]', thing)))}}}"
    fields = getattr(type(thing), "__slots__", None)
    if fields is None or name == "Artifact":
        return repr(thing) if fields is None else "Artifact"
    inside = ", ".join(_short(getattr(thing, field)) for field in fields)
    return f"{name}({inside})" if inside else name
