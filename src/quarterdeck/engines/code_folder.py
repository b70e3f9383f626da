"""Folders with compiled code. Whoever can write there can run code as us, so nothing is loaded from where others can
write.

The rule is that of OpenSSH for its key files. A folder and each one above it belong to root or to our own user, and
neither group nor others can write them. A folder above may also be sticky, like the system's temporary folder, because
nobody can replace our files there. A link on the way belongs to root or us. A file follows the same rule.

Each step is opened from the one before and checked once it is open, and files are opened from their folder. So nobody
can put something else there between the check and the use.
"""

import contextlib
import errno
import fcntl
import hashlib
import os
import secrets
import stat
import tempfile
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from quarterdeck.core.errors import ErrorCode, QuarterdeckError
from quarterdeck.telemetry.logs import get_logger

_log = get_logger(__name__)

_STEP: Final = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW
"""A folder on the way need not be readable, where the system knows such a thing."""
_MOST_LINKS: Final = 40  # as Linux has it
_FILE_MODE: Final = 0o644  # as readable as the source is
_CREW_MODE: Final = 0o755
"""Of the crew's place: root may have compiled there for whoever runs the crew."""
CODE_VARIABLE: Final = "QUARTERDECK_CODE_DIR"
"""Names the crew's own place for compiled code, for a process and for those that it starts."""
_PACKAGE: Final = Path(__file__).parents[1] / "__init__.py"
"""Where all has been compiled, its place has a part for this one."""
_TOLD: Final[set[tuple[Path, str]]] = set()
_WRITTEN: Final[set[Path]] = set()
_ONLY: Final[list[Path]] = []
"""The one place for all code, when somebody has asked for it."""


class DistrustedError(OSError):
    """Others can write there."""

    def __init__(self, why: str, remedy: str, *, alarming: bool) -> None:
        super().__init__(errno.EPERM, why)
        self.why: Final = why
        self.remedy: Final = remedy
        self.alarming: Final = alarming
        """A group is often a person's own; another user never is."""


class NoPlaceError(QuarterdeckError):
    """Compiled code can be kept nowhere."""

    def __init__(self, reasons: Sequence[str]) -> None:
        super().__init__(
            ErrorCode.INVALID_ARGUMENT,
            "compiled code can be kept nowhere",
            "; ".join(reasons),
            f"give it a folder that this user alone can write: with --data-dir, or in {CODE_VARIABLE}",
        )
        self.args = (reasons,)  # from which copy and pickle make it anew


@dataclass(frozen=True, slots=True)
class CodeFolder:
    """A place for compiled code, which may not be there yet."""

    path: Path
    mode: int = 0o700
    """Of what is made of it."""

    def read(self, name: str) -> bytes | None:
        """What is in a file; None when there is none, or none to be trusted."""
        try:
            with self._opened(make=False) as folder, contextlib.ExitStack() as stack:
                descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=folder)
                stack.callback(os.close, descriptor)
                _check(os.fstat(descriptor), self.path / name)
                return stack.enter_context(os.fdopen(descriptor, "rb", closefd=False)).read()
        except DistrustedError as error:
            self._tell(error)
        except OSError:
            pass
        return None

    def write(self, name: str, data: bytes) -> None:
        """Writes a file, all of it or nothing; raises `OSError` where that cannot be done, or would not be trusted."""
        with self._told(), self._opened(make=True) as folder:
            part = f".{name}.{secrets.token_hex(8)}"
            descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600, dir_fd=folder)
            try:
                with os.fdopen(descriptor, "wb") as file:
                    os.fchmod(descriptor, _FILE_MODE)
                    file.write(data)
                os.rename(part, name, src_dir_fd=folder, dst_dir_fd=folder)
            except BaseException:
                with contextlib.suppress(OSError):
                    os.unlink(part, dir_fd=folder)
                raise
            _WRITTEN.add(self.path)

    def check_writable(self) -> None:
        """Raises `OSError` where nothing can be written, or would not be trusted."""
        with self._opened(make=True) as folder:
            if not os.access(".", os.W_OK | os.X_OK, dir_fd=folder):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    @contextlib.contextmanager
    def locked(self, name: str, on_wait: Callable[[int | None], None] = lambda _: None) -> Generator[None]:
        """One process at a time is in the block; raises `OSError` as `write` does. Before it waits, `on_wait` gets the
        process that is there, as far as that is known."""
        with contextlib.ExitStack() as stack:
            with self._told(), self._opened(make=True) as folder:
                # Nobody else may open it: whoever can, can keep it locked.
                descriptor = os.open(name, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600, dir_fd=folder)
                stack.callback(os.close, descriptor)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                holder = os.pread(descriptor, 20, 0)
                on_wait(int(holder) if holder.isdigit() else None)
                fcntl.flock(descriptor, fcntl.LOCK_EX)
            with contextlib.suppress(OSError):  # a full disk: nobody will know who waits for whom
                os.ftruncate(descriptor, 0)
                os.pwrite(descriptor, str(os.getpid()).encode(), 0)
            yield

    @contextlib.contextmanager
    def _opened(self, *, make: bool) -> Generator[int]:
        folder = _entered(self.path, self.mode if make else None)
        try:
            yield folder
        finally:
            os.close(folder)

    @contextlib.contextmanager
    def _told(self) -> Generator[None]:
        try:
            yield
        except DistrustedError as error:
            self._tell(error)
            raise

    def _tell(self, error: DistrustedError) -> None:
        """Once in a process."""
        if (self.path, error.why) not in _TOLD:
            _TOLD.add((self.path, error.why))
            say = _log.warning if error.alarming else _log.info
            text = "compiled code is not kept here, nor taken from here"
            say(text, folder=str(self.path), reason=error.why, remedy=error.remedy)


