"""The pool: who is free, who gets whom, and what becomes of a registration."""

from collections import Counter
from random import Random

import pytest

from quarterdeck.recruiter.machine import pool_effects as ef
from quarterdeck.recruiter.machine import pool_events as ev
from quarterdeck.recruiter.machine.pool import PoolMachine
from quarterdeck.recruiter.machine.tenant_pool import FORGET_AFTER_S, NodeFigures
from quarterdeck.recruiter.model import Recruited
from tests.recruiter.machine.pool_scene import Scene


@pytest.fixture
def scene() -> Scene:
    return Scene()


# Recruiting


def test_a_recruited_worker_is_told_whose_it_is_and_the_root_is_told_where_it_is(scene: Scene) -> None:
    registration = scene.register("10.0.0.7:4000", "rack1", slots=4)
    scene.now += 2.5
    assert scene.recruit(1, "nightly") == [Recruited("10.0.0.7:4000", "rack1", 4, "r2/0")]
    assert scene.answers == {registration: ef.Reserve(registration, "r2/0", "nightly", 2.5)}
    assert scene.free == set()


def test_workers_are_told_before_the_root_is(scene: Scene) -> None:
    for index in range(3):
        scene.register(f"w{index}:1")
    effects = scene.step(ev.RecruitRequested(9, 2, "", "r"))
    assert [type(effect) for effect in effects] == [ef.Reserve, ef.Reserve, ef.AnswerRecruit]


def test_an_empty_pool_answers_an_empty_list(scene: Scene) -> None:
    assert scene.recruit(3) == []
    assert scene.recruit(3, "label") == []


@pytest.mark.parametrize("number", [0, -3])
def test_to_ask_for_less_than_one_is_an_error_and_changes_nothing(scene: Scene, number: int) -> None:
    scene.register("w:1")
    with pytest.raises(ValueError, match="must be 1 or more"):
        scene.recruit(number)
    assert scene.free == {"w:1"}
    assert (scene.figures.asked, scene.figures.recruits) == (0, 0)


def test_fifteen_registered_and_fourteen_recruited_leaves_one(scene: Scene) -> None:
    for index in range(15):
        scene.register(f"w{index}:1", f"n{index % 4}")
    recruited = scene.recruit_addrs(14)
    assert (len(recruited), len(scene.free)) == (14, 1)
    assert not recruited & scene.free


def test_more_asked_than_there_are_gives_all_there_are(scene: Scene) -> None:
    for index in range(5):
        scene.register(f"w{index}:1")
    assert len(scene.recruit_addrs(50)) == 5
    assert (scene.figures.asked, scene.figures.granted, scene.figures.short) == (50, 5, 45)


def test_a_node_that_is_nearly_empty_does_not_leave_the_recruit_short(scene: Scene) -> None:
    """The original's one pass gave three here."""
    for index in range(6):
        scene.register(f"w{index}:1", "small" if index == 0 else "big")
    assert Counter(worker.node for worker in scene.recruit(4)) == {"small": 1, "big": 3}


def test_workers_of_one_recruit_are_on_different_nodes_where_that_can_be(scene: Scene) -> None:
    for index in range(16 * 20):
        scene.register(f"w{index}:1", f"n{index % 16}")
    assert Counter(Counter(worker.node for worker in scene.recruit(16)).values()) == {1: 16}


def test_each_worker_of_a_recruit_has_a_reservation_of_its_own(scene: Scene) -> None:
    for index in range(3):
        scene.register(f"w{index}:1")
    names = [worker.reservation for worker in (*scene.recruit(2), *scene.recruit(1))]
    assert len(set(names)) == 3


def test_random_recruits_and_registrations_lose_nobody_and_give_nobody_twice(scene: Scene) -> None:
    chance = Random(3)
    node_of = {f"w{index}:1": f"n{index % 5}" for index in range(40)}
    for addr, node in node_of.items():
        scene.register(addr, node)
    away: set[str] = set()
    for _ in range(400):
        got = scene.recruit_addrs(chance.randint(1, 8))
        assert not got & away
        away |= got
        for addr in chance.sample(sorted(away), chance.randint(0, len(away))):
            away.remove(addr)
            scene.register(addr, node_of[addr])
        assert scene.free == node_of.keys() - away


# One address, several registrations


