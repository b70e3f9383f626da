"""For each rule: what it must find, and what it must leave alone."""

from pathlib import Path
from textwrap import dedent, indent

import pytest

from checks.async_rules import RULES, check_text, main

IMPORTS = "import asyncio, queue, subprocess, threading, time\n"


def rules_broken_by(snippet: str) -> list[str]:
    return [finding.rule.name for finding in check_text(dedent(snippet), Path("x.py"))]


def rules_broken_in_coroutine(body: str) -> list[str]:
    return rules_broken_by(f"{IMPORTS}async def f(q, loop, path):\n" + indent(dedent(body).strip(), "    "))


@pytest.mark.parametrize(
    "snippet",
    [
        "import asyncio; q = asyncio.Queue()",
        "import asyncio; q = asyncio.Queue(0)",
        "import asyncio; q = asyncio.Queue(maxsize=0)",
        "import asyncio; q = asyncio.Queue(-1)",
        "import asyncio; q = asyncio.Queue[int]()",
        "import asyncio; q: asyncio.Queue[int] = asyncio.PriorityQueue()",
        "import asyncio as aio; q = aio.LifoQueue()",
        "from asyncio import Queue; q = Queue()",
        "from asyncio import Queue as Q; q = Q(maxsize=-5)",
        "import asyncio.queues; q = asyncio.queues.Queue()",
        "import queue; q = queue.Queue()",
        "from queue import SimpleQueue; q = SimpleQueue()",
        "def f():\n    import queue\n    return queue.LifoQueue()",
        "import asyncio, dataclasses; f = dataclasses.field(default_factory=asyncio.Queue)",
    ],
)
def test_a_queue_without_a_bound_is_found(snippet: str) -> None:
    assert rules_broken_by(snippet) == ["unbounded-queue"]


@pytest.mark.parametrize(
    "snippet",
    [
        "import asyncio; q = asyncio.Queue(16)",
        "import asyncio; q = asyncio.Queue(maxsize=limit)",
        "import asyncio; q = asyncio.Queue(**options)",
        "import asyncio; q = asyncio.Queue(*sizes)",
        "import queue; q = queue.Queue(1)",
        "from collections import deque; q = deque()",
        "from elsewhere import Queue; q = Queue()",
        "from .asyncio import Queue; q = Queue()",
        "import asyncio; q: asyncio.Queue[int]",
    ],
)
def test_a_queue_with_a_bound_or_of_another_kind_is_fine(snippet: str) -> None:
    assert rules_broken_by(snippet) == []


@pytest.mark.parametrize(
    "body",
    [
        "await q.put(1)",
        "x = await q.get()",
        "await q.join()",
        "await q.put(item=1)",
        "while await q.get():\n    pass",
        "await asyncio.wait_for(q.get(), None)",
        "await asyncio.wait_for(q.get(), timeout=None)",
        "async with asyncio.timeout(None):\n    await q.get()",
        "async with q.lock:\n    await q.get()",
        "async with asyncio.timeout(1):\n    async def g():\n        await q.get()",
        "await q.get()  # cancelled by:",
        "await q.get()  # cancelled sometimes",
        "if q:  # cancelled by: the session\n    await q.get()",
        "while await q.get():\n    pass  # cancelled by: the session",
    ],
)
def test_a_wait_on_a_queue_without_limit_or_owner_is_found(body: str) -> None:
    assert rules_broken_in_coroutine(body) == ["unbounded-wait"]


@pytest.mark.parametrize(
    "body",
    [
        "await asyncio.wait_for(q.get(), 1)",
        "await asyncio.wait_for(q.get(), timeout=1)",
        "async with asyncio.timeout(1):\n    await q.put(1)",
        "async with asyncio.timeout_at(t), other:\n    if x:\n        await q.get()",
        "await q.get()  # cancelled by: the session's task group",
        "await q.put(  # cancelled by: the session's task group\n    1\n)",
        "while await q.get():  # cancelled by: Session.close\n    pass",
        "q.put_nowait(1)",
        "await http.get(url)",
        "await store.put(key, value)",
        "await ','.join(parts)",
    ],
)
def test_a_wait_with_limit_or_owner_or_on_something_else_is_fine(body: str) -> None:
    assert rules_broken_in_coroutine(body) == []


@pytest.mark.parametrize(
    "body",
    [
        "asyncio.create_task(g())",
        "asyncio.ensure_future(g())",
        "_ = asyncio.create_task(g())",
        "loop.create_task(g())",
        "self._loop.create_task(g())",
        "asyncio.get_running_loop().create_task(g())",
        "here = asyncio.get_running_loop()\nhere.create_task(g())",
        "asyncio.create_task(g()).add_done_callback(print)",
        "name = asyncio.create_task(g()).get_name()",
        "x and asyncio.create_task(g())",
        "asyncio.create_task(g()) if x else None",
    ],
)
def test_a_task_that_nobody_keeps_is_found(body: str) -> None:
    assert rules_broken_in_coroutine(body) == ["unowned-task"]


def test_a_task_that_nobody_keeps_is_found_behind_an_alias() -> None:
    assert rules_broken_by("from asyncio import create_task as spawn\ndef f(): spawn(g())") == ["unowned-task"]


