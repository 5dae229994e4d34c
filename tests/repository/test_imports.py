"""Imports between our modules: no cycle, and none that only the type checker sees."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

ROOTS = ("messaging", "tenants", "admin_ui", "workers", "spark_jobs", "platform/controlplane")

# Modules in a cycle, or with imports for the type checker alone. This list only shrinks: take out what is mended.
CYCLES_KNOWN: frozenset[str] = frozenset(
    {
        "messaging.broker.runtime.broker",
        "messaging.broker.runtime.client_subscriptions",
        "messaging.broker.runtime.peers",
        "messaging.broker.runtime.wire.commands",
        "messaging.broker.runtime.wire.connection",
        "messaging.broker.runtime.wire.consumers",
        "messaging.broker.runtime.wire.handshake",
        "messaging.broker.runtime.wire.lookup",
        "messaging.broker.runtime.wire.opened",
        "messaging.broker.runtime.wire.producers",
        "messaging.broker.runtime.wire.reading",
        "messaging.broker.runtime.wire.refused",
        "messaging.broker.runtime.wire.sessions",
        "messaging.broker.runtime.wire.sinks",
        "messaging.storage.managed.appender",
        "messaging.storage.managed.pending_append",
    }
)
TYPE_CHECKING_KNOWN: frozenset[str] = frozenset(
    {
        "messaging.broker.runtime.client_subscriptions",
        "messaging.broker.runtime.peers",
        "messaging.broker.runtime.topics.backlog_read",
        "messaging.broker.runtime.wire.commands",
        "messaging.broker.runtime.wire.connection",
        "messaging.broker.runtime.wire.consumers",
        "messaging.broker.runtime.wire.handshake",
        "messaging.broker.runtime.wire.listings",
        "messaging.broker.runtime.wire.lookup",
        "messaging.broker.runtime.wire.opened",
        "messaging.broker.runtime.wire.producers",
        "messaging.broker.runtime.wire.reading",
        "messaging.broker.runtime.wire.refused",
        "messaging.broker.runtime.wire.sessions",
        "messaging.broker.runtime.wire.sinks",
        "messaging.storage.disk_reserve",
        "messaging.storage.local.config",
        "messaging.storage.managed.pending_append",
    }
)

Imports = Mapping[str, frozenset[str]]


@pytest.fixture(scope="module")
def sources(repository: Path) -> dict[str, ast.Module]:
    """Module name -> its syntax tree."""
    found = {}
    for root in ROOTS:
        for path in (repository / root).rglob("*.py"):
            parts = path.relative_to(repository).with_suffix("").parts
            parts = parts[1:] if parts[0] == "platform" else parts
            found[".".join(parts).removesuffix(".__init__")] = ast.parse(path.read_text())
    return found


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
    found: list[frozenset[str]] = []

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
                found.append(frozenset(component))

    for module in sorted(imports):
        if module not in numbers:
            visit(module)
    return found


def test_cycles_are_found() -> None:
    imports = {name: frozenset(targets) for name, targets in {"a": "b", "b": "cd", "c": "a", "d": "", "e": "d"}.items()}
    assert cycles_in(imports) == [frozenset("abc")]
    assert cycles_in({"a": frozenset("b"), "b": frozenset()}) == []


def test_no_modules_import_each_other(sources: dict[str, ast.Module]) -> None:
    """A cycle is one large module in several files. An import inside a function counts: it hides a cycle, it breaks none."""
    new = [sorted(cycle) for cycle in cycles_in(imports_of(sources)) if not cycle <= CYCLES_KNOWN]
    assert new == []


def test_nothing_is_imported_for_the_type_checker_alone(sources: dict[str, ast.Module]) -> None:
    """It hides from whoever reads the imports what a module depends on. Put the interface into a module of its own."""
    found = {
        name
        for name, tree in sources.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Name) and node.id == "TYPE_CHECKING"
    }
    assert sorted(found - TYPE_CHECKING_KNOWN) == []
