"""Whether the answer to a chunk agrees: its rows with what its report says was sent, and the report with the chunk.

A worker that searched what it was asked to search always passes; see `engine.searching` for what it reports. A worker
that left something out and does not say so fails. Nobody can check what is in the rows except by searching again.
"""

from collections.abc import Collection
from typing import Any, Final

from pyarrow import compute  # pyright: ignore[reportMissingTypeStubs] - it has none

from quarterdeck.search.engine.aggregates import state_counts
from quarterdeck.search.engine.parts import part_schema
from quarterdeck.search.engine.plan import Part, Plan
from quarterdeck.search.frames import FrameError
from quarterdeck.search.language.ast import Head, Summarize, Tail
from quarterdeck.search.model import Chunk, ChunkReport, FileKind, Sent
from quarterdeck.search.ports import RecordBatch
from quarterdeck.search.row_payloads import DIGEST_BYTES, RowsError, Tally, checked_rows

_compute: Final[Any] = compute

_ALWAYS_THERE: Final = frozenset({"pos", "line", "name", "n"})
"""Columns of which no row lacks its value."""
_ADDED_UP_MAX: Final = 2**37
"""So many records for each row that a payload has room for are added up without an overflow."""


class AnswerCheck:
    """Of one answer. Show it the payloads of all rows as they come, from one thread at a time, and then the report."""

    def __init__(self, plan: Plan, chunk: Chunk, ask_about: Collection[str]) -> None:
        self._plan = plan
        self._chunk = chunk
        self._ask_about = frozenset(ask_about)
        self._schema = part_schema(plan)
        self._came = Tally()
        self._counted = 0
        """Records that the rows stand for, as they say."""
        self._most = 0
        """That one row stands for."""

    def rows(self, payload: bytes) -> None:
        """Raises `FrameError` unless they are rows of this search, and may be used."""
        try:
            batches = checked_rows(payload, self._schema)
        except RowsError as error:
            raise FrameError(f"rows that cannot be read: {error}") from error
        for batch in batches:
            self._count(batch)
        self._came.add(payload[:DIGEST_BYTES], sum(batch.num_rows for batch in batches), len(payload))

    def report(self, report: ChunkReport, sent: Sent) -> None:
        """Raises `FrameError` unless it fits the rows and the chunk."""
        if sent != self._came.sent:
            raise FrameError(f"the report does not add up: it says {sent}, and what came is {self._came.sent}")
        for why in (self._problem_with_pieces(report), self._problem_with_matches(report.matches)):
            if why:
                raise FrameError(f"the report does not add up: {why}")
        if not report.seen <= self._ask_about:
            raise FrameError("the report tells of fields that nobody asked about")

    def _count(self, batch: RecordBatch) -> None:
        for name in _ALWAYS_THERE.intersection(batch.schema.names):
            if batch.column(name).null_count:
                raise FrameError(f"rows that cannot be read: one has no {name}")
        if "n" not in batch.schema.names:
            return
        counts = batch.column("n")
        least, most = _compute.min_max(counts).as_py().values()
        if least < 0:
            raise FrameError("rows that cannot be read: one stands for no number of records")
        if isinstance(self._plan.stage, Summarize):
            _insist_on_counts(self._plan.stage, batch)
        self._counted += _compute.sum(counts).as_py() if most <= _ADDED_UP_MAX else sum(counts.to_pylist())
        self._most = max(self._most, most)

    def _problem_with_pieces(self, report: ChunkReport) -> str | None:
        """Every piece was searched, or has a problem, or was not needed for the first rows."""
        pieces = self._chunk.pieces
        if strange := {problem.url for problem in report.problems} - {piece.url for piece in pieces}:
            return f"it has a problem with {min(strange)[:200]!r}, which is not in the chunk"
        failed = {problem.url for problem in report.problems if not problem.lines}
        lengths = [piece.length_bytes for piece in pieces if piece.url not in failed]
        searched, wanted = (report.pieces, report.scanned_bytes), (len(lengths), sum(lengths))
        is_enough = self._plan.first is not None and self._came.sent.rows == self._plan.first
        if searched == wanted or (is_enough and searched[0] <= wanted[0] and searched[1] <= wanted[1]):
            return None
        return "{} pieces with {:,} bytes were searched, of {} with {:,} bytes".format(*searched, *wanted)

    def _problem_with_matches(self, matches: int) -> str | None:
        """Nothing is in the rows that did not match; and nothing that matched is missing, as far as rows tell."""
        rows, plan = self._came.sent.rows, self._plan
        pieces = self._chunk.pieces
        if all(piece.kind is FileKind.NDJSON for piece in pieces) and matches > self._chunk.size_bytes:
            return (
                f"{matches} records are said to match, and so many lines cannot begin in {self._chunk.size_bytes} bytes"
            )
        match plan.part:
            case Part.RECORDS:
                told, is_whole = rows, True
            case Part.SOME:
                assert isinstance(plan.stage, Head | Tail)
                if rows > plan.stage.count:
                    return f"{rows} rows came, and {plan.stage.count} were asked for"
                told, is_whole = rows, rows < plan.stage.count
            case Part.DISTINCT | Part.GROUPS:
                told, is_whole = self._counted, True
            case Part.FIELDS:
                told, is_whole = self._most, False
        # What a cut leaves nothing of matches, and is no row.
        if told > matches or (is_whole and told < matches and not plan.cuts):
            return f"the rows stand for {told} records, and {matches} are said to match"
        return None


def _insist_on_counts(stage: Summarize, batch: RecordBatch) -> None:
    """An aggregate counts records of its group: all of them, or some of them and never more."""
    for state in state_counts(stage):
        left = batch.column("n")
        for name in state.columns:
            counted = _compute.fill_null(batch.column(name), 0)
            if _compute.min(counted).as_py() < 0:
                raise FrameError("the rows do not add up: an aggregate counts fewer records than none")
            left = _compute.subtract(left, counted)  # neither is below 0: no overflow
            if _compute.min(left).as_py() < 0:
                raise FrameError("the rows do not add up: an aggregate counts more records than its group has")
        if state.is_of_all and _compute.max(left).as_py() > 0:
            raise FrameError("the rows do not add up: an aggregate counts fewer records than its group has")
