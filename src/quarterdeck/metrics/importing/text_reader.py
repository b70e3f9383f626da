"""Samples from text, in either format: `splitting` reads what it is sure of at once, and everything else is read
strictly, line by line.

Mistakes are reported in the order of the file: a line counts as wrong only if all lines before it are right. So
whatever is not sure in a block of lines is read strictly and in order, and nothing else can fail.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow  # pyright: ignore[reportMissingTypeStubs] - it has none
from numpy.typing import NDArray

from quarterdeck.metrics.importing.batches import BATCH_SAMPLES, SampleBatch
from quarterdeck.metrics.importing.dialects import Dialect
from quarterdeck.metrics.importing.errors import Malformed, SourceError, bad_file, bad_line, told_with
from quarterdeck.metrics.importing.line_source import MAX_LINE_BYTES, LinePiece, LineSource, unfinished
from quarterdeck.metrics.importing.metadata_lines import MetadataBook
from quarterdeck.metrics.importing.sample_lines import SampleLine, read_sample
from quarterdeck.metrics.importing.series_table import Places, SeriesTable
from quarterdeck.metrics.importing.splitting import SplitPiece, split
from quarterdeck.metrics.model import MetricMetadata

_arrow: Final[Any] = pyarrow

_BLOCK_BYTES: Final = 64 << 20
"""Of very long lines fewer make a batch."""
_END: Final = b"# EOF"


@dataclass(frozen=True, slots=True, eq=False)
class _Stretch:
    """A piece, what was taken apart of it, and what must be looked at after it."""

    data: bytes
    first_line: int
    split: SplitPiece
    broken: bytes
    """A line after those of `split` that is wrong for certain."""
    fault: Malformed | None
    """What is wrong with it; None: there is no such line."""

    def line(self, at: int) -> bytes:
        """A line counted from 0, without its line end."""
        parts = self.split
        return self.broken if at == parts.starts.size else self.data[parts.starts[at] : parts.ends[at]]

    def has_line(self, at: int) -> bool:
        return at < self.split.starts.size + (self.fault is not None)


class TextReader:
    """A `SampleReader` of one file. The two formats are its subclasses."""

    def __init__(self, path: Path, dialect: Dialect, *, name: str = "", at_ms: int | None = None) -> None:
        """`name` is what errors call the file, if not by its path. `at_ms` is the time of samples that have none of
        their own; without it they are errors."""
        self.path: Final = path
        self._name: Final = name or path
        self._at_ms: Final = at_ms
        self._dialect: Final = dialect
        with told_with(self._name, "it cannot be opened", "check the file"):
            self._size_bytes: Final = path.stat().st_size
        self._read_bytes = 0
        self._book: Final = MetadataBook(dialect)
        self._series: Final = SeriesTable(spaced=dialect.spaced)
        self._line_count = 0
        self._ended = False

    @property
    def size_bytes(self) -> int:
        return self._size_bytes

    @property
    def read_bytes(self) -> int:
        return self._read_bytes

    @property
    def metadata(self) -> Mapping[str, MetricMetadata]:
        return self._book.by_metric

    def batches(self) -> Iterator[SampleBatch]:
        """To be asked for once."""
        with LineSource(self.path, str(self._name)) as source:
            block: list[_Stretch] = []
            for piece in source.pieces():
                block.append(self._stretch(piece))
                self._read_bytes = source.read_bytes
                lines = sum(stretch.split.starts.size for stretch in block)
                if lines >= BATCH_SAMPLES or sum(len(stretch.data) for stretch in block) >= _BLOCK_BYTES:
                    yield from self._batch(block)
                    block = []
            yield from self._batch(block)
            self._read_bytes = source.read_bytes
        if self._dialect.has_end and not self._ended:
            raise self._truncated()

    def _stretch(self, piece: LinePiece) -> _Stretch:
        data, tail = piece
        if tail == _END and self._dialect.has_end:  # the one line that needs no line end
            data, tail = data + tail + b"\n", b""
        fault = unfinished(tail) if tail else None
        text = _text_of(data)
        if len(text) < len(data):
            tail = data[len(text) : data.index(b"\n", len(text))]
            fault = Malformed("it is no UTF-8", "write the file in UTF-8")
        first_line = self._line_count + 1
        parts = split(text, self._dialect, self._at_ms)
        self._line_count += parts.starts.size
        return _Stretch(text, first_line, parts, tail, fault)

    def _batch(self, block: list[_Stretch]) -> Iterator[SampleBatch]:
        if not block:
            return
        places = Places()
        found = self._places_of(block, places)
        parts = [self._settle(stretch, known, places) for stretch, known in zip(block, found, strict=True)]
        labels = places.labels()
        if not labels:
            return
        series, timestamps, values = (np.concatenate(columns) for columns in zip(*parts, strict=True))
        yield SampleBatch(labels, series, timestamps, values)

    def _places_of(self, block: list[_Stretch], places: Places) -> list[NDArray[np.int32]]:
        """For each line taken apart the place of its series; -1 where its text is no series."""
        texts = _arrow.chunked_array([stretch.split.series for stretch in block], _arrow.string())
        encoded = texts.dictionary_encode()
        if not len(encoded):
            return [np.zeros(0, np.int32) for _ in block]
        distinct: list[str] = encoded.chunk(encoded.num_chunks - 1).dictionary.to_pylist()
        known = [self._series.find(text) for text in distinct]
        by_code = np.array([-1 if one is None else places.place_of(one) for one in known], np.int32)
        codes = np.concatenate([chunk.indices.to_numpy() for chunk in encoded.chunks])
        bounds = np.cumsum([stretch.split.taken.size for stretch in block])[:-1]
        return np.split(by_code[codes], bounds)

    def _settle(self, stretch: _Stretch, found: NDArray[np.int32], places: Places) -> tuple[Any, Any, Any]:
        """Series, times and values of all samples of a stretch; raises for its first wrong line."""
        parts = stretch.split
        columns = (found, parts.timestamps, parts.values)
        self._insist_on_end(stretch, 0)
        sure = found >= 0
        unsure = np.concatenate((parts.untaken, parts.taken[~sure]))
        if unsure.size:
            unsure.sort()
            lines: list[int] = []
            samples: list[SampleLine] = []
            for line in unsure.tolist():
                sample = self._read_line(stretch, line)
                if sample is not None:
                    lines.append(line)
                    samples.append(sample)
            columns = _merged(parts.taken[sure], tuple(column[sure] for column in columns), lines, samples, places)
        if stretch.fault is not None:
            raise self._wrong(stretch, parts.starts.size, stretch.fault)
        return columns

    def _read_line(self, stretch: _Stretch, line: int) -> SampleLine | None:
        try:
            sample = self._understand(stretch.line(line))
        except Malformed as fault:
            raise self._wrong(stretch, line, fault) from None
        self._insist_on_end(stretch, line + 1)
        return sample

    def _understand(self, raw: bytes) -> SampleLine | None:
        """What a line has; None for a line without a sample."""
        if len(raw) > MAX_LINE_BYTES:
            raise unfinished(raw)
        line = raw.decode()
        if line.endswith("\r"):
            raise Malformed("it ends in a carriage return", "write line feeds alone as line ends")
        dialect = self._dialect
        if dialect.spaced:
            line = line.strip(" \t")
        if line.startswith("#"):
            if raw == _END and dialect.has_end:
                self._ended = True
            else:
                self._book.read(line)
            return None
        if not line and not dialect.spaced:
            raise Malformed("the line is empty", f"remove it: {dialect.name} has no empty lines")
        return read_sample(line, dialect, self._at_ms) if line else None

    def _insist_on_end(self, stretch: _Stretch, line: int) -> None:
        """Raises when the end was told and there is this line still."""
        if self._ended and stretch.has_line(line):
            fault = Malformed("the line stands after # EOF", "leave # EOF only at the very end of the file")
            raise self._wrong(stretch, line, fault)

    def _wrong(self, stretch: _Stretch, line: int, fault: Malformed) -> SourceError:
        return bad_line(self._name, stretch.first_line + line, stretch.line(line), fault)

    def _truncated(self) -> SourceError:
        return bad_file(
            self._name,
            f"it ends after line {self._line_count} without # EOF: it is truncated, or it is not OpenMetrics",
            "copy or write it again; if it is complete, append a line with # EOF; if it is Prometheus' text format, "
            "whose times are in milliseconds, import it as that",
        )


def _text_of(data: bytes) -> bytes:
    """The lines before the first that is no UTF-8."""
    bounds = _arrow.py_buffer(np.array([0, len(data)], np.int64))
    whole = _arrow.Array.from_buffers(_arrow.large_string(), 1, [None, bounds, _arrow.py_buffer(data)])
    try:
        whole.validate(full=True)  # ten times as fast as decoding
    except _arrow.ArrowInvalid:
        try:
            data.decode()
        except UnicodeDecodeError as error:
            return data[: data.rfind(b"\n", 0, error.start) + 1]
    return data


def _merged(
    lines: Any, columns: tuple[Any, ...], more_lines: list[int], more: list[SampleLine], places: Places
) -> tuple[Any, Any, Any]:
    """Samples read at once and samples read one by one, in the order of their lines."""
    order = np.argsort(np.concatenate((lines, np.array(more_lines, np.int64))), kind="stable")
    series, timestamps, values = columns
    return (
        np.concatenate((series, np.array([places.place_of(one.labels) for one in more], np.int32)))[order],
        np.concatenate((timestamps, np.array([one.timestamp_ms for one in more], np.int64)))[order],
        np.concatenate((values, np.array([one.value for one in more], np.float64)))[order],
    )
