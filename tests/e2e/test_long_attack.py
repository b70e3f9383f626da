"""A crew under attack for minutes, in all ways at once, while its workers and its coordinator are killed and stopped:
whoever asks gets right answers or is told of an error, no process ends but those that were ended here, and at the end
all heals."""

import contextlib
import os
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Final

import psutil
import pytest

from tests.e2e import attacks
from tests.e2e.attacks import LONG, Ground
from tests.e2e.conftest import in_rotation
from tests.e2e.crew import Crew, until
from tests.e2e.door import Scan
from tests.e2e.innocent import Innocent, Memory
from tests.e2e.lake import ALL, same
from tests.e2e.test_chaos import TOLD

pytestmark = [pytest.mark.soak, pytest.mark.timeout(0), pytest.mark.xdist_group("e2e-long-attack")]

ATTACK_S: Final = float(os.environ.get("QUARTERDECK_ATTACK_S", "600"))
SEED: Final = int(os.environ.get("QUARTERDECK_ATTACK_SEED", str(random.SystemRandom().randrange(2**32))))
WORKERS: Final = 3
INNOCENTS: Final = 3
ATTACKERS: Final = 2
SHUT_OUT: Final = {401, 403, 415, 421}
BUSY: Final = {"unavailable", "resource_exhausted", "no_worker", "attempts_exhausted"}
"""What anybody may be told while workers die and bodies fill the room for them."""


@dataclass(slots=True)
class Siege:
    ground: Ground
    happened: Counter[str] = field(default_factory=Counter[str])
    told: Counter[str] = field(default_factory=Counter[str])
    """Errors that attackers were told."""
    let_in: list[str] = field(default_factory=list[str])
    """Attacks that got what they wanted."""
    orphans: list[psutil.Process] = field(default_factory=list[psutil.Process])
    """Engines of workers that were killed."""
    over: threading.Event = field(default_factory=threading.Event)
    one_at_a_time: threading.Lock = field(default_factory=threading.Lock)

    # Attacks: each is refused, or cut short

    def knock(self) -> None:
        strange = attacks.knock_everywhere(self.ground) - SHUT_OUT
        if strange:
            self.let_in.append(f"strangers were answered with {strange}")
        said = attacks.dial_without_token(self.ground.coordinator, 5)
        if "let in" in said:
            self.let_in.append("a worker without the token was let in")

    def nest(self) -> None:
        for depth in (3000, 20_000):
            self._refused(Scan(attacks.nested(depth), [self.ground.lake.source]), {"invalid_argument"})

    def end_engines(self) -> None:
        told, ended = attacks.end_the_engine_of_a_long_scan(self.ground, times=2, timeout_s=5)
        self.told[f"{told.code} after {ended} engines"] += 1

    def run_away(self) -> None:
        for sql in attacks.RUNAWAYS:
            self._refused(Scan(sql, timeout_s=30), {"resource_exhausted", "quarantined", "deadline_exceeded"})

    def ask_widely(self) -> None:
        for _ in range(8):
            self._not_answered("a wide query", attacks.ask_wide(self.ground).status)

    def chain(self) -> None:
        self._not_answered("a chain of label_replace", attacks.ask_chain(self.ground).status)

    def scan_for_long(self) -> None:
        self._refused(
            Scan(LONG, self.ground.lake.files[:1], timeout_s=2), {"deadline_exceeded", "quarantined", "canceled"}
        )

    def leave_a_long_scan(self) -> None:
        with self.ground.door.begun(Scan(LONG, self.ground.lake.files[:1], timeout_s=30)):
            self.over.wait(0.5)

    def point_at_fifos(self) -> None:
        with self.one_at_a_time, attacks.fifos(self.ground) as (parquet, ndjson):
            self._refused(Scan(ALL, [str(parquet)]), {"invalid_argument"})
            attacks.refused_search(self.ground.door, "*", [str(ndjson)])

    def ask_for_series(self) -> None:
        for body in _bodies():
            self._not_answered("200,000 matchers", attacks.ask_for_series(self.ground.door, body))

    def send_slowly(self) -> None:
        with attacks.slow_bodies(self.ground.coordinator, 100, 200_000):
            self.over.wait(2.0)

    def _refused(self, scan: Scan, codes: set[str]) -> None:
        told = attacks.refusal(self.ground.door, scan)
        self.told[told.code] += 1
        if told.code not in codes | BUSY:
            self.let_in.append(f"{scan.sql[:80]}: {told}")

    def _not_answered(self, what: str, status: int) -> None:
        self.told[str(status)] += 1
        if status == 200:
            self.let_in.append(f"{what} was answered")

    def attack_on(self, seed: int) -> None:
        chance = random.Random(seed)
        all_attacks: list[Callable[[], None]] = [
            self.knock,
            self.nest,
            self.end_engines,
            self.run_away,
            self.ask_widely,
            self.chain,
            self.scan_for_long,
            self.leave_a_long_scan,
            self.point_at_fifos,
            self.ask_for_series,
            self.send_slowly,
        ]
        while not self.over.wait(chance.uniform(0.0, 0.5)):
            attack = chance.choice(all_attacks)
            try:
                attack()
            except TOLD as error:
                self.told[type(error).__name__] += 1  # whoever it spoke to was killed
            except attacks.AnsweredError as error:
                self.let_in.append(f"{attack.__name__}: {error}")
            except AssertionError:
                self.told["somebody is being started"] += 1
            self.happened[attack.__name__] += 1


