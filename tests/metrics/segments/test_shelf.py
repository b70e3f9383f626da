"""Row groups in memory: never more than the limit, the longest unused goes first, any thread may ask."""

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pytest

from quarterdeck.metrics.segments.shelf import Shelf


@dataclass(frozen=True)
class Thing:
    name: str
    size_bytes: int = 10


def is_kept(shelf: Shelf, name: str) -> bool:
    """Without counting as a use."""
    return name in vars(shelf)["_kept"]


def test_what_was_read_is_not_read_again() -> None:
    shelf = Shelf(100)
    first, was_here = shelf.get("a", lambda: Thing("a"))
    assert not was_here
    assert shelf.get("a", lambda: pytest.fail("it is here")) == (first, True)
    assert (len(shelf), shelf.used_bytes) == (1, 10)


def test_what_was_used_longest_ago_goes_first() -> None:
    shelf = Shelf(30)
    for name in ("a", "b", "c", "a", "d"):
        shelf.get(name, lambda name=name: Thing(name))
    assert [is_kept(shelf, name) for name in "abcd"] == [True, False, True, True]
    assert shelf.used_bytes == 30


def test_what_is_larger_than_all_there_is_goes_by_and_takes_nobodys_place() -> None:
    shelf = Shelf(30)
    shelf.get("a", lambda: Thing("a"))
    assert shelf.get("b", lambda: Thing("b", 31))[0].name == "b"
    assert (len(shelf), shelf.used_bytes) == (1, 10)
    assert Shelf(0).get("a", lambda: Thing("a"))[1] is False


def test_what_cannot_be_read_is_not_kept() -> None:
    shelf = Shelf(30)
    with pytest.raises(OSError, match="no"):
        shelf.get("a", lambda: (_ for _ in ()).throw(OSError("no")))
    assert (len(shelf), shelf.used_bytes) == (0, 0)


def test_two_that_read_the_same_at_the_same_time_are_counted_once() -> None:
    shelf = Shelf(100)
    meeting = threading.Barrier(2)

    def read() -> Thing:
        meeting.wait(30)
        return Thing("a")

    with ThreadPoolExecutor(2) as pool:
        found = [one.result() for one in [pool.submit(shelf.get, "a", read) for _ in range(2)]]
    assert [was_here for _, was_here in found] == [False, False]
    assert (len(shelf), shelf.used_bytes) == (1, 10)


def test_many_threads_never_exceed_the_limit_and_the_books_are_right() -> None:
    shelf = Shelf(200)

    def use(seed: int) -> None:
        for step in range(400):
            name = f"{(seed * 7 + step * step) % 37}"
            thing, _ = shelf.get(name, lambda name=name: Thing(name, 5 + int(name)))
            assert thing.name == name
            assert shelf.used_bytes <= 200 + 4 * 45  # a thread may be about to make room

    with ThreadPoolExecutor(4) as pool:
        for one in [pool.submit(use, seed) for seed in range(4)]:
            one.result()
    kept = vars(shelf)["_kept"].values()
    assert shelf.used_bytes == sum(size for _, size in kept) <= 200
