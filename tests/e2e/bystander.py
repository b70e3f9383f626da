"""Somebody else, who asks one thing after the other while a test does mischief, and must not notice any of it."""

import threading
from types import TracebackType
from typing import Any, Self

from tests.e2e.crew import PATIENCE_S, Coordinator, until
from tests.e2e.door import Scan
from tests.e2e.lake import burning, same, truth

_SQL = burning(0.5)
_PAUSE_S = 0.1
"""Between two queries: enough that processes beside it get on."""


class Bystander:
    """Use it as a context: what happened in it has disturbed nobody."""

    def __init__(self, coordinator: Coordinator, files: list[str], tenant: str = "default") -> None:
        self._coordinator = coordinator
        self._files = files
        self._scan = Scan(_SQL, files, tenant)
        self._expected = truth(_SQL, files)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._ask_on, name="bystander")
        self._answers = 0
        self._trouble: list[Any] = []

    def __enter__(self) -> Self:
        self._thread.start()
        until(self._coordinator.running, "a query is under way")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join(PATIENCE_S)
        if error is None:
            assert not self._trouble
            assert self._answers > 0

    def _ask_on(self) -> None:
        """The last query begins before the end and ends after it."""
        try:
            while not self._over.is_set():
                answer = self._coordinator.door.scan(self._scan)
                query = self._coordinator.query(answer.query_id)
                if not same(answer.table, self._expected) or query["attempts"] != len(self._files):
                    self._trouble.append(query)
                self._answers += 1
                self._over.wait(_PAUSE_S)
        except Exception as error:  # noqa: BLE001 - told at the end
            self._trouble.append(error)
