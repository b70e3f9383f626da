"""What is always true of a leader's records between two steps. Linear in everything: for tests and simulation."""

from collections.abc import Collection, Iterator

from quarterdeck.core.invariants import Claim
from quarterdeck.core.reconcile.changes import is_wanted
from quarterdeck.core.reconcile.leader.deaths import Deaths
from quarterdeck.core.reconcile.leader.declared import Declared
from quarterdeck.core.reconcile.leader.workers import Worker, Workers
from quarterdeck.core.reconcile.model import ThingId
from quarterdeck.core.reconcile.tables import HoldingState, ThingState


def claims(declared: Declared, workers: Workers, homeless: Collection[ThingId], deaths: Deaths) -> Iterator[Claim]:
    for thing in declared:
        placed = thing.state in (ThingState.PLACED, ThingState.HELD)
        yield not placed or thing.worker_id is not None, "%s is %s nowhere", (thing.held_id, thing.state)
        failed = thing.state in (ThingState.FAILING, ThingState.FAILED)
        yield not failed or thing.error is not None, "%s is %s without a reason", (thing.held_id, thing.state)
    for thing_id in homeless:
        thing = declared.get(thing_id)
        yield thing is not None and is_wanted(thing), "%s is to find a worker, and nobody wants it", (thing_id,)
    for thing_id in deaths:
        thing = declared.get(thing_id)
        yield thing is not None and is_wanted(thing), "deaths are counted for %s, and nobody wants it", (thing_id,)
    for worker in workers:
        yield from _of_worker(worker)
    for (tenant, kind), worker_id in workers.members():
        worker = workers.get(worker_id)
        report = None if worker is None else worker.report
        takes = report is not None and report.takes_more and kind in report.kinds
        yield takes, "%s would be given things of %s for %s, and takes none", (worker_id, kind, tenant)


def _of_worker(worker: Worker) -> Iterator[Claim]:
    name, is_away = worker.worker_id, worker.session_id is None
    quiet = not (worker.report or worker.holdings or worker.asked or worker.told or worker.on_trial)
    yield quiet or not is_away, "%s is away, and known to hold something or told to", (name,)
    by_thing = {held_id for held_ids in worker.of_thing.values() for held_id in held_ids}
    yield by_thing == set(worker.holdings), "%s holds %s, and by thing %s", (name, set(worker.holdings), by_thing)
    yield (
        worker.waiting.keys() <= worker.told.keys(),
        "%s is to hear %s, of which it is told %s",
        (
            name,
            list(worker.waiting),
            list(worker.told),
        ),
    )
    on_the_way = sum(said.size_bytes for said in worker.said.values())
    yield (
        worker.said_bytes == on_the_way,
        "%s bytes are said to be on their way to %s, and %s are",
        (
            worker.said_bytes,
            name,
            on_the_way,
        ),
    )
    yield (
        not worker.waiting or bool(worker.said),
        "%s is to hear %s, and nothing is on its way",
        (
            name,
            list(worker.waiting),
        ),
    )
    yield from _of_trials(worker)
    for held_id, told in worker.told.items():
        may_have = worker.may_have(held_id)
        yield told.hold or may_have, "%s is told to drop %s, which it does not have", (name, held_id)


def _of_trials(worker: Worker) -> Iterator[Claim]:
    name, on_trial = worker.worker_id, list(worker.on_trial)
    fit = len(on_trial) <= worker.trial_size or not on_trial
    yield fit, "%s are on trial on %s, of %s that may be", (on_trial, name, worker.trial_size)
    for held_id in worker.on_trial:
        is_there = held_id in worker.told or worker.holds(held_id)
        yield is_there, "%s is on trial on %s, and neither told nor held", (held_id, name)
    for held_id in (*worker.in_line, *worker.kept_away):
        said = held_id in worker.said or held_id in worker.waiting or held_id in worker.on_trial
        yield held_id in worker.told and not said, "%s is said to %s before its turn", (held_id, name)
    moving = {
        held_id
        for held_id, holding in worker.holdings.items()
        if holding.state in (HoldingState.ACQUIRING, HoldingState.RELEASING)
    }
    yield set(worker.moving) == moving, "%s is said to be moving on %s, and %s is", (set(worker.moving), name, moving)
