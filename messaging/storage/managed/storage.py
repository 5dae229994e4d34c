"""What all managed ledgers of an owned range share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from messaging.background import BackgroundLoops
from messaging.clock import ExpiryClock
from messaging.storage.disk_reserve import NO_RESERVE, DiskReserve
from messaging.storage.ledger_store import DiskFull, Fence, Fenced, LedgerInfo, LedgerStore, NoSuchLedger, StoreError
from messaging.storage.managed.owned_range import OwnedRange
from messaging.storage.managed.retention import LedgerLimits
from messaging.storage.meta_store import MetaStore
from messaging.storage.next_commit import NextCommit

# Counts of data skipped because it was unreadable, by what needed it; `docs/metrics.md` describes the consequences.
LEFT_MAX = 10_000
DAMAGE = ("delivery", "deduplication", "ledger", "cursor", "segment", "delayed")


@dataclass(slots=True)
class Storage:
    """The stores as used by the owner of one range, its clock (milliseconds) and limits, and what belongs to the process:
    background tasks, the disk space reserve, counters of damage.

    `bundle_fence`: under which a topic's record and what belongs to it change, by its name, where that is not the fence of all that
    this broker owns. Raises `Fenced` for a topic that it does not own.

    `left`: ledgers of this owner that are to be deleted later (`managed.orphans`). With the name of a topic: only if its record
    does not refer to it."""

    ledgers: LedgerStore
    meta: MetaStore
    owned: OwnedRange
    clock_ms: Callable[[], int]
    limits: LedgerLimits = field(default_factory=LedgerLimits)
    expiry_clock: ExpiryClock | None = None
    background: BackgroundLoops = field(default_factory=BackgroundLoops)
    reserve: DiskReserve = NO_RESERVE
    damage: Counter[str] = field(default_factory=lambda: Counter(dict.fromkeys(DAMAGE, 0)))
    left: dict[int, str] = field(default_factory=dict)
    next_commit: NextCommit = field(default_factory=NextCommit)
    bundle_fence: Callable[[str], Fence] | None = None
    _interned: dict[tuple[tuple[str, str], ...], dict[str, str]] = field(default_factory=dict)

    @property
    def fence(self) -> Fence:
        return self.owned.fence

    def fence_of(self, topic: str) -> Fence:
        """Of what is changed in the metadata for one topic, by its full name. Raises `Fenced`."""
        return self.owned.fence if self.bundle_fence is None else self.bundle_fence(topic)

    def safe_expiry_ms(self) -> int:
        """Anything older than this may be deleted; see `messaging/clock.py`."""
        return self.expiry_clock.safe_expiry_ms() if self.expiry_clock is not None else self.clock_ms()

    def intern_properties(self, properties: dict[str, str]) -> dict[str, str]:
        """Returns one shared object for equal properties: they name the tenant of a ledger, and a tenant has many topics."""
        return self._interned.setdefault(tuple(sorted(properties.items())), properties)

    async def seal_ledger(self, ledger_id: int) -> LedgerInfo:
        """Seals a ledger and returns where it ends. Without room even for that, a ledger of an earlier owner ends where it
        did when this one took over: nothing can be appended to it any more. Raises `StoreError`."""
        try:
            return await self.ledgers.seal(self.fence, ledger_id)
        except DiskFull:
            if ledger_id >= self.owned.first_ledger_id:
                raise
            return await self.ledgers.info(ledger_id)

    async def delete_ledger(self, ledger_id: int) -> None:
        """Deletes a ledger that no record refers to any more. Raises `StoreError`; it is then deleted later."""
        try:
            await self.ledgers.delete(self.fence, ledger_id)
        except (Fenced, NoSuchLedger):
            raise
        except StoreError:
            self.leave(ledger_id)
            raise

    def leave(self, ledger_id: int, topic: str = "") -> None:
        """To be deleted later; beyond `LEFT_MAX`, after the next start."""
        if len(self.left) < LEFT_MAX:
            self.left[ledger_id] = topic

    def take_left(self, topic: str) -> list[int]:
        """The ledgers that are left only if the record of this topic does not refer to them; they are left no longer. For a record
        that gets another name: `leave` follows."""
        ledger_ids = [ledger_id for ledger_id, name in self.left.items() if name and name == topic]
        for ledger_id in ledger_ids:
            del self.left[ledger_id]
        return ledger_ids
