"""What is always true of a leader's records between two steps. Linear in everything: for tests and simulation."""

from collections.abc import Collection, Iterator

from quarterdeck.core.invariants import Claim
from quarterdeck.core.reconcile.changes import is_wanted
from quarterdeck.core.reconcile.leader.declared import Declared
from quarterdeck.core.reconcile.leader.workers import Worker, Workers
from quarterdeck.core.reconcile.model import ThingId
from quarterdeck.core.reconcile.tables import ThingState


def claims(declared: Declared, workers: Workers, homeless: Collection[ThingId]) -> Iterator[Claim]:
    for thing in declared:
        placed = thing.state in (ThingState.PLACED, ThingState.HELD)
        yield not placed or thing.worker_id is not None, "%s is %s nowhere", (thing.held_id, thing.state)
        failed = thing.state in (ThingState.FAILING, ThingState.FAILED)
        yield not failed or thing.error is not None, "%s is %s without a reason", (thing.held_id, thing.state)
    for thing_id in homeless:
        thing = declared.get(thing_id)
        yield thing is not None and is_wanted(thing), "%s is to find a worker, and nobody wants it", (thing_id,)
    for worker in workers:
        yield from _of_worker(worker)
    for (tenant, kind), worker_id in workers.members():
        worker = workers.get(worker_id)
        report = None if worker is None else worker.report
        takes = report is not None and report.takes_more and kind in report.kinds
        yield takes, "%s would be given things of %s for %s, and takes none", (worker_id, kind, tenant)


def _of_worker(worker: Worker) -> Iterator[Claim]:
    name, is_away = worker.worker_id, worker.session_id is None
    quiet = not (worker.report or worker.holdings or worker.asked or worker.told)
    yield quiet or not is_away, "%s is away, and known to hold something or told to", (name,)
    by_thing = {held_id for held_ids in worker.of_thing.values() for held_id in held_ids}
    yield by_thing == set(worker.holdings), "%s holds %s, and by thing %s", (name, set(worker.holdings), by_thing)
    for held_id, told in worker.told.items():
        may_have = worker.may_have(held_id)
        yield told.hold or may_have, "%s is told to drop %s, which it does not have", (name, held_id)
