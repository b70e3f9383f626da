"""How many may be at it at once, in all and at one host."""

import asyncio
from collections import Counter
from typing import Any

from quarterdeck.crew.artifacts.places import Places
from tests.crew.artifacts.harness import looped


class _Visitors:
    def __init__(self, places: Places) -> None:
        self.inside: Counter[str] = Counter()
        self.may_leave = asyncio.Event()
        self._places = places

    async def visit(self, host: str) -> None:
        async with self._places.taken(host):
            self.inside[host] += 1
            await self.may_leave.wait()
            self.inside[host] -= 1


async def _settle() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


@looped
async def test_no_more_are_inside_than_there_are_places_and_each_host_has_its_share() -> None:
    places = Places(limit=5, limit_per_host=2)
    visitors = _Visitors(places)
    visits = [asyncio.create_task(visitors.visit(host)) for host in "aaaabbbbcccc"]
    await _settle()
    assert visitors.inside == {"a": 2, "b": 2, "c": 1}
    assert places.taken_or_waited_for == 12
    visitors.may_leave.set()
    await asyncio.gather(*visits)
    assert places.taken_or_waited_for == 0


@looped
async def test_who_waits_at_a_crowded_host_keeps_nobody_from_another() -> None:
    visitors = _Visitors(Places(limit=3, limit_per_host=2))
    visits = [asyncio.create_task(visitors.visit(host)) for host in "aaaaaaaab"]
    await _settle()
    assert visitors.inside == {"a": 2, "b": 1}
    visitors.may_leave.set()
    await asyncio.gather(*visits)


@looped
async def test_hosts_that_nobody_visits_are_forgotten_also_after_a_cancel() -> None:
    places = Places(limit=1, limit_per_host=1)
    visitors = _Visitors(places)
    visits = [asyncio.create_task(visitors.visit(host)) for host in "abcc"]
    await _settle()
    for visit in visits:
        visit.cancel()
    await asyncio.wait(visits)
    hosts: Any = getattr(places, "_hosts")  # noqa: B009 - what is private is the only one that tells
    assert hosts == {}
    visitors.may_leave.set()
    await visitors.visit("d")
