"""Scenarios as JSON: written to be read by people, and read back whatever people have made of them.

A scenario is a frozen dataclass of numbers, texts, dataclasses and tuples of these. One field, `faults`, has faults of
several kinds, and each is written with the name of its kind.
"""

import json
from collections.abc import Mapping
from dataclasses import MISSING, asdict, fields, is_dataclass
from enum import StrEnum
from functools import cache
from types import NoneType, UnionType
from typing import Any, Final, Protocol, TypeVar, cast, get_args, get_origin, get_type_hints

_FAULTS: Final = "faults"


class WrittenScenario(Protocol):
    @property
    def hosts(self) -> tuple[str, ...]:
        """All hosts there are."""
        ...

    @property
    def named_hosts(self) -> set[str]:
        """Those that its parts name."""
        ...


ScenarioT = TypeVar("ScenarioT", bound=WrittenScenario)


def scenario_to_json(scenario: WrittenScenario, kinds: Mapping[str, type[object]]) -> str:
    names = {kind: name for name, kind in kinds.items()}
    faults = getattr(scenario, _FAULTS)
    plain = asdict(cast("Any", scenario)) | {_FAULTS: [{"fault": names[type(one)], **asdict(one)} for one in faults]}
    return json.dumps(plain, indent=1)


def scenario_from_json(text: str, kind: type[ScenarioT], kinds: Mapping[str, type[object]]) -> ScenarioT:
    """What `scenario_to_json` wrote. Raises ValueError, naming what is wrong, for anything else."""
    try:
        plain = _checked(dict[str, Any], json.loads(text), "a scenario")
        faults = tuple(_fault(one, kinds) for one in _checked(list[Any], plain.pop(_FAULTS, []), _FAULTS))
        scenario = _made(kind, plain, "a scenario", faults=faults)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"this is not a scenario: {error}") from error
    if unknown := scenario.named_hosts - set(scenario.hosts):
        raise ValueError(f"this is not a scenario: it has no host {', '.join(sorted(unknown))}")
    return scenario


def _fault(plain: object, kinds: Mapping[str, type[object]]) -> object:
    given = dict(_checked(dict[str, Any], plain, "a fault"))
    name = given.pop("fault", None)
    if not isinstance(name, str) or name not in kinds:
        raise ValueError(f"{name!r} is no kind of fault; there are: {', '.join(kinds)}")
    return _made(kinds[name], given, f"the fault {name}")


MadeT = TypeVar("MadeT")
_hints_of: Final = cache(get_type_hints)


def _made(kind: type[MadeT], plain: dict[str, Any], what: str, **ready: object) -> MadeT:
    own = [field for field in fields(cast("Any", kind)) if field.name not in ready]
    if unknown := plain.keys() - {field.name for field in own}:
        raise ValueError(f"{what} has no {', '.join(sorted(unknown))}")
    if missing := [field.name for field in own if field.name not in plain and field.default is MISSING]:
        raise ValueError(f"{what} lacks {', '.join(missing)}")
    hints = _hints_of(kind)
    values = {name: _value(hints[name], value, f"{name} of {what}") for name, value in plain.items()}
    return kind(**values, **ready)


def _value(kind: Any, value: Any, what: str) -> Any:
    """The value as a field of this kind has it."""
    if get_origin(kind) is UnionType:  # something, or None
        (kind,) = (one for one in get_args(kind) if one is not NoneType)
        return None if value is None else _value(kind, value, what)
    if get_origin(kind) is tuple:
        each = get_args(kind)[0]
        return tuple(_value(each, one, f"one of {what}") for one in _checked(list[Any], value, what))
    if is_dataclass(kind):
        return _made(cast("type[object]", kind), _checked(dict[str, Any], value, what), what)
    if issubclass(kind, StrEnum):
        if value not in list(kind):
            raise ValueError(f"{what} is {value!r}; it may be: {', '.join(kind)}")
        return kind(value)
    return _checked(kind, value, what)


def _checked(kind: type[MadeT], value: object, what: str) -> MadeT:
    """The value, if it is of this kind."""
    plain: type[object] = get_origin(kind) or kind
    is_other = isinstance(value, bool) and plain is not bool  # Python takes true for a number
    if is_other or not isinstance(value, (int, float) if plain is float else plain):
        raise ValueError(f"{what} is {value!r}, and not {_WORDS[plain]}")
    return cast("MadeT", value)


_WORDS: Final[Mapping[type[object], str]] = {
    bool: "true or false",
    dict: "an object",
    float: "a number",
    int: "a whole number",
    list: "a list",
    str: "a text",
}
