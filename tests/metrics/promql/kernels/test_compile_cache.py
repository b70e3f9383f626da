"""Compiled code on disk: a broken file, or none that can be written, costs time and nothing else."""

import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest

from quarterdeck.metrics.promql.kernels import compile as compiling

KERNEL = """
from quarterdeck.metrics.promql.kernels.compile import part_of_kernel

@part_of_kernel
def double(number):
    return number * 2
"""


def load(file: Path) -> Any:
    """The kernel of a file, as a process that has just started sees it."""
    spec = importlib.util.spec_from_file_location("kernel_on_trial", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.double


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(cast("Any", compiling)._config, "CACHE_DIR", "")
    file = tmp_path / "kernel_on_trial.py"
    file.write_text(KERNEL)
    return file


def was_loaded(compiled: Any) -> bool:
    return bool(compiled.stats.cache_hits)


def cut_short(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:50])


def write_garbage(file: Path) -> None:
    file.write_text("garbage\n")


def empty(file: Path) -> None:
    file.write_bytes(b"")


@pytest.mark.parametrize("pattern", ["*.nbi", "*.nbc"])
@pytest.mark.parametrize("damage", [cut_short, write_garbage, empty])
def test_a_broken_file_is_made_anew(file: Path, pattern: str, damage: Callable[[Path], None]) -> None:
    assert load(file)(21.0) == 42.0
    again = load(file)
    assert again(21.0) == 42.0
    assert was_loaded(again), "or this test says nothing"
    broken = list(file.parent.rglob(pattern))
    assert broken
    for one in broken:
        damage(one)
    mended = load(file)
    assert mended(21.0) == 42.0
    assert not was_loaded(mended)
    later = load(file)
    assert later(21.0) == 42.0
    assert was_loaded(later)


def test_a_full_disk_does_not_keep_a_kernel_from_running(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_room(*_: object) -> None:
        raise OSError(28, "No space left on device")

    cache: Any = cast("Any", compiling)._caching.IndexDataCacheFile
    monkeypatch.setattr(cache, "save", no_room)
    assert load(file)(21.0) == 42.0
