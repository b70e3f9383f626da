"""The schema of a body that a route reads, and so describes, by itself."""

from collections.abc import Mapping
from typing import Any, cast

from pydantic import BaseModel


def whole_schema(model: type[BaseModel]) -> dict[str, Any]:
    """The schema of a model that does not contain itself. References are replaced by what they refer to: the references
    that pydantic writes lead nowhere within an OpenAPI document."""
    schema = model.model_json_schema()
    definitions: dict[str, Any] = schema.pop("$defs", {})
    return cast("dict[str, Any]", _whole(schema, definitions))


def _whole(part: object, definitions: Mapping[str, Any]) -> object:
    if isinstance(part, list):
        return [_whole(one, definitions) for one in cast("list[object]", part)]
    if not isinstance(part, dict):
        return part
    named = cast("dict[str, object]", part)
    reference = named.get("$ref")
    if isinstance(reference, str):
        meant: dict[str, object] = definitions[reference.removeprefix("#/$defs/")]
        named = {**meant, **{name: value for name, value in named.items() if name != "$ref"}}
    return {name: _whole(value, definitions) for name, value in named.items()}
