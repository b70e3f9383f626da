"""Transition tables: what may happen in which state, and the diagram drawn from it.

A table is the only place that says which move is legal. The machines look moves up here and nowhere else, so that the
table, the diagram in ARCHITECTURE.md and the behaviour cannot drift apart.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Generic, TypeVar

StateT = TypeVar("StateT", bound=StrEnum)
TriggerT = TypeVar("TriggerT", bound=StrEnum)


class IllegalTransitionError(Exception):
    """Our own code asked for a move that the table does not have: a bug of ours, never of a peer."""


@dataclass(frozen=True, slots=True)
class TransitionTable(Generic[StateT, TriggerT]):
    """Maps (state, trigger) to the next state; a pair that is not there is illegal."""

    name: str
    initial: StateT
    terminal: frozenset[StateT]
    moves: Mapping[tuple[StateT, TriggerT], StateT]

    def allows(self, state: StateT, trigger: TriggerT) -> bool:
        """Whether a peer may cause this move now; if not, it broke the protocol."""
        return (state, trigger) in self.moves

    def next(self, state: StateT, trigger: TriggerT) -> StateT:
        """The state after a move that must be legal."""
        try:
            return self.moves[state, trigger]
        except KeyError:
            raise IllegalTransitionError(f"{self.name}: no move from {state} on {trigger}") from None

    def __iter__(self) -> Iterator[tuple[StateT, TriggerT, StateT]]:
        for (state, trigger), target in self.moves.items():
            yield state, trigger, target

    def mermaid(self) -> str:
        """The table as a Mermaid state diagram; triggers with the same ends share one arrow."""
        arrows: dict[tuple[StateT, StateT], list[str]] = {}
        for state, trigger, target in self:
            arrows.setdefault((state, target), []).append(trigger.value)
        lines = ["stateDiagram-v2", f"    [*] --> {self.initial.name}"]
        lines += [f"    {a.name} --> {b.name}: {', '.join(triggers)}" for (a, b), triggers in arrows.items()]
        lines += [f"    {state.name} --> [*]" for state in sorted(self.terminal)]
        return "\n".join(lines)
