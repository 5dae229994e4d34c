"""What the rules ask about modules, gathered in one pass over the syntax tree of each. No tree is kept: together they are large."""

from __future__ import annotations

import ast
import gc
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import NamedTuple

from tests.repository.private_names import private_names

_FIELDS: dict[type[ast.AST], tuple[str, ...]] = {}


class Import(NamedTuple):
    """`from module import names`, or `import module` without names. `level`: dots before the module."""

    module: str
    names: tuple[str, ...] = ()
    level: int = 0


class Facts(NamedTuple):
    lines: int
    imports: tuple[Import, ...]
    classes: tuple[str, ...]
    """Public ones at the top level."""
    defined: frozenset[str]
    """Functions, classes, arguments, variables and attributes."""
    private_names: tuple[str, ...]
    """Names with an underscore that belong to something else."""
    for_type_checker: bool
    """TYPE_CHECKING is named."""


@cache
def facts(path: Path) -> Facts:
    return facts_of(path.read_text())


def facts_of(source: str) -> Facts:
    with _without_collections():
        tree = ast.parse(source)
        nodes = _walk(tree)
        return Facts(
            lines=source.count("\n"),
            imports=tuple(_imports(nodes)),
            classes=tuple(node.name for node in tree.body if isinstance(node, ast.ClassDef) and not node.name.startswith("_")),
            defined=frozenset(_defined(nodes)),
            private_names=tuple(private_names(nodes)),
            for_type_checker="TYPE_CHECKING" in source and any(map(_names_type_checking, nodes)),
        )


@contextmanager
def _without_collections() -> Iterator[None]:
    """A tree is a hundred thousand objects and no cycle: looking for cycles meanwhile takes longer than the parser."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _walk(tree: ast.Module) -> list[ast.AST]:
    """As `ast.walk`, but for the nodes that say whether a name is read or written and which operator it is, a third of all."""
    nodes: list[ast.AST] = [tree]
    for node in nodes:  # grows meanwhile
        for name in _fields_with_nodes(type(node)):
            value = getattr(node, name, None)
            if isinstance(value, list):
                nodes.extend([child for child in value if isinstance(child, ast.AST)])
            elif isinstance(value, ast.AST):
                nodes.append(value)
    return nodes


def _fields_with_nodes(kind: type[ast.AST]) -> tuple[str, ...]:
    if kind not in _FIELDS:
        _FIELDS[kind] = tuple(name for name in kind._fields if name not in ("ctx", "op", "ops", "id", "attr", "arg"))
    return _FIELDS[kind]


def _names_type_checking(node: ast.AST) -> bool:
    return "TYPE_CHECKING" in (getattr(node, "id", ""), getattr(node, "attr", ""), getattr(node, "name", ""))


def _imports(nodes: list[ast.AST]) -> Iterator[Import]:
    for node in nodes:
        if isinstance(node, ast.ImportFrom):
            yield Import(node.module or "", tuple(alias.name for alias in node.names), node.level)
        elif isinstance(node, ast.Import):
            yield from (Import(alias.name) for alias in node.names)


def _defined(nodes: list[ast.AST]) -> Iterator[str]:
    for node in nodes:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.id if isinstance(node, ast.Name) else node.attr
