"""What Python 3.11 gets wrong in releases that are still around, and what we therefore leave alone."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).parent.parent / "src" / "quarterdeck"
POSSESSIVE_GROUP = re.compile(r"(?<!\\)\)[*+?]\+")


def texts(file: Path) -> Iterator[tuple[int, str]]:
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, node.value


def test_no_group_is_repeated_possessively() -> None:
    """Before 3.11.5 `re` forgets what it had tried within such a group, and takes or refuses the wrong text."""
    found = [
        f"{file.relative_to(SOURCE)}:{line}: {text[:80]}"
        for file in SOURCE.rglob("*.py")
        for line, text in texts(file)
        if POSSESSIVE_GROUP.search(text)
    ]
    assert found == []
