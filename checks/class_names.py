"""Within one layer, no two public classes have one name: who reads a name need not ask which of them is meant.

A layer is a package directly below the root. Events and effects are the words of one machine, and are read with their
module: `ev.SessionLost` of a worker and of a coordinator may have one name, as long as each machine has it once.

`python -m checks.class_names src/quarterdeck`
"""

import argparse
import ast
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

GENERATED = "proto"
"""A folder whose code nobody has written."""
WORDS_OF_A_MACHINE = ("events", "effects")
"""How the modules end that are read with their name."""


@dataclass(frozen=True, slots=True)
class Place:
    path: Path
    line: int

    def __str__(self) -> str:
        return f"{self.path}:{self.line}"


@dataclass(frozen=True, slots=True)
class Shared:
    """One name, and the classes that have it."""

    layer: str
    name: str
    places: tuple[Place, ...]

    def __str__(self) -> str:
        others = ", ".join(map(str, self.places[1:]))
        return (
            f"{self.places[0]}: {self.layer} has another class {self.name}, in {others}; give one of them its own name"
        )


def shared_names(root: Path) -> list[Shared]:
    """By layer and name. Classes within functions and classes are their owner's affair."""
    found: defaultdict[tuple[str, str], list[Place]] = defaultdict(list)
    for path in sorted(root.rglob("*.py")):
        parts = path.relative_to(root).parts
        if GENERATED not in parts and not path.stem.endswith(WORDS_OF_A_MACHINE):
            for name, line in _public_classes(path):
                found[parts[0].removesuffix(".py"), name].append(Place(path, line))
    return [Shared(layer, name, tuple(places)) for (layer, name), places in sorted(found.items()) if len(places) > 1]


def _public_classes(path: Path) -> Iterator[tuple[str, int]]:
    for node in ast.parse(path.read_text(encoding="utf-8"), filename=str(path)).body:
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            yield node.name, node.lineno


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m checks.class_names", description=__doc__)
    parser.add_argument("root", type=Path, help="the package folder, as src/quarterdeck")
    root: Path = parser.parse_args(arguments).root
    if not root.is_dir():
        parser.error(f"{root} is not a folder")
    found = shared_names(root)
    for shared in found:
        print(shared)
    print(f"class names: {len(found)} shared")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
