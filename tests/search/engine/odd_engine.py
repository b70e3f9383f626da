"""A search engine that does what none should, when a query or a file's name asks for it. It runs in an engine's
process."""

import os
import signal
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from quarterdeck.engines.stop_signal import StopSignal
from quarterdeck.search.engine.search_engine import Answer, SearchEngine
from quarterdeck.search.engine.search_question import SearchQuestion

ENGINE: Final = "tests.search.engine.odd_engine:OddSearchEngine"
CRASH, DEAF, GROW = "oddcrash", "odddeaf", "oddgrow"
LIE, STRANGE, WAIT = "oddlie", "oddstrange", "oddwait"
"""Words of a query, or parts of a file's name."""


class _Lying:
    """Says something else at the end than a report."""

    def __init__(self, answer: Any, *, schema: Any = None) -> None:
        self.schema = answer.schema if schema is None else schema
        self.fraction = 1.0
        self._answer = answer

    def __iter__(self) -> Iterator[Any]:
        return iter(self._answer) if self.schema.equals(self._answer.schema) else iter(())

    def last(self) -> bytes:
        return b'{"scanned_bytes": -1}'


class _Waiting:
    """Says nothing from the half of it on, until its first file is gone."""

    def __init__(self, answer: Any, path: Path | None) -> None:
        self.schema = answer.schema
        self.fraction = 0.5
        self._answer = answer
        self._path = path

    def __iter__(self) -> Iterator[Any]:
        rows = list(self._answer)
        while self._path is not None and self._path.exists():
            time.sleep(0.01)
        return iter(rows)

    def last(self) -> bytes:
        self.fraction = 1.0
        return self._answer.last()


class OddSearchEngine(SearchEngine):
    @contextmanager
    def answer(self, question: memoryview, stop: StopSignal) -> Generator[Answer]:
        asked = SearchQuestion.decode(question)
        words = {asked.spec.query if asked.spec is not None else "", *(each.piece.url for each in asked.pieces)}
        if any(CRASH in word for word in words):
            os.kill(os.getpid(), signal.SIGSEGV)
        if DEAF in words:
            while True:
                signal.sigtimedwait([], 3600)
        if GROW in words:
            hoard = list[bytes]()
            while True:
                hoard.append(b"x" * (16 * 1024 * 1024))
        with super().answer(question, stop) as answer:
            odd: Any = answer
            if LIE in words:
                odd = _Lying(answer)
            if WAIT in words:
                odd = _Waiting(answer, asked.pieces[0].path)
            if STRANGE in words:
                odd = _Lying(answer, schema=answer.schema.remove(0))
            yield odd
