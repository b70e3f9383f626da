"""Sizes, addresses and what the machine has, each by itself."""

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quarterdeck.config import host
from quarterdeck.config.sizes import format_size, parse_size


@pytest.mark.parametrize(
    "text, size_bytes",
    [
        ("0", 0),
        ("17", 17),
        ("17B", 17),
        ("1KiB", 1024),
        ("1Ki", 1024),
        ("1kB", 1000),
        ("1.5MiB", 1572864),
        (" 2 gib ", 2 * 1024**3),
        ("3TB", 3 * 10**12),
        ("4TiB", 4 * 1024**4),
    ],
)
def test_a_size_has_a_number_and_a_unit(text: str, size_bytes: int) -> None:
    assert parse_size(text) == size_bytes


@pytest.mark.parametrize(
    "text", ["", "GiB", "1G", "1K", "1 000", "1e3", "-1", "1PiB", "1.1B", "\u0661GiB", None, 1.0, True]
)
def test_what_is_no_size_is_refused(text: object) -> None:
    with pytest.raises(ValueError, match="not a"):
        parse_size(text)


@given(st.integers(min_value=0, max_value=2**60))
def test_a_size_is_read_back_as_it_was(size_bytes: int) -> None:
    assert parse_size(format_size(size_bytes)) == size_bytes


def _bound_to(processors: int) -> Callable[[int], set[int]]:
    return lambda process: set(range(processors))


@pytest.mark.parametrize("line, cores", [("150000 100000", 2), ("50000 100000", 1), ("max 100000", 64), ("", 64)])
def test_a_containers_share_of_the_processors_counts(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, line: str, cores: int
) -> None:
    monkeypatch.setattr("os.sched_getaffinity", _bound_to(64))
    (tmp_path / "cpu.max").write_text(f"{line}\n")
    assert host.cores(tmp_path) == cores


def test_the_processors_a_process_is_bound_to_count(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("os.sched_getaffinity", _bound_to(2))
    (tmp_path / "cpu.max").write_text("800000 100000\n")
    assert host.cores(tmp_path) == 2
    assert host.cores(tmp_path / "nowhere") == 2


def test_a_containers_memory_counts(tmp_path: Path) -> None:
    installed = host.memory_bytes(tmp_path)
    assert installed > 10**8
    (tmp_path / "memory.max").write_text("1048576\n")
    assert host.memory_bytes(tmp_path) == 1048576
    (tmp_path / "memory.max").write_text("max\n")
    assert host.memory_bytes(tmp_path) == installed
    (tmp_path / "memory.max").write_text(f"{2**62}\n")
    assert host.memory_bytes(tmp_path) == installed