def code_folders(source: Path) -> Iterator[CodeFolder]:
    """Where code compiled from a source may be, that which most processes share first: beside the source, where there
    is Python's own as well, in the user's cache, in the data folder of the crew, among temporary files."""
    part = part_for(source)
    if _ONLY:
        yield CodeFolder(_ONLY[0] / part, _CREW_MODE)
        return
    yield CodeFolder(source.parent / "__pycache__", 0o755)
    cache = _user_cache()
    if cache is not None:
        yield CodeFolder(cache / "quarterdeck" / part)
    crew = os.environ.get(CODE_VARIABLE)
    if crew:
        yield CodeFolder(Path(crew).absolute() / part, _CREW_MODE)
    with contextlib.suppress(OSError):  # there is none that can be written
        yield CodeFolder(Path(tempfile.gettempdir()).absolute() / f"quarterdeck-{os.geteuid()}" / part)


def share_code_in(data_dir: Path) -> None:
    """Makes a part of a data folder the crew's place, for this process and those that it starts; one that was named
    before stays. A folder within that of a crew, as a worker has that joins later, shares the crew's."""
    crew = code_dir(data_dir.absolute().parent)
    is_there = (crew / part_for(_PACKAGE)).is_dir()
    os.environ.setdefault(CODE_VARIABLE, str(crew if is_there else code_dir(data_dir)))


def code_dir(data_dir: Path) -> Path:
    """The part of a data folder that is for compiled code."""
    return data_dir.absolute() / "code"


def keep_only_in(folder: Path) -> None:
    """From now on this process has no other place for compiled code."""
    _ONLY[:] = [folder]


def folders_written() -> tuple[Path, ...]:
    """Where this process has kept something."""
    return tuple(sorted(_WRITTEN))


def first_writable(folders: Iterable[CodeFolder]) -> CodeFolder:
    """Where code would be kept; raises `NoPlaceError`."""
    reasons: list[str] = []
    for folder in folders:
        try:
            folder.check_writable()
        except DistrustedError as error:
            reasons.append(error.why)
        except OSError as error:
            reasons.append(f"{folder.path}: {error.strerror or error}")
        else:
            return folder
    raise NoPlaceError(reasons)


def tell_unkept() -> None:
    """Once in a process: there is no place, and what was compiled goes when it ends."""
    if (Path(), "unkept") not in _TOLD:
        _TOLD.add((Path(), "unkept"))
        _log.warning(
            "compiled code is kept nowhere: every process compiles for itself, which takes a minute",
            remedy=f"make the data folder writable for this user alone, or name a folder in {CODE_VARIABLE}",
        )


def part_for(source: Path) -> str:
    """The folder for the code of one folder of sources among those of others."""
    folder = source.absolute().parent
    return f"{folder.name}-{hashlib.sha256(os.fsencode(folder)).hexdigest()[:16]}"


def _user_cache() -> Path | None:
    given = Path(os.environ.get("XDG_CACHE_HOME") or ".")
    if given.is_absolute():  # others do not count: https://specifications.freedesktop.org/basedir-spec/latest/
        return given
    with contextlib.suppress(RuntimeError, OSError):  # there is no home
        home = Path.home()
        if home.is_absolute() and home.is_dir():  # we make no home for anybody
            return home / ".cache"
    return None


def owners() -> frozenset[int]:
    """Whose files we trust."""
    return frozenset((0, os.geteuid()))


def _entered(path: Path, make_mode: int | None) -> int:
    """The descriptor of a folder, each step to which was checked; folders that are missing are made, if a mode says
    how."""
    waiting = list(reversed(path.absolute().parts[1:]))
    place = Path("/")
    links = 0
    here = os.open("/", _STEP)
    try:
        _check(os.fstat(here), place, above=bool(waiting))
        while waiting:
            name = waiting.pop()
            found = _seen(name, here, make_mode)
            if stat.S_ISLNK(found.st_mode):
                _check_owner(found, place / name)
                links += 1
                if links > _MOST_LINKS:
                    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
                target = Path(os.readlink(name, dir_fd=here))
                waiting.extend(reversed(target.parts[1:] if target.is_absolute() else target.parts))
                if not target.is_absolute():
                    continue
                name, place = "/", Path("/")
            below = os.open(name, _STEP, dir_fd=here)
            os.close(here)
            here = below
            place = place.parent if name == ".." else place / name
            _check(os.fstat(here), place, above=bool(waiting))
    except BaseException:
        os.close(here)
        raise
    return here


def _seen(name: str, folder: int, make_mode: int | None) -> os.stat_result:
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        if make_mode is None:
            raise
    with contextlib.suppress(FileExistsError):
        os.mkdir(name, make_mode, dir_fd=folder)
    return os.stat(name, dir_fd=folder, follow_symlinks=False)


def _check(found: os.stat_result, path: Path, *, above: bool = False) -> None:
    _check_owner(found, path)
    if not stat.S_ISDIR(found.st_mode) and not stat.S_ISREG(found.st_mode):
        raise DistrustedError(f"{path} is neither a folder nor a file", f"remove {path}", alarming=True)
    writers = found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    if writers and not (above and found.st_mode & stat.S_ISVTX):
        who = "everybody" if writers & stat.S_IWOTH else f"group {found.st_gid}"
        alarming = bool(writers & stat.S_IWOTH)
        raise DistrustedError(f"{who} can write {path}", f"chmod go-w {path}", alarming=alarming)


def _check_owner(found: os.stat_result, path: Path) -> None:
    if found.st_uid not in owners():
        why = f"{path} belongs to user {found.st_uid}, and this process is user {os.geteuid()}'s"
        raise DistrustedError(why, "run as that user, or give it to this one or to root", alarming=True)
