"""Imports without what an installed library would bring along and no process of ours uses: start time and memory."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any


@contextmanager
def without(name: str) -> Iterator[None]:
    """Imports of module `name` fail within the block, as if it were not installed. Nothing happens if it is loaded already."""
    if name in sys.modules:
        yield
        return
    sys.modules[name] = None  # type: ignore[assignment]
    try:
        yield
    finally:
        del sys.modules[name]


@contextmanager
def replaced(name: str, **attributes: Any) -> Iterator[None]:
    """Module `name` is one that has only `attributes` within the block. Nothing happens if it is loaded already."""
    if name in sys.modules:
        yield
        return
    module = ModuleType(name)
    vars(module).update(attributes)
    sys.modules[name] = module
    try:
        yield
    finally:
        del sys.modules[name]
