"""A recruiter as a process by itself, and as a part of a coordinator: polls are held, and answered at its end."""

import signal
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

from tests.e2e.crew import Crew, Recruiter

START: dict[str, Callable[[Crew], Recruiter]] = {
    "recruiter": lambda crew: crew.recruiter(),
    "coordinator": lambda crew: crew.coordinator(),
}


def poll(pool: ThreadPoolExecutor, recruiter: Recruiter, addr: str) -> Future[Any]:
    document = {"addr": addr, "node_name": "here", "timeout": 60_000}
    return pool.submit(recruiter.door.post, "/recruiter/register", document)


@pytest.mark.parametrize("role", START)
def test_polls_are_held_and_all_are_sent_on_at_the_first_signal(crew: Crew, role: str) -> None:
    recruiter = START[role](crew).wait_up()
    with ThreadPoolExecutor(3) as pool:
        polls = [poll(pool, recruiter, f"w{number}:1") for number in range(3)]
        recruiter.wait_free(3)
        (given,) = recruiter.door.post("/recruiter/recruit", {"N": 1, "label": "job"})["workers"]
        assert given["node"] == "here"
        recruiter.wait_free(2)
        scaling = recruiter.door.get("/monitor/scaling")
        assert (scaling["recruiter_free"], scaling["recruiter_granted_total"]) == (2, 1)
        figures = recruiter.door.metrics()
        assert figures["quarterdeck_recruiter_free_workers"][()] == 2
        assert figures["quarterdeck_recruiter_node_workers_granted_total"]["here",] == 1
        recruiter.send(signal.SIGTERM)
        answers = [one.result(5) for one in polls]
    assert sorted(answer["directive"] for answer in answers) == ["reregister", "reregister", "reserved"]
    assert recruiter.wait_end() == 0


def test_it_is_ready_without_a_worker_and_says_what_it_is(crew: Crew) -> None:
    recruiter = crew.recruiter().wait_up()
    assert recruiter.door.get("/ready") == {"ready": True, "missing": []}
    assert recruiter.door.get("/health")["role"] == "recruiter"
    assert "/recruiter/recruit" in recruiter.door.get("/openapi.json")["paths"]
