"""Imports between our modules: no cycle, and none that only the type checker sees."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.repository.syntax import Facts, facts, facts_of

ROOTS = ("messaging", "tenants", "admin_ui", "workers", "spark_jobs", "platform/controlplane")

Imports = Mapping[str, frozenset[str]]


@pytest.fixture(scope="module")
def sources(repository: Path) -> dict[str, Facts]:
    """By module name."""
    modules = {}
    for root in ROOTS:
        for path in (repository / root).rglob("*.py"):
            parts = path.relative_to(repository).with_suffix("").parts
            parts = parts[1:] if parts[0] == "platform" else parts
            modules[".".join(parts).removesuffix(".__init__")] = facts(path)
    return modules


def imports_of(sources: Mapping[str, Facts]) -> dict[str, frozenset[str]]:
    """Module -> those of ours that it imports, wherever in it the import stands."""

    def targets(module: Facts) -> Iterator[str]:
        for imported in module.imports:
            if not imported.level:
                wholes = [f"{imported.module}.{name}" for name in imported.names]
                yield from (whole if whole in sources else imported.module for whole in wholes or [imported.module])

    return {name: frozenset(t for t in targets(module) if t in sources and t != name) for name, module in sources.items()}


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


def test_imports_for_the_type_checker_are_found() -> None:
    for source in ("from typing import TYPE_CHECKING", "import typing\nif typing.TYPE_CHECKING:\n    pass"):
        assert facts_of(source).for_type_checker
    assert not facts_of("from typing import Any").for_type_checker


def test_cycles_are_found() -> None:
    imports = {name: frozenset(targets) for name, targets in {"a": "b", "b": "cd", "c": "a", "d": "", "e": "d"}.items()}
    assert cycles_in(imports) == [frozenset("abc")]
    assert cycles_in({"a": frozenset("b"), "b": frozenset()}) == []


def test_no_modules_import_each_other(sources: dict[str, Facts]) -> None:
    """A cycle is one large module in several files. An import inside a function counts: it hides a cycle, it breaks none."""
    assert [sorted(cycle) for cycle in cycles_in(imports_of(sources))] == []


def test_nothing_is_imported_for_the_type_checker_alone(sources: dict[str, Facts]) -> None:
    """It hides from whoever reads the imports what a module depends on. Put the interface into a module of its own."""
    hiding = {name for name, module in sources.items() if module.for_type_checker}
    assert sorted(hiding) == []
