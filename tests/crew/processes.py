"""Small processes that run a piece of Python, and end before their test does."""

import os
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from textwrap import dedent

"""Only a process that hangs takes this long."""


@contextmanager
def started(code: str, *, pass_fds: tuple[int, ...] = (), **variables: str) -> Generator["subprocess.Popen[str]"]:
    """Runs it with pipes for its output; what still runs at the end is killed."""
    environment = os.environ | variables | {"PYTHONPATH": os.pathsep.join(sys.path)}
    process = subprocess.Popen(
        [sys.executable, "-c", dedent(code)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
        pass_fds=pass_fds,
    )
    with process:
        try:
            yield process
        finally:
            process.kill()


def said(process: "subprocess.Popen[str]") -> str:
    """The next line it prints."""
    assert process.stdout is not None
    return process.stdout.readline().strip()
