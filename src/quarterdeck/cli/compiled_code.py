"""Whether everything that a machine has to compile was compiled, and how `up` makes sure of it before it starts
anything.

It loads neither the compiler nor what it has made: a process that ends does that, `quarterdeck warm`.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Final

import quarterdeck
from quarterdeck.capability import Capability
from quarterdeck.core.errors import ErrorCode, QuarterdeckError
from quarterdeck.engines.code_folder import NoPlaceError, first_writable
from quarterdeck.engines.first_compile import CompiledMark, python_sources
from quarterdeck.local_crew.child import QUARTERDECK, ended_how
from quarterdeck.terminal.stop_requests import StopRequests

if TYPE_CHECKING:
    from rich.console import Console

_PACKAGE: Final = Path(quarterdeck.__file__).parent
_LOOK_S: Final = 0.05


def everything(capabilities: Sequence[Capability]) -> CompiledMark:
    """The mark that `quarterdeck warm` leaves."""
    packages = [name for one in capabilities if one.compiled is not None for name in one.compiled.packages]
    return CompiledMark(_PACKAGE / "__init__.py", tuple(python_sources(tuple(map(_folder_of, packages)))))


def _folder_of(package: str) -> Path:
    """Without loading it."""
    above, *below = package.split(".")
    root = sys.modules[above].__file__
    assert root is not None, f"{above} has files"
    return Path(root).parent.joinpath(*below)


def compile_first(capabilities: Sequence[Capability], console: "Console", stop: StopRequests) -> bool:
    """Has all of it compiled if it was not yet, by a process that shows how far it is; False when somebody wanted to
    stop meanwhile. Where nothing can be kept it is said, and each process will compile for itself."""
    mark = everything(capabilities)
    if mark.is_set():
        return True
    try:
        first_writable(mark.folders())
    except NoPlaceError as error:
        console.print(f"{error.what}, so each process compiles for itself, which takes a minute or more", markup=False)
        console.print(f"  why: {error.why}\n  {error.next_step}", markup=False)
        return True
    with ExitStack() as stack:
        ours, lifeline = os.pipe()
        stack.callback(os.close, lifeline)
        stack.callback(os.close, ours)
        # In a session of its own: an interrupt from the keyboard is for us.
        process = subprocess.Popen(
            [*QUARTERDECK, "warm", "--lifeline", str(ours)],
            stdin=subprocess.DEVNULL,
            pass_fds=(ours,),
            start_new_session=True,
        )
        while process.poll() is None:
            if stop.once():
                os.killpg(process.pid, signal.SIGTERM)
                process.wait()
                _end_bar(console)
                return False
            time.sleep(_LOOK_S)
    if process.returncode < 0:
        _end_bar(console)
    if process.returncode == -signal.SIGKILL:
        raise QuarterdeckError(
            ErrorCode.RESOURCE_EXHAUSTED,
            "the crew was not started",
            f"`quarterdeck warm`, which compiles what it needs, {ended_how(process.returncode)}, as the system does "
            "where memory runs out",
            "give it more memory, about 1 GiB, and start again: what was compiled so far is kept",
        )
    if process.returncode:
        raise QuarterdeckError(
            ErrorCode.INTERNAL,
            "the crew was not started",
            f"`quarterdeck warm`, which compiles what it needs, {ended_how(process.returncode)}",
            "what it wrote is above; run it by itself to see it again",
        )
    return True


def _end_bar(console: "Console") -> None:
    """Of a process that was ended in the middle: its line goes on, and the cursor is hidden."""
    if console.is_terminal:
        console.show_cursor()
        console.print()
