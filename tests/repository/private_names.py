"""Which private names of others a module uses."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

# Documented: of named tuples, of Django's models, and of `os`.
PUBLIC_IN_SPITE_OF_ITS_NAME = {"_replace", "_asdict", "_make", "_fields", "_meta", "_default_manager", "_exit"}
SETTERS = {"setattr", "getattr", "delattr", "hasattr", "object"}


def private_names(nodes: Sequence[ast.AST]) -> list[str]:
    """Names with an underscore that belong to something else, in the order in which they stand in the source. `nodes`: all of a
    module."""
    own = PUBLIC_IN_SPITE_OF_ITS_NAME | set(_given(nodes))
    reached = [
        (line, name) for line, name in _used(nodes) if name.startswith("_") and not name.startswith("__") and name not in own
    ]
    return [name for _, name in sorted(reached)]


def _given(nodes: Sequence[ast.AST]) -> Iterator[str]:
    """What the module calls its own: its functions, classes, variables, and attributes that it sets on `self`."""
    for node in nodes:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and _of_itself(node.value):
            yield node.attr


def _used(nodes: Sequence[ast.AST]) -> Iterator[tuple[int, str]]:
    for node in nodes:
        if isinstance(node, ast.Attribute) and not _of_itself(node.value):
            yield node.lineno, node.attr
        elif isinstance(node, ast.ImportFrom):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.Call):
            called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if called in SETTERS:
                yield from (
                    (node.lineno, argument.value)
                    for argument in node.args
                    if isinstance(argument, ast.Constant) and isinstance(argument.value, str)
                )


def _of_itself(value: ast.expr) -> bool:
    if isinstance(value, ast.Call):
        return isinstance(value.func, ast.Name) and value.func.id == "super"
    return isinstance(value, ast.Name) and value.id in ("self", "cls")
