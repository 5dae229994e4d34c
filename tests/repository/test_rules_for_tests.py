"""Rules for the tests themselves: helpers stand in modules of their own, tests see only what everybody sees, modules can be read.

The lists of exceptions only shrink: a file may have fewer than it is allowed, and no other file may join them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.repository.syntax import Facts, facts, facts_of

LINES_MAX = 500

IMPORTED_TEST_MODULES: dict[str, int] = {}
PRIVATE_NAMES: dict[str, int] = {}
LARGER: dict[str, int] = {}


@pytest.fixture(scope="module")
def modules(repository: Path) -> dict[str, Facts]:
    """Every module below tests/, by its path."""
    files = sorted((repository / "tests").rglob("*.py"))
    return {str(path.relative_to(repository)): facts(path) for path in files}


def beyond(counts: Counter[str], allowed: dict[str, int]) -> dict[str, str]:
    return {name: f"{count}, allowed {allowed.get(name, 0)}" for name, count in counts.items() if count > allowed.get(name, 0)}


def test_no_test_module_is_imported(modules: dict[str, Facts]) -> None:
    """What several need is a helper: a module beside them, or in tests/support where several areas need it."""
    imported = Counter(path for path, module in modules.items() for name in _imported(module) if _holds_tests(name))
    assert beyond(imported, IMPORTED_TEST_MODULES) == {}


def test_helpers_of_several_areas_stand_in_support(modules: dict[str, Facts]) -> None:
    shared = ("tests.support", "tests.simulation", "tests.benchmarks", "tests.adversary.hostile")
    strangers = [
        f"{path} imports {name}"
        for path, module in modules.items()
        for name in _imported(module)
        if not name.startswith(shared)
        and not _holds_tests(name)
        and not path.startswith(name.rpartition(".")[0].replace(".", "/") + "/")
    ]
    assert strangers == []


def test_tests_do_not_touch_what_is_private(modules: dict[str, Facts]) -> None:
    """What a test has to see has a public name. Names that a module gives itself are its own affair."""
    counts = Counter({path: len(module.private_names) for path, module in modules.items()})
    assert beyond(counts, PRIVATE_NAMES) == {}


def test_modules_can_be_read(modules: dict[str, Facts]) -> None:
    long_modules = Counter({path: module.lines for path, module in modules.items() if module.lines > LINES_MAX})
    assert beyond(long_modules, LARGER) == {}


def test_a_private_name_is_found_however_it_is_used() -> None:
    source = """
import json as _json
from messaging.broker import _hidden
class Fake:
    def __init__(self): self._own = 1
    def copy(self): return Fake()._own + self._inherited
def test(monkeypatch, broker):
    broker._topics.clear()
    monkeypatch.setattr(broker, "_stop", None)
    broker.limits._replace(count_max=1)
"""
    assert list(facts_of(source).private_names) == ["_hidden", "_topics", "_stop"]


def _holds_tests(module: str) -> bool:
    last = module.rpartition(".")[2]
    return last.startswith("test_") or last == "conftest"


def _imported(module: Facts) -> Iterator[str]:
    """Names of modules below `tests` that are imported."""
    return (imported.module for imported in module.imports if not imported.level and imported.module.split(".")[0] == "tests")
