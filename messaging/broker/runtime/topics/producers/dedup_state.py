"""Stores the deduplication state of a topic: a snapshot in MetaStore plus the log entries after it."""

from __future__ import annotations

import asyncio
import struct
from typing import Protocol

import structlog

from messaging.broker.core.chunks import chunk_parts
from messaging.broker.core.dedup import Deduplication
from messaging.broker.core.entries import scanned
from messaging.broker.core.memory_charge import Charge
from messaging.broker.runtime.topics.producers.publisher import Publisher
from messaging.broker.runtime.topics.topic_context import TopicContext
from messaging.storage.block_header import decode
from messaging.storage.ledger_store import Block, Corrupt, Position, StoreError

log = structlog.get_logger("broker.deduplication")

SNAPSHOT_ENTRIES = 10_000  # at most this many entries are replayed when a topic is loaded
REPLAY_BYTES = 4 << 20
UNUSED_MS_MAX = 6 * 3_600_000  # a producer name that sent nothing for this long is forgotten (Pulsar: 360 minutes)


class DeduplicatedTopic(TopicContext, Protocol):
    publisher: Publisher


def key_of(topic: str) -> str:
    """The key of the snapshot in MetaStore."""
    return f"dedup:{topic}"


async def follow_policy(topic: DeduplicatedTopic) -> None:
    """Turns deduplication on or off to match the policy, and repeats if the policy changes in the meantime. Raises `StoreError`.

    Only one call runs at a time: a second state, created before the first had seen its messages, would lack them.
    """
    publisher = topic.publisher
    if publisher.dedup_changes:  # the call in progress checks the policy again before it returns
        return
    publisher.dedup_changes = True
    try:
        while topic.closed is None and topic.services.policies.deduplicates(topic.name) != (publisher.dedup is not None):
            await (begin if publisher.dedup is None else end)(topic)
    finally:
        publisher.dedup_changes = False


async def begin(topic: DeduplicatedTopic) -> None:
    """Turns deduplication on, restoring the state from the snapshot and the log after it, or starting empty without a snapshot.

    Damage does not keep the topic from loading: unreadable entries are skipped and logged. If the only record of a sequence id was
    lost, a resent message with that id is stored a second time. Raises `StoreError` if the stores cannot be reached.
    """
    stored = await topic.services.stores.storage.meta.get_value(key_of(topic.text))
    dedup = await _restored(topic, stored)
    try:
        if stored:
            await _replay(topic, dedup)
    except BaseException:
        dedup.close()
        raise
    if topic.closed is not None:
        dedup.close()
        return
    release(topic)
    topic.publisher.dedup = dedup
    topic.publisher.dedup_saving = asyncio.Lock()
    if not stored:
        try:
            await save(topic)
        except StoreError as error:  # the next snapshot retries; consumers do not need one
            log.warning("deduplication.not_saved", topic=topic.text, error=str(error))


async def _restored(topic: DeduplicatedTopic, stored: bytes | None) -> Deduplication:
    dedup = _unknowing(topic)
    try:
        for _ in dedup.restore_slices(stored):
            await asyncio.sleep(0)
        return dedup
    except BaseException as error:
        dedup.close()
        if not isinstance(error, (ValueError, struct.error)):
            raise
        _lost(topic, f"the snapshot cannot be read, all that is stored of the topic is read instead: {error}")
        return _unknowing(topic)


def _unknowing(topic: DeduplicatedTopic) -> Deduplication:
    return Deduplication(Charge(topic.services.memory.records, topic.name.tenant))


async def _replay(topic: DeduplicatedTopic, dedup: Deduplication) -> None:
    position = topic.ledger_list.resolve(topic.ledger_list.next_after(dedup.snapshot_position))
    while topic.ledger_list.holds(position):
        try:
            blocks = await topic.ledger.read(position, entries_max=SNAPSHOT_ENTRIES, bytes_max=REPLAY_BYTES)
        except Corrupt as error:
            _lost(topic, str(error))
            position = topic.ledger_list.resolve(Position(position.ledger_id, error.resume_entry))
            continue
        for block in blocks:
            _take(topic, dedup, block)
        if not blocks:
            break
        position = topic.ledger_list.next_after(Position(position.ledger_id, blocks[-1].last_entry))


