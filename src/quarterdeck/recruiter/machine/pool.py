"""The pool: which workers are free, and who gets them. Events in, effects out; it knows no clock and no connection.

Rules it keeps, whatever workers and roots do:

- a worker is in the pool exactly while its registration is open: answered, closed or timed out, it is out of it, and
  that before anybody hears of it;
- a tenant gets its own workers alone; one that has none gets those of the default tenant. It has some as long as any
  was free or given away lately, so that a tenant whose workers are all busy does not take another's;
- an address is one worker of a tenant: registered again, the newer registration counts and the older is answered at
  once. What another tenant registers under that address changes nothing;
- a recruit gets as many as it asks for, or all that are for it, spread over nodes;
- a worker without labels is for everybody, one with labels for recruits that name one of them, or none. On each node
  a recruit with a label gets those that have it first.

What becomes of a worker that was given away is not known here. That it was, is remembered for a while, for the figures.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, assert_never

from quarterdeck.core.deadlines import Deadlines
from quarterdeck.core.invariants import Claim, insist
from quarterdeck.core.placement import choose_from
from quarterdeck.core.tenants import DEFAULT_TENANT, serving_tenant
from quarterdeck.recruiter.machine import pool_events as ev
from quarterdeck.recruiter.machine.pool_effects import AnswerRecruit, Effect, Reserve, SendBack, Supersede
from quarterdeck.recruiter.machine.tenant_pool import FORGET_AFTER_S, NodeFigures, Registration, TenantPool, Totals
from quarterdeck.recruiter.model import Offer, Recruited

_SPREAD: Final = 0.1
"""The part of its time within which a registration may end. All workers register in one second after a recruiter was
started, and would come back in one second for ever."""
_GOLDEN: Final = 0.6180339887498949
"""Its multiples are spread evenly over [0, 1), however many of them there are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolFigures:
    """What the pool can say of itself at any moment. Totals count from the recruiter's beginning; those of one tenant
    from when its first worker came, or the first after all of them were forgotten."""

    free: int
    nodes: int
    """Those with free workers."""
    reserved: int
    """Given to somebody and not registered again since; not counted for longer than 15 minutes."""
    registrations: int
    """Total of those opened."""
    superseded: int
    """Total of those that ended because their address registered again."""
    recruits: int
    """Total of requests for workers."""
    asked: int
    """Total of workers asked for."""
    granted: int
    by_node: Mapping[str, NodeFigures]

    @property
    def short(self) -> int:
        """Total of workers that were asked for and not there."""
        return self.asked - self.granted


