"""pytest rewrites the assertions of each test module, 30 ms of CPU each, and keeps what it made beside the byte code.

Workers that begin at once on a fresh checkout would each do so for all of them. The process that starts them does it before, with
one beside it for each further processor.
"""

from __future__ import annotations

import importlib.util
import multiprocessing
import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import pytest
from _pytest.assertion.rewrite import PYC_TAIL, AssertionRewritingHook, get_cache_dir

_NAMES = ("test_*.py", "conftest.py")


def modules_of(config: pytest.Config) -> list[Path]:
    """Those that this run may collect, in which tests may be."""
    found: set[Path] = set()
    for argument in config.args:
        path = config.invocation_params.dir / argument.partition("::")[0]
        found.update([path] if path.is_file() else [one for name in _NAMES for one in path.rglob(name)])
    return sorted(found)


def kept(module: Path) -> Path:
    """Where what was made of a module is."""
    return get_cache_dir(module) / (module.stem + PYC_TAIL)


def rewrite_ahead(config: pytest.Config, processes: int = os.cpu_count() or 1) -> None:
    """Blocks until the modules are rewritten that were not since they changed."""
    hook, modules = AssertionRewritingHook(config), modules_of(config)
    begun = multiprocessing.get_context("fork")
    others = [begun.Process(target=_rewrite, args=(hook, modules[first::processes])) for first in range(1, processes)]
    for other in others:
        other.start()
    _rewrite(hook, modules[::processes])
    for other in others:
        other.join()


def _rewrite(hook: AssertionRewritingHook, modules: Sequence[Path]) -> None:
    """What fails here, for want of space say, fails again, and is said, where the module is imported."""
    for path in modules:
        spec = importlib.util.spec_from_file_location(path.stem, path, loader=hook)
        if spec is not None:
            module = importlib.util.module_from_spec(spec)
            module.__dict__["__builtins__"] = {}  # nothing of it is run: what each begins with is an import, which is not there
            with suppress(ImportError, OSError, SyntaxError):
                hook.exec_module(module)
