"""Finds what a subscription is sent next in storage: in the ledgers of its topic, or in the compacted ledger."""

from __future__ import annotations

from functools import partial
from typing import Protocol

from messaging.broker.core.compacted_block import CompactedBlock, compacted_block
from messaging.broker.core.dispatch.sources import EntrySource
from messaging.broker.core.entries import EntryBlock, from_log
from messaging.broker.core.subscription import Subscription
from messaging.broker.runtime.topics.backlog_reader import BacklogOwner, BacklogReader
from messaging.storage.ledger_store import Position
from messaging.storage.managed.compacted import CompactedLog


class StoredBlocksOwner(BacklogOwner, Protocol):
    """A dispatcher with a reader for each log."""

    backlog: BacklogReader | None
    compacted: BacklogReader | None


def find_stored(
    dispatcher: StoredBlocksOwner, subscription: Subscription, source: EntrySource, position: Position
) -> tuple[EntryBlock, Position] | None:
    """The block with the next entry of `source`, which is at `position`, and the position of that entry under its own id. None
    while the block is being read."""
    block = _reader_of(dispatcher, position).find(subscription, position, sequential=source.sequential)
    if block is None:
        return None
    if isinstance(block, CompactedBlock):
        position, passed_over = subscription.state.enter_compacted(block, durable=subscription.durable)
        for delta in passed_over:
            dispatcher.topic.store(subscription, delta)
        if dispatcher.backlog is not None:
            dispatcher.backlog.forget(subscription)
    elif dispatcher.compacted is not None:
        dispatcher.compacted.forget(subscription)
    return block, position


def readers_of(dispatcher: StoredBlocksOwner) -> list[BacklogReader]:
    return [reader for reader in (dispatcher.backlog, dispatcher.compacted) if reader is not None]


def _released(dispatcher: StoredBlocksOwner, reader: BacklogReader) -> None:
    """It holds nothing any more."""
    if dispatcher.backlog is reader:
        dispatcher.backlog = None
    elif dispatcher.compacted is reader:
        dispatcher.compacted = None


def _reader_of(dispatcher: StoredBlocksOwner, position: Position) -> BacklogReader:
    topic = dispatcher.topic
    compacted = topic.ledger_list.compacted
    if compacted is None or compacted.ledger_id != position.ledger_id:
        if dispatcher.backlog is None:
            dispatcher.backlog = BacklogReader(dispatcher, topic.ledger, from_log, partial(_released, dispatcher))
        return dispatcher.backlog
    reader = dispatcher.compacted
    if reader is None or reader.log.ledger_list.last_id != compacted.ledger_id:
        if reader is not None:  # of a compacted ledger that was replaced
            reader.close()
        entries_of = partial(compacted_block, base_ledger_id=compacted.base_ledger_id)
        log = CompactedLog(topic.services.storage, compacted)
        reader = dispatcher.compacted = BacklogReader(dispatcher, log, entries_of, partial(_released, dispatcher))
    return reader
