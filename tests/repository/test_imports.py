"""Imports between our modules: no cycle, and none that only the type checker sees."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

ROOTS = ("messaging", "tenants", "admin_ui", "workers", "spark_jobs", "platform/controlplane")

Imports = Mapping[str, frozenset[str]]


@pytest.fixture(scope="module")
def sources(repository: Path) -> dict[str, ast.Module]:
    """Module name -> its syntax tree."""
    trees = {}
    for root in ROOTS:
        for path in (repository / root).rglob("*.py"):
            parts = path.relative_to(repository).with_suffix("").parts
            parts = parts[1:] if parts[0] == "platform" else parts
            trees[".".join(parts).removesuffix(".__init__")] = ast.parse(path.read_text())
    return trees


def imports_of(sources: Mapping[str, ast.Module]) -> dict[str, frozenset[str]]:
    """Module -> those of ours that it imports, wherever in it the import stands."""

    def targets(module: str, tree: ast.Module) -> Iterator[str]:
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.module and not node.level:
                for alias in node.names:
                    whole = f"{node.module}.{alias.name}"
                    yield whole if whole in sources else node.module
            elif isinstance(node, ast.Import):
                yield from (alias.name for alias in node.names)

    return {name: frozenset(t for t in targets(name, tree) if t in sources and t != name) for name, tree in sources.items()}


def cycles_in(imports: Imports) -> list[frozenset[str]]:
    """The sets of modules that reach each other: Tarjan's strongly connected components of more than one."""
    numbers: dict[str, int] = {}
    lowest: dict[str, int] = {}
    stack: list[str] = []
    cycles: list[frozenset[str]] = []

    def visit(module: str) -> None:
        numbers[module] = lowest[module] = len(numbers)
        stack.append(module)
        for target in sorted(imports[module]):
            if target not in numbers:
                visit(target)
                lowest[module] = min(lowest[module], lowest[target])
            elif target in stack:
                lowest[module] = min(lowest[module], numbers[target])
        if lowest[module] == numbers[module]:
            component = stack[stack.index(module) :]
            del stack[stack.index(module) :]
            if len(component) > 1:
                cycles.append(frozenset(component))

    for module in sorted(imports):
        if module not in numbers:
            visit(module)
    return cycles


def names_type_checking(tree: ast.Module) -> bool:
    nodes = ast.walk(tree)
    return any("TYPE_CHECKING" in (getattr(node, "id", ""), getattr(node, "attr", ""), getattr(node, "name", "")) for node in nodes)


def test_imports_for_the_type_checker_are_found() -> None:
    for source in ("from typing import TYPE_CHECKING", "import typing\nif typing.TYPE_CHECKING:\n    pass"):
        assert names_type_checking(ast.parse(source))
    assert not names_type_checking(ast.parse("from typing import Any"))


def test_cycles_are_found() -> None:
    imports = {name: frozenset(targets) for name, targets in {"a": "b", "b": "cd", "c": "a", "d": "", "e": "d"}.items()}
    assert cycles_in(imports) == [frozenset("abc")]
    assert cycles_in({"a": frozenset("b"), "b": frozenset()}) == []


def test_no_modules_import_each_other(sources: dict[str, ast.Module]) -> None:
    """A cycle is one large module in several files. An import inside a function counts: it hides a cycle, it breaks none."""
    assert [sorted(cycle) for cycle in cycles_in(imports_of(sources))] == []


def test_nothing_is_imported_for_the_type_checker_alone(sources: dict[str, ast.Module]) -> None:
    """It hides from whoever reads the imports what a module depends on. Put the interface into a module of its own."""
    hiding = {name for name, tree in sources.items() if names_type_checking(tree)}
    assert sorted(hiding) == []
