"""Every legal move of the tables has a scenario, which notices when its move is missing or leads elsewhere.

So no entry of a table can be deleted or changed without a test failing.
"""

from collections.abc import Iterator
from dataclasses import replace
from enum import StrEnum
from types import MappingProxyType, ModuleType
from typing import TypeAlias, cast

import pytest

from quarterdeck.core.transitions import IllegalTransitionError, TransitionTable
from quarterdeck.core.workcoord.coordinator import ledger, roster
from quarterdeck.core.workcoord.coordinator.tables import WORK_TABLE, WORKER_TABLE
from quarterdeck.core.workcoord.peer import PeerError
from quarterdeck.core.workcoord.worker import machine as worker_machine
from quarterdeck.core.workcoord.worker.tables import ATTEMPT_TABLE
from tests.core.workcoord.scenarios import SCENARIOS, Edge

Table: TypeAlias = TransitionTable[StrEnum, StrEnum]

# Each table, and where its machine looks it up.
TABLES: tuple[tuple[ModuleType, str, Table], ...] = (
    (ledger, "WORK_TABLE", cast(Table, WORK_TABLE)),
    (roster, "WORKER_TABLE", cast(Table, WORKER_TABLE)),
    (worker_machine, "ATTEMPT_TABLE", cast(Table, ATTEMPT_TABLE)),
)
PLACE_OF_TABLE = {table.name: (module, name, table) for module, name, table in TABLES}

# How a scenario fails. Anything else would be a mistake in the scenario.
FAILURES = (AssertionError, IllegalTransitionError, PeerError, KeyError)


def _edges() -> Iterator[Edge]:
    for _, _, table in TABLES:
        for state, trigger, _ in table:
            yield table.name, state, trigger


def _redirections() -> Iterator[tuple[Edge, StrEnum]]:
    for _, _, table in TABLES:
        for state, trigger, target in table:
            for other in list[StrEnum](type(table.initial)):
                if other is not target:
                    yield (table.name, state, trigger), other


def _name(value: object) -> str:
    match value:
        case (str(table), StrEnum() as state, StrEnum() as trigger):
            return f"{table}: {state} on {trigger}"
        case _:
            return f"to {value}"


def _fails(edge: Edge) -> bool:
    try:
        SCENARIOS[edge]()
    except FAILURES:
        return True
    return False


def test_there_is_a_scenario_for_exactly_the_moves_of_the_tables() -> None:
    assert set(SCENARIOS) == set(_edges())


@pytest.mark.parametrize("edge", list(_edges()), ids=_name)
def test_the_move_happens(edge: Edge) -> None:
    SCENARIOS[edge]()


@pytest.mark.parametrize("edge", list(_edges()), ids=_name)
def test_without_its_entry_the_scenario_fails(edge: Edge, monkeypatch: pytest.MonkeyPatch) -> None:
    module, name, table = PLACE_OF_TABLE[edge[0]]
    moves = {pair: target for pair, target in table.moves.items() if pair != edge[1:]}
    assert len(moves) == len(table.moves) - 1
    monkeypatch.setattr(module, name, replace(table, moves=MappingProxyType(moves)))
    assert _fails(edge)


@pytest.mark.parametrize("edge, elsewhere", list(_redirections()), ids=_name)
def test_with_its_entry_leading_elsewhere_the_scenario_fails(
    edge: Edge, elsewhere: StrEnum, monkeypatch: pytest.MonkeyPatch
) -> None:
    module, name, table = PLACE_OF_TABLE[edge[0]]
    moves = {**table.moves, edge[1:]: elsewhere}
    monkeypatch.setattr(module, name, replace(table, moves=MappingProxyType(moves)))
    assert _fails(edge)
