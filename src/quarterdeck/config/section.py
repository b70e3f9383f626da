"""The settings that a capability has in a process, as a section of that process's own: `coordinator: metrics: …`.

A section knows the process that it is in: a default may be reckoned from the settings of the process, and a rule may be
about both. The process knows none of its sections by name: who wants one asks for it by its type.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextvars import ContextVar
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, TypeVar, cast

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ValidationInfo,
    ValidatorFunctionWrapHandler,
    WrapValidator,
    create_model,
)
from pydantic.fields import FieldInfo
from pydantic_settings import NoDecode

from quarterdeck.config.conflicts import Conflict
from quarterdeck.config.values import Allowed

if TYPE_CHECKING:
    from quarterdeck.config.shared import ProcessSettings


class Section(BaseModel):
    """Of one capability, in one kind of process."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True, validate_default=True)

    section: ClassVar[str]
    """Its name: that of the capability."""
    former: ClassVar[Mapping[str, str]] = {}
    """What its settings were called when they stood among the process's own: the new name by the old one."""

    def conflicts(self, process: "ProcessSettings") -> Iterator[Conflict]:
        """Settings that make no sense together, by their whole names, with that of the section."""
        del process
        yield from ()

    def default_roots(self) -> tuple[str, ...]:
        """Places below which callers may name files, when nobody has said where."""
        return ()


SettingsT = TypeVar("SettingsT", bound="ProcessSettings")

_process: ContextVar[Mapping[str, Any]] = ContextVar("settings of the process around a section")


def computed_in(factory: Callable[[Mapping[str, Any]], Any], text: str) -> Any:
    """A default of a section that is reckoned from the settings of its process."""

    def reckoned() -> Any:
        return factory(_process.get())

    return Field(default_factory=reckoned, json_schema_extra={"default_text": text})


def with_sections(settings: type[SettingsT], sections: Iterable[type[Section]]) -> type[SettingsT]:
    """The settings of a process with those of its capabilities."""
    fields: dict[str, Any] = {}
    for section in sections:
        mark = Allowed("settings of its own, by their names")
        default = Field(default_factory=dict[str, Any], description=f"Of {section.section}; see below.")
        fields[section.section] = (Annotated[section, NoDecode, WrapValidator(_Within(settings)), mark], default)
    return create_model(settings.__name__, __base__=settings, __module__=settings.__module__, **fields)


def sections_of(settings: "type[ProcessSettings]") -> Mapping[str, type[Section]]:
    """The sections that a kind of process has, by their names."""
    found = {name: field.annotation for name, field in settings.model_fields.items()}
    return {name: kind for name, kind in found.items() if isinstance(kind, type) and issubclass(kind, Section)}


def former_names(settings: "type[ProcessSettings]") -> Mapping[str, tuple[str, str]]:
    """Section and setting of what once stood among the settings of the process itself, by its old name."""
    sections = sections_of(settings)
    return {old: (name, new) for name, section in sections.items() for old, new in section.former.items()}


def setting_names(settings: "type[ProcessSettings]") -> Iterator[str]:
    """All names, those in a section with a dot: `s3.region`."""
    for name, field in settings.model_fields.items():
        kind = field.annotation
        below = kind.model_fields if isinstance(kind, type) and issubclass(kind, BaseModel) else {}
        yield name
        yield from (f"{name}.{one}" for one in below)


def find_field(settings: "type[ProcessSettings]", names: tuple[str, ...]) -> FieldInfo | None:
    """A setting, or one below another; None when there is none of that name."""
    model: type[BaseModel] | None = settings
    field: FieldInfo | None = None
    for name in names:
        field = None if model is None else model.model_fields.get(name)
        if field is None:
            return None
        kind = field.annotation
        model = kind if isinstance(kind, type) and issubclass(kind, BaseModel) else None
    return field


class _Within:
    """Validates a section while the settings of its process are at hand."""

    def __init__(self, settings: "type[ProcessSettings]") -> None:
        self._settings: Final = settings

    def __call__(self, value: object, handler: ValidatorFunctionWrapHandler, info: ValidationInfo) -> object:
        token = _process.set(_Known(self._settings, info.data))
        try:
            return handler(value)
        finally:
            _process.reset(token)


class _Known(Mapping[str, Any]):
    """The settings of a process that were read so far. One that was refused counts as its default, so that whatever is
    wrong with a section is told together with it."""

    def __init__(self, settings: "type[ProcessSettings]", read: dict[str, Any]) -> None:
        self._fields = settings.model_fields
        self._read = read

    def __getitem__(self, name: str) -> Any:
        if name in self._read:
            return self._read[name]
        return self._fields[name].get_default(call_default_factory=True, validated_data=cast("dict[str, Any]", self))

    def __iter__(self) -> Iterator[str]:
        return iter(self._read)

    def __len__(self) -> int:
        return len(self._read)
