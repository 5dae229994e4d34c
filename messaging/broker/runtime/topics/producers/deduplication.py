"""Stores the deduplication state of a topic: a snapshot in MetaStore plus the log entries after it."""

from __future__ import annotations

import asyncio
import struct

import structlog

from messaging.broker.core.chunks import chunk_parts
from messaging.broker.core.entries import scanned
from messaging.broker.core.memory.memory_charge import Charge
from messaging.broker.core.producers.deduplication import Deduplication
from messaging.broker.runtime.topics.topic_context import TopicContext
from messaging.storage.block_header import decode
from messaging.storage.ledger_store import Block, Corrupt, Position, StoreError

log = structlog.get_logger("broker.deduplication")

SNAPSHOT_ENTRIES = 10_000  # at most this many entries are replayed when a topic is loaded
REPLAY_BYTES = 4 << 20
UNUSED_MS_MAX = 6 * 3_600_000  # a producer name that sent nothing for this long is forgotten (Pulsar: 360 minutes)


def key_of(topic: str) -> str:
    """The key of the snapshot in MetaStore."""
    return f"dedup:{topic}"


class TopicDeduplication:
    """Whether one topic is deduplicated, and what it knows of its producers then."""

    __slots__ = ("_changing", "_saving", "_topic", "state")

    def __init__(self, topic: TopicContext) -> None:
        self._topic = topic
        self.state: Deduplication | None = None  # None while it is turned off
        self._changing = False  # it is being turned on or off
        self._saving: asyncio.Lock | None = None  # one snapshot is packed and stored at a time

    def policies_changed(self) -> None:
        topic = self._topic
        if topic.services.policies.deduplicates(topic.name) != (self.state is not None):
            topic.services.loops.background.spawn(self.follow_policy(), f"deduplication of {topic.text}")
        self._follow_interval()

    def stored(self) -> None:
        """A block of the topic is durable."""
        if self.state is not None:
            self._save_later(self.state)

    async def follow_policy(self) -> None:
        """Turns deduplication on or off to match the policy, and repeats if the policy changes in the meantime. Raises
        `StoreError`.

        Only one call runs at a time: a second state, created before the first had seen its messages, would lack them.
        """
        topic = self._topic
        if self._changing:  # the call in progress checks the policy again before it returns
            return
        self._changing = True
        try:
            while topic.closed is None and topic.services.policies.deduplicates(topic.name) != (self.state is not None):
                await (self.begin() if self.state is None else self.end())
        finally:
            self._changing = False

    async def begin(self) -> None:
        """Turns deduplication on, restoring the state from the snapshot and the log after it, or starting empty without a snapshot.

        Damage does not keep the topic from loading: unreadable entries are skipped and logged. If the only record of a sequence id
        was lost, a resent message with that id is stored a second time. Raises `StoreError` if the stores cannot be reached.
        """
        topic = self._topic
        stored = await topic.services.stores.storage.meta.get_value(key_of(topic.text))
        dedup = await self._restored(stored)
        try:
            if stored:
                await self._replay(dedup)
        except BaseException:
            dedup.close()
            raise
        if topic.closed is not None:
            dedup.close()
            return
        self.release()
        self.state = dedup
        self._saving = asyncio.Lock()
        if not stored:
            try:
                await self.save()
            except StoreError as error:  # the next snapshot retries; consumers do not need one
                log.warning("deduplication.not_saved", topic=topic.text, error=str(error))

    async def _restored(self, stored: bytes | None) -> Deduplication:
        dedup = self._unknowing()
        try:
            for _ in dedup.restore_slices(stored):
                await asyncio.sleep(0)
            return dedup
        except BaseException as error:
            dedup.close()
            if not isinstance(error, (ValueError, struct.error)):
                raise
            self._lost(f"the snapshot cannot be read, all that is stored of the topic is read instead: {error}")
            return self._unknowing()

    def _unknowing(self) -> Deduplication:
        topic = self._topic
        return Deduplication(Charge(topic.services.memory.records, topic.name.tenant))

    async def _replay(self, dedup: Deduplication) -> None:
        topic = self._topic
        position = topic.ledger_list.resolve(topic.ledger_list.next_after(dedup.snapshot_position))
        while topic.ledger_list.holds(position):
            try:
                blocks = await topic.ledger.read(position, entries_max=SNAPSHOT_ENTRIES, bytes_max=REPLAY_BYTES)
            except Corrupt as error:
                self._lost(str(error))
                position = topic.ledger_list.resolve(Position(position.ledger_id, error.resume_entry))
                continue
            for block in blocks:
                self._take(dedup, block)
            if not blocks:
                break
            position = topic.ledger_list.next_after(Position(position.ledger_id, blocks[-1].last_entry))

    def _take(self, dedup: Deduplication, block: Block) -> None:
        try:
            header = decode(block.header)
            sent = scanned(block)
            first = Position(block.ledger_id, block.first_entry)
            dedup.replay(header.producer, sent, first, header.broker_time_ms, chunk_parts(sent, block.data))
        except ValueError as error:
            self._lost(str(error))

    def _lost(self, why: str) -> None:
        topic = self._topic
        topic.services.stores.storage.damage["deduplication"] += 1
        log.error("deduplication.damaged", topic=topic.text, error=why)

    def _save_later(self, dedup: Deduplication) -> None:
        """A block was stored: its entries are in a snapshot within the interval of the policy, or now where there are many of
        them."""
        topic = self._topic
        if dedup.entries_since_snapshot >= SNAPSHOT_ENTRIES:
            self._save_soon(dedup)
        elif topic.text not in topic.services.loops.snapshot_timers:
            interval_s = topic.services.policies.value("deduplication_snapshot_interval_s", topic.name)
            if interval_s:
                timer = asyncio.get_running_loop().call_later(interval_s, self._save_soon, dedup)
                topic.services.loops.snapshot_timers[topic.text] = timer

    def _follow_interval(self) -> None:
        """The policy may have changed: what is in no snapshot yet is saved as it says from now on."""
        self._cancel_timer()
        dedup = self.state
        if dedup is not None and dedup.entries_since_snapshot:
            self._save_later(dedup)

    def _save_soon(self, dedup: Deduplication) -> None:
        topic = self._topic
        self._cancel_timer()
        if dedup.entries_since_snapshot and self.state is dedup:
            dedup.entries_since_snapshot = 0
            topic.services.loops.background.spawn(self.save(), f"snapshot {topic.text}")

    def _cancel_timer(self) -> None:
        topic = self._topic
        timer = topic.services.loops.snapshot_timers.pop(topic.text, None)
        if timer is not None:
            timer.cancel()

    async def save(self) -> None:
        """Stores the state as of the last confirmed entry; retention may then trim up to there. Raises `StoreError`.

        Saves run one after another, so an older state never overwrites a newer one. Nothing is stored once deduplication was turned
        off or the topic was closed or deleted.
        """
        topic = self._topic
        saving = self._saving
        if saving is None:
            return
        async with saving:
            dedup = self.state
            if dedup is None:
                return
            self._cancel_timer()
            dedup.entries_since_snapshot = 0
            dedup.forget_unused(topic.services.stores.storage.safe_expiry_ms() - UNUSED_MS_MAX)
            dedup.widen()
            position = topic.ledger_list.last
            parts = []
            for part in dedup.snapshot_slices(position):
                parts.append(part)
                await asyncio.sleep(0)
            if self.state is not dedup:
                return
            storage = topic.services.stores.storage
            await storage.meta.put_value(storage.fence_of(topic.text), key_of(topic.text), b"".join(parts))
            dedup.snapshot_position = position

    async def end(self) -> None:
        """Turns deduplication off and deletes the stored state. Raises `StoreError`."""
        topic = self._topic
        self.release()
        storage = topic.services.stores.storage
        await storage.meta.delete_value(storage.fence_of(topic.text), key_of(topic.text))

    def release(self) -> None:
        """Drops the state from memory and returns its share of the memory limit. Idempotent."""
        self._cancel_timer()
        if self.state is not None:
            self.state.close()
            self.state = None
