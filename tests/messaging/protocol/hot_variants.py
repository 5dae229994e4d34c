"""The hot loops as they are written and, where a compiler made it, as the compiled twin that stands in for them."""

from __future__ import annotations

import importlib.machinery
import importlib.util
from types import ModuleType

from messaging.protocol import hot, hot_extensions
from messaging.protocol.hot import SendFrame

SHARED = ("SendFrame", "BlockSummary", "varint", "deliver_at")
Fields = tuple[int, int, int, int, int, int, int, int]


def fields(frame: SendFrame) -> Fields:
    """The fields of a `SendFrame`, in the order in which one is made."""
    return (
        frame.producer_id,
        frame.sequence_id,
        frame.start,
        frame.payload_start,
        frame.end,
        frame.message_count,
        frame.highest_sequence_id,
        frame.flags,
    )


def _plain() -> ModuleType:
    """The sources under another name: an import of `messaging.protocol.hot` prefers the twins."""
    together = ModuleType("hot_as_written")
    for source in hot_extensions.SOURCES:
        name = f"{source.stem}_as_written"
        loader = importlib.machinery.SourceFileLoader(name, str(source))
        spec = importlib.util.spec_from_loader(name, loader)
        assert spec is not None
        module = importlib.util.module_from_spec(spec)
        loader.exec_module(module)
        assert not module.COMPILED
        # What one imports from another came from the twin.
        vars(module).update({shared: made for shared, made in vars(together).items() if shared in SHARED})
        vars(together).update(vars(module))
    return together


def _stand_ins(plain: ModuleType) -> ModuleType:
    """What runs where nothing is compiled."""
    made = ModuleType("hot_stand_ins")
    vars(made).update(vars(plain))
    vars(made).update(scan=plain.scan_sequential, receipts=plain.joined_receipts, messages=plain.joined_messages)
    vars(made).update(picked_messages=plain.joined_picked_messages)
    return made


VARIANTS: dict[str, ModuleType] = {"plain": _plain()}
VARIANTS["stand-ins"] = _stand_ins(VARIANTS["plain"])
if hot.COMPILED:
    VARIANTS["compiled"] = ModuleType("hot_compiled")
    for module in (hot.common, hot.metadata, hot.incoming, hot.acks, hot.outgoing, hot.keyed):
        vars(VARIANTS["compiled"]).update(vars(module))
