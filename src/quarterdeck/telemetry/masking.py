"""Which part of a value a log may show, and how it is shown if the value itself objects.

Secrets are recognized by name: a value that is logged under the name of a secret is replaced, however deep it is.
`masked_text` finds such names in a text that a person wrote, such as a query. Whoever shows such a text has to call it.
"""

import re
from collections.abc import Mapping
from typing import Final, TypeVar, cast

SECRETS: Final = (
    *("token", "authorization", "password", "passwd", "passphrase"),
    *("secret", "secret_key", "secret_access_key", "private_key", "api_key", "apikey"),
)
"""A name is a secret's when it is one of these or ends in one: `session_token`, `Proxy-Authorization`."""
MASK: Final = "***"

NameT = TypeVar("NameT")

_DEEPEST = 6
"""What lies deeper is masked: nothing that should be logged is nested like that, and a value may contain itself."""


def is_secret(name: object) -> bool:
    """Whether a value under this name must not be shown.

    >>> is_secret("X-Auth-Token"), is_secret(b"authorization"), is_secret("tokens_used")
    (True, True, False)
    """
    text = name.decode("latin-1") if isinstance(name, bytes) else name
    if not isinstance(text, str):
        return False
    plain = text.lower().replace("-", "_")
    return plain.endswith(SECRETS) and any(plain == secret or plain.endswith(f"_{secret}") for secret in SECRETS)


def masked(value: object, depth: int = 0) -> object:
    """The value with every secret inside it replaced. Headers as pairs of name and value are understood too."""
    if isinstance(value, str | bytes | int | float) or value is None:
        return value
    if isinstance(value, Mapping):
        return MASK if depth == _DEEPEST else masked_fields(cast("Mapping[object, object]", value), depth + 1)
    if isinstance(value, list | tuple):
        items = cast("list[object] | tuple[object, ...]", value)
        if len(items) == 2 and is_secret(items[0]):
            return [items[0], MASK]
        return MASK if depth == _DEEPEST else [masked(item, depth + 1) for item in items]
    return value


def masked_fields(fields: Mapping[NameT, object], depth: int = 0) -> dict[NameT, object]:
    return {name: MASK if is_secret(name) else masked(value, depth) for name, value in fields.items()}


def as_text(value: object) -> str:
    """A text for any value, secrets masked; one that cannot even be looked at is named by its type."""
    try:
        shown = masked(value)
        return shown if isinstance(shown, str) else repr(shown)
    except Exception as error:  # noqa: BLE001 - a value may do anything when it is looked at, and a log must not fail
        return f"<{type(value).__name__} that cannot be shown: {type(error).__name__}>"


_IN_TEXTS: Final = (*SECRETS, "access_key", "account_key", "encryption_key", "credentials", "signature", "pwd")
"""A text has no fields that we named: more names are known there, such as those of DuckDB, of buckets and of signed
URLs. Their words may also be joined without a mark: `secretKey`."""
_NAMES: Final = "|".join(sorted(_IN_TEXTS, key=len, reverse=True)).replace("_", "[_-]?")
_QUOTED: Final = r"""(?:[a-z]?'(?:[^'\\]|\\.|'')*'?|[a-z]?"(?:[^"\\]|\\.|"")*"?|`[^`]*`?|\$\$.*?(?:\$\$|\Z))"""
"""A string in any of our languages, to its end: a quote within it is escaped or doubled."""
_VALUE_OF_SECRET: Final = re.compile(
    rf"""((?:(?<![A-Za-z0-9])|(?-i:(?<=[a-z0-9])(?=[A-Z])))(?:{_NAMES})["'`]?)"""
    r"""(\s{0,9}(?:!=|=~|!~|==|=>|:=|<>|[=:~]|\b(?:not\s{1,9})?(?:i?like|in)\b)\s{0,9}|\s{1,9}(?=[a-z]?['"]))"""
    rf"""(?:(?:Bearer|Basic|Token|ApiKey)\s{{1,9}})?"""
    rf"""(?:{_QUOTED}|\w{{0,30}}\((?:{_QUOTED}|[^'"`$)]|\$)*\)?|[^\s,;&'")}}\]]+)""",
    re.IGNORECASE | re.DOTALL,
)
"""A name of a secret, alone or as the end of another, something that gives it a value, and the value: a string, a list
or a call in brackets, or a word."""
_BEARER: Final = re.compile(r"\b(Bearer\s{1,9})[\w.~+/=-]{16,}", re.IGNORECASE)
_USER_IN_URL: Final = re.compile(
    r"""(?<=://)(?:[^\s/?#'"]{1,200}|[^\s/?#@:'"]{1,200}:(?!\d{1,5}(?:[/?#]|\Z))[^\s@'"]{1,200})@"""
)
"""Up to the last `@` before the path; a password may have a slash in it, where it is no port."""


def masked_text(text: str) -> str:
    """A text with the values of secrets replaced, where their names stand before them or they are in a URL.

    >>> masked_text("scan 's3://key:hush@bucket/x', s3_secret_access_key='hush', 'session-token': hush")
    "scan 's3://***@bucket/x', s3_secret_access_key=***, 'session-token': ***"
    """
    text = _VALUE_OF_SECRET.sub(rf"\1\2{MASK}", _BEARER.sub(rf"\1{MASK}", text))
    return _USER_IN_URL.sub(f"{MASK}@", text)


def printable(text: str) -> str:
    r"""A text in which nothing moves a cursor, turns the direction of writing or breaks a line.

    >>> printable("a\r\n b\x1b[2J\u202e\udcff")
    'a b\\x1b[2J\\u202e\\udcff'
    """
    if text.isprintable():
        return text
    return _SPACES.sub(" ", text).translate(_ESCAPES)


class _Escapes(dict[int, str]):
    """What stands for each character, worked out once: a text may be full of the worst ones. Of so many at the most:
    there are a million."""

    def __missing__(self, code: int) -> str:
        one = chr(code)
        shown = one if one.isprintable() else one.encode("unicode_escape").decode()
        if len(self) < _MOST_ESCAPES:
            self[code] = shown
        return shown


_MOST_ESCAPES: Final = 4096
_ESCAPES: Final = _Escapes()
_SPACES: Final = re.compile(r"[ \t\r\n\f\v]+")
