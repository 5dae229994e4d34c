"""Slots of a Key_Shared subscription that belong to another consumer now, while the former one still holds entries of them. Nobody
is sent more of these: so entries of a key stay in order, and only one consumer at a time works on it. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator

from pyroaring import BitMap

from messaging.broker.core.consumer import Consumer
from messaging.broker.core.dispatch.known_hashes import KnownHashes

Owner = Callable[[int], Consumer | None]


class DrainingSlot:
    __slots__ = ("blocked", "former", "unacked", "waiting")

    def __init__(self, former: Consumer) -> None:
        self.former = former
        self.unacked = 0  # entries that it holds
        self.blocked = 0  # entries that could not be sent because of that
        self.waiting: dict[int, BitMap] = {}  # ledger -> entries for the new owner


class DrainingSlots:
    """`changed` are consumers that may hold less than when they were last looked at: `ended` looks at them."""

    __slots__ = ("_hashes", "_held", "_slot_of", "changed", "cleared", "slots")

    def __init__(self, hashes: KnownHashes, slot_of: Callable[[int], int]) -> None:
        self._hashes = hashes
        self._slot_of = slot_of
        self._held: dict[Consumer, dict[int, BitMap]] = {}  # what former owners held of these slots when they were last looked at
        self.slots: dict[int, DrainingSlot] = {}
        self.changed: dict[Consumer, None] = {}
        self.cleared: dict[Consumer, int] = {}  # slots that it was the former owner of, and is no longer

    def find(self, consumers: Collection[Consumer], owner_of: Owner) -> None:
        """Slots have new owners: those whose entries another consumer holds are draining from now on, and no others."""
        before, self.slots = self.slots, {}
        self._held.clear()
        self.changed.clear()
        for consumer in consumers:
            slots: dict[int, int] = {}  # of hashes; -1: its own
            for ledger_id, entries in consumer.held.items():
                of_others = []
                for entry, key_hash in self._hashes.of(ledger_id, entries):
                    slot = slots.get(key_hash, -2)
                    if slot == -2:
                        slot = self._slot_of(key_hash)
                        slot = slots[key_hash] = -1 if owner_of(slot) is consumer else slot
                    if slot < 0:
                        continue
                    of_others.append(entry)
                    draining = self.slots.get(slot)
                    if draining is None:
                        draining = self.slots[slot] = DrainingSlot(consumer)
                        if slot in before and before[slot].former is consumer:
                            draining.blocked = before[slot].blocked
                    draining.unacked += 1
                if of_others:
                    self._held.setdefault(consumer, {})[ledger_id] = BitMap(of_others)
        for slot, draining in before.items():
            if slot not in self.slots and draining.former in consumers:
                self._count(draining)

    def ended(self) -> Iterator[DrainingSlot]:
        """Slots of which the former owner holds nothing any more: they are not draining any more."""
        changed, self.changed = self.changed, {}
        for consumer in changed:
            held = self._held.get(consumer)
            if held is None:
                continue
            for ledger_id, entries in list(held.items()):
                gone = entries - consumer.held.get(ledger_id, BitMap())
                if gone:
                    held[ledger_id] = entries - gone
                    yield from self._released(ledger_id, gone)

    def _released(self, ledger_id: int, entries: BitMap) -> Iterator[DrainingSlot]:
        for _, key_hash in self._hashes.of(ledger_id, entries):
            slot = self._slot_of(key_hash)
            draining = self.slots[slot]
            draining.unacked -= 1
            if not draining.unacked:
                del self.slots[slot]
                self._count(draining)
                yield draining

    def _count(self, draining: DrainingSlot) -> None:
        self.cleared[draining.former] = self.cleared.get(draining.former, 0) + 1

    def of(self, consumer: Consumer) -> dict[int, DrainingSlot]:
        """Of which it is the former owner, in order."""
        return {slot: self.slots[slot] for slot in sorted(self.slots) if self.slots[slot].former is consumer}

    def held_in(self, ledger_id: int) -> BitMap:
        """Entries whose hashes `ended` will ask for."""
        return BitMap.union(BitMap(), *(held[ledger_id] for held in self._held.values() if ledger_id in held))

    def forget(self, consumer: Consumer) -> None:
        self.cleared.pop(consumer, None)
        self.changed.pop(consumer, None)

    def clear(self) -> None:
        self.slots.clear()
        self._held.clear()
        self.changed.clear()
        self.cleared.clear()
