"""What both ends agree on: names, stamps, and the folder that is emptied at a start."""

import re
from pathlib import Path
from typing import Any

import pytest

from quarterdeck.crew.artifacts.format import Stamp, new_name, prepare_folder
from tests.crew.artifacts.harness import Depot, files_in, noise, rows


def test_no_two_names_are_alike_and_each_has_128_random_bits() -> None:
    names = {new_name() for _ in range(1000)}
    assert len(names) == 1000
    assert all(re.fullmatch(r"[0-9a-f]{32}\.parquet", name) for name in names)


def test_a_stamp_comes_back_from_its_metadata() -> None:
    stamp = Stamp(3, -5, 2**60)
    encoded = {name.encode(): value.encode() for name, value in stamp.encoded().items()}
    assert Stamp.decoded(encoded | {b"ARROW:schema": b"..."}) == stamp


@pytest.mark.parametrize("missing", list(Stamp(0, 1, 2).encoded()))
def test_metadata_without_a_part_of_the_stamp_says_which(missing: str) -> None:
    encoded = {name.encode(): value.encode() for name, value in Stamp(0, 1, 2).encoded().items() if name != missing}
    with pytest.raises(ValueError, match=re.escape(missing)):
        Stamp.decoded(encoded)


def test_a_stamp_that_is_no_number_is_refused() -> None:
    encoded = {name.encode(): b"soon" for name in Stamp(0, 1, 2).encoded()}
    with pytest.raises(ValueError, match="soon"):
        Stamp.decoded(encoded)


def test_a_start_removes_what_an_earlier_process_left_and_nothing_else(tmp_path: Path) -> None:
    folder = tmp_path / "a" / "b"
    prepare_folder(folder)
    for name in (new_name(), f"{new_name()}.part", "notes.parquet", "README"):
        (folder / name).write_bytes(b"x")
    prepare_folder(folder)
    assert files_in(folder) == ["README", "notes.parquet"]


@pytest.mark.parametrize("batches", [[], [rows(-7, 1)], [rows(2**61, 2000)], [noise(megabytes=1)]])
def test_the_stamp_of_an_artifact_is_seen_without_reading_its_footer(tmp_path: Path, batches: list[Any]) -> None:
    depot = Depot(tmp_path)
    artifact = depot.make(*batches)
    stamp = Stamp(artifact.row_count, artifact.min_ts, artifact.max_ts, artifact.parquet_schema_version)
    assert Stamp.glimpsed(depot.content(artifact)) == stamp


def test_no_stamp_is_seen_where_there_is_none_or_half_a_one(tmp_path: Path) -> None:
    depot = Depot(tmp_path)
    content = depot.content(depot.make(rows(0, 3)))
    assert Stamp.glimpsed(content) is not None
    damaged = [content[:at] + b"?" + content[at + 1 :] for at in range(content.index(b"quarterdeck."), len(content))]
    for other in (b"", b"PAR1", b"PAR1PAR1", content[:-1], content[1:], content[4:], content[:8] + content[-8:]):
        assert Stamp.glimpsed(other) is None
    for other in damaged:  # whatever is made of it, nothing is raised
        Stamp.glimpsed(other)
