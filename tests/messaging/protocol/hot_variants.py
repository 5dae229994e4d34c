"""The hot loops as they are written and, where a compiler made it, as the compiled twin that stands in for them."""

from __future__ import annotations

import importlib.machinery
import importlib.util
from types import ModuleType

from messaging.protocol import build_hot, hot


def _plain() -> ModuleType:
    """The source under another name: an import of `messaging.protocol.hot` prefers the twin."""
    loader = importlib.machinery.SourceFileLoader("hot_as_written", str(build_hot.SOURCE))
    spec = importlib.util.spec_from_loader("hot_as_written", loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    assert not module.COMPILED
    return module


VARIANTS: dict[str, ModuleType] = {"plain": _plain()}
if hot.COMPILED and not build_hot.stale():
    VARIANTS["compiled"] = hot
