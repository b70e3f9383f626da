"""Workers that come, go, die and come back, and roots that recruit them, at random.

After every step the pool agrees with itself and with a model that knows only who holds which registration: nobody is
given twice, given without an open registration, or lost.
"""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from quarterdeck.recruiter.machine import pool_effects as ef
from quarterdeck.recruiter.machine import pool_events as ev
from tests.recruiter.machine.pool_scene import Scene

WORKERS = st.integers(0, 9)
LABELS = ("", "x", "y")
TENANTS = ("default", "acme", "other")


class Walk(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.scene = Scene()
        self.open: dict[int, tuple[str, frozenset[str], str]] = {}
        """Registrations that nobody has answered: address, labels and tenant."""
        self.seen: set[str] = {"default"}
        """Tenants that have had workers."""

    @rule(
        worker=WORKERS,
        labels=st.sets(st.sampled_from(LABELS[1:])),
        timeout_s=st.sampled_from([1.0, 5.0, 30.0]),
        tenant=st.sampled_from(TENANTS),
    )
    def register(self, worker: int, labels: set[str], timeout_s: float, tenant: str) -> None:
        addr = f"w{worker}:1"
        before = [number for number, (other, _, whose) in self.open.items() if (other, whose) == (addr, tenant)]
        number = self.scene.register(addr, f"n{worker % 3}", *labels, timeout_s=timeout_s, tenant=tenant)
        self.open[number] = (addr, frozenset(labels), tenant)
        self.seen.add(tenant)
        for older in before:
            assert self.scene.answers[older] == ef.Supersede(older)

    @precondition(lambda self: self.scene.numbers)
    @rule(pick=st.integers(0, 1000))
    def close(self, pick: int) -> None:
        """Any registration there ever was: the news may come late."""
        number = 1 + pick % self.scene.numbers
        self.scene.close(number)
        self.open.pop(number, None)

    @rule(number=st.integers(1, 6), label=st.sampled_from(LABELS), tenant=st.sampled_from(TENANTS))
    def recruit(self, number: int, label: str, tenant: str) -> None:
        figures = self.scene.machine.figures(self.scene.now, tenant)
        own = {addr for addr, _, whose in self.open.values() if whose == tenant}
        serving = tenant if own or tenant in self.seen else "default"
        fallen_back = not own and figures == self.scene.machine.figures(self.scene.now, "default")
        whose_workers = "default" if fallen_back else serving  # after a long time without a worker
        eligible = {
            addr
            for addr, labels, whose in self.open.values()
            if whose == whose_workers and (not label or not labels or label in labels)
        }
        got = self.scene.recruit_addrs(number, label, tenant)
        assert got <= eligible
        assert len(got) == min(number, len(eligible))

    @rule(seconds=st.sampled_from([0.5, 1.0, 10.0, 1000.0]))
    def pass_time(self, seconds: float) -> None:
        self.scene.pass_time(seconds)

    @rule()
    def close_recruiter(self) -> None:
        self.scene.step(ev.RecruiterClosed())
        assert not self.scene.free

    @invariant()
    def whoever_was_not_answered_is_free_and_nobody_else(self) -> None:
        for number in self.scene.answers.keys() & self.open.keys():
            del self.open[number]
        assert sorted(one.number for one in self.scene.machine.free()) == sorted(self.open)
        figures = self.scene.figures
        assert figures.free == len(self.open)
        assert figures.free == sum(node.free for node in figures.by_node.values())
        reserved = sum(isinstance(answer, ef.Reserve) for answer in self.scene.answers.values())
        assert figures.granted == reserved
        assert figures.asked >= figures.granted


def test_a_random_walk_gives_nobody_twice_and_loses_nobody() -> None:
    run_state_machine_as_test(
        Walk, settings=settings(derandomize=True, deadline=None, max_examples=60, stateful_step_count=50)
    )