def test_the_same_address_registered_twice_is_one_worker_and_the_newer_counts(scene: Scene) -> None:
    older = scene.register("w:1", "n1")
    newer = scene.register("w:1", "n2", slots=3)
    assert scene.answers == {older: ef.Supersede(older)}
    assert (scene.figures.free, scene.figures.nodes, scene.figures.superseded) == (1, 1, 1)
    (worker,) = scene.recruit(5)
    assert (worker.node, worker.slots) == ("n2", 3)
    assert scene.answers[newer] == ef.Reserve(newer, worker.reservation, "", 0.0)


def test_recruiting_after_one_address_registered_many_times_gives_it_once(scene: Scene) -> None:
    """It left duplicates behind, and recruiting them crashed."""
    for _ in range(10):
        scene.register("w:1")
    scene.register("other:1")
    assert scene.recruit_addrs(10) == {"w:1", "other:1"}
    assert scene.recruit(1) == []


def test_the_end_of_a_superseded_connection_does_not_touch_the_newer_registration(scene: Scene) -> None:
    older = scene.register("w:1")
    scene.register("w:1")
    scene.close(older)
    assert scene.free == {"w:1"}


def test_the_timeout_of_a_superseded_registration_does_not_touch_the_newer(scene: Scene) -> None:
    scene.register("w:1", timeout_s=10.0)
    scene.now += 5.0
    scene.register("w:1", timeout_s=10.0)
    scene.pass_time(6.0)
    assert scene.free == {"w:1"}


# The ends of a registration


def test_a_recruit_right_after_a_registration_gets_the_worker(scene: Scene) -> None:
    """It was lost until its poll timed out when it was recruited between registering and waiting."""
    registration = scene.register("w:1")
    assert scene.recruit_addrs(1) == {"w:1"}
    assert isinstance(scene.answers[registration], ef.Reserve)


def test_a_worker_whose_connection_closed_is_given_to_nobody(scene: Scene) -> None:
    scene.close(scene.register("w:1"))
    assert scene.recruit(1) == []
    assert scene.machine.next_deadline() is None


def test_a_connection_that_closes_after_the_answer_changes_nothing(scene: Scene) -> None:
    registration = scene.register("w:1")
    scene.recruit(1)
    scene.register("w:1")
    scene.close(registration)
    assert scene.free == {"w:1"}


def test_a_registration_that_times_out_is_sent_back_and_out_of_the_pool(scene: Scene) -> None:
    registration = scene.register("w:1", timeout_s=30.0)
    scene.pass_time(26.9)
    assert scene.answers == {}
    scene.pass_time(3.1)
    assert scene.answers == {registration: ef.SendBack(registration)}
    assert scene.recruit(1) == []


def test_workers_that_registered_at_the_same_moment_do_not_all_come_back_at_the_same_moment(scene: Scene) -> None:
    for index in range(1000):
        scene.register(f"w{index}:1", timeout_s=30.0)
    ended: list[int] = []
    for _ in range(30):
        scene.pass_time(1.0)
        ended.append(1000 - len(scene.free))
    assert ended[26] == 0
    assert 300 < ended[27] < 370
    assert 630 < ended[28] < 700
    assert ended[29] == 1000


def test_registrations_time_out_in_the_order_of_their_own_times(scene: Scene) -> None:
    slow, quick = scene.register("a:1", timeout_s=60.0), scene.register("b:1", timeout_s=5.0)
    scene.pass_time(5.0)
    assert list(scene.answers) == [quick]
    scene.pass_time(55.0)
    assert list(scene.answers) == [quick, slow]


def test_time_that_passed_too_early_is_nothing(scene: Scene) -> None:
    scene.register("w:1", timeout_s=30.0)
    assert scene.step(ev.TimePassed()) == []


def test_a_clock_that_goes_backwards_counts_as_one_that_stands(scene: Scene) -> None:
    scene.register("w:1")
    scene.now -= 500.0
    scene.recruit(1)
    (answer,) = scene.answers.values()
    assert isinstance(answer, ef.Reserve)
    assert answer.waited_s == 0.0


def test_a_recruiter_that_closes_sends_all_its_workers_back(scene: Scene) -> None:
    registrations = [scene.register(f"w{index}:1") for index in range(3)]
    assert scene.step(ev.RecruiterClosed()) == [ef.SendBack(number) for number in registrations]
    assert scene.free == set()
    assert scene.machine.next_deadline() is None


