"""A peer is found on the PATH, then among what was fetched; without either the reason says what to do."""

from pathlib import Path

import pytest

from checks import peers
from checks.peers import PROMETHEUS, PeerMissingError


@pytest.fixture(autouse=True)
def nothing_is_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peers, "_FOLDER", tmp_path / "peers")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))


def _program(path: Path, text: str = "#!/bin/sh\n") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


def test_a_program_on_the_path_comes_before_a_fetched_one(tmp_path: Path) -> None:
    assert peers.find(PROMETHEUS) is None
    fetched = _program(PROMETHEUS.unpacked)
    assert peers.fetch(PROMETHEUS) == fetched
    installed = _program(tmp_path / "bin" / "prometheus")
    assert peers.fetch(PROMETHEUS) == installed


def test_without_debians_tools_it_says_to_install_the_program() -> None:
    with pytest.raises(PeerMissingError, match="install prometheus"):
        peers.fetch(PROMETHEUS)


def test_a_package_that_is_not_to_be_had_leaves_nothing_behind(tmp_path: Path) -> None:
    for tool in ("apt-get", "dpkg"):
        _program(tmp_path / "bin" / tool, "#!/bin/sh\nexit 100\n")
    with pytest.raises(PeerMissingError, match="apt-get update"):
        peers.fetch(PROMETHEUS)
    assert list((tmp_path / "peers").iterdir()) == []


def test_a_package_is_downloaded_once_the_lists_are_there_and_unpacked(tmp_path: Path) -> None:
    _program(
        tmp_path / "bin" / "apt-get",
        f'#!/bin/sh\nif [ "$1" = update ]; then : > {tmp_path}/lists; exit 0; fi\n'
        f"[ -e {tmp_path}/lists ] || exit 100\n: > prometheus_1_all.deb\n",
    )
    _program(
        tmp_path / "bin" / "dpkg",
        '#!/bin/sh\nPATH=/usr/bin:/bin\nmkdir -p "$3/usr/bin" && echo "$2" > "$3/usr/bin/prometheus"\n',
    )
    assert peers.fetch(PROMETHEUS).read_text() == "prometheus_1_all.deb\n"
    assert [path.name for path in (tmp_path / "peers").iterdir()] == ["prometheus"]
