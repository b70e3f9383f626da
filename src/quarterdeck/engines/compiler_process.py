"""The compiler, in a process of its own: it takes seconds to import and a hundred megabytes, and goes when it is done.

Run it as `python -m quarterdeck.engines.compiler_process`: it reads jobs from standard input, one JSON object a line,
and answers each with an object file. What it imports it finds where we do, and never in the folder that somebody
happens to be in.
"""

import contextlib
import json
import os
import struct
import subprocess
import sys
import threading
from collections.abc import Generator
from dataclasses import asdict, dataclass
from typing import IO, Any, Final

_SIZE: Final = struct.Struct("<Q")
_LOCK: Final = threading.RLock()


@dataclass(frozen=True, slots=True)
class Job:
    """A function to compile; see `machine_code.MachineCode`."""

    file_name: str
    """What it was to be called by who asks: it is not compiled of sources that have changed since."""
    module: str
    name: str
    sources: tuple[str, ...]
    form: str


class _Compiler:
    """The process of this process, if there is one, and how many want to keep it."""

    process: "subprocess.Popen[bytes] | None" = None
    kept_by: int = 0


@contextlib.contextmanager
def compiler_kept() -> Generator[None]:
    """In the block the compiler is started once, if at all; else once for each job."""
    with _LOCK:
        _Compiler.kept_by += 1
    try:
        yield
    finally:
        with _LOCK:
            _Compiler.kept_by -= 1
            _end()


def compiled_elsewhere(job: Job) -> bytes:
    """An object file. Raises `subprocess.CalledProcessError`; the compiler has written why to standard error."""
    with _LOCK:
        if _Compiler.process is None:
            command = [sys.executable, "-P", "-m", __spec__.name]
            environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
            _Compiler.process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment
            )
        process = _Compiler.process
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            with contextlib.suppress(BrokenPipeError):
                process.stdin.write(json.dumps(asdict(job)).encode() + b"\n")
                process.stdin.flush()
            code = _received(process.stdout)
            if code is None:
                raise subprocess.CalledProcessError(process.wait() or 1, process.args)
        except BaseException:
            process.kill()
            raise
        else:
            return code
        finally:
            _end()


def _end() -> None:
    """Unless somebody keeps it and it still runs."""
    process = _Compiler.process
    if process is None or (_Compiler.kept_by and process.poll() is None):
        return
    for pipe in (process.stdin, process.stdout):
        assert pipe is not None
        with contextlib.suppress(BrokenPipeError):
            pipe.close()
    process.wait()
    _Compiler.process = None


def _received(pipe: IO[bytes]) -> bytes | None:
    head = pipe.read(_SIZE.size)
    if len(head) < _SIZE.size:
        return None
    size: int = _SIZE.unpack(head)[0]
    data = pipe.read(size)
    return data if len(data) == size else None


def main() -> None:
    """Answers until nobody asks."""
    from quarterdeck.engines.compiling import object_file  # noqa: PLC0415 - the compiler; who asks does not load it

    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # what a library prints is no answer
    with contextlib.suppress(BrokenPipeError):  # whoever asked is gone
        for line in sys.stdin.buffer:
            told: dict[str, Any] = json.loads(line)
            told["sources"] = tuple(told["sources"])
            code = object_file(Job(**told))
            answers.write(_SIZE.pack(len(code)) + code)
            answers.flush()
    os._exit(0)  # what was loaded need not be tidied up


if __name__ == "__main__":
    main()
