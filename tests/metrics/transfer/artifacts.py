"""Leaf blocks through a real artifact: written by a worker's spool, read as the coordinator reads what it fetched."""

from collections.abc import Iterable
from pathlib import Path

from quarterdeck.core.workcoord.model import Artifact
from quarterdeck.crew.artifacts.fetched import FetchedArtifact
from quarterdeck.metrics.promql.flow.leaf import LeafBlock
from quarterdeck.metrics.promql.notes import Notes
from quarterdeck.metrics.promql.plan.leaves import BaseExpr
from quarterdeck.metrics.transfer.leaf_blocks import LeafReader, LeafWriter
from quarterdeck.metrics.transfer.notes_text import Report
from tests.crew.artifacts.harness import Depot, attempt_id


class Ferry:
    """Carries one answer after the other."""

    def __init__(self, folder: Path, memory_limit_bytes: int = 64 * 1024 * 1024) -> None:
        self._depot = Depot(folder, memory_limit_bytes=memory_limit_bytes)
        self.last: Artifact | None = None

    def write(self, leaf: BaseExpr, blocks: Iterable[LeafBlock], notes: Notes, report: Report) -> FetchedArtifact:
        """An artifact of an answer; the one before is gone."""
        self._depot.spool.drop(attempt_id())
        artifact_writer = self._depot.spool.create(attempt_id())
        writer = LeafWriter(leaf, artifact_writer)
        for block in blocks:
            writer.write(block)
        writer.finish(notes, report)
        self.last = artifact_writer.finish()
        file = self._depot.spool.find(self.last.url.rpartition("/")[2])
        assert file is not None
        return FetchedArtifact(self.last, file.data, file.path)

    def carry(
        self, leaf: BaseExpr, blocks: Iterable[LeafBlock], notes: Notes | None = None, report: Report | None = None
    ) -> LeafReader:
        """What comes out of the artifact of an answer."""
        return LeafReader(leaf, self.write(leaf, blocks, notes or Notes(), report or {}).read_batches())
