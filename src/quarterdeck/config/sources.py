"""Where settings come from: flags, the environment, a file. Each source knows how it calls a setting.

Nothing that somebody wrote is passed over: what no setting is called by is a problem, in each of the three.
"""

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol, cast

from pydantic_settings import EnvSettingsSource

from quarterdeck.config.problems import Problem, hint
from quarterdeck.config.section import former_names
from quarterdeck.config.shared import ProcessSettings
from quarterdeck.config.values import has_more_below
from quarterdeck.config.yaml_file import YamlFile, read_yaml_file

CONFIG_VARIABLE: Final = "QUARTERDECK_CONFIG"
"""Names the file when no flag does."""

Names = tuple[str, ...]
"""A setting: one name, or two for one below another."""

# For a service called quarterdeck-worker Kubernetes gives every container variables that look like ours:
# https://kubernetes.io/docs/concepts/containers/container-environment/ has the list.
_SERVICE_LINK: Final = re.compile(r"(.*_)?(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT_\d+_(TCP|UDP|SCTP)(_\w+)?)")
_SERVICE_URL: Final = re.compile(r"(tcp|udp|sctp)://", re.IGNORECASE)


class Source(Protocol):
    """Values by name, and where each came from."""

    @property
    def values(self) -> Mapping[str, Any]: ...

    def origin(self, names: Names) -> str: ...


@dataclass(frozen=True, slots=True)
class Flags:
    values: Mapping[str, Any]

    @classmethod
    def of(cls, flags: Mapping[str, object], settings: type[ProcessSettings]) -> "Flags":
        """None and an empty list are flags that were not given: no flag could say either. A setting may be called as
        errors and files call it, with the process before its name."""
        given = {name: value for name, value in flags.items() if value is not None and value not in ((), [])}
        own = given.get(settings.process)
        if isinstance(own, dict) and settings.process not in settings.model_fields:
            del given[settings.process]
            given = merged([cls(cast("dict[str, Any]", own)), cls(given)])
        return cls(given)

    def origin(self, names: Names) -> str:
        """Which flag it was is the command's affair: one of its own, or one that takes any setting."""
        del names
        return "the command line"


@dataclass(frozen=True, slots=True)
class Environment:
    values: Mapping[str, Any]
    prefix: str
    problems: tuple[Problem, ...]

    @classmethod
    def of(cls, settings: type[ProcessSettings]) -> "Environment":
        prefix = settings.model_config.get("env_prefix", "")
        ours = {
            name.upper().removeprefix(prefix): value
            for name, value in os.environ.items()
            if name.upper().startswith(prefix)
        }
        linked = {name for name, value in ours.items() if _is_service_link(name, value)}
        known = {name.upper() for name in settings.model_fields}
        former = {old.upper(): "__".join(new).upper() for old, new in former_names(settings).items()}
        with_more_below = tuple(
            f"{name.upper()}__" for name, field in settings.model_fields.items() if has_more_below(field)
        )
        values = {name: value for name, value in EnvSettingsSource(settings)().items() if name.upper() not in linked}
        problems = tuple(
            Problem(
                f"the environment variable {prefix}{name}",
                f"is called {prefix}{former[name]} now"
                if name in former
                else f"is not a setting of the {settings.process}{hint(name, known)}",
            )
            for name in sorted(ours.keys() - linked)
            if name not in known and not name.startswith(with_more_below)
        )
        return cls(values, prefix, problems)

    def origin(self, names: Names) -> str:
        return f"the environment variable {self.prefix}{'__'.join(names).upper()}"


@dataclass(frozen=True, slots=True)
class FileSection:
    """The part of the file for one kind of process."""

    values: Mapping[str, Any]
    file: YamlFile
    process: str
    problems: tuple[Problem, ...]

    @classmethod
    def of(cls, path: Path, process: str, processes: Sequence[str]) -> "FileSection":
        """`processes` are all that a file may be about."""
        file = read_yaml_file(path)
        there_are = f"{', '.join(processes[:-1])} and {processes[-1]}"
        problems = [
            Problem(str(name), f"is not a section ({file.place((str(name),))}); there are {there_are}")
            for name in file.sections
            if name not in processes
        ]
        section = file.sections.get(process)
        if section is not None and not isinstance(section, dict):
            problems.append(
                Problem(process, f"is {_kind(section)} ({file.place((process,))}); it takes settings below it")
            )
            section = None
        values = {str(name): value for name, value in cast("dict[Any, Any]", section or {}).items()}
        return cls(values, file, process, (*file.problems, *problems))

    def origin(self, names: Names) -> str:
        return self.file.place((self.process, *names))


def config_file(given: Path | None) -> Path | None:
    """The file that a flag names, else the environment."""
    if given is not None:
        return given
    named = os.environ.get(CONFIG_VARIABLE, "")
    return Path(named).expanduser() if named else None


def merged(sources: list[Source]) -> dict[str, Any]:
    """All values; of two for one setting that of the earlier source counts."""
    result: dict[str, Any] = {}
    for source in reversed(sources):
        for name, value in source.values.items():
            below = result.get(name)
            both = isinstance(below, dict) and isinstance(value, dict)
            result[name] = {**cast("dict[str, Any]", below), **cast("dict[str, Any]", value)} if both else value
    return result


def _kind(section: object) -> str:
    """In words: what it is may have secrets in it."""
    return "a list" if isinstance(section, list) else "a single value"


def _is_service_link(name: str, value: str) -> bool:
    return _SERVICE_LINK.fullmatch(name) is not None or (
        name.endswith("PORT") and _SERVICE_URL.match(value) is not None
    )
