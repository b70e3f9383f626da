"""The command at a terminal of its own: what it writes to a pseudo-terminal, colours and all."""

import fcntl
import os
import pty
import re
import shlex
import struct
import subprocess
import sys
import termios
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
COLOURS = re.compile(r"\x1b\[(?:[0-9]+;)*(?:3[0-8]|9[0-7])[;m]")
MOVEMENTS = re.compile(r"\x1b\[[0-9;?]*[A-HJKSTfhlsu]")


@dataclass(slots=True)
class Terminal:
    process: "subprocess.Popen[bytes]"
    master: int
    written: str = ""

    def read_until(self, seen: Callable[[str], bool]) -> str:
        """What was written so far, once it is as wanted, or to its end."""
        while not seen(self.written):
            try:
                piece = os.read(self.master, 65536)
            except OSError:  # how Linux says that nobody has the other end any more
                break
            if not piece:
                break
            self.written += piece.decode()
        return self.written

    def read_all(self) -> str:
        return self.read_until(lambda _: False)


@contextmanager
def at_terminal(
    *words: str, columns: int = 80, rows: int = 24, through: str = "", **environment: str
) -> Generator[Terminal]:
    """Runs `quarterdeck` with stdout and stderr at the terminal; `through` is what a pipe leads stdout into first."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    command = [sys.executable, "-m", "quarterdeck", *words]
    process = subprocess.Popen(
        ["sh", "-c", f"{shlex.join(command)} | {through}"] if through else command,
        stdin=subprocess.DEVNULL,
        stdout=slave,
        stderr=slave,
        env={**_clean(os.environ), "TERM": "xterm-256color", "TZ": "UTC", **environment},
    )
    os.close(slave)
    try:
        yield Terminal(process, master)
        process.wait(30)
    finally:
        process.kill()
        process.wait()
        os.close(master)


def plain(text: str) -> str:
    """Without colours and movements."""
    return _ESCAPES.sub("", text)


def screen(written: str) -> list[str]:
    """What is left to be seen: what stood on a line that was wiped is gone, and so are lines without anything."""
    lines: list[str] = [""]
    for piece in re.split(r"(\x1b\[1A|\x1b\[2K|\r|\n)", written):
        if piece == "\n":
            lines.append("")
        elif piece == "\x1b[2K":
            lines[-1] = ""
        elif piece == "\x1b[1A":
            lines.pop()
        elif piece != "\r":
            lines[-1] += plain(piece)
    return [line.rstrip() for line in lines if line.strip()]


def _clean(environment: Mapping[str, str]) -> dict[str, str]:
    unwanted = ("COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR", "COLORTERM", "TTY_COMPATIBLE", "TTY_INTERACTIVE")
    return {name: value for name, value in environment.items() if name not in unwanted}
