"""Key_Shared: each key belongs to one consumer, which gets its messages in order. Pure.

A selector says whose a key is. What its consumer cannot take now is set aside, so that one slow consumer holds up its own keys and
nobody else's; how much is set aside is limited, and nothing beyond is read. What was set aside, or came back, is sent first.
While a key changes hands, nothing of it is sent until the former consumer holds nothing of it any more (`draining.py`).
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence

from pyroaring import BitMap

from messaging.broker.core.consumer import Consumer
from messaging.broker.core.delayed import entry_sets
from messaging.broker.core.delayed.gathered_block import GatheredBlock
from messaging.broker.core.dispatch.assignment import Delivery
from messaging.broker.core.dispatch.draining import DrainingSlots
from messaging.broker.core.dispatch.holding import HoldingDispatch, ready
from messaging.broker.core.dispatch.key_shared_mode import KeySharedMode
from messaging.broker.core.dispatch.known_hashes import KnownHashes
from messaging.broker.core.dispatch.selectors.modes import make_selector
from messaging.broker.core.dispatch.selectors.selector import slot_of, table_of
from messaging.broker.core.dispatch.state import DispatchState
from messaging.broker.core.dispatch.waiting import WaitingEntries
from messaging.broker.core.entries import EntryBlock
from messaging.broker.core.subscription_type import SubscriptionType
from messaging.errors import ConsumerBusy
from messaging.protocol import hot
from messaging.storage.ledger_store import Position

LOOK_AHEAD_PER_CONSUMER = 2_000  # entries that may wait so that something can be read for the others; Pulsar's defaults
LOOK_AHEAD_MAX = 20_000  # of one subscription
SETTLED_MAX = 2_000  # entries that `settle` looks at in one call: about two milliseconds


class KeySharedDispatch(HoldingDispatch):
    __slots__ = (
        "_able",
        "_bounds",
        "_count_max",
        "_hashes",
        "_moved",
        "_numbers",
        "_owners",
        "_slot_table",
        "_stalled",
        "_unsorted",
        "draining",
        "mode",
        "selector",
        "waiting",
    )
    kind = SubscriptionType.KEY_SHARED

    def __init__(self, state: DispatchState) -> None:
        super().__init__(state)
        self.mode = KeySharedMode()
        self.selector = make_selector(self.mode, state.key_shared)
        self.waiting = WaitingEntries(state.redeliveries, self.settle, self._ready_consumers)
        self._hashes = KnownHashes()
        self.draining = DrainingSlots(self._hashes, lambda key_hash: slot_of(self.selector, key_hash))
        self._able: dict[Consumer, None] = {}  # consumers that, perhaps, can be sent something
        self._moved = False  # slots have new owners
        self._count_max = state.redeliveries.count_max  # of the dead-letter policy
        self._slot_table = table_of([])
        self._bounds = self._owners = array("I")  # the same for the hot loop, which knows consumers by their numbers
        self._numbers: dict[Consumer, int] = {}  # from 1 on
        self._unsorted: dict[int, BitMap] = {}  # waiting entries that have to be given to the owners of their slots
        self._stalled: tuple[int, Position] | None = None  # slot of the next entry: nobody can take it, or set it aside

    # --- consumers

    def admit(self, consumer: Consumer) -> None:
        mode = consumer.key_shared
        if not self._state.consumers:
            make_selector(mode, self._state.key_shared).check(consumer)
            return
        if (mode.sticky, mode.out_of_order) != (self.mode.sticky, self.mode.out_of_order):
            raise ConsumerBusy(
                f"the consumers of this subscription use {self.mode.described}, this one {mode.described}: all have to agree"
            )
        self.selector.check(consumer)

    def attach(self, consumer: Consumer) -> None:
        state = self._state
        if len(state.consumers) == 1:
            self._clear()
            state.send_first(self.waiting)
            self.mode = consumer.key_shared
            self.selector = make_selector(self.mode, state.key_shared)
        self.selector.add(consumer)
        self._moved = True
        consumer.on_ready = self._woken
        consumer.wake()

    def detach(self, consumer: Consumer) -> None:
        state = self._state
        consumer.on_ready = None
        self._release_all(consumer)
        self.selector.remove(consumer)
        self._able.pop(consumer, None)
        self.draining.forget(consumer)
        self._moved = True
        if not state.consumers:
            self._clear()
            state.redeliveries.forget_counts()
            state.send_first(state.redeliveries)

    def _clear(self) -> None:
        self._unreleased.clear()
        self._able.clear()
        self._unsorted.clear()
        self._stalled = None
        self.draining.clear()
        self._hashes.clear()
        self.waiting.forget_keys()

    def _woken(self, consumer: Consumer) -> None:
        self._able[consumer] = None
        if self.draining.slots:
            self.draining.changed[consumer] = None

    def _ready_consumers(self) -> Iterator[Consumer]:
        """Those that cannot be sent anything leave, and come back by `_woken`."""
        for consumer in list(self._able):
            if ready(consumer):
                yield consumer
            else:
                del self._able[consumer]

    # --- sending

    def can_dispatch(self) -> bool:
        self.settle()
        if self.unsettled or self._state.unacked.blocked or next(self._ready_consumers(), None) is None:
            return False
        if self._stalled is None or self.waiting.can_send_known():
            return True
        slot, at = self._stalled
        if self._may_be_sent(slot) or self.waiting.set_aside < self._look_ahead or self._state.next_position() != at:
            self._stalled = None
        return self._stalled is None

    @property
    def stalled(self) -> bool:
        """Whether nothing more is read because the next message is for nobody that could take it, and too many wait already."""
        return self._stalled is not None and not self.can_dispatch() and self._stalled is not None

    def unowned_ranges(self) -> int:
        """How many ranges of hashes no consumer has named. Their messages wait."""
        return sum(owner is None for owner in self.selector.slot_table().owners)

    @property
    def _look_ahead(self) -> int:
        return min(LOOK_AHEAD_MAX, LOOK_AHEAD_PER_CONSUMER * len(self._state.consumers))

    def _may_be_sent(self, slot: int) -> bool:
        owner = self._slot_table.owner_of(slot)
        return owner is not None and slot not in self.draining.slots and ready(owner)

    def share(self, block: EntryBlock, ranges: Sequence[tuple[int, int]]) -> tuple[list[Delivery], int | None]:
        """Entries that are waiting already were offered because their consumers are able: they are sent as far as there is room."""
        if not ranges:
            return [], None
        ledger_id, hashes = block.ledger_id, block.key_hashes
        first = ranges[0][0]
        again = first in self.waiting.known(ledger_id)
        if isinstance(block, GatheredBlock):
            self._hashes.keep_single(ledger_id, block.ids, hashes)
        elif not again:
            self._hashes.keep(ledger_id, block.first_entry, hashes)
        if self.waiting.is_unknown(ledger_id, first):
            self._learn(ledger_id, ranges)
            return [], None
        rooms = self._rooms()
        picked: list[list[int]] = [[] for _ in rooms]
        aside: list[int] = []
        aside_max = len(hashes) if again else max(0, self._look_ahead - self.waiting.set_aside)
        counts = self._state.unacked_counts(block)
        stopped_at = None
        selector = self.selector
        slots, first_slot, bounds, owners = selector.slots, selector.first_slot, self._bounds, self._owners
        closed = self.draining.slots
        for begin, stop in block.spans_of(ranges):
            reached = hot.route(
                hashes, begin, stop, slots, first_slot, bounds, owners, rooms, closed, counts, picked, aside, aside_max
            )
            if reached < stop:
                stopped_at = block.entry_at(reached)
                break
        given = zip(self._numbers, picked[1:], strict=True)
        deliveries = [self._deliver(consumer, block, indexes, counts) for consumer, indexes in given if indexes]
        if aside and not again:
            self._set_aside(ledger_id, block.entries_at(aside))
        if stopped_at is not None and rooms[hot.NOBODY] > 0:
            self._stalled = slot_of(selector, hashes[block.index_of(stopped_at)]), Position(ledger_id, stopped_at)
        return deliveries, stopped_at

    def _rooms(self) -> array[int]:
        """How many messages each consumer may be sent, by its number; number 0: all together."""
        rooms = array("q", bytes(8 * (len(self._numbers) + 1)))
        unacked = self._state.unacked
        rooms[hot.NOBODY] = unacked.room
        for consumer in self._ready_consumers():
            rooms[self._numbers[consumer]] = consumer.room
        return rooms

    def _deliver(self, consumer: Consumer, block: EntryBlock, picked: list[int], counts: list[int] | None) -> Delivery:
        unacked = None if counts is None else [counts[index] for index in picked]
        delivery, entries = self._state.deliver_picked(consumer, block, picked, unacked)
        self.waiting.sent(consumer, block.ledger_id, entries)
        entry_sets.take(self._state.set_aside, {block.ledger_id: entries})
        return delivery

    # --- what waits

    def _set_aside(self, ledger_id: int, entries: BitMap) -> None:
        self._state.redeliveries.send_again(ledger_id, entries)
        entry_sets.add(self._state.set_aside, ledger_id, entries)
        self._sort(ledger_id, entries)

    def _learn(self, ledger_id: int, ranges: Sequence[tuple[int, int]]) -> None:
        """The keys of waiting entries are known now: they are sent in their turn."""
        for first, last in ranges:
            self.waiting.learnt(ledger_id, first, last + 1)
            self._sort(ledger_id, BitMap(range(first, last + 1)))

    def _give_back(self, ledger_id: int, entries: BitMap) -> None:
        super()._give_back(ledger_id, entries)
        self._unsorted[ledger_id] = self._unsorted.get(ledger_id, BitMap()) | entries

    @property
    def unsettled(self) -> bool:
        """Whether some of what came back is not given to its owners yet, or some of what consumers hold, or have let go of, was not
        looked at. Until then nothing is sent: keys keep their order."""
        return bool(self._unsorted or self.draining.changed) or self.draining.searching

    def settle(self) -> None:
        """What changed since the last time takes effect: owners of slots, slots that are not draining any more, what came back,
        or a part of that: see `unsettled`."""
        try:
            self._settle()
        except Exception:
            self._moved = True  # next time everything is found out anew
            raise

    def _settle(self) -> None:
        if self._unreleased:
            self._release_acknowledged()
        if self._count_max != self._state.redeliveries.count_max:
            self._unsorted.clear()
            self.waiting.forget_keys()  # what was dead is to be sent again
            self._count_max = self._state.redeliveries.count_max
            self._moved = True
        if self._moved:
            self._find_owners()
            self._moved = False
        left = self.draining.search(SETTLED_MAX) if self.draining.searching else SETTLED_MAX
        if self.draining.searching:
            return
        if self.draining.changed:
            ended, left = self.draining.release(left)
            for slot in ended:
                for ledger_id, entries in slot.waiting.items():
                    self._unsorted[ledger_id] = self._unsorted.get(ledger_id, BitMap()) | entries
        self._sort_some(left)
        if self._hashes.to_be_pruned:
            self._hashes.prune(self._needed())

    def _sort_some(self, left: int) -> None:
        while self._unsorted and left > 0:
            ledger_id, entries = next(iter(self._unsorted.items()))
            sorted_now = entries[:left]
            self._sort(ledger_id, sorted_now)
            left -= len(sorted_now)
            if len(sorted_now) < len(entries):
                self._unsorted[ledger_id] = entries - sorted_now
            else:
                del self._unsorted[ledger_id]

    def _find_owners(self) -> None:
        self._slot_table = self.selector.slot_table()
        self._numbers = {consumer: number for number, consumer in enumerate(self._state.consumers, 1)}
        numbers: dict[Consumer | None, int] = {None: hot.NOBODY} | dict(self._numbers.items())
        self._bounds, self._owners = self._slot_table.bounds, array("I", map(numbers.__getitem__, self._slot_table.owners))
        self._take_back_chunks()
        if self.mode.sticky or self.mode.out_of_order:
            self.draining.clear()
        else:
            self.draining.begin_search(self._numbers, self._slot_table.owner_of)
        self.waiting.forget_owners()
        self._unsorted = {ledger_id: self.waiting.known(ledger_id) for ledger_id in self._state.redeliveries.entries}
        self._stalled = None

    def _take_back_chunks(self) -> None:
        """Messages that are not whole go to the new owners of their slots from the start: nobody can acknowledge a part."""
        for ledger_id, entries in self._state.chunks.take_back(self._owner_of_known) if self._state.chunks else ():
            self._give_back(ledger_id, entries)

    def _owner_of_known(self, position: Position) -> Consumer | None:
        ((_, key_hash),) = self._hashes.of(position.ledger_id, BitMap([position.entry_id]))
        return self._slot_table.owner_of(slot_of(self.selector, key_hash))

    def _sort(self, ledger_id: int, entries: BitMap) -> None:
        """Gives waiting entries to the owners of their slots, or to the slots if these are draining."""
        entries = entries & self.waiting.known(ledger_id)
        by_owner: dict[Consumer | None, list[int]] = {}
        blocked: dict[int, list[int]] = {}
        draining = self.draining.slots
        for entry, key_hash in self._hashes.of(ledger_id, entries):
            slot = slot_of(self.selector, key_hash)
            if slot in draining:
                blocked.setdefault(slot, []).append(entry)
            else:
                by_owner.setdefault(self._slot_table.owner_of(slot), []).append(entry)
        for owner, given in by_owner.items():
            self.waiting.add(owner, ledger_id, BitMap(given))
        for slot, given in blocked.items():
            draining[slot].blocked += len(given)
            self.waiting.merge(draining[slot].waiting, ledger_id, BitMap(given))

    def _needed(self) -> dict[int, BitMap]:
        """Entries whose hashes are asked for again."""
        needed: dict[int, BitMap] = {}
        for entries_by_ledger in (self._state.redeliveries.entries, *(consumer.held for consumer in self._numbers)):
            for ledger_id, entries in entries_by_ledger.items():
                needed[ledger_id] = needed.get(ledger_id, BitMap()) | entries
        return {ledger_id: entries | self.draining.held_in(ledger_id) for ledger_id, entries in needed.items()}

    def reset(self) -> None:
        super().reset()
        self._clear()
        self._moved = True

    def recover(self) -> None:
        self._moved = True
        super().recover()

    # --- asking

    @property
    def memory_bytes(self) -> int:
        return self._hashes.memory_bytes + self.selector.memory_bytes
