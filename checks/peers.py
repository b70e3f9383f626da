"""Fetches the programs of others that tests and benchmarks compare with, into `.tools/peers`; nothing is installed.

`python -m checks.peers` fetches what is missing and says where each one is. A program on the PATH is taken first.
"""

import argparse
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

_FOLDER: Final = Path(__file__).parent.parent / ".tools" / "peers"


@dataclass(frozen=True, slots=True)
class Peer:
    """A program of a Debian package."""

    package: str
    program: str

    @property
    def unpacked(self) -> Path:
        """Where the program is once it was fetched."""
        return _FOLDER / self.package / "usr" / "bin" / self.program


PROMETHEUS: Final = Peer("prometheus", "prometheus")
VICTORIA_METRICS: Final = Peer("victoria-metrics", "victoria-metrics")
PEERS: Final = (PROMETHEUS, VICTORIA_METRICS)


class PeerMissingError(Exception):
    """The program is not here and was not to be had; the text says what to do."""


def find(peer: Peer) -> Path | None:
    """The program, if it is here."""
    on_path = shutil.which(peer.program)
    if on_path is not None:
        return Path(on_path)
    return peer.unpacked if peer.unpacked.exists() else None


def fetch(peer: Peer, limit_s: float = 30.0) -> Path:
    """The program, downloaded and unpacked when it is not here. Safe to call from several processes at once.

    `limit_s` is for each of the at most four commands it takes; a test has two minutes in all.
    """
    found = find(peer)
    if found is not None:
        return found
    for tool in ("apt-get", "dpkg"):
        if shutil.which(tool) is None:
            raise PeerMissingError(f"{peer.program} is not on the PATH and there is no {tool}: install {peer.program}")
    _FOLDER.mkdir(parents=True, exist_ok=True)
    # Unpacked beside its place and moved there whole, so that nobody ever sees half a package.
    with TemporaryDirectory(dir=_FOLDER, prefix=f".{peer.package}-") as name:
        folder = Path(name)
        try:
            _download(peer.package, folder, limit_s)
            [archive] = folder.glob("*.deb")
            _run(["dpkg", "-x", archive.name, "unpacked"], folder, limit_s)
        except (OSError, subprocess.SubprocessError, ValueError) as error:
            raise PeerMissingError(
                f"{peer.program} was not to be had from Debian's packages ({error}): "
                f"install it, or run `apt-get update` and then `python -m checks.peers`"
            ) from error
        _move(folder / "unpacked", _FOLDER / peer.package)
    return peer.unpacked


def _download(package: str, folder: Path, limit_s: float) -> None:
    try:
        _run(["apt-get", "download", "-qq", package], folder, limit_s)
    except subprocess.CalledProcessError:
        # No list of packages, or an old one that names a version that is gone.
        _run(["apt-get", "update", "-qq"], folder, limit_s)
        _run(["apt-get", "download", "-qq", package], folder, limit_s)


def _run(command: list[str], folder: Path, limit_s: float) -> None:
    environment = {**os.environ, "LC_ALL": "C", "DEBIAN_FRONTEND": "noninteractive"}
    subprocess.run(command, cwd=folder, env=environment, check=True, capture_output=True, timeout=limit_s)


def _move(unpacked: Path, place: Path) -> None:
    try:
        unpacked.rename(place)
    except OSError:
        if not place.exists():  # else another process was faster
            raise


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m checks.peers", description=__doc__)
    parser.parse_args()
    missing = 0
    for peer in PEERS:
        try:
            print(f"{peer.program}: {fetch(peer, limit_s=600.0)}")
        except PeerMissingError as error:
            print(f"{peer.program}: {error}", file=sys.stderr)
            missing += 1
    return min(missing, 1)


if __name__ == "__main__":
    sys.exit(main())
