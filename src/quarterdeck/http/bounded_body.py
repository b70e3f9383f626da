"""`BoundedBody`: the base of models that validate JSON requests. A wrong request is refused at its first mistakes.

Without it, each of a hundred thousand unknown members would be an error of its own.
"""

from typing import Annotated, Final, cast

from pydantic import BaseModel, ConfigDict, FailFast, Field, StringConstraints, model_validator
from pydantic_core import PydanticCustomError

MOST_MEMBERS: Final = 100
"""More than any request of ours has."""
MOST_PATH_CHARACTERS: Final = 4096
"""Of a path of Linux; a URL of S3 has a quarter of it."""

Path = Annotated[str, StringConstraints(max_length=MOST_PATH_CHARACTERS)]
NamedPath = Annotated[str, StringConstraints(min_length=1, max_length=MOST_PATH_CHARACTERS)]
FieldName = Annotated[str, StringConstraints(max_length=1000)]
Moment = Annotated[str, Field(max_length=100)]


class StopsAtFirst(FailFast):
    """For a list: the first wrong item is reported, and the others are not checked."""

    def __hash__(self) -> int:
        """A part of a union must have one."""
        return hash(type(self))


class BoundedBody(BaseModel):
    """A member that nobody knows is an error."""

    model_config = ConfigDict(extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _few_members(cls, given: object) -> object:
        if isinstance(given, dict) and len(cast("dict[str, object]", given)) > MOST_MEMBERS:
            raise PydanticCustomError("members", "it has more than {most} members", {"most": MOST_MEMBERS})
        return cast("object", given)
