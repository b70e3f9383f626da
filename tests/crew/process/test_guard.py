"""Who may talk to a process: what it is given is read once, and holds at every door."""

import asyncio
import logging
import ssl
from pathlib import Path

import pytest

from quarterdeck.control.credentials import Handshakes, channel_credentials, server_credentials
from quarterdeck.core.errors import ErrorCode, QuarterdeckError
from quarterdeck.crew.process.guard import Guard
from tests.http.asked import ask, text_app
from tests.security.certificates import Crew

TOKEN = "correct-horse-battery"
VARIABLE = "QUARTERDECK_TOKEN"


@pytest.fixture(autouse=True)
def no_token_around(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)


def load(
    tls: tuple[Path | None, Path | None, Path | None] = (None, None, None),
    token_file: Path | None = None,
    *,
    insecure: bool = False,
) -> Guard:
    certificate, key, authority = tls
    return Guard.load(
        tls_certificate=certificate, tls_key=key, tls_authority=authority, token_file=token_file, insecure=insecure
    )


@pytest.fixture(scope="module")
def tls_files(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, Path]:
    crew = Crew(tmp_path_factory.mktemp("crew"))
    return (*crew.issue("member"), crew.authority)


@pytest.fixture
def token_file(tmp_path: Path) -> Path:
    path = tmp_path / "token"
    path.write_text(f"{TOKEN}\n")
    return path


def test_without_files_there_is_nothing_to_show_and_nothing_to_ask_for() -> None:
    guard = load()
    assert (guard.tls, guard.token, guard.authorization, guard.admits) == (None, None, None, None)
    assert (guard.server_context, guard.client_context) == (None, None)
    assert (server_credentials(guard.tls, Handshakes()), channel_credentials(guard.tls)) == (None, None)


def test_files_become_what_the_doors_need(tls_files: tuple[Path, Path, Path], token_file: Path) -> None:
    guard = load(tls_files, token_file)
    assert isinstance(guard.server_context, ssl.SSLContext)
    assert isinstance(guard.client_context, ssl.SSLContext)
    assert guard.server_context.verify_mode is ssl.CERT_NONE
    assert guard.client_context.verify_mode is ssl.CERT_REQUIRED
    assert guard.authorization == f"Bearer {TOKEN}"
    assert guard.admits is not None
    assert guard.admits(guard.authorization)
    assert not guard.admits("Bearer another-horse-battery")
    assert not guard.admits(None)
    assert server_credentials(guard.tls, Handshakes()) is not None
    assert channel_credentials(guard.tls) is not None


def test_the_token_may_come_from_the_environment_and_a_file_goes_before(
    monkeypatch: pytest.MonkeyPatch, token_file: Path
) -> None:
    monkeypatch.setenv(VARIABLE, "from-the-environment")
    assert load().authorization == "Bearer from-the-environment"
    assert load(token_file=token_file).authorization == f"Bearer {TOKEN}"


@pytest.mark.parametrize("missing", range(3))
def test_some_of_the_tls_files_are_not_taken_for_none(tls_files: tuple[Path, Path, Path], missing: int) -> None:
    first, second, third = (None if number == missing else path for number, path in enumerate(tls_files))
    with pytest.raises(QuarterdeckError, match="some of the TLS files") as caught:
        load((first, second, third))
    assert caught.value.code is ErrorCode.INVALID_ARGUMENT


def test_files_that_cannot_be_used_are_refused(tls_files: tuple[Path, Path, Path], tmp_path: Path) -> None:
    certificate, _, authority = tls_files
    with pytest.raises(QuarterdeckError, match="cannot be read"):
        load((certificate, tmp_path / "no.key", authority))
    with pytest.raises(QuarterdeckError, match="cannot be read"):
        load(token_file=tmp_path / "no token")


def test_loopback_needs_nothing_and_other_addresses_both(tls_files: tuple[Path, Path, Path], token_file: Path) -> None:
    load().check("the HTTP server", "127.0.0.1")
    load(tls_files, token_file).check("the HTTP server", "0.0.0.0")
    for guard in (load(), load(tls_files), load(token_file=token_file)):
        with pytest.raises(QuarterdeckError, match=r"the HTTP server may not listen on 0\.0\.0\.0"):
            guard.check("the HTTP server", "0.0.0.0")


def test_whoever_allows_it_is_warned(caplog: pytest.LogCaptureFixture, token_file: Path) -> None:
    caplog.set_level(logging.INFO)
    load(token_file=token_file, insecure=True).check("the control port", "127.0.0.1")
    assert caplog.records == []
    load(token_file=token_file, insecure=True).check("the control port", "10.0.0.7")
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert vars(record)["fields"] == {"what": "the control port", "host": "10.0.0.7"}
    assert TOKEN not in caplog.text


def test_an_application_behind_the_token_lets_in_who_has_it(token_file: Path) -> None:
    rejected: list[None] = []
    app = load(token_file=token_file).protect(text_app("secret"), lambda: rejected.append(None))
    without = asyncio.run(ask(app, "/data"))
    assert (without.status, without.json["error"]["what"], len(rejected)) == (401, "the request was not let in", 1)
    assert asyncio.run(ask(app, "/data", authorization="Bearer another-horse-battery")).status == 401
    assert len(rejected) == 2
    let_in = asyncio.run(ask(app, "/data", authorization=f"Bearer {TOKEN}"))
    assert (let_in.status, let_in.body, len(rejected)) == (200, b"secret", 2)


def test_an_application_without_a_token_is_open() -> None:
    app = load().protect(text_app("for all"), lambda: None)
    assert asyncio.run(ask(app, "/data")).body == b"for all"


def test_a_guard_does_not_show_the_token(token_file: Path) -> None:
    assert TOKEN not in repr(load(token_file=token_file))