@pytest.mark.parametrize(
    "body",
    [
        "task = asyncio.create_task(g())",
        "self.task = asyncio.create_task(g())",
        "await asyncio.create_task(g())",
        "return asyncio.create_task(g())",
        "tasks.add(asyncio.create_task(g()))",
        "tasks = [asyncio.create_task(g()) for _ in x]",
        "task = asyncio.create_task(g()) if x else None",
        "async with asyncio.TaskGroup() as group:\n    group.create_task(g())",
        "self.group.create_task(g())",
    ],
)
def test_a_task_with_an_owner_is_fine(body: str) -> None:
    assert rules_broken_in_coroutine(body) == []


@pytest.mark.parametrize(
    "body",
    [
        "time.sleep(1)",
        "from time import sleep\nsleep(1)",
        "open('x')",
        "with open('x') as file:\n    pass",
        "path.read_text()",
        "path.read_bytes()",
        "path.write_text('')",
        "path.write_bytes(b'')",
        "subprocess.run(['x'])",
        "subprocess.check_call(['x'])",
        "subprocess.check_output(['x'])",
        "subprocess.Popen(['x'])",
        "from subprocess import run as start\nstart(['x'])",
        "import os\nos.system('x')",
        "import requests\nrequests.get('x')",
        "import urllib.request\nurllib.request.urlopen('x')",
        "from urllib import request\nrequest.urlopen('x')",
        "import socket\nsocket.create_connection(x)",
        "import sqlite3\nsqlite3.connect('x')",
        "import duckdb\nduckdb.connect('x')",
        "input()",
    ],
)
def test_a_blocking_call_in_a_coroutine_is_found(body: str) -> None:
    assert rules_broken_in_coroutine(body) == ["blocking-call"]


def test_time_sleep_is_found_in_a_plain_function_too() -> None:
    assert rules_broken_by("import time\ndef f(): time.sleep(1)") == ["blocking-call"]


@pytest.mark.parametrize(
    "body",
    [
        "await asyncio.sleep(1)",
        "await asyncio.to_thread(open, 'x')",
        "await asyncio.to_thread(path.read_text)",
        "await path.read_text()",
        "await asyncio.to_thread(lambda: path.read_text())",
        "def read():\n    return open('x').read()\nawait asyncio.to_thread(read)",
        "await asyncio.create_subprocess_exec('x')",
        "path.open",
    ],
)
def test_what_does_not_block_the_loop_is_fine(body: str) -> None:
    assert rules_broken_in_coroutine(body) == []


def test_a_blocking_call_in_a_plain_function_is_fine() -> None:
    assert rules_broken_by("def f(path): return open(path).read(), path.read_text()") == []


@pytest.mark.parametrize(
    "body",
    [
        "lock = threading.Lock()\nwith lock:\n    pass",
        "lock = threading.RLock()\nlock.acquire()",
        "lock: threading.Lock = make()\nlock.acquire(timeout=1)",
        "with threading.Lock():\n    pass",
    ],
)
def test_a_thread_lock_in_a_coroutine_is_found(body: str) -> None:
    assert rules_broken_in_coroutine(body) == ["blocking-lock"]


@pytest.mark.parametrize(
    "declaration",
    ["    lock: Lock\n", "    def __init__(self):\n        self.lock = Lock()\n"],
)
def test_a_thread_lock_of_the_object_is_found(declaration: str) -> None:
    method = "    async def f(self):\n        with self.lock:\n            pass\n"
    assert rules_broken_by(f"from threading import Lock\nclass C:\n{declaration}{method}") == ["blocking-lock"]


@pytest.mark.parametrize(
    "body",
    [
        "lock = asyncio.Lock()\nasync with lock:\n    pass",
        "lock = asyncio.Lock()\nawait lock.acquire()",
        "lock = threading.Lock()\nlock.acquire(blocking=False)",
        "lock = threading.Lock()\ndef g():\n    with lock:\n        pass",
    ],
)
def test_a_lock_that_does_not_block_the_loop_is_fine(body: str) -> None:
    assert rules_broken_in_coroutine(body) == []


def test_only_the_packages_of_the_event_loop_are_looked_at(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for package in ("crew", "core"):
        (tmp_path / package / "deep").mkdir(parents=True)
        (tmp_path / package / "deep" / "m.py").write_text("import asyncio\nq = asyncio.Queue()\n")
    assert main([str(tmp_path)]) == 1
    finding, summary = capsys.readouterr().out.splitlines()
    assert finding.startswith(f"{tmp_path / 'crew/deep/m.py'}:2:5: unbounded-queue: asyncio.Queue without a bound: ")
    assert finding.endswith("give it a maxsize, and decide what happens when it is full")
    assert summary == "async rules: 1 files, 1 findings"


def test_clean_code_exits_with_zero(tmp_path: Path) -> None:
    (tmp_path / "crew").mkdir()
    (tmp_path / "crew" / "m.py").write_text("import asyncio\nq = asyncio.Queue(4)\n")
    assert main([str(tmp_path)]) == 0


def test_a_root_that_is_no_folder_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="2"):
        main([str(tmp_path / "nowhere")])


def test_help_names_every_rule(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        main(["--help"])
    shown = capsys.readouterr().out
    assert [rule.name for rule in RULES if rule.name not in shown] == []
