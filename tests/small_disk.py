"""A file system of a few megabytes, which is full soon."""

import os
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def a_disk(options: str, tmp_path: Path, *, in_sight: bool = False) -> Generator[Path]:
    """A small file system; skips where none may be mounted.

    It is taken out of sight as soon as it is there and reached by its descriptor alone, so it ends with this process,
    however that ends, and is in nobody's way. In sight is what somebody reaches who follows symbolic links by himself.
    """
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", options, "quarterdeck-test", str(folder)]
    try:
        mounted = subprocess.run(mount, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        pytest.skip("there is no mount command: a really full disk is not tested")
    if mounted.returncode:
        pytest.skip(f"no file system may be mounted here: a really full disk is not tested ({mounted.stderr.strip()})")
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        if not in_sight:
            subprocess.run(["umount", "--lazy", str(folder)], check=True)
        yield folder if in_sight else Path(f"/proc/self/fd/{descriptor}")
    finally:
        os.close(descriptor)
        if in_sight:
            subprocess.run(["umount", "--lazy", str(folder)], check=True)


def fill(folder: Path, *, leaving: int = 0) -> None:
    found = os.statvfs(folder)
    (folder / "filling").write_bytes(bytes(found.f_bavail * found.f_frsize - leaving))