class PoolMachine:
    """Give it events with the time they happened, execute the effects it returns, and wake it at `next_deadline`."""

    def __init__(self) -> None:
        self._now = 0.0
        self._held: dict[int, Registration] = {}
        self._number_of: dict[tuple[str, str], int] = {}
        """Open registrations, by tenant and address."""
        self._deadlines: Deadlines[int] = Deadlines()
        self._tenants: dict[str, TenantPool] = {DEFAULT_TENANT: TenantPool()}
        """Those that have workers, or had some lately; and the default tenant."""
        self._totals = Totals()
        """Of all tenants, also of those that were forgotten."""
        self._forgot_at = 0.0

    # What a driver calls

    def next_deadline(self) -> float | None:
        """When to send `TimePassed`, one for each time named; None when only events matter."""
        return self._deadlines.next_at()

    def step(self, event: ev.Event, now: float) -> list[Effect]:
        """Takes one event and says what to do about it. A clock that went backwards counts as one that stands still."""
        self._now = max(self._now, now)
        match event:
            case ev.RegistrationOpened(number, offer, timeout_s):
                return self._open(number, offer, timeout_s)
            case ev.RegistrationClosed(number):
                if number in self._held:
                    self._leave(number)
                return []
            case ev.RecruitRequested():
                return self._recruit(event)
            case ev.RecruiterClosed():
                return [self._send_back(number) for number in list(self._held)]
            case ev.TimePassed():
                due = self._deadlines.pop_due(self._now)
                return [] if due is None else [self._send_back(due[0])]
            case _:
                assert_never(event)

    def free(self, tenant: str | None = None) -> Iterable[Registration]:
        """All workers that are free, in the order in which they came; of those that this tenant is served by, if one is
        named."""
        if tenant is None:
            return self._held.values()
        serving = serving_tenant(tenant, self._tenants)
        return [one for one in self._held.values() if one.offer.tenant == serving]

    def figures(self, now: float, tenant: str | None = None) -> PoolFigures:
        """Of all workers, or of those that this tenant is served by. Linear in the number of nodes."""
        self._now = max(self._now, now)
        self._forget()
        pools = self._tenants.values() if tenant is None else (self._serving(tenant),)
        totals = self._totals if tenant is None else self._serving(tenant).totals
        free, granted = Counter[str](), Counter[str]()
        for pool in pools:
            for name, node in pool.by_node().items():
                free[name] += node.free
                granted[name] += node.granted
        return PoolFigures(
            free=sum(pool.free for pool in pools),
            nodes=sum(number > 0 for number in free.values()),
            reserved=sum(pool.reserved for pool in pools),
            registrations=totals.registrations,
            superseded=totals.superseded,
            recruits=totals.recruits,
            asked=totals.asked,
            granted=totals.granted,
            by_node={name: NodeFigures(free[name], granted[name]) for name in free},
        )

    def check_invariants(self) -> None:
        """Raises `InvariantError` if the records contradict each other. Linear in everything."""
        insist(self._claims())

    # Registrations

    def _open(self, number: int, offer: Offer, timeout_s: float) -> list[Effect]:
        effects: list[Effect] = []
        pool = self._tenants.get(offer.tenant)
        if pool is None:
            self._forget_in_time()
            pool = self._tenants[offer.tenant] = TenantPool()
        older = self._number_of.get((offer.tenant, offer.addr))
        if older is not None:
            self._leave(older)
            for totals in (self._totals, pool.totals):
                totals.superseded += 1
            effects.append(Supersede(older))
        for totals in (self._totals, pool.totals):
            totals.registrations += 1
        self._held[number] = Registration(number, offer, self._now)
        self._number_of[offer.tenant, offer.addr] = number
        self._deadlines.set(number, self._now + timeout_s * _share(number))
        pool.add(number, offer, self._now)
        return effects

    def _leave(self, number: int) -> Registration:
        """It is nobody's from here on; every way out of the pool goes through here."""
        registration = self._held.pop(number)
        offer = registration.offer
        del self._number_of[offer.tenant, offer.addr]
        self._deadlines.cancel(number)
        self._tenants[offer.tenant].remove(number, offer)
        return registration

    def _send_back(self, number: int) -> SendBack:
        self._leave(number)
        return SendBack(number)

    # Recruits

    def _recruit(self, wanted: ev.RecruitRequested) -> list[Effect]:
        pool = self._serving(wanted.tenant)
        chosen = choose_from(pool.eligible(wanted.label), wanted.number)
        for totals in (self._totals, pool.totals):
            totals.recruits += 1
            totals.asked += wanted.number
        effects: list[Effect] = []
        workers: list[Recruited] = []
        for index, number in enumerate(chosen):
            registration = self._leave(number)
            offer, name = registration.offer, f"{wanted.reservation}/{index}"
            self._totals.granted += 1
            pool.grant(offer, self._now)
            effects.append(Reserve(number, name, wanted.label, self._now - registration.since, wanted.tenant))
            workers.append(Recruited(offer.addr, offer.node, offer.slots, name, wanted.tenant))
        effects.append(AnswerRecruit(wanted.request, tuple(workers)))
        return effects

    # Tenants

    def _serving(self, tenant: str) -> TenantPool:
        """Those whose workers this tenant gets."""
        return self._tenants[serving_tenant(tenant, self._tenants)]

    def _forget_in_time(self) -> None:
        """Also where nobody ever looks at figures, tenants that come and go take no memory for ever."""
        if self._now >= self._forgot_at + FORGET_AFTER_S:
            self._forget()

    def _forget(self) -> None:
        """Drops what nobody has heard of for long."""
        self._forgot_at = self._now
        for tenant, pool in list(self._tenants.items()):
            pool.forget(self._now)
            if pool.is_forgotten and tenant != DEFAULT_TENANT:
                del self._tenants[tenant]

    def _claims(self) -> Iterator[Claim]:
        held = self._held
        known = {(one.offer.tenant, one.offer.addr): number for number, one in held.items()}
        yield known == self._number_of, "%s are registered, and known as %s", (known, self._number_of)
        yield len(known) == len(held), "%s workers have %s addresses", (len(held), len(known))
        yield len(self._deadlines) == len(held), "%s deadlines for %s workers", (len(self._deadlines), len(held))
        for number, one in held.items():
            yield number in self._deadlines, "%s is in the pool for ever", (one,)
            yield one.offer.tenant in self._tenants, "%s has a worker, and no pool", (one.offer.tenant,)
        for tenant, pool in self._tenants.items():
            yield from pool.claims({number: one for number, one in held.items() if one.offer.tenant == tenant})
        totals = self._totals
        yield totals.granted <= totals.asked, "%s were granted of %s", (totals.granted, totals.asked)


def _share(number: int) -> float:
    """How much of its time the registration of this number lasts."""
    return 1.0 - _SPREAD * (number * _GOLDEN % 1.0)
