"""Several recruiters as one."""

import asyncio
from collections.abc import Sequence

from quarterdeck.recruiter.model import Recruited
from quarterdeck.search.root.recruiting import OneAfterTheOther


class Few:
    def __init__(self, name: str, count: int) -> None:
        self.name = name
        self.count = count
        self.asked: list[tuple[int, str, str]] = []

    async def recruit(self, number: int, label: str, tenant: str) -> Sequence[Recruited]:
        self.asked.append((number, label, tenant))
        return [Recruited(f"{self.name}{n}:1", self.name, 1, f"{self.name}{n}") for n in range(min(number, self.count))]


def test_the_next_is_asked_for_what_the_one_before_did_not_have() -> None:
    first, second, third = Few("a", 2), Few("b", 9), Few("c", 9)
    found = asyncio.run(OneAfterTheOther([first, second, third]).recruit(5, "night", "acme"))
    assert [worker.reservation for worker in found] == ["a0", "a1", "b0", "b1", "b2"]
    assert (first.asked, second.asked, third.asked) == ([(5, "night", "acme")], [(3, "night", "acme")], [])


def test_too_few_everywhere_are_all_there_are() -> None:
    assert len(asyncio.run(OneAfterTheOther([Few("a", 1), Few("b", 1)]).recruit(5, "", "acme"))) == 2
