"""Processes that were given no token: each makes its own, those of this user find it, and nobody else on the machine
gets in."""

import asyncio
import http.client
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from quarterdeck.control.dialer import GrpcDialer, Identity
from quarterdeck.control.link import LinkClosedError
from tests.e2e.crew import Coordinator, Crew, Worker
from tests.e2e.door import TOKEN, Door, RefusedError, Scan
from tests.e2e.lake import ALL, Lake, same
from tests.e2e.log_lines import Logs, search, write_logs

pytestmark = pytest.mark.xdist_group("e2e-own-tokens")

COSTLY = [
    ("POST", "/v1/scan"),
    ("POST", "/v1/search"),
    ("POST", "/worker/rootsearch"),
    ("POST", "/recruiter/register"),
    ("POST", "/recruiter/recruit"),
    ("POST", "/v1/crew/own/drain"),
    ("GET", "/v1/crew"),
    ("GET", "/v1/queries"),
    ("GET", "/v1/searches"),
    ("GET", "/recruiter/listfree"),
]


@dataclass(frozen=True, slots=True)
class Own:
    coordinator: Coordinator
    worker: Worker
    door: Door
    """As our commands come in."""
    logs: Logs


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Own]:
    folder = tmp_path_factory.mktemp("own")
    logs = write_logs(folder / "logs", 1, 1000)
    with Crew(folder, shares_token=False) as crew:
        coordinator = crew.coordinator()
        crew._door = Door(token=(coordinator.wait_up().folder / "token").read_text().strip())  # pyright: ignore[reportPrivateUsage]
        coordinator._door = crew._door  # pyright: ignore[reportPrivateUsage]
        worker = crew.worker("own", join=[coordinator.control], recruiter__urls=coordinator.http)
        coordinator.wait_for(worker)
        yield Own(coordinator, worker, coordinator.door, logs)


def told(*arguments: str, user: int | None = None) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "quarterdeck", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=100, user=user)


def test_a_worker_of_the_same_user_joins_and_both_are_asked_without_a_word_about_tokens(own: Own, lake: Lake) -> None:
    assert same(own.door.scan(Scan(ALL, [lake.source])).table, lake.truth(ALL))
    own.coordinator.wait_free(1)
    assert search(own.coordinator, "level=error | count()", [own.logs.source]).workers, "the worker was called"
    for process in (own.coordinator, own.worker):
        file = process.folder / "token"
        assert (file.stat().st_mode & 0o777, file.stat().st_uid) == (0o600, os.getuid())


def test_commands_find_it_and_print_it(own: Own) -> None:
    shown = told("token", "--url", own.coordinator.http)
    assert (shown.returncode, shown.stdout.strip()) == (0, own.door.token)
    shown = told("token", "--data-dir", str(own.coordinator.folder))
    assert (shown.returncode, shown.stdout.strip()) == (0, own.door.token)
    status = told("status", "--once", "--json", "--url", own.coordinator.http)
    assert status.returncode == 0, status.stderr
    assert '"own"' in status.stdout


@pytest.mark.parametrize("token", [None, TOKEN])
@pytest.mark.parametrize(("method", "path"), COSTLY)
def test_nobody_else_on_the_machine_gets_in(own: Own, method: str, path: str, token: str | None) -> None:
    with pytest.raises(RefusedError, match="the request was not let in") as refused:
        Door(own.coordinator.http, token=token).ask(method, path)
    assert refused.value.status == http.client.UNAUTHORIZED


def test_a_worker_is_as_closed_as_its_coordinator(own: Own) -> None:
    for method, path in (("POST", "/worker/chunksearch"), ("POST", "/worker/release"), ("GET", "/artifacts/x")):
        for token in (None, TOKEN):
            with pytest.raises(RefusedError) as refused:
                Door(own.worker.http, token=token).ask(method, path)
            assert refused.value.status == http.client.UNAUTHORIZED


def test_a_stranger_cannot_join_as_a_worker(own: Own) -> None:
    async def join() -> str:
        dialer = GrpcDialer(Identity("stranger"))
        try:
            await dialer.dial(own.coordinator.control)
        except LinkClosedError as error:
            return str(error)
        finally:
            await dialer.close()
        return "let in"

    assert "the token is missing" in asyncio.run(join())
    assert set(own.coordinator.workers()) == {"own"}


def test_reading_metrics_stays_open_as_prometheus_is(own: Own) -> None:
    stranger = Door(own.coordinator.http, token=None)
    assert stranger.get("/api/v1/query?query=1%2B1")["status"] == "success"
    assert stranger.get("/health")["status"] == "ok"
    assert stranger.ask("GET", "/metrics")


def test_a_web_page_can_do_nothing_at_all(own: Own) -> None:
    for headers in (
        {"Origin": "https://evil.example", "Content-Type": "text/plain"},
        {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors", "Content-Type": "text/plain"},
        {"Host": "evil.example:7070"},
        {"Content-Type": "text/plain"},
    ):
        for token in (None, own.door.token):
            shown = {} if token is None else {"Authorization": f"Bearer {token}"}
            connection = own.door.connect()
            try:
                connection.request("POST", "/recruiter/register", b'{"addr":"127.0.0.1:1","node":"n"}', headers | shown)
                assert connection.getresponse().status in (401, 403, 415, 421)
            finally:
                connection.close()
    assert own.door.get("/recruiter/stats")["registered"] < 100
    assert all(worker["addr"] != "127.0.0.1:1" for worker in own.door.get("/recruiter/listfree")["workers"])


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become somebody else")
def test_another_user_of_the_machine_does_not_find_it(own: Own) -> None:
    read = "import pathlib,sys; print(pathlib.Path(sys.argv[1]).read_text())"
    file = str(own.coordinator.folder / "token")
    done = subprocess.run(
        ["/usr/bin/python3", "-c", read, file], user=65534, capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode != 0
    assert str(own.door.token) not in done.stdout


# Who is not the user who runs it


@pytest.fixture
def public(crew: Crew, tmp_path: Path) -> Coordinator:
    """A coordinator that other machines could reach."""
    (tmp_path / "open").mkdir()
    return crew.coordinator("public", "--insecure", http_host="0.0.0.0", source_roots=tmp_path / "open").wait_up()


def test_off_loopback_sources_have_roots(public: Coordinator, lake: Lake, tmp_path: Path) -> None:
    door = public.door.at(public.http.replace("0.0.0.0", "127.0.0.1"))
    for path, asked in (
        ("/v1/scan", {"sql": ALL, "sources": [lake.source]}),
        ("/v1/scan", {"sql": ALL, "sources": ["/etc/passwd"]}),
        ("/v1/search", {"query": "root", "sources": ["/etc/passwd"]}),
        ("/v1/search", {"query": "root", "sources": ["passwd"], "data_path": "/etc"}),
    ):
        with pytest.raises(RefusedError, match="source_roots") as refused:
            door.post(path, asked)
        assert (refused.value.status, refused.value.code) == (http.client.FORBIDDEN, "permission_denied")
    (tmp_path / "open" / "a.ndjson").write_text('{"level":"error"}\n')
    found = door.post("/v1/search", {"query": "level=error | count()", "sources": [str(tmp_path / "open")]})
    assert found == {"count": 1}
