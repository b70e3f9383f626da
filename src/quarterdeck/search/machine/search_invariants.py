"""What must be true of a search's machine after every step."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from quarterdeck.core.invariants import Claim
from quarterdeck.search.machine.search_records import ROOT, ChunkState, Seat

if TYPE_CHECKING:
    from quarterdeck.search.machine.search import SearchMachine


def claims(machine: "SearchMachine") -> Iterator[Claim]:
    yield from _of_chunks(machine)
    yield from _of_members(machine)
    yield from _of_sums(machine)
    yield from _of_progress(machine)


def _of_chunks(machine: "SearchMachine") -> Iterator[Claim]:
    line = [*machine.line, *machine.suspects]
    places = frozenset(line)
    yield len(line) == len(places), "a chunk stands in line twice: %s", (line,)
    for record in machine.chunks:
        is_waiting = record.state is ChunkState.WAITING
        yield (
            is_waiting == (record.number in places),
            "chunk %s is %s and its place in line says otherwise",
            (
                record.number,
                record.state,
            ),
        )
        running_at = [seat for seat, chunks in _running(machine) if record.number in chunks]
        wanted = [record.seat] if record.state is ChunkState.RUNNING else []
        yield (
            running_at == wanted,
            "chunk %s is %s at %s, and runs at %s",
            (
                record.number,
                record.state,
                record.seat,
                running_at,
            ),
        )


def _running(machine: "SearchMachine") -> Iterator[tuple[Seat, set[int]]]:
    yield ROOT, machine.alone
    for member in machine.members.values():
        yield member.seat, member.chunks


def _of_members(machine: "SearchMachine") -> Iterator[Claim]:
    config = machine.config
    yield len(machine.members) <= config.max_workers, "%s workers are more than allowed", (len(machine.members),)
    yield len(machine.alone) <= config.alone_at_once, "the root searches %s chunks", (len(machine.alone),)
    yield (
        machine.recruited == machine.released + len(machine.members),
        "recruited %s, released %s, here %s",
        (
            machine.recruited,
            machine.released,
            len(machine.members),
        ),
    )
    for member in machine.members.values():
        limit = 1 if member.is_alone_with_suspect else member.worker.slots + config.ahead
        yield len(member.chunks) <= limit, "worker %s has %s chunks at once", (member.worker.addr, len(member.chunks))


def _of_sums(machine: "SearchMachine") -> Iterator[Claim]:
    running = sum(record.size_bytes for record in machine.chunks if record.state is ChunkState.RUNNING)
    yield (
        running == machine.running_bytes,
        "%s bytes are searched, and %s were counted",
        (
            running,
            machine.running_bytes,
        ),
    )
    held = sum(record.result_bytes for record in machine.chunks if record.state is ChunkState.COMMITTED)
    yield held == machine.held_bytes, "%s bytes are held, and %s were counted", (held, machine.held_bytes)


def _of_progress(machine: "SearchMachine") -> Iterator[Claim]:
    """A search that has not ended waits for something that will come."""
    states = {record.state for record in machine.chunks}
    if machine.is_over:
        yield not machine.members and not machine.alone, "it has ended, and somebody still has a place", ()
        yield ChunkState.RUNNING not in states, "it has ended, and a chunk is being searched", ()
    elif machine.has_started:
        waits_for = states & {ChunkState.RUNNING, ChunkState.COMMITTED} or machine.is_recruiting
        yield bool(waits_for) or machine.next_deadline() is not None, "nothing will wake it", ()
