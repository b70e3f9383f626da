"""The first of flag, environment variable, file and default counts. All mistakes come in one error."""

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Final, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from quarterdeck.config.conflicts import Conflict, ConflictError
from quarterdeck.config.coordinator import CoordinatorSettings
from quarterdeck.config.problems import InvalidSettingsError, Problem, hint, shown
from quarterdeck.config.section import Section, former_names, with_sections
from quarterdeck.config.shared import ProcessSettings
from quarterdeck.config.sources import Environment, FileSection, Flags, Names, Source, config_file, merged
from quarterdeck.config.values import allowed, is_secret
from quarterdeck.config.worker import WorkerSettings
from quarterdeck.core.named import Named

SettingsT = TypeVar("SettingsT", bound=ProcessSettings)


class Configuration:
    """All that can be set: for each kind of process its own settings, and a section for each capability."""

    def __init__(
        self,
        on_coordinator: Sequence[Named[type[Section]]] = (),
        on_worker: Sequence[Named[type[Section]]] = (),
        other_processes: Sequence[str] = (),
    ) -> None:
        """Sections are loaded when somebody asks for them. `other_processes` are those that capabilities have besides:
        a file may be about them too."""
        self._on_coordinator = on_coordinator
        self._on_worker = on_worker
        self.processes: Final = (CoordinatorSettings.process, WorkerSettings.process, *other_processes)

    @cached_property
    def coordinator(self) -> type[CoordinatorSettings]:
        return with_sections(CoordinatorSettings, [named.load() for named in self._on_coordinator])

    @cached_property
    def worker(self) -> type[WorkerSettings]:
        return with_sections(WorkerSettings, [named.load() for named in self._on_worker])

    def load_coordinator(self, config: Path | None, flags: Mapping[str, object]) -> CoordinatorSettings:
        """The settings of a coordinator, as `load` has them."""
        return self.load(self.coordinator, config, flags)

    def load_worker(self, config: Path | None, flags: Mapping[str, object]) -> WorkerSettings:
        """The settings of a worker, as `load` has them."""
        return self.load(self.worker, config, flags)

    def load(self, settings: type[SettingsT], config: Path | None, flags: Mapping[str, object]) -> SettingsT:
        """The settings of a process; `config` is the file, `flags` are by the names of settings, None for not given."""
        return _load(settings, self.processes, config, flags)


def _load(
    settings: type[SettingsT], processes: Sequence[str], config: Path | None, flags: Mapping[str, object]
) -> SettingsT:
    environment = Environment.of(settings)
    sources: list[Source] = [Flags.of(flags, settings), environment]
    problems = [*environment.problems]
    path = config_file(config)
    if path is not None:
        section = FileSection.of(path, settings.process, processes)
        sources.append(section)
        problems += section.problems
    loaded: SettingsT | None = None
    try:
        loaded = settings(**merged(sources))
    except ValidationError as error:
        problems += _Explainer(settings, sources).problems(error)
    if loaded is None or problems:
        raise InvalidSettingsError(settings.process, problems)
    return loaded


class _Explainer:
    """Turns pydantic's errors into ours."""

    def __init__(self, settings: type[ProcessSettings], sources: Sequence[Source]) -> None:
        self._settings = settings
        self._sources = sources

    def problems(self, error: ValidationError) -> Iterator[Problem]:
        for detail in error.errors(include_url=False):
            conflict = detail.get("ctx", {}).get("error")
            if isinstance(conflict, ConflictError):
                yield from map(self._conflict, conflict.conflicts)
            elif detail["type"] != "default_factory_not_called":  # which only says that there is another problem
                yield self._wrong(detail)

    def _wrong(self, detail: ErrorDetails) -> Problem:
        names = tuple(part for part in detail["loc"] if isinstance(part, str))
        place = "".join(f"[{part}]" for part in detail["loc"] if isinstance(part, int))
        origin = self._origin(names)
        name = self._called(names) + place
        siblings = self._fields(names[:-1])
        if detail["type"] == "extra_forbidden":
            former = former_names(self._settings)
            if names[0] in former and len(names) == 1:
                return Problem(name, f"is called {self._called(former[names[0]])} now ({origin})")
            return Problem(name, f"is not a setting ({origin}){hint(names[-1], siblings)}")
        field = siblings[names[-1]]
        value = "not shown here" if is_secret(field) else shown(detail["input"])
        return Problem(name, f"is {value} ({origin}); allowed is {allowed(field)}")

    def _conflict(self, conflict: Conflict) -> Problem:
        values: Mapping[str, Any] = merged(list(self._sources))
        told: list[str] = []
        for name in conflict.names:
            names = tuple(name.split("."))
            origin = self._origin(names)
            if origin == _DEFAULT:
                told.append(f"{name} is left at its default")
            else:
                field = self._fields(names[:-1])[names[-1]]
                value = "set" if is_secret(field) else shown(_find(values, names))
                told.append(f"{name} is {value} ({origin})")
        return Problem(self._settings.process, f"has a contradiction: {conflict.rule}; {', '.join(told)}")

    def _origin(self, names: Names) -> str:
        """Where a value came from: of the first source that has it, or has something in its place."""
        for source in self._sources:
            if _find(source.values, names) is not _ABSENT:
                return source.origin(names)
        return _DEFAULT

    def _called(self, names: Names) -> str:
        return ".".join((self._settings.process, *names))

    def _fields(self, names: Names) -> Mapping[str, FieldInfo]:
        """The settings below one, or all at the top."""
        model: type[BaseModel] = self._settings
        for name in names:
            annotation = model.model_fields[name].annotation
            assert isinstance(annotation, type), f"{name} has settings below it"
            assert issubclass(annotation, BaseModel), f"{name} has settings below it"
            model = annotation
        return model.model_fields


_ABSENT = object()
_DEFAULT = "the default"


def _find(values: Mapping[str, Any], names: Names) -> object:
    """The value below these names; the sentinel when there is none."""
    found: Any = values
    for name in names:
        if not isinstance(found, Mapping) or name not in found:
            return _ABSENT
        found = found[name]  # pyright: ignore[reportUnknownVariableType] - a file has values of any kind
    return found  # pyright: ignore[reportUnknownVariableType]
