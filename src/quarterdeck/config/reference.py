"""All settings as a page: docs/configuration.md is what `render` says, and a test keeps them equal.

To write it anew: `python -m quarterdeck.reference configuration > docs/configuration.md`.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from quarterdeck.config.s3 import S3Settings
from quarterdeck.config.section import Section, sections_of
from quarterdeck.config.shared import CrewSettings, ProcessSettings
from quarterdeck.config.sizes import format_size
from quarterdeck.config.sources import CONFIG_VARIABLE
from quarterdeck.config.values import allowed, default_text, has_more_below
from quarterdeck.config.worker import WorkerSettings

EXAMPLE: Final = """\
coordinator:
  http_host: 0.0.0.0
  control_host: 0.0.0.0
  tls_certificate: /etc/quarterdeck/coordinator.pem
  tls_key: /etc/quarterdeck/coordinator.key
  tls_authority: /etc/quarterdeck/authority.pem
  token_file: /etc/quarterdeck/token
  spool_limit_bytes: 50GiB
worker:
  join: [coordinator-1.example:7071, coordinator-2.example:7071]
  data_dir: /var/lib/quarterdeck
  slots: 8
  disk_limit_bytes: 200GiB
  s3:
    region: eu-central-1
"""

_INTRODUCTION: Final = f"""\
# Configuration

<!-- Written by `python -m quarterdeck.reference configuration`; a test keeps it equal to the code. -->

A setting comes from the first of these places that has it:

1. A flag of the command.
2. An environment variable. Its name is in the tables. An empty variable counts as not set. Separate the items of a list
   with commas.
3. A YAML file, named by `--config FILE` or `{CONFIG_VARIABLE}`, with a section for each kind of process.
4. The default.

The settings of a capability are in a section of their own below that of the process, as those of S3 are:
`coordinator:`, `s3:`, `region:` in the file, `s3.region` with `--set`, and
`QUARTERDECK_COORDINATOR_S3__REGION` in the environment.

A name that is not a setting is an error, wherever it is written, and so is a value that is not allowed. All mistakes
are reported together, each with its place. Names end with their unit: `_s` means seconds, as a number; `_bytes` means a
size, as a number or a text such as `512MiB`, `10GiB` (powers of 1024) or `2TB` (powers of 1000). Relative paths begin
where the process was started. `~` is the home, and `..` is resolved once, when settings are read.

Three environment variables are not settings:

- `QUARTERDECK_TOKEN` may have the token, instead of a `token_file`.
- `QUARTERDECK_RUN_DIR` may name the folder in which processes and commands of one user find each other's tokens.
  Without it that is `/tmp/quarterdeck-UID`.
- `QUARTERDECK_CODE_DIR` may name a folder for compiled code, for machines where nothing can be written beside the
  package or in the user's cache. Without it that is `code` in the data folder.

```yaml
{EXAMPLE}```
"""


@dataclass(frozen=True, slots=True)
class Row:
    """One setting, as a line of a table."""

    name: str
    variables: tuple[str, ...]
    allowed: str
    default: str
    meaning: str

    def __str__(self) -> str:
        names = "<br>".join(f"`{name}`" for name in (self.name, *self.variables))
        return f"| {names} | {self.allowed} | {self.default} | {self.meaning} |"


def render(processes: Sequence[type[ProcessSettings]], kinds: Sequence[tuple[str, str]]) -> str:
    """The page. `processes` have their sections; `kinds` are the kinds of work, and what does each."""
    parts = [_INTRODUCTION]
    for process in processes:
        own = _base_of(process)
        parts.append(_table(own.process.capitalize(), f"Under `{own.process}:` in the file.", rows(own)))
        if own is WorkerSettings:
            parts.append(_kinds(kinds))
    both = [process for process in processes if issubclass(process, CrewSettings)]
    everything = _words([process.process for process in processes])
    parts.append(_table("Coordinator and worker", "Under either; each process has its own.", rows(CrewSettings, *both)))
    about = f"Under any of {everything}; each process has its own."
    parts.append(_table("All", about, rows(ProcessSettings, *processes)))
    for section, having in _sections(processes).items():
        names = [process.process for process in having]
        places = _words([f"`{name}:`" for name in names])
        about = f"Below `{section.section}:` under {places}{'; each process has its own' if len(names) > 1 else ''}."
        title = f"{section.section.capitalize()}, in a {' and in a '.join(names)}"
        parts.append(_table(title, about, _below(section.section, section, having)))
    about_s3 = "Below `s3:` in the section of the process. " + " ".join((S3Settings.__doc__ or "").split())
    parts.append(_table("S3", about_s3, _below("s3", S3Settings, processes)))
    return "\n".join(parts)


def rows(model: type[ProcessSettings], *processes: type[ProcessSettings]) -> Iterator[Row]:
    """The settings that a class adds to those of its parent, for each of the processes that have them."""
    inherited = {
        name for parent in model.__bases__ if issubclass(parent, ProcessSettings) for name in parent.model_fields
    }
    for name, field in model.model_fields.items():
        if name not in inherited and not has_more_below(field):
            yield _row(name, field, [_prefix(process) + name.upper() for process in processes or (model,)])


def _base_of(process: type[ProcessSettings]) -> type[ProcessSettings]:
    """Without its sections."""
    named = [kind for kind in process.__mro__ if issubclass(kind, ProcessSettings) and hasattr(kind, "process")]
    return named[-1]


def _sections(processes: Sequence[type[ProcessSettings]]) -> Mapping[type[Section], Sequence[type[ProcessSettings]]]:
    """Each with the processes that have it; those of one capability stand together."""
    found: dict[type[Section], list[type[ProcessSettings]]] = {}
    for process in processes:
        for section in sections_of(process).values():
            found.setdefault(section, []).append(process)
    names = list(dict.fromkeys(section.section for section in found))
    return dict(sorted(found.items(), key=lambda item: names.index(item[0].section)))


def _below(name: str, model: type[BaseModel], processes: Sequence[type[ProcessSettings]]) -> Iterator[Row]:
    for setting, field in model.model_fields.items():
        variables = [f"{_prefix(process)}{name.upper()}__{setting.upper()}" for process in processes]
        yield _row(f"{name}.{setting}", field, variables)


def _kinds(kinds: Sequence[tuple[str, str]]) -> str:
    lines = "".join(f"- `{kind}`, for {whose}\n" for kind, whose in kinds)
    return f"The kinds of work of `kinds`:\n\n{lines}"


def _words(names: Sequence[str]) -> str:
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last


def _prefix(process: type[ProcessSettings]) -> str:
    return process.model_config.get("env_prefix", "")


def _row(name: str, field: FieldInfo, variables: list[str]) -> Row:
    meaning = " ".join((field.description or "").split())
    return Row(name, tuple(variables), allowed(field), default_text(field) or _default(name, field.default), meaning)


def _default(name: str, value: Any) -> str:
    match value:
        case None | ():
            return "none"
        case bool():
            text = str(value).lower()
        case int() if name.endswith("_bytes"):
            text = format_size(value)
        case float():
            text = f"{value:g}"
        case tuple():
            text = ", ".join(str(item.value if isinstance(item, Enum) else item) for item in value)  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType, reportUnknownArgumentType] - of any kind
        case BaseModel():
            raise AssertionError(f"{name} has settings below it, which are rows of their own")
        case _:
            text = str(value)
    return f"`{text}`"


def _table(title: str, about: str, lines: Iterator[Row]) -> str:
    head = f"## {title}\n\n{about}\n\n| setting | allowed | default | meaning |\n|---|---|---|---|\n"
    return head + "".join(f"{line}\n" for line in lines)
