"""The kinds of value a setting may have. Each says in words what is allowed: for errors and for the reference.

A switch is not a number here, although Python thinks so: `slots: yes` in a file is a mistake, not one slot.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final, Literal, cast, get_args

from pydantic import AfterValidator, BaseModel, BeforeValidator, Field, SecretStr
from pydantic.fields import FieldInfo
from pydantic_settings import NoDecode

from quarterdeck.config.addresses import parse_address, parse_host, parse_url
from quarterdeck.config.sizes import parse_size
from quarterdeck.core.ids import MAX_NAME
from quarterdeck.paths import whole_location, whole_path


@dataclass(frozen=True, slots=True)
class Allowed:
    """What a value may be, in words that follow `allowed is`."""

    text: str


def _number(value: object) -> object:
    if isinstance(value, bool):
        raise ValueError("not a number")  # noqa: TRY004 - pydantic gathers ValueError and lets TypeError through
    return value


def items(value: object) -> object:
    """A list may be written as one text with commas: in an environment variable there is no other way."""
    if isinstance(value, str):
        return [item.strip() for item in value.split(",") if item.strip()]
    return value


def _not_blank(value: str) -> str:
    if not value.strip():
        raise ValueError("blank")
    return value.strip()


def _name(value: str) -> str:
    """As the other processes take it: it is a key of their tables, metrics and logs."""
    name = _not_blank(value)
    if len(name) > MAX_NAME or not name.isprintable():
        raise ValueError("too long or not printable")
    return name


def _site(value: str) -> str:
    """As a browser names it, so that it can be found in what browsers say.

    >>> _site("https://*.tools.example"), _site("http://[::1]:*"), _site("*")
    ('https://*.tools.example', 'http://[::1]:*', '*')
    """
    if not _SITE.fullmatch(value):
        raise ValueError("no site")
    return value


def _lower(value: object) -> object:
    return value.strip().lower() if isinstance(value, str) else value


_SITE: Final = re.compile(r"\*|null|[a-z][a-z0-9+.-]*://([a-z0-9*._-]+|\[[0-9a-f:.*]+\])(:([0-9]+|\*))?")
_NUMBER: Final = BeforeValidator(_number)
_SIZE: Final = BeforeValidator(parse_size)
_PATH: Final = AfterValidator(whole_path)

Text = Annotated[str, AfterValidator(_not_blank), Allowed("text that is not empty (a number in a file in quotes)")]
Name = Annotated[
    str, AfterValidator(_name), Allowed(f"text of 1 to {MAX_NAME} printable characters (a number in a file in quotes)")
]
Texts = Annotated[
    tuple[Text, ...], NoDecode, BeforeValidator(items), Allowed("a list of words, or one text with commas")
]
Sites = Annotated[
    tuple[Annotated[str, BeforeValidator(_lower), AfterValidator(_site)], ...],
    NoDecode,
    BeforeValidator(items),
    Allowed(
        "a list of sites such as https://tools.example, with nothing behind name and port, or one text with commas"
    ),
]
UrlWithPassword = Annotated[Text, Field(repr=False)]
Place = Annotated[
    str,
    AfterValidator(_not_blank),
    AfterValidator(whole_location),
    Allowed("the path of a folder, or a URL such as s3://bucket/folder without `..`"),
]
Places = Annotated[
    tuple[Place, ...],
    NoDecode,
    BeforeValidator(items),
    Allowed("a list of folders and URLs such as s3://bucket/folder, or one text with commas"),
]
Port = Annotated[int, _NUMBER, Field(ge=0, le=65535), Allowed("a port from 0 to 65535, where 0 takes a free one")]
Count = Annotated[int, _NUMBER, Field(ge=1), Allowed("a whole number from 1")]
CountOrZero = Annotated[int, _NUMBER, Field(ge=0), Allowed("a whole number from 0")]
Seconds = Annotated[float, _NUMBER, Field(gt=0, allow_inf_nan=False), Allowed("seconds, a number above 0")]
PollSeconds = Annotated[float, _NUMBER, Field(gt=0, le=3600), Allowed("seconds, a number above 0 and at most 3600")]
SecondsOrZero = Annotated[float, _NUMBER, Field(ge=0, allow_inf_nan=False), Allowed("seconds, a number from 0")]
Share = Annotated[float, _NUMBER, Field(gt=0, le=1), Allowed("a number above 0 and at most 1")]
Bytes = Annotated[int, _SIZE, Field(gt=0), Allowed("a size above 0: bytes, or a text such as 512MiB, 10GiB, 2TB")]
BytesOrZero = Annotated[int, _SIZE, Field(ge=0), Allowed("a size: bytes, or a text such as 0, 512MiB, 10GiB, 2TB")]
Switch = Annotated[bool, Allowed("true or false")]
Host = Annotated[str, BeforeValidator(parse_host), Allowed("a host name or address without a port")]
Address = Annotated[str, BeforeValidator(parse_address), Allowed("HOST:PORT, an IPv6 address in brackets")]
Addresses = Annotated[
    tuple[Address, ...], NoDecode, BeforeValidator(items), Allowed("a list of HOST:PORT, or one text with commas")
]
Url = Annotated[str, BeforeValidator(parse_url), Allowed("a URL such as https://worker-1.example:7072")]
Urls = Annotated[tuple[Url, ...], NoDecode, BeforeValidator(items), Allowed("a list of URLs, or one text with commas")]
File = Annotated[Path, _PATH, Allowed("the path of a file")]
Folder = Annotated[Path, _PATH, Allowed("the path of a folder")]
Secret = Annotated[SecretStr, Allowed("text; better in an environment variable than in a file")]
LogFormat = Annotated[Literal["auto", "console", "json"], BeforeValidator(_lower), Allowed("auto, console or json")]
LogLevel = Annotated[
    Literal["debug", "info", "warning", "error"], BeforeValidator(_lower), Allowed("debug, info, warning or error")
]


def computed(factory: Callable[[], Any] | Callable[[dict[str, Any]], Any], text: str) -> Any:
    """A default that is worked out at the start, from the settings before it if the factory takes an argument."""
    return Field(default_factory=factory, json_schema_extra={"default_text": text})


def allowed(field: FieldInfo) -> str:
    """What a setting may be, in words."""
    return next(found.text for found in _marks(field.annotation, field.metadata))


def default_text(field: FieldInfo) -> str | None:
    """How a default that is worked out is told; None when there is a plain one."""
    return cast("Mapping[str, str]", field.json_schema_extra or {}).get("default_text")


def has_more_below(field: FieldInfo) -> bool:
    """Whether a setting is a group of others."""
    return isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel)


def is_secret(field: FieldInfo) -> bool:
    """Whether a value must not be shown: it is a secret, is kept out of `repr`, or has one below it."""
    return not field.repr or _has_secret(field.annotation)


def _has_secret(annotation: Any) -> bool:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return any(map(is_secret, annotation.model_fields.values()))
    return annotation is SecretStr or any(map(_has_secret, get_args(annotation)))


def _marks(annotation: Any, metadata: list[Any]) -> Iterator[Allowed]:
    """The marks on a type, then those on what it consists of: of `Port | None`, those of `Port`."""
    yield from (mark for mark in metadata if isinstance(mark, Allowed))
    for part in get_args(annotation):
        yield from _marks(part, list(getattr(part, "__metadata__", ())))
