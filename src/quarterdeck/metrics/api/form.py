"""Single values of a form: what the address and the body of a request hold together.

Of a parameter that may be there once the first counts, and one that is empty is not there. Every error is a
`BadRequest`.
"""

from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import Final, TypeAlias, TypeVar
from urllib.parse import parse_qsl

from quarterdeck.metrics.api.errors import BadRequest, invalid_parameter
from quarterdeck.metrics.api.times import parse_time_ms
from quarterdeck.metrics.promql.syntax.quoting import quote

MAX_PARAMETERS: Final = 1_000
"""Of a request, including `match[]`. Prometheus has no limit; Grafana sends some dozens."""
MAX_FORM_BYTES: Final = 1024 * 1024
"""Of a body that is a form: more than the longest query has with every character escaped."""
MAX_VALUE_CHARACTERS: Final = 8_192
"""Of a value that is no query: a time, a number, a word."""

Form: TypeAlias = Mapping[str, Sequence[str]]
T = TypeVar("T")
Choice = TypeVar("Choice", bound=StrEnum)


def parse_form(body: bytes, query: str) -> dict[str, list[str]]:
    """The parameters of both, those of the body first.

    >>> parse_form(b"a=1", "a=2&b=%20")
    {'a': ['1', '2'], 'b': [' ']}
    """
    count = (body.count(b"&") + 1 if body else 0) + (query.count("&") + 1 if query else 0)
    if count > MAX_PARAMETERS:
        raise BadRequest(
            f"the request has {count:,} parameters, and at most {MAX_PARAMETERS:,} are allowed",
            "ask in several requests, or with a regular expression: {name=~'a|b'}",
        )
    if len(body) > MAX_FORM_BYTES:
        raise BadRequest(
            f"the form has {len(body):,} bytes, and at most {MAX_FORM_BYTES:,} are allowed", "ask for less"
        )
    form: dict[str, list[str]] = {}
    for text in (body.decode("utf-8", "replace"), query):
        for name, value in parse_qsl(text, keep_blank_values=True, errors="replace"):
            form.setdefault(name, []).append(value)
    return form


def first(form: Form, name: str) -> str:
    """The value, or an empty text."""
    values = form.get(name)
    return values[0] if values else ""


def short(form: Form, name: str) -> str:
    """The same of a parameter that is no query."""
    text = first(form, name)
    if len(text) > MAX_VALUE_CHARACTERS:
        reason = f"it has {len(text):,} characters, and at most {MAX_VALUE_CHARACTERS:,} are allowed"
        raise invalid_parameter(name, reason)
    return text


def read(form: Form, name: str, parse: Callable[[str], T]) -> T:
    """What `parse` makes of the value; its ValueError is told as that of the parameter."""
    try:
        return parse(short(form, name))
    except ValueError as error:
        raise invalid_parameter(name, str(error)) from None


def choice(form: Form, name: str, choices: type[Choice], default: Choice) -> Choice:
    """One of a few words."""
    text = short(form, name)
    if not text:
        return default
    try:
        return choices(text)
    except ValueError:
        known = " or ".join(quote(one) for one in choices if one)
        raise invalid_parameter(name, f"it is {quote(text)}, and may be {known}") from None


def time_ms_of(form: Form, name: str, default_ms: int, now_ms: int | None = None) -> int:
    """A time that need not be there."""
    text = short(form, name)
    if not text:
        return default_ms
    try:
        return parse_time_ms(text, now_ms)
    except ValueError as error:
        raise invalid_parameter(name, f"invalid time value for '{name}': {error}") from None


def limit_of(form: Form) -> int:
    """How many things the answer may hold; 0 for all."""
    text = short(form, "limit")
    number = _integer(text or "0")
    if number is None:
        raise invalid_parameter("limit", f"strconv.Atoi: parsing {quote(text)}: invalid syntax")
    if number < 0:
        raise invalid_parameter("limit", "limit must be non-negative")
    return number


def count_of(form: Form, name: str) -> int:
    """A number that may be negative, as it is by default."""
    number = _integer(short(form, name) or "-1")
    if number is None:
        raise BadRequest(f"{name} must be a number", f"give {name} another value")
    return number


def _integer(text: str) -> int | None:
    """A whole number of 64 bits."""
    digits = text[1:] if text[:1] in ("+", "-") else text
    if not (digits.isascii() and digits.isdigit()) or len(digits) > 19:
        return None
    number = int(text)
    return number if -(2**63) <= number < 2**63 else None
