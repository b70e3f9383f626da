"""From an OpenAPI document: a schema in one word, an example of it, and how to ask with curl."""

import json
import shlex
from collections.abc import Iterator, Mapping
from typing import Any, Final, cast

from quarterdeck.http.gate import OPEN_PATHS

Document = Mapping[str, Any]

_FORM: Final = "application/x-www-form-urlencoded"
_DEEPEST: Final = 6
"""Of an example; ours are flatter, and a schema may contain itself."""


def resolved(document: Document, schema: Document) -> Document:
    """The schema, where it is only a name the one of that name; of alternatives the first that is not null."""
    for _ in range(_DEEPEST):
        if "$ref" in schema:
            found: Any = document
            for part in str(schema["$ref"]).removeprefix("#/").split("/"):
                found = found[part]
            schema = {**found, **{name: value for name, value in schema.items() if name != "$ref"}}
        elif "anyOf" in schema:
            first = next(one for one in schema["anyOf"] if one.get("type") != "null")
            schema = {**first, **{name: value for name, value in schema.items() if name != "anyOf"}}
        else:
            break
    return schema


def type_of(document: Document, schema: Document) -> str:
    """In a word or two.

    >>> type_of({}, {"type": "array", "items": {"type": "string"}}), type_of({}, {"enum": ["a", "b"]})
    ('list of string', 'a | b')
    """
    if "anyOf" in schema:
        kinds = [type_of(document, one) for one in schema["anyOf"] if one.get("type") != "null"]
        return " | ".join(dict.fromkeys(kinds))
    schema = resolved(document, schema)
    if "enum" in schema:
        return " | ".join(map(str, schema["enum"]))
    if schema.get("type") == "array":
        return f"list of {type_of(document, schema.get('items', {}))}"
    return str(schema.get("type", "any"))


def properties_of(document: Document, schema: Document) -> Iterator[tuple[str, Document, bool]]:
    """Name, schema, and whether it must be there."""
    schema = resolved(document, schema)
    required = schema.get("required", ())
    for name, one in schema.get("properties", {}).items():
        yield name, one, name in required


def sample_of(document: Document, schema: Document, depth: int = 0) -> object:
    """A value that the schema describes; of an object what must be there."""
    schema = resolved(document, schema)
    for given in ("example", "const", "default"):
        if schema.get(given) is not None:
            return cast("object", schema[given])
    if schema.get("examples") or schema.get("enum"):
        return cast("object", (schema.get("examples") or schema["enum"])[0])
    if depth == _DEEPEST:
        return None
    match schema.get("type"):
        case "object":
            found = properties_of(document, schema)
            return {name: sample_of(document, one, depth + 1) for name, one, required in found if required}
        case "array":
            return [sample_of(document, schema.get("items", {}), depth + 1)]
        case "integer":
            return int(schema.get("minimum", 1))
        case "number":
            return cast("object", schema.get("minimum", 1))
        case "boolean":
            return True
        case "string":
            return "…"
        case _:
            return None


def shown_json(document: Document, content: Document) -> str:
    """The example of an answer, or one made of its schema; empty where neither says anything."""
    example = content.get("example")
    if isinstance(example, str):
        return example
    if example is None and content.get("schema"):
        example = sample_of(document, content["schema"])
    return "" if example in (None, {}, [], "…", [None]) else json.dumps(example, indent=2, ensure_ascii=False)


def curl_of(document: Document, url: str, path: str, method: str, operation: Document) -> str:
    """A command line with what must be there."""
    words = ["curl"]
    if path not in OPEN_PATHS:
        words.append(f'-H "Authorization: Bearer $(quarterdeck token --url {url})"')
    for one in operation.get("parameters", ()):
        sample = one.get("example", sample_of(document, one.get("schema", {})))
        if one["in"] == "path":
            path = path.replace(f"{{{one['name']}}}", str(sample))
        elif one.get("required") and one["in"] == "query":
            words += ["-G"] if "-G" not in words else []
            words.append(_field(one["name"], sample))
    contents: Mapping[str, Document] = operation.get("requestBody", {}).get("content", {})
    kind = next(iter(contents), "")
    content: Document = contents.get(kind, {})
    if kind == _FORM:
        for name, schema, is_required in properties_of(document, content.get("schema", {})):
            if is_required:
                words.append(_field(name, sample_of(document, schema)))
    elif kind:
        body = json.dumps(sample_of(document, content.get("schema", {})), ensure_ascii=False)
        words.append(f"-H {shlex.quote(f'Content-Type: {kind}')} -d {shlex.quote(body)}")
    if method == "post" and not any(word.startswith("--data") or " -d " in word for word in words):
        words.append("-X POST")
    first, *rest = [*words, shlex.quote(url + path)]
    return f"{first} " + " \\\n  ".join(rest)


def _field(name: str, value: object) -> str:
    first: object = cast("list[object]", value)[0] if isinstance(value, list) else value
    return f"--data-urlencode {shlex.quote(f'{name}={first}')}"
