"""Where an object is: on the local file system or in an S3 bucket, and under which key.

Local objects are named by their absolute path, others by their URL. A `..` is refused everywhere: a name means one
object, and never one outside the place that it begins with.
"""

import os
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

from quarterdeck.core.errors import ErrorCode, QuarterdeckError

_S3_SCHEMES = frozenset({"s3", "s3a"})
_BYTES_MAX = 4096
"""What Linux takes for a path; S3 takes a quarter of it for a key."""
_SHOWN_MAX = 200
"""How many characters of a refused name an error repeats."""


@dataclass(frozen=True, slots=True)
class Location:
    bucket: str | None
    """None is the local file system."""
    key: str
    """Without a slash at either end; of a local file, the path from the root."""
    is_folder: bool = False
    """Whether it was written with a slash at its end."""

    @property
    def url(self) -> str:
        return self.with_key(self.key)

    def with_key(self, key: str) -> str:
        """The URL of another object in the same place."""
        return f"/{key}" if self.bucket is None else f"s3://{self.bucket}/{key}"

    @property
    def path(self) -> Path | None:
        return Path(f"/{self.key}") if self.bucket is None else None


def parse_location(text: str) -> Location:
    """Understands paths, `file://` and `s3://`; anything else is refused.

    >>> parse_location("s3://lake/day=7/").url
    's3://lake/day=7'
    """
    scheme, separator, rest = text.partition("://")
    _check_text(text, text)
    if not separator:
        return _local(text, text)
    if scheme == "file":
        host, _, path = rest.partition("/")
        if host not in ("", "localhost"):
            raise _refused(text, f"{host} is another machine")
        return _local(text, unquote(f"/{path}"))
    if scheme in _S3_SCHEMES:
        return _s3(text, rest)
    raise _refused(text, f"{scheme} is not a kind of store we know")


def _check_text(text: str, name: str) -> None:
    """Whether it can be the name of anything. What is no Unicode could not even be told to others."""
    if not name or "\0" in name:
        raise _refused(text, "it names nothing")
    try:
        length_bytes = len(name.encode())
    except UnicodeEncodeError:
        raise _refused(text, "it has half of a surrogate pair in it, and is not Unicode text") from None
    if length_bytes > _BYTES_MAX:
        raise _refused(text, f"it is longer than {_BYTES_MAX:,} bytes")


def _local(text: str, path: str) -> Location:
    _check_text(text, path)
    if ".." in path.split("/"):
        raise _refused(text, "it has a `..` in it")
    return Location(None, os.path.abspath(path).strip("/"), path.endswith("/"))  # noqa: PTH100 - resolves no links


def _s3(text: str, rest: str) -> Location:
    bucket, _, key = rest.partition("/")
    if not bucket:
        raise _refused(text, "it names no bucket")
    segments = key.removesuffix("/").split("/") if key else []
    for segment in segments:
        if segment in ("", ".", ".."):
            raise _refused(text, f"it has a `{segment}` between two slashes")
    return Location(bucket, "/".join(segments), key.endswith("/") or not key)


def _refused(text: str, why: str) -> QuarterdeckError:
    shown = repr(text) if len(text) <= _SHOWN_MAX else f"{text[:_SHOWN_MAX]!r}…"
    return QuarterdeckError(
        ErrorCode.INVALID_ARGUMENT,
        f"{shown} cannot be read",
        why,
        "use a path, file:///folder/name or s3://bucket/name, where name may have *, ? and ** in it",
    )
