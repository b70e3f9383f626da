"""JSON as it is shown to people: numbers as they were written, and nothing that a terminal would obey."""

import json
import re
from typing import Any, Final, TypeAlias, cast

from quarterdeck.terminal.telling import printable


class Written(str):
    """A number with a fraction or an exponent, digit by digit."""

    __slots__ = ()


Record: TypeAlias = dict[str, Any]

_DECODER: Final = json.JSONDecoder(parse_float=Written, parse_constant=Written)
_PLAIN: Final = re.compile(r"[^\s\"'=,{}\[\]]+")
_OTHERWISE: Final = re.compile(r"-?\d+(\.\d+)?([eE][+-]?\d+)?|true|false|null")
"""Texts that would look like something else without quotes."""


def read_record(line: str) -> Record | None:
    """None when it is no object.

    >>> read_record('{"a": 1.50}'), read_record("[1]"), read_record("{")
    ({'a': '1.50'}, None, None)
    """
    try:
        value: Any = _DECODER.decode(line)
    except (ValueError, RecursionError):
        return None
    return cast("Record", value) if isinstance(value, dict) else None


def shown_value(value: Any) -> str:
    """As short as it can be without being taken for something else.

    >>> [shown_value(value) for value in ("a-b", "a b", "500", 500, Written("0.50"), True, None, {"a": [1, "ü"]})]
    ['a-b', '"a b"', '"500"', '500', '0.50', 'true', 'null', '{"a":[1,"ü"]}']
    """
    if type(value) is str and _PLAIN.fullmatch(value) and not _OTHERWISE.fullmatch(value):
        return printable(value)
    return printable(json_text(value))


def json_text(value: Any) -> str:
    """
    >>> json_text({"a": [Written("1.50"), "x"], "b": None})
    '{"a":[1.50,"x"],"b":null}'
    """
    match value:
        case Written():
            return str(value)
        case dict():
            members = cast("Record", value)
            return (
                "{"
                + ",".join(f"{json.dumps(key, ensure_ascii=False)}:{json_text(members[key])}" for key in members)
                + "}"
            )
        case list():
            items = cast("list[Any]", value)
            return "[" + ",".join(map(json_text, items)) + "]"
        case _:
            return json.dumps(value, ensure_ascii=False)


def is_number(value: Any) -> bool:
    return (isinstance(value, int) and not isinstance(value, bool)) or isinstance(value, Written)
