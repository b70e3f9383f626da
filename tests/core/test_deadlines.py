"""Deadlines: earliest first, one a key, and nothing kept of what was canceled or moved."""

from hypothesis import given
from hypothesis import strategies as st

from quarterdeck.core.deadlines import Deadlines


def drain(deadlines: Deadlines[str], now: float) -> list[tuple[str, float]]:
    due: list[tuple[str, float]] = []
    while (next_due := deadlines.pop_due(now)) is not None:
        due.append(next_due)
    return due


def test_the_earliest_comes_first_and_equal_ones_in_the_order_in_which_they_were_set() -> None:
    deadlines = Deadlines[str]()
    for key, at in (("c", 3.0), ("a", 1.0), ("b", 2.0), ("a too", 1.0)):
        deadlines.set(key, at)
    assert (deadlines.next_at(), len(deadlines)) == (1.0, 4)
    assert drain(deadlines, 2.0) == [("a", 1.0), ("a too", 1.0), ("b", 2.0)]
    assert (deadlines.next_at(), "c" in deadlines, "a" in deadlines) == (3.0, True, False)


def test_nothing_is_due_before_its_time() -> None:
    deadlines = Deadlines[str]()
    assert deadlines.next_at() is None
    assert deadlines.pop_due(1e9) is None
    deadlines.set("a", 1.0)
    assert deadlines.pop_due(0.999) is None
    assert deadlines.pop_due(1.0) == ("a", 1.0)
    assert deadlines.pop_due(1e9) is None


def test_a_key_has_one_deadline_however_often_it_is_moved() -> None:
    deadlines = Deadlines[str]()
    for at in (5.0, 3.0, 8.0, 4.0):
        deadlines.set("a", at)
    assert (deadlines.next_at(), len(deadlines)) == (4.0, 1)
    assert drain(deadlines, 100.0) == [("a", 4.0)]


def test_a_deadline_that_was_moved_later_comes_later_and_between_others() -> None:
    deadlines = Deadlines[str]()
    deadlines.set("moved", 1.0)
    deadlines.set("b", 2.0)
    deadlines.set("moved", 3.0)
    deadlines.set("c", 4.0)
    assert drain(deadlines, 100.0) == [("b", 2.0), ("moved", 3.0), ("c", 4.0)]


def test_a_canceled_key_is_forgotten_and_may_be_set_again() -> None:
    deadlines = Deadlines[str]()
    deadlines.set("a", 1.0)
    deadlines.cancel("a")
    deadlines.cancel("never")
    assert (len(deadlines), deadlines.next_at(), deadlines.pop_due(9.0)) == (0, None, None)
    deadlines.set("a", 1.0)
    deadlines.cancel("a")
    deadlines.set("a", 2.0)
    assert drain(deadlines, 9.0) == [("a", 2.0)]


def test_what_is_canceled_or_moved_leaves_no_growth_behind() -> None:
    deadlines = Deadlines[str]()
    deadlines.set("stays", 0.5)
    for n in range(1000):
        deadlines.set(f"{n}", 10.0 + n)
        deadlines.cancel(f"{n}")
        deadlines.set("moves", 5000.0 - n)
        assert len(deadlines._heap) <= 64 + 2 * len(deadlines) + 1  # pyright: ignore[reportPrivateUsage]
    assert drain(deadlines, 1e9) == [("stays", 0.5), ("moves", 4001.0)]


def test_compaction_keeps_everything_in_its_order() -> None:
    deadlines = Deadlines[str]()
    for n in range(10):
        deadlines.set(f"kept {n}", 7.0)
    for n in range(100):
        deadlines.set("churn", 1000.0 - n)
    deadlines.set("late", 7.0)
    assert [key for key, _ in drain(deadlines, 7.0)] == [*(f"kept {n}" for n in range(10)), "late"]


@given(
    st.lists(
        st.tuples(st.sampled_from(["set", "cancel", "pop"]), st.sampled_from("abcdefgh"), st.integers(0, 20)),
        max_size=400,
    )
)
def test_deadlines_are_a_sorted_dictionary(moves: list[tuple[str, str, int]]) -> None:
    deadlines, model = Deadlines[str](), dict[str, float]()
    for move, key, at in moves:
        match move:
            case "set":
                deadlines.set(key, float(at))
                model[key] = float(at)
            case "cancel":
                deadlines.cancel(key)
                model.pop(key, None)
            case _:
                due = deadlines.pop_due(float(at))
                if due is None:
                    assert not model or min(model.values()) > at
                else:
                    assert model.pop(due[0]) == due[1]
                    assert due[1] <= min([*model.values(), float(at)])
        assert len(deadlines) == len(model)
        assert deadlines.next_at() == (min(model.values()) if model else None)
        assert (key in deadlines) == (key in model)
