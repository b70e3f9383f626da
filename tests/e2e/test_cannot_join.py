"""A worker that cannot join says which of the many reasons it is: in its log once, and in /ready for as long."""

import http.client
import json
from pathlib import Path

import pytest

from tests.e2e.crew import Coordinator, Crew, Worker, until
from tests.e2e.door import RefusedError
from tests.ports import dead_port

pytestmark = pytest.mark.xdist_group("e2e-coordinators")


def missing(worker: Worker) -> str:
    """What /ready misses."""
    with pytest.raises(RefusedError) as refused:
        worker.door.get("/ready")
    assert refused.value.status == http.client.SERVICE_UNAVAILABLE
    return json.dumps(json.loads(str(refused.value).partition(": ")[2])["missing"])


def check(worker: Worker, address: str, why: str) -> None:
    until(lambda: worker.log.find("trouble with a peer", peer=address), "it has tried")
    (told,) = worker.log.find("trouble with a peer", peer=address)
    assert why in told["what"]
    until(lambda: why in missing(worker), "/ready says so too")
    registered = "quarterdeck_worker_registrations_failed_total"
    tries = worker.door.metric(registered)
    if why.startswith("unauth"):
        until(lambda: worker.door.metric(registered) >= tries + 2, "it has tried again")
    assert len(worker.log.find("trouble with a peer", peer=address)) == 1, "the same is told once"


def test_nobody_listens_there(crew: Crew) -> None:
    with dead_port() as port:
        worker = crew.worker("early", join=[f"127.0.0.1:{port}"])
        worker.wait_up()
        check(worker, f"127.0.0.1:{port}", "the connection was refused: nothing listens there")


def test_the_token_is_another(crew: Crew, coordinator: Coordinator, tmp_path: Path) -> None:
    (tmp_path / "wrong").write_text("a-token-of-some-other-crew-entirely")
    worker = crew.worker("stranger", join=[coordinator.control], token_file=tmp_path / "wrong")
    worker.wait_up()
    check(worker, coordinator.control, "unauthenticated: the token is missing or is not the crew's")


def test_it_is_the_http_port(crew: Crew, coordinator: Coordinator) -> None:
    address = coordinator.http.removeprefix("http://")
    worker = crew.worker("lost", join=[address])
    worker.wait_up()
    check(worker, address, "a server of HTTP/1 answers there; name the control port")
