"""The configuration file: YAML with a section for each kind of process. It knows the line of each setting.

Stricter than YAML: a key that appears twice is an error, because one of the two was not meant to be overridden.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from quarterdeck.config.problems import Problem

if TYPE_CHECKING:
    import yaml

SectionPath = tuple[str, ...]

_QUOTED: Final = re.compile(r" ?'[^'<]{2,}'")
"""What the parser repeats of the file: the name of an alias or a tag. A sign, or `<scalar>`, is its own word."""
_DEPTH: Final = 3
"""Section, setting, and the settings below one: `worker`, `s3`, `region`."""


@dataclass(frozen=True, slots=True)
class YamlFile:
    """What was read of a file, and what is wrong with it as a file."""

    path: Path
    sections: Mapping[str, Any]
    lines: Mapping[SectionPath, int]
    """The line of each key, counted from 1."""
    problems: Sequence[Problem]

    def place(self, keys: SectionPath) -> str:
        line = self.lines.get(keys)
        return str(self.path) if line is None else f"{self.path}, line {line}"


def read_yaml_file(path: Path) -> YamlFile:
    """Read the file; whatever is wrong with it is in `problems`."""
    import yaml  # noqa: PLC0415 - takes time, and most starts have no file

    try:
        loader = yaml.SafeLoader(path.read_text(encoding="utf-8"))
        root = loader.get_single_node()
        document: Any = {} if root is None else loader.construct_document(root)  # pyright: ignore[reportUnknownMemberType] - its stub
    except OSError as error:
        return _unreadable(path, error.strerror or str(error))
    except UnicodeDecodeError:
        return _unreadable(path, "it is not text in UTF-8")
    except yaml.YAMLError as error:
        return _unreadable(path, _told(error))
    if not isinstance(document, dict):
        return _unreadable(path, "it has no sections; `coordinator:` and `worker:` are what it may have")
    lines: dict[SectionPath, int] = {}
    problems: list[Problem] = []
    for keys, line in _keys(root, ()):
        if keys in lines:
            problems.append(Problem(".".join(keys), f"appears twice in {path}, in lines {lines[keys]} and {line}"))
        lines[keys] = line
    return YamlFile(path, document, lines, problems)  # pyright: ignore[reportUnknownArgumentType] - YAML has any keys


def _unreadable(path: Path, why: str) -> YamlFile:
    return YamlFile(path, {}, {}, [Problem(f"the file {path}", f"cannot be read: {why}")])


def _told(error: "yaml.YAMLError") -> str:
    """What is wrong and where. What stands there is not repeated: it may be a secret."""
    mark: Any = getattr(error, "problem_mark", None)
    if mark is None:
        return str(getattr(error, "reason", "it is not YAML"))
    parts = (getattr(error, "context", None), getattr(error, "problem", None))
    said = ": ".join(_QUOTED.sub("", part) for part in parts if part)
    return f"{said}, in line {mark.line + 1}, column {mark.column + 1}"


def _keys(node: Any, above: SectionPath) -> Iterator[tuple[SectionPath, int]]:
    import yaml  # noqa: PLC0415 - as above

    if not isinstance(node, yaml.MappingNode) or len(above) == _DEPTH:
        return
    for key, value in node.value:
        keys = (*above, str(key.value))
        yield keys, key.start_mark.line + 1
        yield from _keys(value, keys)