# Labels


@pytest.mark.parametrize(
    "labels, wanted, serves",
    [
        ((), "", True),
        ((), "nightly", True),
        (("nightly",), "", True),
        (("nightly",), "nightly", True),
        (("nightly",), "other", False),
        (("nightly", "other"), "other", True),
    ],
)
def test_a_label_decides_who_serves_whom(scene: Scene, labels: tuple[str, ...], wanted: str, serves: bool) -> None:
    scene.register("w:1", "n1", *labels)
    assert scene.recruit_addrs(1, wanted) == ({"w:1"} if serves else set())


def test_a_worker_with_several_labels_is_given_once(scene: Scene) -> None:
    scene.register("w:1", "n1", "a", "b")
    assert scene.recruit_addrs(1, "a") == {"w:1"}
    assert scene.recruit_addrs(1, "b") == set()
    assert scene.recruit_addrs(1) == set()


def test_those_with_and_without_the_label_are_spread_together(scene: Scene) -> None:
    scene.register("a:1", "n1", "x")
    scene.register("b:1", "n1")
    scene.register("c:1", "n2")
    scene.register("d:1", "n3", "other")
    assert {worker.node for worker in scene.recruit(2, "x")} == {"n1", "n2"}


def test_on_one_node_those_with_the_label_go_first_and_leave_the_others_for_everybody(scene: Scene) -> None:
    scene.register("general:1", "n1")
    scene.register("special:1", "n1", "x")
    assert scene.recruit_addrs(1, "x") == {"special:1"}


# Tenants


def test_a_tenant_gets_its_own_workers_alone(scene: Scene) -> None:
    scene.register("a:1", tenant="acme")
    scene.register("o:1", tenant="other")
    scene.register("d:1")
    assert scene.recruit_addrs(5, tenant="acme") == {"a:1"}
    assert scene.recruit_addrs(5, tenant="other") == {"o:1"}
    assert scene.recruit_addrs(5) == {"d:1"}


def test_a_tenant_whose_workers_are_all_given_away_does_not_get_anothers(scene: Scene) -> None:
    scene.register("a:1", tenant="acme")
    scene.register("d:1")
    scene.recruit(1, tenant="acme")
    assert scene.recruit(1, tenant="acme") == []
    scene.now += FORGET_AFTER_S
    assert scene.recruit(1, tenant="acme") == []  # nobody has looked since: it is not forgotten
    scene.register("n:1", tenant="new")
    assert scene.recruit_addrs(1, tenant="acme") == {"d:1"}


def test_a_tenant_without_workers_gets_those_of_the_default_tenant_and_they_are_told_for_whom(scene: Scene) -> None:
    registration = scene.register("d:1")
    scene.register("o:1", tenant="other")
    (worker,) = scene.recruit(5, tenant="acme")
    assert (worker.addr, worker.tenant) == ("d:1", "acme")
    told = scene.answers[registration]
    assert isinstance(told, ef.Reserve)
    assert told.tenant == "acme"
    assert scene.recruit(5) == []


def test_an_address_that_another_tenant_registers_too_is_another_worker(scene: Scene) -> None:
    scene.register("w:1", tenant="acme")
    scene.register("w:1", tenant="other")
    assert scene.answers == {}
    assert scene.recruit_addrs(5, tenant="acme") == {"w:1"}
    assert scene.recruit_addrs(5, tenant="other") == {"w:1"}


def test_figures_of_a_tenant_count_nothing_of_anothers(scene: Scene) -> None:
    scene.register("a:1", "n1", tenant="acme")
    scene.register("a:2", "n2", tenant="acme")
    scene.register("o:1", "n1", tenant="other")
    scene.recruit(5, tenant="acme")
    scene.register("a:1", "n1", tenant="acme")
    scene.register("a:1", "n1", tenant="acme")
    acme, other = (scene.machine.figures(scene.now, tenant) for tenant in ("acme", "other"))
    assert (acme.free, acme.reserved, acme.registrations, acme.superseded) == (1, 1, 4, 1)
    assert (acme.recruits, acme.asked, acme.granted) == (1, 5, 2)
    assert acme.by_node == {"n1": NodeFigures(free=1, granted=1), "n2": NodeFigures(free=0, granted=1)}
    assert (other.free, other.reserved, other.registrations, other.superseded) == (1, 0, 1, 0)
    assert (other.recruits, other.asked, other.granted) == (0, 0, 0)
    assert other.by_node == {"n1": NodeFigures(free=1, granted=0)}
    assert scene.figures.by_node["n1"] == NodeFigures(free=2, granted=1)
    assert (scene.figures.free, scene.figures.reserved, scene.figures.nodes) == (2, 1, 1)
    assert [one.offer.addr for one in scene.machine.free("other")] == ["o:1"]


