"""The hot loops as they are written and, where a compiler made it, as the compiled twin that stands in for them."""

from __future__ import annotations

import importlib.machinery
import importlib.util
from types import ModuleType

from messaging.protocol import build_hot, hot


def _plain() -> ModuleType:
    """The sources under another name: an import of `messaging.protocol.hot` prefers the twins."""
    together = ModuleType("hot_as_written")
    for source in build_hot.SOURCES:
        name = f"{source.stem}_as_written"
        loader = importlib.machinery.SourceFileLoader(name, str(source))
        spec = importlib.util.spec_from_loader(name, loader)
        assert spec is not None
        module = importlib.util.module_from_spec(spec)
        loader.exec_module(module)
        assert not module.COMPILED
        vars(together).update(vars(module))
    return together


VARIANTS: dict[str, ModuleType] = {"plain": _plain()}
if hot.COMPILED and not build_hot.stale():
    VARIANTS["compiled"] = ModuleType("hot_compiled")
    for module in (hot.incoming, hot.outgoing):
        vars(VARIANTS["compiled"]).update(vars(module))
