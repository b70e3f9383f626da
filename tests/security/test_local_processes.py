"""How tools of a user find the tokens of this user's processes, and nobody else's."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from quarterdeck.security.local_processes import RUN_DIR_VARIABLE, LocalProcesses, default_folder
from quarterdeck.security.tokens import SharedToken

HERE = ("127.0.0.1", 7070)


@pytest.fixture
def token_file(tmp_path: Path) -> Path:
    SharedToken.kept_in(tmp_path / "token")
    return tmp_path / "token"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "processes"


def shown(processes: LocalProcesses, host: str = "127.0.0.1", port: int = 7070) -> str | None:
    found = processes.find(host, port)
    token = None if found is None else found.token()
    return None if token is None else token.authorization


def test_a_token_is_found_by_the_address_of_its_process(folder: Path, token_file: Path) -> None:
    processes = LocalProcesses(folder)
    assert processes.announce([HERE, ("::1", 7071), ("0.0.0.0", 7072)], token_file)
    expected = f"Bearer {token_file.read_text().strip()}"
    for host, port in [
        ("127.0.0.1", 7070),
        ("localhost", 7070),
        ("LOCALHOST", 7070),
        ("[::1]", 7071),
        ("localhost", 7071),
    ]:
        assert shown(processes, host, port) == expected
    for host in ("127.0.0.1", "localhost", "::1", "127.0.0.2"):
        assert shown(processes, host, 7072) == expected
    for host in ("[0:0:0:0:0:0:0:1]", "0::1"):
        assert shown(processes, host, 7071) == expected
    for host, port in [("127.0.0.1", 7071), ("10.0.0.7", 7070), ("quarterdeck.example", 7070), ("127.0.0.1", 1)]:
        assert shown(processes, host, port) is None


def test_the_token_itself_is_not_written_down_again(folder: Path, token_file: Path) -> None:
    LocalProcesses(folder).announce([HERE], token_file)
    token = token_file.read_text().strip()
    assert folder.stat().st_mode & 0o777 == 0o700
    assert not [file for file in folder.iterdir() if token in file.read_text()]


def test_what_was_withdrawn_is_not_found_and_what_another_announced_stays(folder: Path, token_file: Path) -> None:
    processes = LocalProcesses(folder)
    processes.announce([HERE], token_file)
    processes.withdraw([HERE])
    assert processes.find(*HERE) is None
    processes.announce([HERE], token_file)
    file = folder / "127.0.0.1-7070.json"
    file.write_text(file.read_text().replace(str(os.getpid()), "1"))
    processes.withdraw([HERE])
    assert processes.find(*HERE) is not None


def test_a_process_that_is_gone_is_told_from_one_that_lives(folder: Path, token_file: Path) -> None:
    processes = LocalProcesses(folder)
    processes.announce([HERE], token_file)
    found = processes.find(*HERE)
    assert found is not None
    assert found.is_alive
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    file = folder / "127.0.0.1-7070.json"
    file.write_text(file.read_text().replace(str(os.getpid()), str(child.pid)))
    gone = processes.find(*HERE)
    assert gone is not None
    assert not gone.is_alive


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="the system does not tell when a process began")
def test_another_process_that_got_the_number_of_one_that_is_gone_is_not_it(folder: Path, token_file: Path) -> None:
    processes = LocalProcesses(folder)
    processes.announce([HERE], token_file)
    file = folder / "127.0.0.1-7070.json"
    document = json.loads(file.read_text())
    file.write_text(json.dumps({**document, "began": str(int(document["began"]) - 1)}))
    found = processes.find(*HERE)
    assert found is not None
    assert not found.is_alive


def test_a_folder_that_others_can_enter_is_neither_read_nor_written(folder: Path, token_file: Path) -> None:
    processes = LocalProcesses(folder)
    processes.announce([HERE], token_file)
    folder.chmod(0o755)
    assert processes.find(*HERE) is None
    assert not processes.announce([HERE], token_file)


def test_a_link_that_somebody_laid_is_not_followed(folder: Path, token_file: Path, tmp_path: Path) -> None:
    elsewhere = LocalProcesses(tmp_path / "elsewhere")
    elsewhere.announce([HERE], token_file)
    folder.symlink_to(tmp_path / "elsewhere")
    assert LocalProcesses(folder).find(*HERE) is None
    assert not LocalProcesses(folder).announce([HERE], token_file)


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a folder away")
def test_a_folder_of_another_user_is_not_trusted(folder: Path, token_file: Path) -> None:
    processes = LocalProcesses(folder)
    processes.announce([HERE], token_file)
    os.chown(folder, 65534, 65534)
    assert processes.find(*HERE) is None
    assert not processes.announce([HERE], token_file)


def test_a_process_that_is_long_gone_is_forgotten_and_one_that_lives_is_not(folder: Path, token_file: Path) -> None:
    processes = LocalProcesses(folder)
    processes.announce([HERE], token_file)
    file = folder / "127.0.0.1-7070.json"
    os.utime(file, (1, 1))
    assert processes.find(*HERE) is not None
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    file.write_text(file.read_text().replace(str(os.getpid()), str(child.pid)))
    os.utime(file, (1, 1))
    assert processes.find(*HERE) is None
    assert not file.exists()
    file.write_text(f'{{"pid": {child.pid}, "token_file": "/x"}}')
    os.utime(file, (1, 1))
    processes.announce([("127.0.0.1", 7071)], token_file)
    assert not file.exists(), "nor do they gather"


@pytest.mark.parametrize("text", ["", "{}", "[1]", '{"pid": "x", "token_file": "y"}', "\x00" * 10_000, '{"pid": 1'])
def test_what_is_damaged_is_nothing(folder: Path, token_file: Path, text: str) -> None:
    processes = LocalProcesses(folder)
    processes.announce([HERE], token_file)
    (folder / "127.0.0.1-7070.json").write_text(text)
    assert processes.find(*HERE) is None


def test_where_nothing_can_be_written_it_says_so(tmp_path: Path, token_file: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    assert not LocalProcesses(blocked / "below").announce([HERE], token_file)


def test_the_environment_decides_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(RUN_DIR_VARIABLE, raising=False)
    before = default_folder()
    for variable in ("HOME", "TMPDIR", "XDG_RUNTIME_DIR"):
        monkeypatch.setenv(variable, "/nonexistent")
    assert default_folder() == before
    assert str(os.getuid()) in before.name
    monkeypatch.setenv(RUN_DIR_VARIABLE, "/run/quarterdeck")
    assert default_folder() == Path("/run/quarterdeck")
