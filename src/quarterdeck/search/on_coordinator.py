"""Log searches in a coordinator, which is their root."""

from collections.abc import Sequence
from contextlib import AsyncExitStack

from fastapi import APIRouter

from quarterdeck.capability.coordinator import CoordinatorHost, CoordinatorPart
from quarterdeck.recruiter.service import OwnRecruiter
from quarterdeck.search.asks import ASKS
from quarterdeck.search.metering import SearchMetrics
from quarterdeck.search.root.assembly import SearchRoot
from quarterdeck.search.root.routes import search_router
from quarterdeck.search.settings import SearchSettings
from quarterdeck.web.front import Ask


class SearchOnCoordinator(CoordinatorPart):
    def __init__(self, host: CoordinatorHost) -> None:
        settings = host.settings.section(SearchSettings)
        self._roots, self._guard, self._recruiters = host.roots, host.guard, settings.recruiters
        self._root = SearchRoot(
            settings,
            host.folder.folder("search"),
            host.objects,
            host.clock,
            host.ids,
            host.offers.get(OwnRecruiter),
            SearchMetrics(host.registry),
            authorize=host.guard.authorize,
            ssl=host.guard.client_context,
            log=host.log,
            disk=host.disk,
        )

    def asks(self) -> Sequence[Ask]:
        return ASKS

    def routers(self) -> Sequence[APIRouter]:
        return (search_router(self._root.service, roots=self._roots),)

    async def open(self, stack: AsyncExitStack) -> None:
        self._guard.check_dialling_urls(self._recruiters)
        stack.push_async_callback(self._root.close)

    def close(self) -> None:
        self._root.service.close()

    @property
    def is_busy(self) -> bool:
        return self._root.service.is_busy
