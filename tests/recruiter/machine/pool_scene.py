"""A pool with a clock of its own, that checks itself after every step."""

from quarterdeck.core.tenants import DEFAULT_TENANT
from quarterdeck.recruiter.machine import pool_effects as ef
from quarterdeck.recruiter.machine import pool_events as ev
from quarterdeck.recruiter.machine.pool import PoolFigures, PoolMachine
from quarterdeck.recruiter.model import Offer, Recruited


class Scene:
    def __init__(self) -> None:
        self.machine = PoolMachine()
        self.now = 1000.0
        self.numbers = 0
        self.answers: dict[int, ef.Reserve | ef.SendBack | ef.Supersede] = {}
        """What became of registrations."""

    def step(self, event: ev.Event) -> list[ef.Effect]:
        effects = self.machine.step(event, self.now)
        for effect in effects:
            if not isinstance(effect, ef.AnswerRecruit):
                assert effect.registration not in self.answers, "a registration is answered once"
                self.answers[effect.registration] = effect
        self.machine.check_invariants()
        return effects

    def register(
        self,
        addr: str,
        node: str = "n1",
        *labels: str,
        timeout_s: float = 30.0,
        slots: int = 1,
        tenant: str = DEFAULT_TENANT,
    ) -> int:
        self.numbers += 1
        offer = Offer(addr, node, frozenset(labels), slots, tenant)
        self.step(ev.RegistrationOpened(self.numbers, offer, timeout_s))
        return self.numbers

    def close(self, registration: int) -> None:
        assert self.step(ev.RegistrationClosed(registration)) == []

    def recruit(self, number: int, label: str = "", tenant: str = DEFAULT_TENANT) -> list[Recruited]:
        self.numbers += 1
        *told, answer = self.step(ev.RecruitRequested(self.numbers, number, label, f"r{self.numbers}", tenant))
        assert isinstance(answer, ef.AnswerRecruit)
        assert answer.request == self.numbers
        assert [one.reservation for one in told if isinstance(one, ef.Reserve)] == [
            worker.reservation for worker in answer.workers
        ]
        return list(answer.workers)

    def recruit_addrs(self, number: int, label: str = "", tenant: str = DEFAULT_TENANT) -> set[str]:
        workers = self.recruit(number, label, tenant)
        addrs = {worker.addr for worker in workers}
        assert len(addrs) == len(workers)
        return addrs

    def pass_time(self, seconds: float) -> None:
        """As a driver does it: `TimePassed` for every deadline on the way."""
        until = self.now + seconds
        while (at := self.machine.next_deadline()) is not None and at <= until:
            self.now = max(self.now, at)
            self.step(ev.TimePassed())
        self.now = until

    @property
    def figures(self) -> PoolFigures:
        return self.machine.figures(self.now)

    @property
    def free(self) -> set[str]:
        return {registration.offer.addr for registration in self.machine.free()}
