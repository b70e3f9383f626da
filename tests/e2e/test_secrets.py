"""What `quarterdeck up` was told in confidence is seen by nobody: not in `ps`, not in a log, not in an answer."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from quarterdeck.security.local_processes import RUN_DIR_VARIABLE
from quarterdeck.stores.data_folder import announced
from tests.e2e.crew import Crew, until
from tests.e2e.door import Door, RefusedError, Scan

pytestmark = pytest.mark.xdist_group("e2e-secrets")

KEY = "the-key-that-goes-to-s3-alone"
SESSION = "the-session-that-goes-to-s3-alone"
TOKEN = "the-token-that-only-this-crew-has"
WRONG = "a-token-that-is-not-of-this-crew"
PASSWORD = "the-password-of-the-database"
CONFIDED = tuple(secret.encode() for secret in (KEY, SESSION, TOKEN, WRONG))
NAMES = ("coordinator", "worker-1")


def environment() -> dict[str, str]:
    """Ours, without settings that somebody made for their own processes."""
    kept = (RUN_DIR_VARIABLE,)
    return {name: value for name, value in os.environ.items() if name in kept or not name.startswith("QUARTERDECK_")}


def command(folder: Path, *settings: str) -> list[str]:
    words = [sys.executable, "-m", "quarterdeck", "up", "--workers", "1", "--keep-back", "0"]
    words += ["--data-dir", str(folder / "data"), "--http-port", "0", "--control-port", "0"]
    return [*words, *(word for text in settings for word in ("--set", text))]


def closed_port() -> int:
    """Where nobody listens."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


