"""Single values of a form: what the address and the body of a request hold together.

Of a parameter that may be there once the first counts, and one that is empty is not there. Every error is a
`BadRequest`.
"""

from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import TypeAlias, TypeVar

from quarterdeck.metrics.api.errors import BadRequest, invalid_parameter
from quarterdeck.metrics.api.times import parse_time_ms
from quarterdeck.metrics.promql.syntax.quoting import quote

Form: TypeAlias = Mapping[str, Sequence[str]]
T = TypeVar("T")
Choice = TypeVar("Choice", bound=StrEnum)


def first(form: Form, name: str) -> str:
    """The value, or an empty text."""
    values = form.get(name)
    return values[0] if values else ""


def read(form: Form, name: str, parse: Callable[[str], T]) -> T:
    """What `parse` makes of the value; its ValueError is told as that of the parameter."""
    try:
        return parse(first(form, name))
    except ValueError as error:
        raise invalid_parameter(name, str(error)) from None


def choice(form: Form, name: str, choices: type[Choice], default: Choice) -> Choice:
    """One of a few words."""
    text = first(form, name)
    if not text:
        return default
    try:
        return choices(text)
    except ValueError:
        known = " or ".join(quote(one) for one in choices if one)
        raise invalid_parameter(name, f"it is {quote(text)}, and may be {known}") from None


def time_ms_of(form: Form, name: str, default_ms: int) -> int:
    """A time that need not be there."""
    text = first(form, name)
    if not text:
        return default_ms
    try:
        return parse_time_ms(text)
    except ValueError as error:
        raise invalid_parameter(name, f"invalid time value for '{name}': {error}") from None


def limit_of(form: Form) -> int:
    """How many things the answer may hold; 0 for all."""
    text = first(form, "limit")
    number = _integer(text or "0")
    if number is None:
        raise invalid_parameter("limit", f"strconv.Atoi: parsing {quote(text)}: invalid syntax")
    if number < 0:
        raise invalid_parameter("limit", "limit must be non-negative")
    return number


def count_of(form: Form, name: str) -> int:
    """A number that may be negative, as it is by default."""
    number = _integer(first(form, name) or "-1")
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
