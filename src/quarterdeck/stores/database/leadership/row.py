"""What a candidate asks of the row, as transactions. `core/leadership/row_rules.py` says what each may change."""

from dataclasses import dataclass
from math import ceil

from sqlalchemy import Connection, select, update

from quarterdeck.core.ids import CandidateId, Fence
from quarterdeck.core.leadership.effects import ReadRow, Request
from quarterdeck.core.leadership.model import LeaderRow, LeaseConfig
from quarterdeck.core.leadership.row_rules import row_after
from quarterdeck.stores.database.fences.checked import highest_fence, see_fence
from quarterdeck.stores.database.leadership.tables import ONLY, leaders
from quarterdeck.stores.database.port import Database


@dataclass(frozen=True, slots=True)
class RowAnswer:
    row: LeaderRow
    """As the transaction left it."""
    changed: bool


async def carry_out(database: Database, request: Request, config: LeaseConfig) -> RowAnswer:
    """In a database with the schemas of leadership and of fences. From the moment of a takeover the database refuses
    the writes of whoever led before."""
    if isinstance(request, ReadRow):
        return RowAnswer(await database.read(_read), changed=False)

    def change(connection: Connection) -> RowAnswer:
        # The fence first: its row is locked, so that the one with the leader is as it is until the end.
        highest = highest_fence(connection)
        before = _read(connection)
        after = row_after(request, config, before, highest)
        if after is before:
            return RowAnswer(before, changed=False)
        if after.fence > highest:
            see_fence(connection, after.fence)
        _write(connection, after)
        return RowAnswer(_read(connection), changed=True)

    return await database.run(change)


def _read(connection: Connection) -> LeaderRow:
    found = connection.execute(select(leaders).where(leaders.c.leader_id == ONLY)).one()
    return LeaderRow(
        holder=None if found.holder is None else CandidateId(found.holder),
        name=found.name,
        fence=Fence(found.fence),
        beat=found.beat,
        lease_s=found.lease_ms / 1000,
    )


def _write(connection: Connection, row: LeaderRow) -> None:
    connection.execute(
        update(leaders)
        .where(leaders.c.leader_id == ONLY)
        .values(
            holder=row.holder,
            name=row.name,
            fence=row.fence,
            beat=row.beat,
            lease_ms=ceil(row.lease_s * 1000),
        )
    )
