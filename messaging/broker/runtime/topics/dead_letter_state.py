"""Stores the dead-letter policies of a topic, and finds the blocks of moves in a target."""

from __future__ import annotations

import msgspec
import structlog

from messaging.broker.core.dead_letter_moves import Move
from messaging.broker.core.dead_letters import (
    DeadLetters,
    decode,
    encode,
    key_of,
    move_extension,
    position_of,
    producer_name,
)
from messaging.broker.runtime.topics.topic_context import TopicContext
from messaging.storage import block_header
from messaging.storage.ledger_store import Corrupt, Position

log = structlog.get_logger("broker.dead_letters")

SEARCH_BYTES = 4 << 20


async def restore(topic: TopicContext) -> None:
    """Called while a topic is loaded. Raises `StoreError`."""
    if not any(one.durable for one in topic.subscriptions.values()):
        return
    stored = await topic.services.storage.meta.get_value(key_of(topic.text))
    if not stored:
        return
    try:
        records = decode(stored)
    except ValueError as error:
        log.critical("dead_letters.damaged", topic=topic.text, error=str(error))
        return
    for name, record in records.items():
        subscription = topic.subscriptions.get(name)
        if subscription is None or subscription.subscription_id != record.subscription_id:
            continue  # it was deleted, and perhaps created again
        if record.move is not None and all(subscription.cursor.acknowledged(Position(*one)) for one in record.move.entries):
            record = msgspec.structs.replace(record, move=None)
        subscription.follow_dead_letters(DeadLetters(record))
        subscription.recovering = record.move is not None


async def save(topic: TopicContext) -> None:
    """Raises `StoreError`. The store executes calls in order, so that the last one counts."""
    storage = topic.services.storage
    records = {one.name: one.dead_letters.record for one in topic.subscriptions.values() if one.dead_letters is not None}
    if records:
        await storage.meta.put_value(storage.fence, key_of(topic.text), encode(records))
    else:
        await storage.meta.delete_value(storage.fence, key_of(topic.text))


async def parts_moved(target: TopicContext, policy_id: str, move: Move, *, producer: str = "") -> int:
    """How many parts of this move are in its target: the first ones, as each is durable before the next. Raises `StoreError`."""
    name = (producer or producer_name(policy_id)).encode()
    missing = {(block_header.DEAD_LETTER_MOVE, move_extension(policy_id, part.sequence_id)) for part in move.all_parts}
    parts = len(missing)
    ledger_list = target.ledger_list
    position = ledger_list.resolve(ledger_list.next_after(position_of(move.after)))
    while missing and ledger_list.holds(position):
        try:
            blocks = await target.ledger.read(position, entries_max=100_000, bytes_max=SEARCH_BYTES)
        except Corrupt as error:
            position = ledger_list.resolve(Position(position.ledger_id, error.resume_entry))
            continue
        for block in blocks:
            header = block_header.decode(block.header)
            if header.producer == name:
                missing.difference_update(header.extensions)
        if not blocks:
            break
        position = ledger_list.resolve(ledger_list.next_after(Position(position.ledger_id, blocks[-1].last_entry)))
    return parts - len(missing)
