"""Reservations in a worker: its agent at the recruiters."""

import asyncio
import random
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from typing import Final
from urllib.parse import urlsplit

from quarterdeck.capability.worker import WorkerHost, WorkerPart
from quarterdeck.config import WorkerSettings
from quarterdeck.core.backoff import Backoff
from quarterdeck.crew.observers.journal import log_trouble
from quarterdeck.crew.process.lifecycle import end_task
from quarterdeck.recruiter.agent import ReservationAgent
from quarterdeck.recruiter.client import HttpRegistry
from quarterdeck.recruiter.machine.reservation import ReservationMachine
from quarterdeck.recruiter.machine.reservation_config import ReservationConfig
from quarterdeck.recruiter.model import Offer
from quarterdeck.recruiter.settings import ReservationSettings
from quarterdeck.recruiter.worker_metering import ReservationFigures, worker_readings

_JITTER: Final = 0.1
"""With more, a recruiter that is away for half a second would be without some of its workers for more than one."""
_PORTS: Final = {"http": 80, "https": 443}


class ReservationsOnWorker(WorkerPart):
    def __init__(self, host: WorkerHost) -> None:
        self._host = host
        self._agent: ReservationAgent | None = None
        self._is_idle = False
        worker_readings(host.families).read_from(self._figures)

    async def open(self, stack: AsyncExitStack) -> Sequence["asyncio.Task[None]"]:
        """The agent lives until it was drained."""
        host, settings = self._host, self._host.settings
        own = settings.section(ReservationSettings)
        registry = HttpRegistry(authorize=host.guard.authorize, ssl=host.guard.client_context)
        stack.push_async_callback(registry.close)
        config = _config(settings, addr_of(host.url()))
        self._agent = ReservationAgent(
            ReservationMachine(config),
            Offer(config.addr, settings.node, frozenset(own.labels), settings.slots, settings.tenant),
            registry,
            poll_s=own.poll_s,
            clock=host.clock,
            chance=random.random,
            set_accepting=host.set_accepting,
            leave=host.leave,
            on_trouble=log_trouble,
        )
        host.offers.put(ReservationAgent, self._agent)
        running = asyncio.create_task(self._agent.run(), name="agent at the recruiters")
        stack.push_async_callback(end_task, running)
        return (running,)

    def watch(self, *, idle: bool, draining: bool) -> None:
        """It may be recruited while it has nothing to do for coordinators."""
        if self._agent is None:
            return
        if idle != self._is_idle:
            self._is_idle = idle
            self._agent.idle_changed(idle)
        if draining:
            self._agent.drain()

    def scaling(self) -> Mapping[str, float]:
        machine = self._machine
        return {
            "reserved": int(machine is not None and machine.is_reserved),
            "searches_in_flight": 0 if machine is None else machine.searches,
        }

    @property
    def _machine(self) -> ReservationMachine | None:
        return None if self._agent is None else self._agent.machine

    def _figures(self) -> ReservationFigures:
        machine = self._machine
        return ReservationFigures(
            reserved=machine is not None and machine.is_reserved,
            searches=0 if machine is None else machine.searches,
            searches_broken=0 if machine is None else machine.counters["searches_broken"],
            recruit_failures=0 if machine is None else machine.failed_registrations,
            abandoned=0 if machine is None else machine.counters["abandoned"],
        )


def reservations_on_worker(host: WorkerHost) -> ReservationsOnWorker | None:
    """None where no recruiter is named: the worker is never recruited."""
    urls = host.settings.section(ReservationSettings).urls
    if not urls:
        return None
    host.guard.check_dialling_urls(urls)
    return ReservationsOnWorker(host)


def _config(settings: WorkerSettings, addr: str) -> ReservationConfig:
    own = settings.section(ReservationSettings)
    return ReservationConfig(
        addr,
        own.urls,
        Backoff(own.retry_first_s, own.retry_max_s, factor=1.5, jitter=_JITTER),
        idle_s=own.reserved_idle_s,
        progress_s=own.reserved_progress_s,
        leave_when_abandoned=own.leave_when_abandoned,
        drain_max_s=settings.drain_max_s,
    )


def addr_of(url: str) -> str:
    """Host and port of a URL.

    >>> addr_of("http://[::1]:7072"), addr_of("https://worker-1.example")
    ('[::1]:7072', 'worker-1.example:443')
    """
    parts = urlsplit(url)
    return parts.netloc if parts.port is not None else f"{parts.netloc}:{_PORTS[parts.scheme]}"