def _take(topic: DeduplicatedTopic, dedup: Deduplication, block: Block) -> None:
    try:
        header = decode(block.header)
        sent = scanned(block)
        first = Position(block.ledger_id, block.first_entry)
        dedup.replay(header.producer, sent, first, header.broker_time_ms, chunk_parts(sent, block.data))
    except ValueError as error:
        _lost(topic, str(error))


def _lost(topic: DeduplicatedTopic, why: str) -> None:
    topic.services.stores.storage.damage["deduplication"] += 1
    log.error("deduplication.damaged", topic=topic.text, error=why)


def save_later(topic: DeduplicatedTopic, dedup: Deduplication) -> None:
    """A block was stored: its entries are in a snapshot within the interval of the policy, or now where there are many of them."""
    if dedup.entries_since_snapshot >= SNAPSHOT_ENTRIES:
        _save_soon(topic, dedup)
    elif topic.text not in topic.services.loops.snapshot_timers:
        interval_s = topic.services.policies.value("deduplication_snapshot_interval_s", topic.name)
        if interval_s:
            timer = asyncio.get_running_loop().call_later(interval_s, _save_soon, topic, dedup)
            topic.services.loops.snapshot_timers[topic.text] = timer


def follow_interval(topic: DeduplicatedTopic) -> None:
    """The policy may have changed: what is in no snapshot yet is saved as it says from now on."""
    _cancel_timer(topic)
    dedup = topic.publisher.dedup
    if dedup is not None and dedup.entries_since_snapshot:
        save_later(topic, dedup)


def _save_soon(topic: DeduplicatedTopic, dedup: Deduplication) -> None:
    _cancel_timer(topic)
    if dedup.entries_since_snapshot and _holds(topic, dedup):
        dedup.entries_since_snapshot = 0
        topic.services.loops.background.spawn(save(topic), f"snapshot {topic.text}")


def _cancel_timer(topic: DeduplicatedTopic) -> None:
    timer = topic.services.loops.snapshot_timers.pop(topic.text, None)
    if timer is not None:
        timer.cancel()


async def save(topic: DeduplicatedTopic) -> None:
    """Stores the state as of the last confirmed entry; retention may then trim up to there. Raises `StoreError`.

    Saves run one after another, so an older state never overwrites a newer one. Nothing is stored once deduplication was turned off
    or the topic was closed or deleted.
    """
    saving = topic.publisher.dedup_saving
    if saving is None:
        return
    async with saving:
        dedup = topic.publisher.dedup
        if dedup is None:
            return
        _cancel_timer(topic)
        dedup.entries_since_snapshot = 0
        dedup.forget_unused(topic.services.stores.storage.safe_expiry_ms() - UNUSED_MS_MAX)
        dedup.widen()
        position = topic.ledger_list.last
        parts = []
        for part in dedup.snapshot_slices(position):
            parts.append(part)
            await asyncio.sleep(0)
        if not _holds(topic, dedup):
            return
        await topic.services.stores.storage.meta.put_value(topic.services.stores.storage.fence, key_of(topic.text), b"".join(parts))
        dedup.snapshot_position = position


def _holds(topic: DeduplicatedTopic, dedup: Deduplication) -> bool:
    return topic.publisher.dedup is dedup


async def end(topic: DeduplicatedTopic) -> None:
    """Turns deduplication off and deletes the stored state. Raises `StoreError`."""
    release(topic)
    await topic.services.stores.storage.meta.delete_value(topic.services.stores.storage.fence, key_of(topic.text))


def release(topic: DeduplicatedTopic) -> None:
    """Drops the state from memory and returns its share of the memory limit. Idempotent."""
    _cancel_timer(topic)
    if topic.publisher.dedup is not None:
        topic.publisher.dedup.close()
        topic.publisher.dedup = None
