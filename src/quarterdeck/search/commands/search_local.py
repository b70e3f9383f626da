"""One search in this process, without a coordinator. Its events are those that a coordinator would send.

The engine is loaded when the events are asked for: by then the user sees that something happens.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Self

from quarterdeck.capability import Capability
from quarterdeck.core.errors import QuarterdeckError
from quarterdeck.search.commands.search_events import Done, Event, Problem, ToldRows, ToldStatus, read_progress

if TYPE_CHECKING:
    from quarterdeck.search.root.planning import SearchRequest
    from quarterdeck.search.root.running import RunningSearch
    from quarterdeck.stores.objects import S3Options


class LocalSearch:
    def __init__(
        self, document: Mapping[str, Any], capabilities: Sequence[Capability], *, timeout_s: float | None
    ) -> None:
        """`document` is what a coordinator would be sent. `capabilities` have the settings of a coordinator."""
        self._capabilities = capabilities
        self._document = document
        self._timeout_s = timeout_s

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def pour(self, take: Callable[[Event], None]) -> None:
        """While an event is taken nothing else happens but what threads do: who is slow is waited for."""
        asyncio.run(self._pour(take))

    async def _pour(self, take: Callable[[Event], None]) -> None:
        from quarterdeck.search.root.local import open_local_search  # noqa: PLC0415 - see above
        from quarterdeck.search.root.running import Progress  # noqa: PLC0415

        running: RunningSearch | None = None
        failure: QuarterdeckError | None = None
        opening = open_local_search(self._request(), s3=self._s3(), at_once=self._document.get("max_workers"))
        try:
            async with opening as running, aclosing(running.events()) as events:
                async for event in events:
                    take(read_progress(event.document()) if isinstance(event, Progress) else ToldRows(event.data))
        except QuarterdeckError as error:
            if running is None:
                raise
            failure = error
        take(_done(running, failure))

    def _request(self) -> "SearchRequest":
        from quarterdeck.search.model import Order  # noqa: PLC0415 - see above
        from quarterdeck.search.root.planning import SearchRequest  # noqa: PLC0415

        given: dict[str, Any] = {
            **self._document,
            "sources": tuple(self._document["sources"]),
            "timeout_s": self._timeout_s,
        }
        if "order" in given:
            given["order"] = Order(given["order"])
        return SearchRequest(**given)

    def _s3(self) -> "S3Options | None":
        """As a coordinator of this machine would be set up for it."""
        if not any(source.startswith("s3://") for source in self._document["sources"]):
            return None
        from quarterdeck.capability.settings import configuration  # noqa: PLC0415 - see above
        from quarterdeck.config import InvalidSettingsError  # noqa: PLC0415
        from quarterdeck.stores.objects import S3Options  # noqa: PLC0415

        try:
            return S3Options(**configuration(self._capabilities).load_coordinator(None, {}).s3.options())
        except InvalidSettingsError as error:
            raise InvalidSettingsError("coordinator", error.problems, "the bucket was not asked") from None


def _done(search: "RunningSearch", failure: QuarterdeckError | None) -> Done:
    machine = search.driver.machine
    return Done(
        ToldStatus(search.status.value) if failure is None else ToldStatus.ERROR,
        failure,
        tuple(Problem(one.url, one.why, one.lines) for one in search.problems.told()),
        search.matches,
        search.searched_bytes,
        len(machine.chunks),
        len(search.workers()),
        machine.retried,
        search.seconds,
    )
