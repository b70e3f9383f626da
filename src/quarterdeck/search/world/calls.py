"""The clients of recruiters and workers as they are, on the simulated network."""

import random
from collections.abc import Callable, Sequence
from typing import Any, Final

from quarterdeck.recruiter.client import HttpRecruiting, HttpRegistry
from quarterdeck.recruiter.model import Directive, Offer
from quarterdeck.recruiter.ports import Registered
from quarterdeck.search.client import HttpSearchWorkers
from quarterdeck.search.world.faults import Reply
from quarterdeck.simulation.exchange import Data, ExchangeNetwork, Message, SimulatedHttpClient

_CONNECT_S: Final = 5.0

_PATH_OF_REPLY: Final = {
    Reply.RESERVED: "/recruiter/register",
    Reply.REREGISTER: "/recruiter/register",
    Reply.RECRUITED: "/recruiter/recruit",
    Reply.CHUNK: "/worker/chunksearch",
    Reply.RELEASED: "/worker/release",
}


def url_of(recruiter: str) -> str:
    return f"http://{recruiter}:80"


def addr_of(worker: str) -> str:
    return f"{worker}:80"


def host_of(addr: str) -> str:
    return addr.partition(":")[0]


class SimulatedRegistry(HttpRegistry):
    def __init__(self, network: ExchangeNetwork, source: str, on_reserved: Callable[[], None]) -> None:
        """`on_reserved` is called when the word has come, and nobody has acted on it yet."""
        super().__init__()
        self.client: Any = SimulatedHttpClient(network, source, _CONNECT_S)
        self._on_reserved = on_reserved

    async def register(self, recruiter: str, offer: Offer, timeout_s: float) -> Registered:
        registered = await super().register(recruiter, offer, timeout_s)
        if registered.directive is Directive.RESERVED:
            self._on_reserved()
        return registered


class SimulatedRecruiting(HttpRecruiting):
    def __init__(self, network: ExchangeNetwork, source: str, recruiters: Sequence[str], chance: random.Random) -> None:
        super().__init__([url_of(recruiter) for recruiter in recruiters], chance)
        self.client: Any = SimulatedHttpClient(network, source, _CONNECT_S)


class SimulatedWorkers(HttpSearchWorkers):
    def __init__(self, network: ExchangeNetwork, source: str) -> None:
        super().__init__()
        self.client: Any = SimulatedHttpClient(network, source, _CONNECT_S)


def is_reply(message: Message, reply: Reply) -> bool:
    """Whether it is the end of such an answer."""
    if not isinstance(message, Data) or message.more or message.path != _PATH_OF_REPLY[reply]:
        return False
    return reply not in (Reply.RESERVED, Reply.REREGISTER) or f'"{reply.value}"'.encode() in message.body
