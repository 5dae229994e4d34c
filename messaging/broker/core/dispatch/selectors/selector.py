"""The interface of a selector: slots of key hashes, and the consumer that owns each. Pure."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterator
from typing import NamedTuple, Protocol

from messaging.broker.core.consumer import Consumer

SLOTS = 1 << 16

# Upper bounds of slots, inclusive and ascending, with their owners. A slot belongs to the first bound that is not below it.
SlotMap = list[tuple[int, Consumer | None]]


class SlotTable(NamedTuple):
    """A `SlotMap` as two columns: the bounds (type "I"), and the owners."""

    bounds: array[int]
    owners: list[Consumer | None]

    def owner_of(self, slot: int) -> Consumer | None:
        return self.owners[bisect_left(self.bounds, slot)] if self.owners else None


class Selector(Protocol):
    """The slot of a hash is ``hash % slots + first_slot``, or 1 where that is 0, which means "not set" in Pulsar."""

    @property
    def slots(self) -> int: ...

    @property
    def first_slot(self) -> int: ...

    @property
    def memory_bytes(self) -> int:
        """About how much memory it takes to know whose the slots are."""

    def check(self, consumer: Consumer) -> None:
        """Raises `ConsumerAssign` where `consumer` cannot be added."""

    def add(self, consumer: Consumer) -> None:
        """Call `check` first."""

    def remove(self, consumer: Consumer) -> None: ...

    def slot_map(self) -> SlotMap:
        """Covers all slots. Empty without consumers."""

    def slot_table(self) -> SlotTable:
        """The same; the caller does not change it."""


def slot_of(selector: Selector, key_hash: int) -> int:
    return key_hash % selector.slots + selector.first_slot or 1


def table_of(slot_map: SlotMap) -> SlotTable:
    return SlotTable(array("I", [bound for bound, _ in slot_map]), [owner for _, owner in slot_map])


def owner_of(slot_map: SlotMap, slot: int) -> Consumer | None:
    if not slot_map:
        return None
    _, owner = slot_map[bisect_left(slot_map, slot, key=_bound)]
    return owner


def _bound(slots: tuple[int, Consumer | None]) -> int:
    bound, _ = slots
    return bound


def ranges_by_consumer(selector: Selector) -> dict[Consumer, list[tuple[int, int]]]:
    """The slots (first, last) of each consumer, as they are told to clients: neighbours are one range."""
    ranges: dict[Consumer, list[tuple[int, int]]] = {}
    for first, last, owner in _merged(selector):
        if owner is not None:
            ranges.setdefault(owner, []).append((first, last))
    return ranges


def _merged(selector: Selector) -> Iterator[tuple[int, int, Consumer | None]]:
    first = selector.first_slot
    slot_map = selector.slot_map()
    for index, (bound, owner) in enumerate(slot_map):
        if index + 1 < len(slot_map) and slot_map[index + 1][1] is owner:
            continue
        yield first, bound, owner
        first = bound + 1
