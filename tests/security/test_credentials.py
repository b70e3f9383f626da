"""To whom the token is shown, and who is not even called."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from quarterdeck.core.errors import ErrorCode
from quarterdeck.security.credentials import Credentials, NotShownError
from quarterdeck.security.local_processes import LocalProcesses
from quarterdeck.security.tokens import SharedToken

GIVEN = SharedToken.from_text("given-by-somebody-for-all")
OWN = SharedToken.from_text("made-by-this-process-here")


@pytest.fixture
def processes(tmp_path: Path) -> LocalProcesses:
    return LocalProcesses(tmp_path / "processes")


@pytest.fixture
def neighbour(tmp_path: Path, processes: LocalProcesses) -> SharedToken:
    """The token of a process that listens at 7070."""
    token = SharedToken.kept_in(tmp_path / "token")
    processes.announce([("127.0.0.1", 7070)], tmp_path / "token")
    return token


def test_over_tls_a_given_token_is_shown_and_an_own_one_is_nobodys_business(processes: LocalProcesses) -> None:
    given, own = Credentials(GIVEN, processes=processes), Credentials(OWN, is_own=True, processes=processes)
    assert given.authorization_for("crew.example", 443, encrypted=True) == GIVEN.authorization
    assert own.authorization_for("crew.example", 443, encrypted=True) is None


@pytest.mark.parametrize("host", ["10.0.0.7", "crew.example", "0.0.0.0"])
def test_in_clear_to_another_machine_it_is_not_shown(processes: LocalProcesses, host: str) -> None:
    with pytest.raises(NotShownError, match="would travel in clear") as caught:
        Credentials(GIVEN, processes=processes).authorization_for(host, 7070, encrypted=False)
    assert caught.value.code is ErrorCode.PERMISSION_DENIED
    assert "--insecure" in caught.value.next_step
    assert "given-by" not in str(caught.value)


def test_whoever_allows_it_has_it_shown(processes: LocalProcesses) -> None:
    credentials = Credentials(GIVEN, insecure=True, processes=processes)
    assert credentials.authorization_for("10.0.0.7", 7070, encrypted=False) == GIVEN.authorization


def test_an_own_token_never_leaves_this_machine(processes: LocalProcesses) -> None:
    for insecure in (False, True):
        credentials = Credentials(OWN, is_own=True, insecure=insecure, processes=processes)
        assert credentials.authorization_for("10.0.0.7", 7070, encrypted=False) is None


def test_a_neighbour_is_shown_its_own_token(processes: LocalProcesses, neighbour: SharedToken) -> None:
    for credentials in (
        Credentials(None, processes=processes),
        Credentials(OWN, is_own=True, processes=processes),
    ):
        assert not credentials.is_neighbours(neighbour.authorization)
        assert credentials.authorization_for("127.0.0.1", 7070, encrypted=False) == neighbour.authorization
        assert credentials.is_neighbours(neighbour.authorization)
        assert not credentials.is_neighbours(OWN.authorization)
        assert not credentials.is_neighbours(None)


@pytest.mark.usefixtures("neighbour")
def test_a_token_that_was_given_is_shown_whatever_a_neighbour_has(processes: LocalProcesses) -> None:
    credentials = Credentials(GIVEN, processes=processes)
    assert credentials.authorization_for("127.0.0.1", 7070, encrypted=False) == GIVEN.authorization


def test_who_announced_nothing_is_shown_what_was_given_and_nothing_of_our_own(processes: LocalProcesses) -> None:
    assert Credentials(GIVEN, processes=processes).authorization_for("127.0.0.1", 1, encrypted=False) is not None
    assert Credentials(OWN, is_own=True, processes=processes).authorization_for("localhost", 1, encrypted=False) is None
    assert Credentials(None, processes=processes).authorization_for("::1", 1, encrypted=False) is None


@pytest.mark.usefixtures("neighbour")
def test_a_port_whose_process_is_gone_is_a_strangers_and_not_called(tmp_path: Path, processes: LocalProcesses) -> None:
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    file = tmp_path / "processes" / "127.0.0.1-7070.json"
    file.write_text(file.read_text().replace(str(os.getpid()), str(child.pid)))
    for credentials in (Credentials(GIVEN, processes=processes), Credentials(OWN, is_own=True, processes=processes)):
        with pytest.raises(NotShownError, match="is gone"):
            credentials.authorization_for("127.0.0.1", 7070, encrypted=False)


@pytest.mark.parametrize("leaves", ["in order", "long ago"])
@pytest.mark.parametrize("token", [GIVEN, None])
def test_who_was_called_once_is_known_to_be_gone_also_when_nothing_tells_it(
    tmp_path: Path, processes: LocalProcesses, token: SharedToken | None, leaves: str
) -> None:
    """Somebody else may have waited for its port; and it may come back."""
    here = ("127.0.0.1", 7070)
    SharedToken.kept_in(tmp_path / "token")
    processes.announce([here], tmp_path / "token")
    folder = tmp_path / "processes"
    file = folder / "127.0.0.1-7070.json"
    announced = file.read_text()
    credentials = Credentials(token, processes=processes)
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        file.write_text(json.dumps({"pid": child.pid, "token_file": str(tmp_path / "token")}))
        expected = credentials.authorization_for(*here, encrypted=False)
        assert expected is not None
        folder.rename(tmp_path / "cleaned-up")
        assert credentials.authorization_for(*here, encrypted=False) == expected, "it lives, whoever deletes the folder"
        (tmp_path / "cleaned-up").rename(folder)
        if leaves == "in order":
            file.unlink()
            with pytest.raises(NotShownError, match="is gone"):
                credentials.authorization_for(*here, encrypted=False)
        child.communicate(b"\n")
    if leaves == "long ago":
        os.utime(file, (1, 1))
    for _ in range(2):
        with pytest.raises(NotShownError, match="is gone"):
            credentials.authorization_for(*here, encrypted=False)
    assert not file.exists()
    file.write_text(announced)
    assert credentials.authorization_for(*here, encrypted=False) == expected