class Up:
    """A running `up` that was told secrets."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "data"
        self.output = folder / "output"
        token = folder / "token"
        token.write_text(TOKEN)
        endpoint = f"s3.endpoint=http://127.0.0.1:{closed_port()}"
        settings = (f"s3.secret_access_key={KEY}", f"s3.session_token={SESSION}", "s3.access_key_id=me", endpoint)
        loud = ("s3.allow_http=true", "s3.max_retries=0", "log_level=debug", f"token_file={token}")
        with self.output.open("wb") as output:
            self.process = subprocess.Popen(
                command(folder, *settings, *loud), stdout=output, stderr=output, env=environment()
            )

    def wait_up(self) -> "Up":
        until(lambda: self.process.poll() is not None or b"Ctrl-C stops it" in self.output.read_bytes(), "it is up")
        assert self.process.poll() is None, self.output.read_text()
        return self

    def addresses(self, name: str) -> dict[str, Any]:
        return dict(until(lambda: announced(self.folder / name), f"{name} is up") or {})

    def pid_of(self, name: str) -> int:
        return int(self.addresses(name)["pid"])

    def door(self, name: str, token: str = TOKEN) -> Door:
        return Door(str(self.addresses(name)["http"]), token=token)

    def below(self) -> list[psutil.Process]:
        """Its processes, and theirs."""
        return psutil.Process(self.process.pid).children(recursive=True)

    def close(self) -> None:
        self.process.terminate()
        try:
            self.process.wait(30)
        finally:
            self.process.kill()
            self.process.wait()


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    up = Up(tmp_path_factory.mktemp("up"))
    try:
        yield up.wait_up()
    finally:
        up.close()


def check_processes(up: Up) -> None:
    processes = up.below()
    assert {up.pid_of(name) for name in NAMES} <= {process.pid for process in processes}
    own = set(environment().items())
    for process in processes:
        line = " ".join(process.cmdline())
        assert not [secret for secret in CONFIDED if secret.decode() in line], line
        assert "--set" not in line, line
        added = set(process.environ().items()) - own
        assert not [value for _, value in added for secret in CONFIDED if secret.decode() in value]
        names = {name for name, _ in added}
        ours = {name for name in names if name.startswith("QUARTERDECK_")}
        assert ours <= {"QUARTERDECK_CODE_DIR"}, "where compiled code is kept is no secret"
        assert not [name for name in _open_files(process.pid) if "quarterdeck-settings" in name], (
            "read once, and closed"
        )


def _open_files(pid: int) -> Iterator[str]:
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(FileNotFoundError):  # closed in the meantime
            yield str(descriptor.readlink())


def test_no_process_shows_a_secret_in_its_command_line_or_environment_also_when_it_is_started_again(up: Up) -> None:
    check_processes(up)
    before = up.pid_of("worker-1")
    os.kill(before, signal.SIGKILL)

    def is_back() -> bool:
        workers = up.door("coordinator").get("/v1/crew")["workers"]
        return up.pid_of("worker-1") != before and [worker["state"] for worker in workers] == ["accepting"]

    until(is_back, "the worker is started again")
    check_processes(up)


def test_no_answer_and_no_log_at_its_loudest_shows_a_secret(up: Up) -> None:
    door = up.door("coordinator")
    answers: list[str] = []
    scan = Scan("select count(*) as n from files", ["s3://bucket/a.parquet"])
    with pytest.raises(RefusedError) as refused:
        door.scan(scan)
    answers.append(str(refused.value))
    for name in NAMES:
        with pytest.raises(RefusedError) as refused:
            up.door(name, WRONG).get("/monitor/scaling" if name != "coordinator" else "/v1/crew")
        answers.append(str(refused.value))
    for path, methods in door.get("/openapi.json")["paths"].items():
        if "get" in methods and "{" not in path and "watch" not in path:
            answers.append(_answer(door, path))
    assert len(answers) > 10
    answers += [_answer(up.door(name), "/metrics") for name in NAMES]
    told = "\n".join(answers).encode()
    logs = {path.name: path.read_bytes() for path in (up.folder / "logs").iterdir()}
    assert set(logs) == {"coordinator.log", "worker-1.log"}
    assert b"debug" in logs["worker-1.log"]
    for where, text in {**logs, "the answers": told, "what up says": up.output.read_bytes()}.items():
        assert text
        assert not [secret for secret in CONFIDED if secret in text], where


def _answer(door: Door, path: str) -> str:
    try:
        return door.ask("GET", path).decode()
    except RefusedError as error:
        return str(error)


def test_neither_a_worker_that_is_refused_nor_a_recruiter_by_itself_logs_a_token(up: Up, tmp_path: Path) -> None:
    (tmp_path / "right").write_text(TOKEN)
    (tmp_path / "wrong").write_text(WRONG)
    with Crew(tmp_path, Door(token=TOKEN)) as crew:
        recruiter = crew.recruiter(token_file=tmp_path / "right", log_level="debug")
        control = str(up.addresses("coordinator")["control"])
        worker = crew.worker(
            "stranger",
            join=[control],
            token_file=tmp_path / "wrong",
            recruiter__urls=recruiter.http,
            log_level="debug",
        )
        for peer in (control, recruiter.http):
            until(lambda peer=peer: worker.log.find("trouble with a peer", peer=peer), f"{peer} has refused it")
        logs = [worker.log.path, recruiter.log.path, up.folder / "logs" / "coordinator.log"]
        for log in logs:
            text = log.read_bytes()
            assert text
            assert not [secret for secret in CONFIDED if secret in text], log.name


def test_a_database_that_cannot_be_reached_is_told_without_its_password(tmp_path: Path) -> None:
    pytest.importorskip("psycopg")
    url = f"database_url=postgresql://me:{PASSWORD}@127.0.0.1:{closed_port()}/catalog"
    told = subprocess.run(
        command(tmp_path, url, "log_level=debug"), env=environment(), capture_output=True, check=False, timeout=60
    )
    assert told.returncode == 69, told.stderr
    assert b"postgresql://me@127.0.0.1:" in told.stderr
    log = (tmp_path / "data" / "logs" / "coordinator.log").read_bytes()
    assert log
    assert PASSWORD.encode() not in told.stderr + told.stdout + log
