"""Cancels and reschedules delayed messages of a topic. Each message is judged and changed in one turn of the event loop, so that it
is either delivered or changed; the answer follows when the change is durable.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import NamedTuple

from pyroaring import BitMap

from messaging.broker.core.delayed.changes import reached, why_full, words_without
from messaging.broker.core.delayed.overrides import Overrides
from messaging.broker.core.entries import EntryBlock
from messaging.broker.runtime.topics.delayed.scan import DelayedScan
from messaging.broker.runtime.topics.persistent import PersistentTopic
from messaging.broker.runtime.topics.services import refusal_of
from messaging.errors import Conflict, InvalidValue, NotFound, QuotaExceeded
from messaging.protocol.frames import ProtocolError, as_text, parse_metadata
from messaging.storage.ledger_store import Position, StoreError
from messaging.times import time_text

CHANGE_BYTES = 1_000  # asked for each change: more than most take


KEY_ENTRIES_MAX = 2_000  # entries that one call by key looks at
KEY_BYTES_MAX = 4 << 20
TURN_ENTRIES = 200  # of those, looked at in one turn of the event loop
TURN_JUDGED = 1_000  # subscriptions asked about a message in one turn
REFUSED_SHOWN = 100


class Changed(NamedTuple):
    """`already`: it was cancelled before. `former_ms`: when it was to be delivered."""

    already: bool
    former_ms: int


class Refused(NamedTuple):
    position: Position
    sentence: str


class ChangedPage(NamedTuple):
    """`following`: where the next call begins; None: there is nothing more. `refused` names some of the `refused_count`."""

    changed: int
    refused_count: int
    refused: list[Refused]
    looked_at: int
    following: Position | None


class DelayedChanges:
    """Cancels and reschedules delayed messages of one topic."""

    __slots__ = ("_topic",)

    def __init__(self, topic: PersistentTopic) -> None:
        self._topic = topic

    async def change(self, position: Position, batch_index: int, at_ms: int | None) -> Changed:
        """Cancels a message, or reschedules it to `at_ms`, milliseconds since 1970. `batch_index` below 0: all of its entry.
        Durable when this returns. Raises `NotFound`: there is no such delayed message; `Conflict`: a subscription had it;
        `InvalidValue`, `QuotaExceeded`, `NotReady`, `StorageFailed`."""
        topic = self._topic
        block = await topic.entries.block_at(position)
        topic.check_open()
        if block is None or not topic.ledger_list.holds(position):
            raise NotFound(f"topic {topic.text} has no message {_text(position)}")
        self._check_time(at_ms)
        changed = self._change(block, position, batch_index, at_ms)
        await self._save()
        return changed

    async def change_key(self, key: str, at_ms: int | None, start: Position, changed_max: int) -> ChangedPage:
        """The same for the messages with this key that are not due yet, in the order in which they were stored, from `start` on.
        Each call does a bounded part of it. Raises `InvalidValue`, `QuotaExceeded`, `NotReady`, `StorageFailed`."""
        topic = self._topic
        topic.check_open()
        self._check_time(at_ms)
        self._check_room(reschedules=at_ms is not None, count=changed_max)
        topic.delayed.begin()  # what is due by now
        scan, work = DelayedScan(topic, start, KEY_ENTRIES_MAX, KEY_BYTES_MAX), KeyChange(self, topic, key, at_ms)
        following: Position | None = start
        while work.changed < changed_max:
            block_read = await scan.next_block()
            if block_read is None:
                following = scan.position
                break
            block, left = block_read[0], list(block_read[1])
            while left and work.changed < changed_max:
                topic.check_open()
                done = work.turn(block, left[:TURN_ENTRIES], changed_max)
                following = topic.ledger_list.next_after(Position(block.ledger_id, left[done - 1]))
                del left[:done]
                await asyncio.sleep(0)
        await self._save()
        return ChangedPage(work.changed, work.refused_count, work.refused, scan.looked_at, following)

    def _check_time(self, at_ms: int | None) -> None:
        """Raises `InvalidValue` for a time that the policies do not allow."""
        latest_ms = self._topic.publisher.delivery_time_max(self._topic.services.clock_ms()) if at_ms is not None else None
        if at_ms is not None and latest_ms is not None and at_ms > latest_ms:
            raise InvalidValue(f"{time_text(at_ms)} is later than delayed_delivery_max_ms allows: at most {time_text(latest_ms)}")

    async def _save(self) -> None:
        """Raises `NotReady`, `StorageFailed`: what was changed holds, and may be undone by a restart."""
        try:
            await self._topic.delayed.overrides.save()
        except StoreError as error:
            raise refusal_of(
                error, f"the change of delayed messages of {self._topic.text} is not stored, and a restart may undo it"
            ) from error

    def _change(self, block: EntryBlock, position: Position, batch_index: int, at_ms: int | None) -> Changed:
        topic = self._topic
        former_ms = delivery_time(topic.overrides, block, position)
        if not former_ms:
            raise NotFound(f"message {_text(position)} of {topic.text} is not a delayed message")
        messages = block.messages_of(position.entry_id)
        if batch_index >= messages:
            raise NotFound(
                f"entry {_text(position)} of {topic.text} has {messages} messages: there is none with batch index {batch_index}"
            )
        overrides = topic.overrides
        if overrides is not None and overrides.is_cancelled(position):
            if at_ms is None:
                return Changed(True, former_ms)
            raise Conflict(f"message {_text(position)} of {topic.text} was cancelled")
        had = reached(topic.subscriptions.table.values(), position, block.broker_time_ms)
        if had:
            raise Conflict(f"message {_text(position)} of {topic.text} {had.sentence}: it is too late to change it")
        if at_ms is not None and batch_index >= 0 and messages > 1:
            raise Conflict(
                "a message of a batch cannot be rescheduled alone: reschedule its entry, or cancel it and publish another"
            )
        if at_ms is not None and block.chunked and block.chunk_at(position.entry_id - block.first_entry) is not None:
            raise Conflict("a chunk cannot be rescheduled alone: reschedule the messages of its key, or cancel them")
        batch = batch_index >= 0 and messages > 1
        self._check_room(reschedules=at_ms is not None, batch=batch)
        if batch:
            words = words_without(overrides, position, batch_index, messages)
            if words is None:
                return Changed(True, former_ms)
            if words:
                self._cancel_part(position, words)
                return Changed(False, former_ms)
        self.apply([position], [former_ms], at_ms)
        return Changed(False, former_ms)

    def _check_room(self, *, reschedules: bool, batch: bool = False, count: int = 1) -> None:
        """Raises `QuotaExceeded`."""
        topic = self._topic
        full = why_full(topic.overrides, reschedules=reschedules, batch=batch)
        if full:
            raise QuotaExceeded(f"topic {topic.text} has {full}, which is the limit: wait until they are delivered or deleted")
        if not topic.delayed.allows(CHANGE_BYTES * count):
            raise QuotaExceeded(f"tenant {topic.name.tenant!r} has no memory left for changes of delayed messages: try again later")

    def apply(self, positions: list[Position], former_ms: list[int], at_ms: int | None) -> None:
        """Changes entries that no subscription had. The caller saves it."""
        delays = self._topic.delayed.delays
        if at_ms is None:
            for ledger_id in {changed.ledger_id for changed in positions}:
                entries = BitMap([changed.entry_id for changed in positions if changed.ledger_id == ledger_id])
                delays.cancel(ledger_id, entries)
                self._acknowledge(ledger_id, list(entries))
        else:
            for position, before_ms in zip(positions, former_ms, strict=True):
                override = None if delays.overrides is None else delays.overrides.time_of(position)
                delays.reschedule(position, at_ms, before_ms if override is None else override.former_ms)
        self._topic.delayed.changed()

    def _acknowledge(self, ledger_id: int, entries: list[int]) -> None:
        topic = self._topic
        now_ms = topic.services.clock_ms()
        for subscription in topic.subscriptions.table.values():
            topic.cursor_changes.store(subscription, subscription.acknowledge(None, ledger_id, entries, now_ms))

    def _cancel_part(self, position: Position, words: tuple[int, ...]) -> None:
        topic = self._topic
        topic.delayed.delays.cancel_part(position, words)
        for subscription in topic.subscriptions.table.values():
            topic.cursor_changes.store(subscription, subscription.cursor.acknowledge_batch(position, words, topic.ledger_list)[0])
        topic.delayed.changed()


class KeyChange:
    """Changes the messages of one key, some in each turn."""

    def __init__(self, changes: DelayedChanges, topic: PersistentTopic, key: str, at_ms: int | None) -> None:
        self.changed = self.refused_count = 0
        self.refused: list[Refused] = []
        self._changes, self._topic, self._key, self._at_ms = changes, topic, key, at_ms

    def turn(self, block: EntryBlock, entries: Sequence[int], changed_max: int) -> int:
        """Returns how many of `entries` were dealt with: at least one."""
        topic, done, former = self._topic, list[Position](), list[int]()
        looked_at = judged = 0
        delays = topic.delayed.delays
        for entry in entries:
            looked_at += 1
            position = Position(block.ledger_id, entry)
            if entry not in delays.index.pending.get(block.ledger_id, ()) or key_of(block, entry) != self._key:
                continue
            judged += len(topic.subscriptions.table)
            had = reached(topic.subscriptions.table.values(), position, block.broker_time_ms)
            if had:
                self.refused_count += 1
                if len(self.refused) < REFUSED_SHOWN:
                    self.refused.append(Refused(position, had.sentence))
            else:
                done.append(position)
                former.append(delivery_time(topic.overrides, block, position))
            if judged >= TURN_JUDGED or self.changed + len(done) >= changed_max:
                break
        if done:
            self._changes.apply(done, former, self._at_ms)
            self.changed += len(done)
        return looked_at


def key_of(block: EntryBlock, entry: int) -> str | None:
    """The key of a message as it is stored; None for one that has none, or cannot be read."""
    try:
        metadata = parse_metadata(block.view(entry))
    except ProtocolError:
        return None
    return as_text(metadata.partition_key) if metadata.HasField("partition_key") else None


def delivery_time(overrides: Overrides | None, block: EntryBlock, position: Position) -> int:
    """When an entry of `block` is to be delivered, milliseconds since 1970; 0: it is not delayed."""
    rescheduled = None if overrides is None else overrides.time_of(position)
    if rescheduled is not None:
        return rescheduled.at_ms
    return 0 if block.deliver_at_ms is None else block.deliver_at_ms[position.entry_id - block.first_entry]


def _text(position: Position) -> str:
    return f"{position.ledger_id}:{position.entry_id}"
