"""Something by its dotted path, loaded when it is needed: whoever refers to it need not load it."""

from dataclasses import dataclass
from importlib import import_module
from typing import Any, Generic, TypeVar, cast

T_co = TypeVar("T_co", covariant=True)


@dataclass(frozen=True, slots=True)
class Named(Generic[T_co]):
    """`path` is `package.module:name`. It is never a text that came from outside."""

    path: str

    def load(self) -> T_co:
        """
        >>> Named("builtins:len").load()("four")
        4
        """
        module, _, name = self.path.partition(":")
        found: Any = getattr(import_module(module), name)
        return cast("T_co", found)
