"""Options that several commands share, and how `--set` is read. Nothing heavy may be imported here."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, cast

import typer

from quarterdeck.paths import whole_path


def whole(path: Path | None) -> Path | None:
    """For folders and files: made whole at once, so that they mean the same in every process that gets them."""
    try:
        return None if path is None else whole_path(path)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None


DEFAULT_URL = "http://127.0.0.1:7070"
DEFAULT_DATA_DIR = Path("quarterdeck-data")

ConfigFile = Annotated[
    Path | None,
    typer.Option("--config", help="A YAML file with settings; see docs/configuration.md.", dir_okay=False),
]
DataDir = Annotated[
    Path | None, typer.Option(help="The process's own folder; one process at a time may use it.", callback=whole)
]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="NAME=VALUE",
        help="Any setting of docs/configuration.md. Repeat for more. Put secrets into the environment or a file: "
        "everybody on this machine can read a command line.",
    ),
]
Insecure = Annotated[
    bool | None,
    typer.Option(
        "--insecure",
        help="Listen off loopback without TLS and token, and send a token without TLS: everybody who can reach the "
        "address may read, run and change what the crew can.",
        show_default=False,
    ),
]
InClear = Annotated[
    bool,
    typer.Option(
        "--insecure",
        help="Send the token to another machine without TLS: everybody on the way can read it.",
        show_default=False,
    ),
]
LogLevel = Annotated[str | None, typer.Option(help="debug, info, warning or error.")]
Lifeline = Annotated[int | None, typer.Option(hidden=True)]
HandedSettings = Annotated[int | None, typer.Option(hidden=True)]
HandedWhen = Annotated[int | None, typer.Option(hidden=True)]
Url = Annotated[str, typer.Option(envvar="QUARTERDECK_URL", metavar="URL", help="The coordinator.", show_envvar=True)]
TokenFile = Annotated[
    Path | None,
    typer.Option(
        help="A file with the crew's token, instead of the environment variable QUARTERDECK_TOKEN. For a crew of yours "
        "on this machine neither is needed.",
        dir_okay=False,
        callback=whole,
    ),
]
Authority = Annotated[
    Path | None,
    typer.Option(
        help="For https: the certificate of the authority that signed the crew's certificates.",
        dir_okay=False,
        callback=whole,
    ),
]
Offline = Annotated[
    bool,
    typer.Option(
        "--offline", help="Ask no crew: write where --config, --set and the environment say, as if no crew answered."
    ),
]
CrewFolder = Annotated[
    Path | None,
    typer.Option(
        "--data-dir",
        help="The data folder of a crew, instead of asking a crew. Catalog and segments are below it.",
        file_okay=False,
        show_default=False,
        callback=whole,
    ),
]

At = Annotated[str | None, typer.Option(metavar="TIME", help="Ask at this time (instant query).  [default: now]")]
Start = Annotated[str | None, typer.Option(metavar="TIME", help="Where the range begins.")]
End = Annotated[str | None, typer.Option(metavar="TIME", help="Where the range ends.  [default: now]")]
Tenant = Annotated[str | None, typer.Option(help="Whose samples to read: the header X-Scope-OrgID.")]
AskingTenant = Annotated[
    str | None, typer.Option("--tenant", help="Who asks: the header X-Scope-OrgID.  [default: default]")
]
LookingTenant = Annotated[
    str | None,
    typer.Option("--tenant", help="Whose workers and queries to show: X-Scope-OrgID.  [default: all]"),
]
Timeout = Annotated[
    str | None, typer.Option(metavar="DURATION", help="Give up after this time: 30s, or a number of seconds.")
]


def parse_settings(texts: Iterable[str] | None) -> dict[str, object]:
    """`NAME=VALUE` as settings by name; a dot in the name goes one level down, as `s3.region=eu-central-1` does.

    No error repeats a value, which may be a secret.
    """
    settings: dict[str, object] = {}
    for text in texts or ():
        name, equals, value = text.partition("=")
        shown = f"{name}=…" if equals else name
        if not equals or not name.strip():
            raise typer.BadParameter(f"{shown!r} is not NAME=VALUE", param_hint="--set")
        *above, last = name.strip().replace("-", "_").split(".")
        level = settings
        for part in above:
            below = level.setdefault(part, {})
            if not isinstance(below, dict):
                raise typer.BadParameter(f"{shown!r} goes below {part}, which has a value already", param_hint="--set")
            level = cast("dict[str, object]", below)
        level[last] = value
    return settings


def check_times(at: str | None, start: str | None, end: str | None, last: str | None, step: str | None) -> None:
    """Whether the times of a query can be meant together."""
    if at is not None and (start or end or last or step) is not None:
        raise typer.BadParameter("an instant has no range and no step", param_hint="--at")
    if start is not None and end is not None and last is not None:
        raise typer.BadParameter("two of --start, --end and --last say where a range is", param_hint="--last")
    if start is None and last is None:
        for option, value in (("--end", end), ("--step", step)):
            if value is not None:
                raise typer.BadParameter("it is for a range: add --last or --start", param_hint=option)


def check_tenant(tenant: str) -> None:
    """Whether anybody could ask for it."""
    if not tenant or tenant != tenant.strip():
        raise typer.BadParameter("nobody could ask for such a name: X-Scope-OrgID is trimmed", param_hint="--tenant")


def merge_flags(settings: Mapping[str, object], **named: Any) -> dict[str, object]:
    """The settings given by `--set`, and over them those that have a flag of their own and were given."""
    return {**settings, **{name: value for name, value in named.items() if value is not None}}