@cache
def _bodies() -> tuple[bytes, ...]:
    """Made when asked for: pytest imports this file also where only other tests are run."""
    return attacks.many_selectors(200_000), attacks.many_matchers(200_000)


@pytest.fixture
def siege(crew: Crew, tmp_path: Path) -> Siege:
    print(f"QUARTERDECK_ATTACK_SEED={SEED}")
    ground = attacks.set_out(crew, tmp_path, workers=WORKERS)
    attacks.warm_up(ground)
    return Siege(ground)


def test_under_a_long_attack_and_kills_every_answer_is_right_or_an_error_and_nothing_is_left(siege: Siege) -> None:
    ground = siege.ground
    memory = Memory(ground.members)
    questions = ground.questions()
    attackers = [
        threading.Thread(target=siege.attack_on, args=(SEED + number,), name=f"attacker {number}")
        for number in range(ATTACKERS)
    ]
    with contextlib.ExitStack() as stack:
        innocents = [stack.enter_context(Innocent(questions, may_fail=TOLD)) for _ in range(INNOCENTS)]
        for attacker in attackers:
            attacker.start()
        try:
            hurt(siege)
        finally:
            siege.over.set()
            for attacker in attackers:
                attacker.join()
        in_rotation(ground.coordinator, ground.workers)
    answers = sum(len(innocent.during.took_s) for innocent in innocents)
    errors = Counter(error[:60] for innocent in innocents for error in innocent.during.errors)
    print(f"happened: {dict(siege.happened)}; attackers were told: {dict(siege.told)}")
    print(f"innocents: {answers} right answers, errors: {dict(errors)}")
    assert not siege.let_in, siege.let_in[:5]
    assert answers > ATTACK_S / 4, "innocents got through"

    for question in questions:
        assert question.is_right(question.ask())
    assert same(ground.door.scan(Scan(ALL, [ground.lake.source])).table, ground.lake.truth(ALL))
    ground.wait_quiet()
    for member in ground.members:
        member.door.ask("GET", "/ready")
    until(lambda: not any(map(attacks.runs, siege.orphans)), "no engine has outlived its worker")
    for worker in ground.workers:
        # For scans, and the same for searches.
        until(lambda worker=worker: len(attacks.engines_of(worker)) <= 4, f"{worker.name} has hosts with one engine")
    memory.wait_back()
    print(memory.told())


def hurt(siege: Siege) -> None:
    """Kills a worker or the coordinator, or stops a worker for a while; until the time is over. Whoever was not killed
    here must run."""
    chance = random.Random(SEED)
    ends_at_s = time.monotonic() + ATTACK_S
    disasters = [kill_a_worker, stop_a_worker, kill_the_coordinator]
    while time.monotonic() < ends_at_s:
        (disaster,) = chance.choices(disasters, (2, 2, 1))
        disaster(siege, chance)
        siege.happened[disaster.__name__] += 1
        siege.over.wait(chance.uniform(1.0, 6.0))
        for member in siege.ground.members:
            assert member.is_running, f"{member.name} ended with {member.process.poll()}: nobody here did that"


def kill_a_worker(siege: Siege, chance: random.Random) -> None:
    worker = chance.choice(siege.ground.workers)
    siege.orphans += attacks.engines_of(worker)
    worker.kill()
    siege.over.wait(chance.uniform(0.0, 2.0))
    worker.start()


def stop_a_worker(siege: Siege, chance: random.Random) -> None:
    worker = chance.choice(siege.ground.workers)
    worker.send(signal.SIGSTOP)
    siege.over.wait(chance.uniform(0.1, 5.0))
    worker.send(signal.SIGCONT)


def kill_the_coordinator(siege: Siege, chance: random.Random) -> None:
    """It is up again before the next disaster: of what is killed while it starts nobody learns anything."""
    siege.ground.coordinator.kill()
    siege.over.wait(chance.uniform(0.0, 2.0))
    siege.ground.coordinator.start().wait_up()
