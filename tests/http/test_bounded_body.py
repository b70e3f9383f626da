"""Requests of JSON that are wrong in very many places are told so in a few."""

import asyncio
import json
from typing import Annotated

import pytest
from fastapi import FastAPI
from pydantic import Field, ValidationError

from quarterdeck.http.bounded_body import MOST_MEMBERS, MOST_PATH_CHARACTERS, BoundedBody, NamedPath, StopsAtFirst
from quarterdeck.http.errors import add_error_handlers
from quarterdeck.scan.routes import ScanBody
from quarterdeck.search.chunk_request import ChunkBody
from quarterdeck.search.root.routes import SearchBody
from tests.http.asked import connected, served


class Body(BoundedBody):
    paths: Annotated[list[NamedPath], StopsAtFirst()] | None = Field(None, max_length=3)


def problems(document: object, model: type[BoundedBody] = Body) -> list[str]:
    with pytest.raises(ValidationError) as raised:
        model.model_validate_json(json.dumps(document))
    return [problem["type"] for problem in raised.value.errors()]


def test_members_that_nobody_knows_are_told_while_they_are_few() -> None:
    assert problems({"a": 0, "b": 0}) == ["extra_forbidden"] * 2
    assert problems({f"k{number}": 0 for number in range(MOST_MEMBERS + 1)}) == ["members"]


def test_of_a_list_the_first_wrong_item_is_told() -> None:
    assert problems({"paths": [1, 2]}) == ["string_type"]
    assert problems({"paths": ["a"] * 4}) == ["too_long"]
    assert problems({"paths": ["x" * (MOST_PATH_CHARACTERS + 1)]}) == ["string_too_long"]
    assert Body.model_validate_json('{"paths": ["a"]}').paths == ["a"]


@pytest.mark.parametrize("model", [ScanBody, SearchBody, ChunkBody])
def test_every_request_with_a_list_is_bounded(model: type[BoundedBody]) -> None:
    lists = {"sources": [1] * 100, "chunk_paths": [1] * 100, "sizes": ["x"] * 100, "kinds": ["x"] * 100}
    known = {name: given for name, given in lists.items() if name in model.model_fields}
    told = problems({"query": "a", "sql": "a"} | known, model)
    assert 0 < len(told) <= len(known) + 1


def test_only_some_of_many_problems_are_told() -> None:
    app = FastAPI()
    add_error_handlers(app)

    async def take(numbers: list[int]) -> int:
        return len(numbers)

    app.add_api_route("/take", take, methods=["POST"])

    async def test() -> None:
        body = json.dumps(["x"] * 1000).encode()
        async with served(app) as server, connected(server) as client:
            client.send(
                b"POST /take HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
                % len(body)
                + body
            )
            assert (await client.answer()).json["error"]["why"].count("valid integer") == 20

    asyncio.run(test())
