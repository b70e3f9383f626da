"""Who may talk to a process: what it is given is read once, and holds at every door."""

import logging
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import pytest

from quarterdeck.control.credentials import Handshakes, channel_credentials, server_credentials
from quarterdeck.core.errors import ErrorCode, QuarterdeckError
from quarterdeck.crew.process.guard import Guard
from quarterdeck.http.client import Origin, UnreachableError
from quarterdeck.security.local_processes import LocalProcesses
from tests.security.certificates import Crew

TOKEN = "correct-horse-battery"
VARIABLE = "QUARTERDECK_TOKEN"
Load: TypeAlias = Callable[..., Guard]


@pytest.fixture(autouse=True)
def no_token_around(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)


@pytest.fixture
def load(tmp_path: Path) -> Load:
    """A guard of a process with a folder of its own."""
    (tmp_path / "own").mkdir()

    def made(
        tls: tuple[Path | None, Path | None, Path | None] = (None, None, None),
        token_file: Path | None = None,
        *,
        insecure: bool = False,
        hosts: tuple[str, ...] = ("127.0.0.1",),
    ) -> Guard:
        certificate, key, authority = tls
        return Guard.load(
            tls_certificate=certificate,
            tls_key=key,
            tls_authority=authority,
            token_file=token_file,
            insecure=insecure,
            folder=tmp_path / "own",
            hosts=hosts,
            processes=LocalProcesses(tmp_path / "processes"),
        )

    return made


@pytest.fixture(scope="module")
def tls_files(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, Path]:
    crew = Crew(tmp_path_factory.mktemp("crew"))
    return (*crew.issue("member"), crew.authority)


@pytest.fixture
def token_file(tmp_path: Path) -> Path:
    path = tmp_path / "token"
    path.write_text(f"{TOKEN}\n")
    return path


def test_on_loopback_a_process_without_a_token_makes_one_that_only_its_user_can_read(
    load: Load, tmp_path: Path
) -> None:
    guard = load()
    file = tmp_path / "own" / "token"
    assert file.stat().st_mode & 0o777 == 0o600
    assert guard.token_file == file
    assert guard.admits is not None
    assert guard.admits(f"Bearer {file.read_text().strip()}")
    assert not guard.admits(None)
    assert load().admits(f"Bearer {file.read_text().strip()}"), "the next start has the same"  # pyright: ignore[reportOptionalCall]
    assert (guard.server_context, guard.client_context) == (None, None)
    assert (server_credentials(guard.tls, Handshakes()), channel_credentials(guard.tls)) == (None, None)


def test_a_token_that_others_could_have_read_is_not_taken(load: Load, tmp_path: Path) -> None:
    load()
    (tmp_path / "own" / "token").chmod(0o644)
    with pytest.raises(QuarterdeckError, match="others can read it"):
        load()


def test_off_loopback_none_is_made(load: Load, tmp_path: Path) -> None:
    guard = load(insecure=True, hosts=("127.0.0.1", "0.0.0.0"))
    assert (guard.token, guard.admits, guard.token_file) == (None, None, None)
    assert not (tmp_path / "own" / "token").exists()


def test_a_neighbour_finds_the_token_by_the_port(load: Load) -> None:
    guard = load()
    guard.announce([("127.0.0.1", 7070)])
    shown = guard.authorize(Origin("http", "127.0.0.1", 7070))
    assert guard.admits is not None
    assert guard.admits(shown)
    guard.withdraw([("127.0.0.1", 7070)])
    with pytest.raises(UnreachableError, match="is gone"):
        guard.authorize(Origin("http", "127.0.0.1", 7070))
    assert guard.authorize(Origin("http", "127.0.0.1", 7072)) is None


