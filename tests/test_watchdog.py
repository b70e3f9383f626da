import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.patience import PATIENCE_S

ROOT = Path(__file__).parent.parent
WAITING = """
import subprocess, sys
from tests.watchdog import watched

old = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1000)"])
import time; time.sleep(2.5)
with watched("this test", limit_s=0.1, grace_s=0.1, last_grace_s={last_grace_s}):
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1000)"]) as new:
        new.wait()
    if {last_grace_s} < 1:
        import threading; threading.Event().wait()
assert old.poll() is None
old.kill()
old.wait()
print("the test goes on")
"""


def run(code: str, *first: str) -> "subprocess.CompletedProcess[str]":
    """`first` is what runs the command that comes after it."""
    command = [*first, sys.executable, "-c", code]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def test_processes_of_a_test_are_killed_when_it_goes_on_after_its_timeout_and_others_are_not() -> None:
    done = run(WAITING.format(last_grace_s=PATIENCE_S))
    assert (done.returncode, done.stdout) == (0, "the test goes on\n"), done.stderr
    assert "this test goes on 0.1 s after its timeout of 0.1 s: its processes are killed" in done.stderr
    assert "Current thread" in done.stderr or "most recent call first" in done.stderr


def test_a_test_that_nothing_else_ends_ends_with_its_process() -> None:
    done = run(WAITING.format(last_grace_s=0.1))
    assert (done.returncode, done.stdout) == (70, "")
    assert "pytest ends here" in done.stderr


def test_processes_of_tests_can_be_interrupted_also_when_the_tests_were_started_with_interrupts_ignored() -> None:
    code = (
        "import tests.conftest, signal, subprocess, sys\n"
        "child = 'import os, signal; os.kill(os.getpid(), signal.SIGINT)'\n"
        "print(subprocess.run([sys.executable, '-c', child], stderr=subprocess.DEVNULL).returncode)"
    )
    # By a shell, as in a script: a `preexec_fn` runs in a copy of this process, which gRPC does not always survive.
    done = run(code, "sh", "-c", "trap '' INT; exec \"$@\"", "sh")
    assert done.stdout == f"{-signal.SIGINT}\n", done.stderr


def test_a_test_that_hangs_in_its_cleanup_fails_with_its_name_and_the_others_run(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    pytester.makeconftest(
        """
        import pytest
        from tests.watchdog import timeout_of, watched

        @pytest.hookimpl(wrapper=True)
        def pytest_runtest_protocol(item):
            with watched(item.nodeid, timeout_of(item), grace_s=0.1):
                return (yield)
        """
    )
    pytester.makepyfile(
        """
        import subprocess, sys, time, pytest

        @pytest.mark.timeout(0.5)
        def test_hangs():
            with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1000)"]):
                time.sleep(1000)

        def test_is_fine():
            pass
        """
    )
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider", "--timeout=100", f"--rootdir={ROOT}")
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["*Timeout (>0.5s)*"])
