"""Room in memory for small artifacts."""

from quarterdeck.crew.artifacts.pocket import SMALL_BYTES, Pocket


def test_what_is_large_finds_no_room() -> None:
    pocket = Pocket(10 * SMALL_BYTES)
    assert pocket.put("a", SMALL_BYTES + 1) is None
    assert pocket.put("b", SMALL_BYTES) == []
    assert pocket.used_bytes == SMALL_BYTES


def test_what_is_waited_for_is_never_given_up_for_a_newcomer() -> None:
    pocket = Pocket(100)
    assert pocket.put("a", 60) == []
    assert pocket.put("b", 60) is None
    assert pocket.put("c", 40) == []
    assert pocket.used_bytes == 100


def test_what_was_released_goes_oldest_first_and_only_as_much_as_is_needed() -> None:
    pocket = Pocket(100)
    for name in ("a", "b", "c"):
        assert pocket.put(name, 30) == []
    assert pocket.release("b")
    assert pocket.release("a")
    assert pocket.put("d", 30) == ["b"]
    assert pocket.put("e", 60) is None
    assert pocket.put("f", 40) == ["a"]
    assert pocket.used_bytes == 100


def test_room_comes_back_when_something_is_removed() -> None:
    pocket = Pocket(100)
    pocket.put("a", 60)
    pocket.put("b", 40)
    pocket.release("b")
    assert pocket.remove("a")
    assert pocket.remove("b")
    assert not pocket.remove("b")
    assert not pocket.release("b")
    assert pocket.used_bytes == 0
    assert pocket.put("c", 100) == []
    assert pocket.put("d", 1) is None
