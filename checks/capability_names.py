"""No layer below the capabilities names one: neither what it defines nor what it says has the name of one in it.

import-linter sees imports; this sees the rest: an identifier such as `SearchFormat`, a text such as "quarterdeck.scan".
What explains (docstrings, comments) may name whom it likes.

python -m checks.capability_names src/quarterdeck
"""

import argparse
import ast
import re
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from quarterdeck.capabilities import CAPABILITIES

ABOVE: Final = frozenset({"capabilities.py", "command.py", "reference.py", "__main__.py", "__init__.py"})
"""What stands above the capabilities, or is none of the layers."""

HOMONYMS: Final[Mapping[str, frozenset[str]]] = {
    # What a process measures.
    "metrics": frozenset({"telemetry", "http", "web", "crew", "capability", "coordinator", "worker"}),
    # A SELECT that reads files, as databases call it.
    "scan": frozenset({"engines"}),
}
"""Layers in which the word of a capability's name means something else as well. A text that is the name and nothing
else, or a dotted path, means the capability there too."""

_MADE: Final = frozenset({"control_pb2.py", "control_pb2.pyi"})
_WORD: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")


@dataclass(frozen=True, slots=True)
class Finding:
    path: Path
    line: int
    name: str
    text: str

    def __str__(self) -> str:
        return (
            f"{self.path}:{self.line}: {self.text[:60]!r} names the capability {self.name}: let it contribute what is "
            "needed here (quarterdeck/capability)"
        )


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("root", type=Path)
    root: Path = parser.parse_args(arguments).root
    names = [one.name for one in CAPABILITIES]
    paths = list(files_below(root, names))
    findings = [
        finding
        for path in paths
        for finding in check_text(path.read_text(encoding="utf-8"), path, path.relative_to(root).parts[0], names)
    ]
    for finding in findings:
        print(finding)
    print(f"names of capabilities: {len(paths)} files below them, {len(findings)} findings")
    return 1 if findings else 0


def files_below(root: Path, names: Collection[str]) -> Iterator[Path]:
    """The files of all layers below the capabilities: whatever is neither one of them nor above."""
    for top in sorted(root.iterdir()):
        if top.name in ABOVE or top.name in names:
            continue
        if top.suffix == ".py":
            yield top
        elif top.is_dir():
            yield from sorted(path for path in top.rglob("*.py") if path.name not in _MADE)


def check_text(text: str, path: Path, layer: str, names: Collection[str]) -> Iterator[Finding]:
    tree = ast.parse(text, str(path))
    explaining = set(_docstrings(tree))
    for node in ast.walk(tree):
        for line, said, is_text in _said(node):
            if is_text and id(node) in explaining:
                continue
            for name in names:
                if _names(said, name, layer, is_text=is_text):
                    yield Finding(path, line, name, said)


def _names(said: str, name: str, layer: str, *, is_text: bool) -> bool:
    words = {word.lower() for word in _WORD.findall(said)}
    if not words & {name, f"{name}s", f"{name}es"}:
        return False
    if layer not in HOMONYMS.get(name, ()):
        return True
    return is_text and (said == name or f"quarterdeck.{name}" in said)


def _said(node: ast.AST) -> Iterator[tuple[int, str, bool]]:
    """What a node defines or says: line, text, and whether it is a text. A use is not looked at: what is used is
    defined somewhere, and `re.search` is nobody's."""
    match node:
        case ast.Name(ctx=ast.Store()):
            yield node.lineno, node.id, False
        case ast.Attribute(ctx=ast.Store()):
            yield node.lineno, node.attr, False
        case ast.ClassDef() | ast.FunctionDef() | ast.AsyncFunctionDef():
            yield node.lineno, node.name, False
        case ast.arg():
            yield node.lineno, node.arg, False
        case ast.Constant(value=str(value)):
            yield node.lineno, value, True
        case _:
            pass


def _docstrings(tree: ast.AST) -> Iterator[int]:
    """The ids of the texts that stand by themselves."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            yield id(node.value)


if __name__ == "__main__":
    sys.exit(main())
