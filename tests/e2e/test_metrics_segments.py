"""Segments that are gone or damaged: a query says which, or leaves them out whole and says so, as its client likes."""

import itertools
import json
import os
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pyarrow.parquet  # pyright: ignore[reportMissingTypeStubs] - it has none
import pytest

from tests.e2e.conftest import FOUR, SHARDS, WAVE
from tests.e2e.crew import Coordinator, Document, Worker, until
from tests.e2e.promql import Ask, answer, asked
from tests.e2e.samples import Samples, Store

pytestmark = pytest.mark.xdist_group("e2e-shared")

_parquet: Any = pyarrow.parquet


@dataclass(frozen=True)
class Broken:
    """A metric of its own, in four segments, one of which is about to be damaged."""

    samples: Samples
    files: list[Path]
    series: set[str]
    """Of the segment that is damaged, by their label `n`."""

    @property
    def victim(self) -> Path:
        return self.files[1]

    @property
    def ask(self) -> Ask:
        return self.samples.ask("$m", step_s=300).of(FOUR)

    def without_victim(self) -> list[Document]:
        """The truth of all other segments."""
        return [one for one in self.samples.truth(self.ask) if one["metric"]["n"] not in self.series]


@pytest.fixture
def broken(store: Store, hands: list[Worker], tmp_path: Path) -> Broken:
    assert hands
    samples = Samples(f"broken_{next(_numbers)}", series=60, times=100)
    files = store.segments(store.put(samples, FOUR, 4, tmp_path))
    assert len(files) == 4
    labels = _parquet.read_table(files[1], columns=["labels"]).column("labels").unique().to_pylist()
    return Broken(samples, files, {json.loads(text)["n"] for text in labels})


def vanish(broken: Broken) -> None:
    broken.victim.unlink()


def flip_a_byte(broken: Broken) -> None:
    """In the middle of a page with data."""
    data = bytearray(broken.victim.read_bytes())
    group = _parquet.read_metadata(broken.victim).row_group(0)
    column = next(group.column(at) for at in range(group.num_columns) if group.column(at).path_in_schema == "value")
    data[column.data_page_offset + column.total_compressed_size // 2] ^= 0x10
    broken.victim.write_bytes(data)


def truncate(broken: Broken) -> None:
    os.truncate(broken.victim, broken.victim.stat().st_size // 2)


def swap(broken: Broken) -> None:
    """A sound segment, of other samples."""
    broken.victim.write_bytes(broken.files[2].read_bytes())


def swap_for_one_of_the_same_size(broken: Broken) -> None:
    """And with the time of the old one, a nanosecond apart."""
    status = broken.victim.stat()
    size = status.st_size
    other = broken.files[2].read_bytes()
    broken.victim.write_bytes(other[:size].ljust(size, b"\0"))
    os.utime(broken.victim, ns=(status.st_atime_ns, status.st_mtime_ns + 1))


@contextmanager
def damaged(broken: Broken, damage: Callable[[Broken], None]) -> Generator[None]:
    whole = broken.victim.read_bytes()
    damage(broken)
    yield
    broken.victim.write_bytes(whole)


_numbers = itertools.count()

DAMAGES = pytest.mark.parametrize("damage", [vanish, flip_a_byte, truncate, swap, swap_for_one_of_the_same_size])


@DAMAGES
@pytest.mark.parametrize("was_read", [False, True], ids=["nobody has read it", "it was read before"])
def test_a_damaged_segment_fails_the_query_with_its_name_or_is_left_out_whole_with_a_warning(
    coordinator: Coordinator, broken: Broken, damage: Callable[[Broken], None], was_read: bool
) -> None:
    if was_read:
        assert answer(coordinator.door, broken.ask).result == broken.samples.truth(broken.ask)
    with damaged(broken, damage):
        reply = answer(coordinator.door, broken.ask)
        assert reply.error == (422, "execution")
        assert str(broken.victim) in reply.text

        partial = answer(coordinator.door, broken.ask.where(partial="allow"))
        assert partial.result == broken.without_victim()
        assert 0 < len(partial.result) < broken.samples.series
        (warning,) = partial.warnings
        assert warning.startswith("the answer is partial: ")
        assert str(broken.victim) in warning
    mended = answer(coordinator.door, broken.ask)
    assert mended.result == broken.samples.truth(broken.ask)
    assert not mended.warnings


def test_a_missing_segment_fails_questions_about_series_too_or_is_told_of_in_a_warning(
    coordinator: Coordinator, broken: Broken
) -> None:
    form: dict[str, object] = {
        "match[]": broken.samples.metric,
        "start": broken.ask.options["start"],
        "end": broken.ask.options["end"],
    }

    def series(**more: object) -> Ask:
        return Ask("", {**form, **more}, FOUR, f"/api/v1/series?{urlencode(more)}")

    with damaged(broken, vanish):
        reply = answer(coordinator.door, series())
        assert reply.error == (422, "execution")
        assert str(broken.victim) in reply.text
        partial = answer(coordinator.door, series(partial="allow"))
        found = {labels["n"] for labels in partial.document["data"]}
        assert found == {one["metric"]["n"] for one in broken.without_victim()}
        (warning,) = partial.warnings
        assert str(broken.victim) in warning
    assert len(answer(coordinator.door, series()).document["data"]) == broken.samples.series


@pytest.mark.usefixtures("hands")
def test_a_segment_deleted_while_queries_run_makes_each_answer_right_or_an_error_and_never_less(
    coordinator: Coordinator, store: Store
) -> None:
    ask = WAVE.ask("max by (job) (quantile_over_time(0.9, $m[1h]))", step_s=40).of(FOUR)
    with store.looked_into() as catalog:
        places = catalog.execute(
            "SELECT url FROM segments WHERE tenant = ? AND row_count > 50000 ORDER BY segment_id DESC", (FOUR,)
        ).fetchall()
    victims = [Path(store.lake_url) / place for (place,) in places[:SHARDS]]
    refused = 0
    for number in range(6):
        victim = victims[(5 * number) % len(victims)]
        aside = victim.with_suffix(".aside")
        with asked(coordinator.door, ask) as reply:
            until(lambda: sum(query["delivered"] for query in coordinator.running()) >= 1, "it is under way")
            victim.rename(aside)
        aside.rename(victim)
        if reply.result().status != 200:
            assert reply.result().error == (422, "execution")
            assert str(victim) in reply.result().text
            refused += 1
        else:
            assert reply.result().result == WAVE.truth(ask)
            assert not reply.result().warnings
    assert refused, "at least once it was still needed"
    assert answer(coordinator.door, ask).result == WAVE.truth(ask)
