"""The hot loops as they are written and, where a compiler made it, as the compiled twin that stands in for them."""

from __future__ import annotations

import importlib.machinery
import importlib.util
from types import ModuleType

from messaging.protocol import build_hot, hot


def _plain() -> ModuleType:
    """The sources under another name: an import of `messaging.protocol.hot` prefers the twins."""
    together, modules = ModuleType("hot_as_written"), []
    for source in build_hot.SOURCES:
        name = f"{source.stem}_as_written"
        loader = importlib.machinery.SourceFileLoader(name, str(source))
        spec = importlib.util.spec_from_loader(name, loader)
        assert spec is not None
        module = importlib.util.module_from_spec(spec)
        loader.exec_module(module)
        assert not module.COMPILED
        vars(together).update(vars(module))
        modules.append(module)
    for module in modules:
        vars(module).update(varint=together.varint)  # one imports it, and got the twin's
    return together


def _stand_ins(plain: ModuleType) -> ModuleType:
    """What runs where nothing is compiled."""
    made = ModuleType("hot_stand_ins")
    vars(made).update(vars(plain))
    vars(made).update(scan=plain.scan_sequential, receipts=plain.joined_receipts, messages=plain.joined_messages)
    return made


VARIANTS: dict[str, ModuleType] = {"plain": _plain()}
VARIANTS["stand-ins"] = _stand_ins(VARIANTS["plain"])
if hot.COMPILED and not build_hot.stale():
    VARIANTS["compiled"] = ModuleType("hot_compiled")
    for module in (hot.incoming, hot.outgoing):
        vars(VARIANTS["compiled"]).update(vars(module))
