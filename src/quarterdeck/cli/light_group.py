"""Commands of Typer that load little: no pydantic for values that are right already, and no rich when a shell completes
a word.

Typer lets pydantic check every value, even a text where a text is wanted, and an option that was not given. Loading
pydantic takes three tenths of a second, longer than most commands need for everything else before they ask. Rich takes
as long, and a shell asks at each press of a key.

A typing mistake ends with the same exit code, whether Typer or we notice it.
"""

import os
import sys
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from enum import StrEnum
from typing import Any, Final, cast

import typer
from typer._click.exceptions import BadParameter, UsageError
from typer.core import TyperGroup
from typer.main import get_command

from quarterdeck.capability.commands import Command, Shelf
from quarterdeck.core.errors import ERROR_TABLE, ErrorCode

ANY_WIDTH: Final = 10_000
"""Help is as wide as the terminal, however wide that is."""
BAD_INPUT: Final = ERROR_TABLE[ErrorCode.INVALID_ARGUMENT].exit_code
_WANTED: Final = "Input should be "
_JUDGED: Final = "Value error, "
"""How pydantic begins its messages."""
_COMPLETE: Final = "_QUARTERDECK_COMPLETE"


class LightGroup(TyperGroup):
    def make_context(self, *given: Any, **named: Any) -> Any:
        with _one_exit_code():
            for argument in given[1]:
                _check_text(argument)
            return super().make_context(*given, **named)

    def invoke(self, ctx: Any) -> Any:
        with _one_exit_code():
            return super().invoke(ctx)

    def _main_shell_completion(self, *given: Any, **named: Any) -> None:
        if _COMPLETE in os.environ:
            from typer import _completion_classes as classes  # noqa: PLC0415 - only when a shell asks

            classes.completion_init()
            # Typer would load rich to take its markup out of help. There is none, and a `[default: now]` would go too.
            classes._sanitize_help_text = str  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
        super()._main_shell_completion(*given, **named)

    def get_help_option(self, ctx: Any) -> Any:
        return _without(super().get_help_option(ctx))

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name, command, rest = super().resolve_command(ctx, args)
        if command is not None:
            _without(command.get_help_option(ctx))
            for parameter in command.params:
                _lighten(parameter)
        return name, command, rest


def group_with(commands: Sequence[Command], behind: Mapping[Shelf, str]) -> type[LightGroup]:
    """A group that has these commands besides its own. `behind` names the one of its own that a shelf is listed
    behind; a shelf without one is listed first."""
    listed = {command.name: command for command in commands}
    loaded: dict[str, Any] = {}

    class WithContributions(LightGroup):
        def list_commands(self, ctx: Any) -> list[str]:
            names = super().list_commands(ctx)
            for shelf in Shelf:
                place = names.index(behind[shelf]) + 1 if shelf in behind else 0
                names[place:place] = [command.name for command in commands if command.shelf is shelf]
            return names

        def get_command(self, ctx: Any, cmd_name: str) -> Any:
            contributed = listed.get(cmd_name)
            if contributed is None:
                return super().get_command(ctx, cmd_name)
            if cmd_name not in loaded:
                loaded[cmd_name] = _as_command(contributed)
            return loaded[cmd_name]

        def format_commands(self, ctx: Any, formatter: Any) -> None:
            """What is contributed is told without being loaded."""
            rows: list[tuple[str, str]] = []
            for name in self.list_commands(ctx):
                own = None if name in listed else self.get_command(ctx, name)
                rows.append((name, listed[name].short_help if own is None else own.get_short_help_str(ANY_WIDTH)))
            with formatter.section("Commands"):
                formatter.write_dl(rows)

    return WithContributions


def _as_command(contributed: Command) -> Any:
    alone = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
    alone.command(contributed.name, short_help=contributed.short_help)(contributed.function.load())
    return get_command(alone)


@contextmanager
def _one_exit_code() -> Generator[None]:
    try:
        yield
    except UsageError as error:
        error.exit_code = BAD_INPUT
        raise


def _check_text(argument: str) -> None:
    """A command line has bytes, and what is not text in the encoding of the terminal is text for nobody behind it."""
    try:
        argument.encode()
    except UnicodeEncodeError:
        why = f"{argument!a} is not text in the encoding {sys.getfilesystemencoding()}"
        raise UsageError(f"{why}: correct it, or set LANG to the encoding that it has") from None


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
        try:
            return self._own().coerce(value, param=param, ctx=ctx)
        except BadParameter as error:
            error.message = _plain(error.message, value)
            raise


def _plain(message: str, value: Any) -> str:
    """What pydantic says of a value, in our words.

    >>> _plain("Input should be greater than or equal to 1", "0"), _plain("Value error, 'x' is not one of 'a'.", "x")
    ("'0' is not greater than or equal to 1", "'x' is not one of 'a'.")
    >>> _plain("Input should be a valid integer, unable to parse string as an integer", "x")
    "'x' is not a valid integer"
    """
    wanted = message.removeprefix(_WANTED)
    if wanted == message:
        return message.removeprefix(_JUDGED)
    return f"{value!r} is not {wanted.partition(',')[0]}"


def _lighten(parameter: Any) -> None:
    own = getattr(parameter, "get_runtime_param", None)
    if own is not None:
        judge = _Judge(parameter.type_descriptor.annotation, own)
        parameter.get_runtime_param = lambda: judge
