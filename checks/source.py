"""One parsed source file, and what can be asked about it: names after imports, parents, comments, variables of a class.

Everything is lexical and within the one file. A name that is bound twice is taken for what the import made it.
"""

import ast
import io
import tokenize
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path

Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


class Source:
    def __init__(self, text: str, path: Path) -> None:
        self.path = path
        self._text = text
        self.tree = ast.parse(text, filename=str(path))
        self._parents = {child: node for node in ast.walk(self.tree) for child in ast.iter_child_nodes(node)}
        self._imports = dict(_imported_names(self.tree))

    def calls(self) -> Iterator[ast.Call]:
        return (node for node in ast.walk(self.tree) if isinstance(node, ast.Call))

    def dotted(self, node: ast.expr | None) -> str:
        """The full name of an expression, imports resolved and type parameters dropped; empty when it has none."""
        match node:
            case ast.Name(id=name):
                return self._imports.get(name, name)
            case ast.Attribute(value=value, attr=attribute):
                owner = self.dotted(value)
                return f"{owner}.{attribute}" if owner else ""
            case ast.Subscript(value=value):
                return self.dotted(value)
            case _:
                return ""

    def parent(self, node: ast.AST) -> ast.AST | None:
        return self._parents.get(node)

    def ancestors(self, node: ast.AST) -> Iterator[ast.AST]:
        while (parent := self._parents.get(node)) is not None:
            yield parent
            node = parent

    def function_around(self, node: ast.AST) -> Function | None:
        return next((above for above in self.ancestors(node) if isinstance(above, Function)), None)

    def is_in_coroutine(self, node: ast.AST) -> bool:
        return isinstance(self.function_around(node), ast.AsyncFunctionDef)

    def is_awaited(self, node: ast.AST) -> bool:
        return isinstance(self.parent(node), ast.Await)

    def comments_on(self, node: ast.expr) -> list[str]:
        """Comments on the lines of a simple statement around the node, or of the node itself in a compound one."""
        statement = next(above for above in self.ancestors(node) if isinstance(above, ast.stmt))
        place = node if hasattr(statement, "body") else statement
        lines = range(place.lineno, (place.end_lineno or place.lineno) + 1)
        return [self._comments[line] for line in lines if line in self._comments]

    def variables_of(self, classes: frozenset[str]) -> frozenset[str]:
        """Names (`lock`, `self.lock`) that the file annotates with, or assigns a new object of, one of the classes."""
        return frozenset(name for name in self._variables(classes) if name)

    def _variables(self, classes: frozenset[str]) -> Iterator[str]:
        for node in ast.walk(self.tree):
            match node:
                case ast.Assign(targets=targets, value=ast.Call(func=func)) if self.dotted(func) in classes:
                    yield from map(self.dotted, targets)
                case ast.AnnAssign(target=target, annotation=annotation, value=value):
                    made = self.dotted(value.func) if isinstance(value, ast.Call) else ""
                    if made in classes or self.dotted(annotation) in classes:
                        name = self.dotted(target)
                        yield name
                        if isinstance(self.parent(node), ast.ClassDef):
                            yield f"self.{name}"
                case ast.arg(arg=name, annotation=ast.expr() as annotation) if self.dotted(annotation) in classes:
                    yield name
                case _:
                    pass

    @cached_property
    def _comments(self) -> dict[int, str]:
        tokens = tokenize.generate_tokens(io.StringIO(self._text).readline)
        return {token.start[0]: token.string for token in tokens if token.type == tokenize.COMMENT}


def _imported_names(tree: ast.Module) -> Iterator[tuple[str, str]]:
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                for alias in names:
                    # `import a.b` binds a; `import a.b as c` binds c to a.b.
                    root = alias.name.partition(".")[0]
                    yield (alias.asname, alias.name) if alias.asname else (root, root)
            case ast.ImportFrom(module=str(module), names=names, level=0):
                for alias in names:
                    yield alias.asname or alias.name, f"{module}.{alias.name}"
            case _:
                pass
