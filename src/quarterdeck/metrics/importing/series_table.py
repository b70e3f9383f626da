"""Labels of series by their text: each text is read once as long as there is room to remember it."""

from typing import Final

from quarterdeck.metrics.importing.errors import Malformed
from quarterdeck.metrics.importing.series_text import read_series
from quarterdeck.metrics.promql.labels import Labels

_REMEMBERED_SERIES: Final = 1 << 18
"""Some 100 MB. When there are more all are forgotten: series mostly come back soon or not at all."""


class SeriesTable:
    def __init__(self, *, spaced: bool) -> None:
        self._spaced: Final = spaced
        self._known: Final[dict[str, Labels | None]] = {}
        self._pairs: Final[dict[tuple[str, str], tuple[str, str]]] = {}
        """Each label once in memory: most are those of many series."""

    def find(self, text: str) -> Labels | None:
        """The labels; None when the text is no series and nothing else."""
        try:
            return self._known[text]
        except KeyError:
            return self._remember(text)

    def _remember(self, text: str) -> Labels | None:
        if len(self._known) >= _REMEMBERED_SERIES:
            self._known.clear()
            self._pairs.clear()
        found: Labels | None
        try:
            labels, end = read_series(text, spaced=self._spaced)
            share = self._pairs.setdefault
            found = tuple([share(pair, pair) for pair in labels]) if end == len(text) else None
        except Malformed:
            found = None
        self._known[text] = found
        return found


class Places:
    """The series of one batch, each with its place."""

    def __init__(self) -> None:
        self._places: Final[dict[Labels, int]] = {}

    def place_of(self, labels: Labels) -> int:
        return self._places.setdefault(labels, len(self._places))

    def labels(self) -> tuple[Labels, ...]:
        return tuple(self._places)
