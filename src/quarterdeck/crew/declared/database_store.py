"""Declared things in the database: `port.DeclaredStore` on its transactions.

Every commit takes the next revision and keeps that row locked until its end, so revisions are in the order of the
commits: who has read up to one has read everything before it.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from sqlalchemy import Connection, Row, delete, insert, select, update

from quarterdeck.core.errors import ErrorCode, QuarterdeckError
from quarterdeck.core.ids import MAX_NAME, Fence, WorkerId
from quarterdeck.core.reconcile.changes import Change, changed
from quarterdeck.core.reconcile.model import (
    GroupId,
    HeldError,
    HeldKind,
    Revision,
    Thing,
    ThingId,
    ThingSpec,
    held_kind,
)
from quarterdeck.core.reconcile.tables import ThingState, ThingTrigger
from quarterdeck.crew.declared.port import Committed, ConflictError, Loaded
from quarterdeck.crew.declared.tables import ONLY, revisions, things
from quarterdeck.stores.database.port import Database

MAX_PAYLOAD_BYTES: Final = 1024 * 1024
"""Of one thing: it fits into a request to etcd, too."""
_NO_LEADER: Final = Fence(0)
_AT_ONCE: Final = 1_000
"""Names in one statement: databases take some ten thousand at the most."""
_MAX_MESSAGE: Final = 1_000
"""Characters of why a thing cannot be held."""


class DatabaseStore:
    """Its database has the schema of declared things and that of fences."""

    def __init__(self, database: Database) -> None:
        self._database: Final = database

    async def load(self, fence: Fence, since: Revision) -> Loaded:
        def transaction(connection: Connection) -> Loaded:
            newest = connection.execute(select(revisions.c.newest)).scalar_one()
            rows = connection.execute(select(things).where(things.c.revision > since).order_by(things.c.revision))
            return Loaded(Revision(newest), tuple(map(_thing_of, rows)))

        return await self._database.fenced(fence, transaction)

    async def commit(self, fence: Fence, changes: Sequence[Change]) -> Committed:
        return await self._database.fenced(fence, lambda connection: _commit(connection, fence, changes))

    async def declare(self, specs: Sequence[ThingSpec]) -> None:
        for spec in specs:
            _check(spec)
        await self._database.run(lambda connection: _declare(connection, specs))

    async def withdraw(self, group_id: GroupId) -> bool:
        return await self._database.run(lambda connection: _withdraw(connection, group_id))

    async def things(self, group_id: GroupId | None = None) -> tuple[Thing, ...]:
        statement = select(things).order_by(things.c.thing_id)
        if group_id is not None:
            statement = statement.where(things.c.group_id == group_id)
        return await self._database.read(lambda connection: tuple(map(_thing_of, connection.execute(statement))))


def _commit(connection: Connection, fence: Fence, changes: Sequence[Change]) -> Committed:
    there = _named(connection, [change.thing_id for change in changes])
    revision = _next_revision(connection)
    kept: list[Thing] = []
    gone: list[ThingId] = []
    for change in changes:
        thing = there.get(change.thing_id)
        if thing is None or thing.revision != change.seen:
            raise ConflictError(f"{change.thing_id} has changed since revision {change.seen}")
        after = changed(thing, _storable(change), revision)
        if after is None:
            connection.execute(delete(things).where(things.c.thing_id == change.thing_id))
            gone.append(change.thing_id)
        else:
            _write(connection, after, fence)
            kept.append(after)
    return Committed(tuple(kept), tuple(gone))


def _declare(connection: Connection, specs: Sequence[ThingSpec]) -> None:
    there = _named(connection, [spec.thing_id for spec in specs])
    new = [spec for spec in specs if spec.thing_id not in there]
    for spec in specs:
        thing = there.get(spec.thing_id)
        if thing is not None and (thing.spec != spec or thing.state is ThingState.WITHDRAWN):
            raise _is_taken(thing)
    if new:
        revision = _next_revision(connection)
        connection.execute(insert(things), [_values(Thing(spec, revision)) for spec in new])


def _withdraw(connection: Connection, group_id: GroupId) -> bool:
    group = [_thing_of(row) for row in connection.execute(select(things).where(things.c.group_id == group_id))]
    wanted = [thing for thing in group if thing.state is not ThingState.WITHDRAWN]
    if wanted:
        revision = _next_revision(connection)
        for thing in wanted:
            after = changed(thing, Change(thing.spec.thing_id, thing.revision, ThingTrigger.WITHDRAW), revision)
            assert after is not None
            _write(connection, after, None)
    return bool(group)


def _named(connection: Connection, thing_ids: Sequence[ThingId]) -> dict[ThingId, Thing]:
    found: dict[ThingId, Thing] = {}
    for first in range(0, len(thing_ids), _AT_ONCE):
        some = thing_ids[first : first + _AT_ONCE]
        rows = connection.execute(select(things).where(things.c.thing_id.in_(some)))
        found |= {thing.spec.thing_id: thing for thing in map(_thing_of, rows)}
    return found


def _next_revision(connection: Connection) -> Revision:
    raised = update(revisions).where(revisions.c.revision_id == ONLY).values(newest=revisions.c.newest + 1)
    return Revision(connection.execute(raised.returning(revisions.c.newest)).scalar_one())


def _storable(change: Change) -> Change:
    """A worker words its errors as it likes: Postgres takes no character 0, and nobody reads a book."""
    error = change.error
    if error is None:
        return change
    words = HeldError(_worded(error.code, MAX_NAME), _worded(error.message, _MAX_MESSAGE), error.retryable)
    return replace(change, error=words)


def _worded(text: str, most: int) -> str:
    return text[:most].replace("\0", "\ufffd").encode("utf-8", "backslashreplace").decode()


def _write(connection: Connection, thing: Thing, fence: Fence | None) -> None:
    """With the fence of the leader that changes it; None when it is not a leader that does. What was declared stays as
    it is, and may be long."""
    values = _state(thing)
    if fence is not None:
        values["fence"] = fence
    connection.execute(update(things).where(things.c.thing_id == thing.spec.thing_id).values(values))


def _values(thing: Thing) -> dict[str, Any]:
    spec = thing.spec
    return {
        "thing_id": spec.thing_id,
        "group_id": spec.group_id,
        "kind": spec.kind,
        "tenant": spec.tenant,
        "payload": spec.payload,
        "pinned_to": spec.pinned_to,
        "fence": _NO_LEADER,
        **_state(thing),
    }


def _state(thing: Thing) -> dict[str, Any]:
    error = thing.error
    return {
        "state": thing.state.value,
        "worker_id": thing.worker_id,
        "generation": thing.generation,
        "revision": thing.revision,
        "error_code": None if error is None else error.code,
        "error_message": None if error is None else error.message,
        "error_retryable": None if error is None else error.retryable,
    }


def _thing_of(row: Row[Any]) -> Thing:
    pinned_to = None if row.pinned_to is None else WorkerId(row.pinned_to)
    spec = ThingSpec(
        ThingId(row.thing_id), GroupId(row.group_id), HeldKind(row.kind), bytes(row.payload), row.tenant, pinned_to
    )
    return Thing(
        spec,
        Revision(row.revision),
        ThingState(row.state),
        None if row.worker_id is None else WorkerId(row.worker_id),
        Revision(row.generation),
        None if row.error_code is None else HeldError(row.error_code, row.error_message, row.error_retryable),
    )


def _check(spec: ThingSpec) -> None:
    """What a database or a message cannot carry would be refused again and again, where nobody who declares sees it."""
    for name in (spec.thing_id, spec.group_id, spec.tenant, *([] if spec.pinned_to is None else [spec.pinned_to])):
        if not 0 < len(name) <= MAX_NAME:
            raise _refused(spec, f"a name of {len(name):,} characters", f"use 1 to {MAX_NAME}")
        if _worded(name, MAX_NAME) != name:
            raise _refused(spec, f"the name {name!r} has a character that is no text", "use other characters")
    try:
        held_kind(spec.kind)
    except ValueError as error:
        raise _refused(spec, str(error), "use the name of a kind") from error
    if len(spec.payload) > MAX_PAYLOAD_BYTES:
        raise _refused(spec, f"it is {len(spec.payload):,} bytes", f"{MAX_PAYLOAD_BYTES:,} are allowed")


def _refused(spec: ThingSpec, why: str, what_to_do: str) -> QuarterdeckError:
    return QuarterdeckError(
        ErrorCode.INVALID_ARGUMENT, f"{_worded(spec.thing_id, MAX_NAME)} cannot be declared", why, what_to_do
    )


def _is_taken(thing: Thing) -> QuarterdeckError:
    is_ending = thing.state is ThingState.WITHDRAWN
    why = "one of that name was withdrawn and is being stopped" if is_ending else "another one has that name"
    return QuarterdeckError(
        ErrorCode.UNAVAILABLE if is_ending else ErrorCode.INVALID_ARGUMENT,
        f"{thing.spec.thing_id} cannot be declared",
        why,
        "try again when it has stopped" if is_ending else "use another name, or withdraw that one first",
    )
