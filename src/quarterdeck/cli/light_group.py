"""Commands of Typer that do not load pydantic for values that are what they should be already.

Typer has pydantic judge every value, a text that is wanted as a text and an option that was not given included. To
load it takes three tenths of a second, longer than most commands need for all else until they have asked.
"""

from collections.abc import Callable, Iterable
from enum import StrEnum
from typing import Any, cast

from typer.core import TyperGroup


class LightGroup(TyperGroup):
    def get_help_option(self, ctx: Any) -> Any:
        return _without(super().get_help_option(ctx))

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name, command, rest = super().resolve_command(ctx, args)
        if command is not None:
            _without(command.get_help_option(ctx))
            for parameter in command.params:
                _lighten(parameter)
        return name, command, rest


def _without(help_option: Any) -> Any:
    """That no --help was given is None to Typer, and judged, unless there is a default."""
    if help_option is not None:
        help_option.default = False
    return help_option


class _Judge:
    """In place of Typer's own, which is asked about whatever is not plain."""

    def __init__(self, annotation: Any, own: Callable[[], Any]) -> None:
        self._annotation = annotation
        self._own = own
        self._words: tuple[str, ...] = ()
        if isinstance(annotation, type) and issubclass(annotation, StrEnum):
            self._words = tuple(annotation)

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        many = param.multiple or param.nargs == -1
        if value is None:
            return () if many else None
        if many and self._annotation == list[str] and isinstance(value, tuple | list):
            return list(cast("Iterable[str]", value))
        if not many and isinstance(value, str) and (self._annotation is str or value in self._words):
            return self._annotation(value)
        return self._own().coerce(value, param=param, ctx=ctx)


def _lighten(parameter: Any) -> None:
    own = getattr(parameter, "get_runtime_param", None)
    if own is not None:
        judge = _Judge(parameter.type_descriptor.annotation, own)
        parameter.get_runtime_param = lambda: judge