def test_tenants_that_come_and_go_for_ever_take_no_memory_for_ever(scene: Scene) -> None:
    step_s = FORGET_AFTER_S / 30  # so long that few are known at once: the scene looks at all of them at every step
    for index in range(300):
        scene.close(scene.register("w:1", tenant=f"t{index}"))
        scene.now += step_s
    assert len(scene.machine._tenants) <= 2 * 30 + 2  # pyright: ignore[reportPrivateUsage]
    assert scene.figures.registrations == 300


# Figures


def test_figures_say_what_was_asked_and_what_was_given_and_by_whom(scene: Scene) -> None:
    for index in range(4):
        scene.register(f"w{index}:1", f"n{index % 2}")
    scene.recruit(3)
    figures = scene.figures
    assert (figures.free, figures.nodes, figures.reserved) == (1, 1, 3)
    assert (figures.registrations, figures.recruits, figures.asked, figures.granted) == (4, 1, 3, 3)
    assert figures.by_node == {"n0": NodeFigures(free=0, granted=2), "n1": NodeFigures(free=1, granted=1)}


def test_a_worker_is_reserved_until_it_registers_again(scene: Scene) -> None:
    scene.register("w:1")
    scene.recruit(1)
    assert (scene.figures.reserved, scene.figures.free) == (1, 0)
    scene.register("w:1")
    assert (scene.figures.reserved, scene.figures.free) == (0, 1)


def test_a_worker_that_does_not_come_back_is_forgotten_in_the_end(scene: Scene) -> None:
    scene.register("a:1", "n1")
    scene.recruit(1)
    scene.now += FORGET_AFTER_S - 1.0
    scene.register("b:1", "n2")
    scene.recruit(1)
    assert (scene.figures.reserved, set(scene.figures.by_node)) == (2, {"n1", "n2"})
    scene.now += 1.0
    assert (scene.figures.reserved, set(scene.figures.by_node)) == (1, {"n2"})
    scene.now += FORGET_AFTER_S
    assert (scene.figures.reserved, scene.figures.by_node, scene.figures.granted) == (0, {}, 2)


def test_a_node_with_a_free_worker_keeps_its_figures(scene: Scene) -> None:
    scene.register("a:1", "n1")
    scene.recruit(1)
    scene.register("a:1", "n1", timeout_s=4 * FORGET_AFTER_S)
    scene.now += 2 * FORGET_AFTER_S
    scene.register("b:1", "n2")
    assert scene.figures.by_node["n1"] == NodeFigures(free=1, granted=1)


def test_nodes_that_come_and_go_for_ever_take_no_memory_for_ever(scene: Scene) -> None:
    for index in range(300):
        scene.register(f"w{index}:1", f"n{index}")
        scene.recruit(1)
        scene.now += FORGET_AFTER_S / 30
    assert len(scene.figures.by_node) <= 30
    assert scene.figures.reserved <= 30


def test_free_workers_are_listed_in_the_order_in_which_they_came() -> None:
    scene = Scene()
    for name in ("c", "a", "b"):
        scene.register(f"{name}:1")
        scene.now += 1.0
    assert [(one.offer.addr, one.since) for one in scene.machine.free()] == [
        ("c:1", 1000.0),
        ("a:1", 1001.0),
        ("b:1", 1002.0),
    ]


def test_what_contradicts_itself_is_found() -> None:
    scene = Scene()
    scene.register("w:1")
    scene.machine._tenants["default"]._all.remove(1)  # pyright: ignore[reportPrivateUsage]
    with pytest.raises(AssertionError, match="is not in the pool"):
        scene.machine.check_invariants()
    assert PoolMachine().check_invariants() is None
