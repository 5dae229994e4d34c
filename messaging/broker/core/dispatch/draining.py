"""Slots of a Key_Shared subscription that belong to another consumer now, while the former one still holds entries of them. Nobody
is sent more of these: so entries of a key stay in order, and only one consumer at a time works on it. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator

from pyroaring import BitMap

from messaging.broker.core.consumer import Consumer
from messaging.broker.core.dispatch.known_hashes import KnownHashes

Owner = Callable[[int], Consumer | None]
OWN = -1  # in place of a slot


class DrainingSlot:
    __slots__ = ("blocked", "former", "unacked", "waiting")

    def __init__(self, former: Consumer) -> None:
        self.former = former
        self.unacked = 0  # entries that it holds
        self.blocked = 0  # entries that could not be sent because of that
        self.waiting: dict[int, BitMap] = {}  # ledger -> entries for the new owner


class DrainingSlots:
    """`changed` are consumers that may hold less than when they were last looked at: `release` looks at them. While it is
    `searching`, not all slots are known, and nothing is to be sent."""

    __slots__ = (
        "_before",
        "_consumers",
        "_hashes",
        "_held",
        "_left",
        "_next_entry",
        "_owner_of",
        "_slot_of",
        "_slots_of_hashes",
        "changed",
        "cleared",
        "searching",
        "slots",
    )

    def __init__(self, hashes: KnownHashes, slot_of: Callable[[int], int]) -> None:
        self._hashes = hashes
        self._slot_of = slot_of
        self._held: dict[Consumer, dict[int, BitMap]] = {}  # what former owners held of these slots when they were last looked at
        self.slots: dict[int, DrainingSlot] = {}
        self.changed: dict[Consumer, None] = {}
        self.cleared: dict[Consumer, int] = {}  # slots that it was the former owner of, and is no longer
        self.searching = False
        self._before: dict[int, DrainingSlot] = {}  # those that were draining when the search began
        self._left: list[tuple[Consumer, int]] = []  # consumers and ledgers of which they hold entries; the last is looked at next
        self._next_entry = 0  # of that ledger
        self._slots_of_hashes: dict[int, int] = {}  # for that consumer and ledger; OWN: a slot of its own
        self._consumers: Collection[Consumer] = ()
        self._owner_of: Owner = lambda slot: None

    def begin_search(self, consumers: Collection[Consumer], owner_of: Owner) -> None:
        """Slots have new owners: those whose entries another consumer holds are draining from now on, and no others. What
        consumers hold by now is looked through by `search`; they are sent nothing more until that is done."""
        if not self.searching:
            self._before = self.slots
        self.searching, self.slots, self._consumers, self._owner_of = True, {}, consumers, owner_of
        self._held.clear()
        self.changed.clear()
        self._left = [(consumer, ledger_id) for consumer in consumers for ledger_id in consumer.held]
        self._next_ledger()

    def search(self, entries_max: int) -> int:
        """Looks at so many entries at the most. Returns how many it did not look at, because there are no more."""
        while self._left and entries_max > 0:
            consumer, ledger_id = self._left[-1]
            entries_held = consumer.held.get(ledger_id, BitMap())  # perhaps less than when the search began
            start = entries_held.rank(self._next_entry - 1) if self._next_entry else 0
            entries = entries_held[start : start + entries_max]
            if entries:
                self._look_at(consumer, ledger_id, entries)
                entries_max -= len(entries)
                self._next_entry = entries.max() + 1
            else:
                del self._left[-1]
                self._next_ledger()
        if not self._left and self.searching:
            self._end_search()
        return entries_max

    def _next_ledger(self) -> None:
        self._next_entry = 0
        self._slots_of_hashes = {}

    def _end_search(self) -> None:
        self.searching = False
        before, self._before = self._before, {}
        for slot, draining in before.items():
            if slot not in self.slots and draining.former in self._consumers:
                self._count(draining)

    def _look_at(self, consumer: Consumer, ledger_id: int, entries: BitMap) -> None:
        slots, before, of_others = self._slots_of_hashes, self._before, []
        for entry, key_hash in self._hashes.of(ledger_id, entries):
            slot = slots.get(key_hash)
            if slot is None:
                slot = self._slot_of(key_hash)
                slot = slots[key_hash] = OWN if self._owner_of(slot) is consumer else slot
            if slot == OWN:
                continue
            of_others.append(entry)
            draining = self.slots.get(slot)
            if draining is None:
                draining = self.slots[slot] = DrainingSlot(consumer)
                if slot in before and before[slot].former is consumer:
                    draining.blocked = before[slot].blocked
            draining.unacked += 1
        if of_others:
            of_consumer = self._held.setdefault(consumer, {})
            of_consumer[ledger_id] = of_consumer.get(ledger_id, BitMap()) | BitMap(of_others)

    def release(self, entries_max: int) -> tuple[list[DrainingSlot], int]:
        """Looks at so many entries at the most that are not held any more; those who have let go of more stay `changed`. Returns
        the slots of which the former owner holds nothing any more, which are not draining any more, and what is left of
        `entries_max`."""
        ended: list[DrainingSlot] = []
        while self.changed and entries_max > 0:
            consumer = next(iter(self.changed))
            of_consumer = self._held.get(consumer, {})
            for ledger_id, entries in list(of_consumer.items()):
                gone = (entries - consumer.held.get(ledger_id, BitMap()))[:entries_max]
                if gone:
                    of_consumer[ledger_id] = entries - gone
                    ended += self._released(ledger_id, gone)
                    entries_max -= len(gone)
                if not entries_max:
                    break
            else:
                del self.changed[consumer]
        return ended, entries_max

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
        """Entries whose hashes `release` will ask for."""
        return BitMap.union(BitMap(), *(of_consumer[ledger_id] for of_consumer in self._held.values() if ledger_id in of_consumer))

    def forget(self, consumer: Consumer) -> None:
        self.cleared.pop(consumer, None)
        self.changed.pop(consumer, None)

    def clear(self) -> None:
        self.searching = False
        self._left.clear()
        self._before.clear()
        self.slots.clear()
        self._held.clear()
        self.changed.clear()
        self.cleared.clear()
