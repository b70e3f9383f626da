"""The token that a crew and its clients share. It is read once, compared in constant time, and never shown.

The text it is compared with comes from outside: an error says nothing about the right token, not even its length.
"""

import hmac
import os
import secrets
from pathlib import Path
from typing import Final

from quarterdeck.core.errors import ErrorCode, QuarterdeckError

MIN_LENGTH: Final = 16
"""Sixteen characters of base64 are 96 bits: nobody guesses them over a network."""

TOKEN_VARIABLE: Final = "QUARTERDECK_TOKEN"  # noqa: S105 - where it is, not what it is
"""The environment variable that may hold the token."""
TOKEN_NAME: Final = "token"  # noqa: S105 - of a file
"""What the file is called in which a process or a crew keeps a token that it made."""

_SCHEME: Final = "bearer"
_MADE_BYTES: Final = 32


class SharedToken:
    """Make it with `from_file`, `kept_in`, `from_environment` or `from_text`."""

    __slots__ = ("_origin", "_secret")

    def __init__(self, secret: str, origin: str) -> None:
        problem = _problem_of(secret)
        if problem:
            raise QuarterdeckError(
                ErrorCode.INVALID_ARGUMENT,
                f"the token from {origin} cannot be used",
                problem,
                "put one line of at least 16 random letters and digits there, such as `openssl rand -hex 32` prints",
            )
        self._secret = secret.encode()
        self._origin = origin

    @classmethod
    def from_file(cls, path: Path) -> "SharedToken":
        """The one line of a file. Space around it, the end of the line included, is not part of the token."""
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not text"
            raise QuarterdeckError(
                ErrorCode.INVALID_ARGUMENT,
                f"the token file {path} cannot be read",
                reason or str(error),
                "name a text file that this process may read, with the token as its one line",
            ) from error
        return cls(text.strip(), f"the file {path}")

    @classmethod
    def kept_in(cls, path: Path) -> "SharedToken":
        """The token of a file that only its owner can read, made with the first call. Its folder is the
        caller's alone."""
        if not path.exists():
            part = path.with_name(f".{path.name}-{secrets.token_hex(4)}")
            descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            with os.fdopen(descriptor, "w") as out:
                out.write(f"{secrets.token_urlsafe(_MADE_BYTES)}\n")
            part.replace(path)
        found = path.lstat()
        if found.st_uid != os.getuid() or found.st_mode & 0o077:
            raise QuarterdeckError(
                ErrorCode.INVALID_ARGUMENT,
                f"the token file {path} cannot be used",
                "it belongs to another user, or others can read it",
                "delete it, and a new one is made; or name another with token_file",
            )
        return cls.from_file(path)

    @classmethod
    def from_environment(cls, variable: str) -> "SharedToken | None":
        """The value of an environment variable; None when it is not set, or empty."""
        value = os.environ.get(variable, "").strip()
        return cls(value, f"the environment variable {variable}") if value else None

    @classmethod
    def from_text(cls, text: str) -> "SharedToken":
        return cls(text, "the caller")

    def matches(self, authorization: str | None) -> bool:
        """Whether this is the value of an `Authorization` header that carries the token."""
        scheme, _, presented = (authorization or "").strip().partition(" ")
        if scheme.lower() != _SCHEME:
            return False
        # A header is bytes taken for Latin-1; whatever is in it has a form in UTF-8, and only ASCII can be equal.
        return hmac.compare_digest(presented.strip().encode("utf-8", "surrogatepass"), self._secret)

    @property
    def authorization(self) -> str:
        """The value of the `Authorization` header to send. This is the secret: it does not go into a log."""
        return f"Bearer {self._secret.decode()}"

    def __repr__(self) -> str:
        return f"SharedToken(from {self._origin})"


def _problem_of(secret: str) -> str:
    if not secret:
        return "it is empty"
    if len(secret) < MIN_LENGTH:
        return f"it has {len(secret)} characters, fewer than {MIN_LENGTH}"
    if not all("!" <= character <= "~" for character in secret):
        return "it has spaces, line ends or characters that are not ASCII"
    return ""
