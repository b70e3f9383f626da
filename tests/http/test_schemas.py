"""A schema that stands in a document of OpenAPI refers to nothing that is not there."""

import json
from enum import StrEnum

from pydantic import BaseModel

from quarterdeck.http.schemas import whole_schema
from quarterdeck.search.chunk_request import ChunkBody


class Colour(StrEnum):
    RED = "red"


class Inner(BaseModel):
    colour: Colour = Colour.RED


class Outer(BaseModel):
    one: Inner
    many: list[Inner]


def test_what_a_schema_refers_to_stands_in_its_place() -> None:
    schema = whole_schema(Outer)
    colour = {"enum": ["red"], "type": "string", "title": "Colour", "default": "red"}
    assert schema["properties"]["one"]["properties"]["colour"] == colour
    assert schema["properties"]["many"]["items"] == schema["properties"]["one"]
    assert schema["required"] == ["one", "many"]


def test_the_body_of_a_worker_refers_to_nothing() -> None:
    shown = json.dumps(whole_schema(ChunkBody))
    assert "$ref" not in shown
    assert "$defs" not in shown
