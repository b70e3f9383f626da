"""Which processes of this user listen on loopback, and where the token of each is kept: so tools find it by a port.

For each of its ports, a process writes one small file into a folder that only this user can read. Every process of the
user finds the folder, whatever its environment. The file does not have the token itself: that stays in the process's
data folder. While a process lives, it writes its files again and again. If a process is gone, its file tells for a
while that nobody of ours has the port any more: what listens there now is a stranger, and gets no token. After that
time those who called the process have noticed that it is gone, the file is forgotten, and the port is anybody's.

If the folder cannot be made, or belongs to somebody else, nothing is found, and people name the token themselves.
"""

import json
import os
import stat
import tempfile
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from typing import Final

from quarterdeck.core.errors import QuarterdeckError
from quarterdeck.security.exposure import is_loopback
from quarterdeck.security.tokens import SharedToken

RUN_DIR_VARIABLE: Final = "QUARTERDECK_RUN_DIR"
"""The environment variable that may name another folder."""
ANNOUNCE_S: Final = 20.0
"""How often a process announces itself again, also for those who clean up temporary folders."""
_REMEMBERED_S: Final = 60.0
"""How long a port belongs to a process that is gone, from when it last announced itself."""
_LARGEST_BYTES: Final = 8192
"""A path, a number, and room."""
_BEGAN_FIELD: Final = 19
"""Of `/proc/PID/stat`, counted from the one that follows the name: `starttime` in proc(5)."""


@dataclass(frozen=True, slots=True)
class LocalProcess:
    """One that has announced itself."""

    pid: int
    token_file: Path
    began: str = ""
    """When its process began, as the system counts it; empty where that is not known."""

    @property
    def is_alive(self) -> bool:
        """Whether it still runs, as a process of this user, and not another one that got its number."""
        try:
            os.kill(self.pid, 0)
            owner = Path(f"/proc/{self.pid}").stat().st_uid if Path("/proc/self").exists() else os.getuid()
        except OSError:
            return False
        return owner == os.getuid() and self.began in ("", _began(self.pid))

    def token(self) -> SharedToken | None:
        """None when this user cannot read it, or nobody has written one."""
        try:
            return SharedToken.from_file(self.token_file)
        except QuarterdeckError:
            return None


class LocalProcesses:
    """The folder. `announce` and `withdraw` are for the processes, `find` is for whoever calls them."""

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder or default_folder()

    def announce(self, addresses: Iterable[tuple[str, int]], token_file: Path) -> bool:
        """Records that this process listens there, and returns whether that worked. Addresses off loopback are recorded
        as they are reached from here."""
        document = json.dumps(
            {"pid": os.getpid(), "began": _began(os.getpid()), "token_file": str(token_file.absolute())}
        )
        try:
            self._make_folder()
            for file in self._folder.glob("*.json"):
                self._read(file)  # which forgets those that are long gone
            for host, port in addresses:
                part = self._folder / f".{port}-{os.getpid()}.part"
                part.write_text(document)
                part.replace(self._file(_name(host), port))
        except OSError:
            return False
        return True

    def withdraw(self, addresses: Iterable[tuple[str, int]]) -> None:
        """Of this process. What another one has announced since stays."""
        for host, port in addresses:
            found = self._read(self._file(_name(host), port))
            if found is not None and found.pid == os.getpid():
                with suppress(OSError):
                    self._file(_name(host), port).unlink()

    @property
    def can_be_found(self) -> bool:
        """Whether the folder exists and is ours. A process that is not in it has not announced itself, or has left."""
        return self._is_ours(self._folder)

    def trouble(self) -> str:
        """Why nobody is found, as a sentence; empty when nothing is in the way. One that nobody has made yet is not."""
        if self.can_be_found or not os.path.lexists(self._folder):
            return ""
        return f"{self._folder} is not a folder of this user that nobody else can enter (mode 0700)"

    def find(self, host: str, port: int) -> LocalProcess | None:
        """Who announced to listen at a loopback address: one that is alive, or has been until a moment ago."""
        if not is_loopback(host) or not self.can_be_found:
            return None
        names = ("127.0.0.1", "::1") if _bare(host) == "localhost" else (_bare(host),)
        found = [self._read(self._file(name, port)) for name in (*names, *_ANY)]
        known = [process for process in found if process is not None]
        return next((process for process in known if process.is_alive), next(iter(known), None))

    def _make_folder(self) -> None:
        with suppress(FileExistsError):
            self._folder.mkdir(mode=0o700)
        if not self._is_ours(self._folder):
            raise PermissionError(f"{self._folder} belongs to somebody else, or others can enter it")

    def _file(self, name: str, port: int) -> Path:
        return self._folder / f"{name}-{port}.json"

    @staticmethod
    def _is_ours(path: Path) -> bool:
        """Whether nobody else can have put anything there. A link does not count as ours."""
        try:
            found = path.lstat()
        except OSError:
            return False
        return stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o077

    def _read(self, file: Path) -> LocalProcess | None:
        try:
            with file.open("rb") as opened:
                age_s = time.time() - os.fstat(opened.fileno()).st_mtime
                document = json.loads(opened.read(_LARGEST_BYTES))
            found = LocalProcess(
                int(document["pid"]), Path(str(document["token_file"])), str(document.get("began", ""))
            )
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return None
        if age_s <= _REMEMBERED_S or found.is_alive:
            return found
        with suppress(OSError):
            file.unlink()
        return None


_ANY: Final = ("0.0.0.0", "::")  # noqa: S104 - how such a listener is called, not listened on


def _began(pid: int) -> str:
    """When a process began, in ticks since the machine did; empty where the system does not tell."""
    try:
        after_name = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2]
        return after_name.split()[_BEGAN_FIELD]
    except (OSError, IndexError):
        return ""


def _bare(host: str) -> str:
    """One form for all that an address may be written as.

    >>> _bare("LocalHost."), _bare("[0:0::1]")
    ('localhost', '::1')
    """
    bare = host.lower().rstrip(".").removeprefix("[").removesuffix("]")
    try:
        return str(ip_address(bare))
    except ValueError:
        return bare


def _name(host: str) -> str:
    """Of a listener, as part of a file's name."""
    bare = _bare(host)
    return "127.0.0.1" if bare in ("localhost", "") else bare


def default_folder() -> Path:
    """The same folder for every process of this user, whatever its home and its temporary folder are: a service, a
    shell and a cron job of one user have different ones. If there is no `/tmp`, a variable names another folder for all
    of them."""
    named = os.environ.get(RUN_DIR_VARIABLE)
    if named:
        return Path(named)
    base = Path("/tmp")  # noqa: S108 - the folder in it is checked for its owner and its mode
    return (base if base.is_dir() else Path(tempfile.gettempdir())) / f"quarterdeck-{os.getuid()}"
