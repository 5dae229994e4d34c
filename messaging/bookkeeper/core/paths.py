"""Where things are in ZooKeeper, below the root of a cluster's ledgers (`/ledgers` unless it was made otherwise)."""

from __future__ import annotations

from messaging.bookkeeper.errors import InvalidArgument, UnsupportedLayout

LEDGER_ID_MAX = (1 << 63) - 1
_SHORT_ID_MAX = (1 << 31) - 1
HIERARCHICAL = "org.apache.bookkeeper.meta.HierarchicalLedgerManagerFactory"
LONG_HIERARCHICAL = "org.apache.bookkeeper.meta.LongHierarchicalLedgerManagerFactory"
LAYOUT_VERSION = 2
_MANAGER_VERSION = 1


class Layout:
    """How ids become paths. In the long form every id has five levels, else those below 2^31-1 have three."""

    def __init__(self, long_only: bool = False) -> None:
        self.long_only = long_only

    @classmethod
    def parse(cls, data: bytes) -> Layout:
        """Of the node `LAYOUT`. A ledger under a path that bookies do not scan is deleted by them, so others are refused.

        Raises `UnsupportedLayout`.
        """
        text = data.decode(errors="replace")
        version, _, manager = text.partition("\n")
        factory, _, manager_version = manager.strip().rpartition(":")
        if (
            version != str(LAYOUT_VERSION)
            or factory not in (HIERARCHICAL, LONG_HIERARCHICAL)
            or manager_version != str(_MANAGER_VERSION)
        ):
            raise UnsupportedLayout(
                f"the cluster's layout is {text[:200]!r}; this client knows version {LAYOUT_VERSION} with "
                f"{HIERARCHICAL} or {LONG_HIERARCHICAL}"
            )
        return cls(factory == LONG_HIERARCHICAL)

    def ledger(self, ledger_id: int) -> str:
        """The path below the root, with a slash in front."""
        if not 0 <= ledger_id <= LEDGER_ID_MAX:
            raise InvalidArgument(f"{ledger_id} is no ledger id: ids are from 0 to {LEDGER_ID_MAX}", ledger_id)
        if ledger_id < _SHORT_ID_MAX and not self.long_only:
            digits = f"{ledger_id:010d}"
            return f"/{digits[:2]}/{digits[2:6]}/L{digits[6:]}"
        digits = f"{ledger_id:019d}"
        return f"/{digits[:3]}/{digits[3:7]}/{digits[7:11]}/{digits[11:15]}/L{digits[15:]}"


def ledger_id_of(path: str) -> int | None:
    """What `Layout.ledger` made the path of (below the root); None if it is no ledger's."""
    levels = path.strip("/").split("/")
    if len(levels) not in (3, 5) or not levels[-1].startswith("L"):
        return None
    digits = "".join(levels)[: -len(levels[-1])] + levels[-1][1:]
    return int(digits) if digits.isdigit() and len(digits) == (10 if len(levels) == 3 else 19) else None