def test_a_process_that_would_send_its_token_in_clear_does_not_start(load: Load, token_file: Path) -> None:
    guard = load(token_file=token_file)
    guard.check_dialling([("127.0.0.1", 7071)])
    guard.check_dialling_urls(["https://crew.example", "http://localhost:7070"])
    with pytest.raises(QuarterdeckError, match="travel in clear"):
        guard.check_dialling([("10.0.0.7", 7071)])
    with pytest.raises(QuarterdeckError, match="travel in clear"):
        guard.check_dialling_urls(["http://crew.example:7070"])
    with pytest.raises(UnreachableError, match="travel in clear"):
        guard.authorize(Origin("http", "10.0.0.7", 7072))
    load(token_file=token_file, insecure=True).check_dialling([("10.0.0.7", 7071)])


def test_files_become_what_the_doors_need(load: Load, tls_files: tuple[Path, Path, Path], token_file: Path) -> None:
    guard = load(tls_files, token_file)
    assert isinstance(guard.server_context, ssl.SSLContext)
    assert isinstance(guard.client_context, ssl.SSLContext)
    assert guard.server_context.verify_mode is ssl.CERT_NONE
    assert guard.client_context.verify_mode is ssl.CERT_REQUIRED
    assert guard.authorize(Origin("https", "crew.example", 443)) == f"Bearer {TOKEN}"
    assert guard.admits is not None
    assert guard.admits(f"Bearer {TOKEN}")
    assert not guard.admits("Bearer another-horse-battery")
    assert not guard.admits(None)
    assert server_credentials(guard.tls, Handshakes()) is not None
    assert channel_credentials(guard.tls) is not None


def test_the_token_may_come_from_the_environment_and_a_file_goes_before(
    monkeypatch: pytest.MonkeyPatch, load: Load, token_file: Path
) -> None:
    monkeypatch.setenv(VARIABLE, "from-the-environment")
    anywhere = Origin("http", "127.0.0.1", 1)
    assert load().authorize(anywhere) == "Bearer from-the-environment"
    assert load(token_file=token_file).authorize(anywhere) == f"Bearer {TOKEN}"


@pytest.mark.parametrize("missing", range(3))
def test_some_of_the_tls_files_are_not_taken_for_none(
    load: Load, tls_files: tuple[Path, Path, Path], missing: int
) -> None:
    first, second, third = (None if number == missing else path for number, path in enumerate(tls_files))
    with pytest.raises(QuarterdeckError, match="some of the TLS files") as caught:
        load((first, second, third))
    assert caught.value.code is ErrorCode.INVALID_ARGUMENT


def test_files_that_cannot_be_used_are_refused(load: Load, tls_files: tuple[Path, Path, Path], tmp_path: Path) -> None:
    certificate, _, authority = tls_files
    with pytest.raises(QuarterdeckError, match="cannot be read"):
        load((certificate, tmp_path / "no.key", authority))
    with pytest.raises(QuarterdeckError, match="cannot be read"):
        load(token_file=tmp_path / "no token")


def test_loopback_needs_nothing_and_other_addresses_both(
    load: Load, tls_files: tuple[Path, Path, Path], token_file: Path
) -> None:
    load().check("the HTTP server", "127.0.0.1")
    load(tls_files, token_file).check("the HTTP server", "0.0.0.0")
    for guard in (load(), load(tls_files), load(token_file=token_file)):
        with pytest.raises(QuarterdeckError, match=r"the HTTP server may not listen on 0\.0\.0\.0"):
            guard.check("the HTTP server", "0.0.0.0")


def test_whoever_allows_it_is_warned(caplog: pytest.LogCaptureFixture, load: Load, token_file: Path) -> None:
    caplog.set_level(logging.INFO)
    load(token_file=token_file, insecure=True).check("the control port", "127.0.0.1")
    assert caplog.records == []
    load(token_file=token_file, insecure=True).check("the control port", "10.0.0.7")
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert vars(record)["fields"]["gives_up"] == "the token and all data travel in clear"
    assert TOKEN not in caplog.text
    load(insecure=True, hosts=("10.0.0.7",)).check("the HTTP server", "10.0.0.7")
    assert "join as a worker" in vars(caplog.records[-1])["fields"]["gives_up"]


def test_a_guard_does_not_show_the_token(load: Load, token_file: Path) -> None:
    assert TOKEN not in repr(load(token_file=token_file))
