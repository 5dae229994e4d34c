"""The blocks of one topic that are read from storage: from its ledgers, or from its compacted ledger."""

from __future__ import annotations

from functools import partial
from typing import Protocol

from messaging.broker.core.compaction.compacted_block import CompactedBlock, compacted_block
from messaging.broker.core.delayed.delayed_entries import DelayedEntries
from messaging.broker.core.delayed.due_ahead import DueAhead
from messaging.broker.core.delayed.gathered_block import GatheredBlock
from messaging.broker.core.delayed.overrides import Overrides
from messaging.broker.core.dispatch.sources import EntrySource
from messaging.broker.core.entries import EntryBlock, from_log
from messaging.broker.core.subscription import Subscription
from messaging.broker.runtime.topics.backlog.reader import BacklogOwner, BacklogReader
from messaging.storage.ledger_store import Position
from messaging.storage.managed.compacted import CompactedLog


class StoredBlocksOwner(BacklogOwner, Protocol):
    stored: StoredBlocks | None

    @property
    def overrides(self) -> Overrides | None:
        """What was decided of delayed messages after they were published."""

    @property
    def limits(self) -> object:
        """None: unlimited."""


class StoredBlocks:
    """One reader for each of the two logs, while something is read or held there. The dispatcher lets go of it when there is none
    left."""

    __slots__ = ("_backlog", "_compacted", "_dispatcher")

    def __init__(self, dispatcher: StoredBlocksOwner) -> None:
        self._dispatcher = dispatcher
        self._backlog: BacklogReader | None = None
        self._compacted: BacklogReader | None = None

    @property
    def _readers(self) -> list[BacklogReader]:
        return [reader for reader in (self._backlog, self._compacted) if reader is not None]

    def find(self, subscription: Subscription, source: EntrySource, position: Position) -> tuple[EntryBlock, Position] | None:
        """The block with the next entry of `source`, which is at `position`, and the position of that entry under its own id. None
        while the block is being read."""
        state = subscription.state
        if state.delayed is source and state.delayed is not None and state.delays is not None and self._dispatcher.limits is None:
            gathered, wait = self._read_ahead(state.delays.ahead, state.delayed, position)
            if gathered is not None or wait:
                if not self._readers:
                    self._dispatcher.stored = None
                return None if gathered is None else (gathered, position)
        block = self._reader_at(position).find(subscription, position, sequential=source.sequential)
        if block is None:
            return None
        if isinstance(block, CompactedBlock):
            overrides = self._dispatcher.overrides
            cancelled = None if overrides is None else overrides.cancelled.get(block.ledger_id)
            position, passed_over = state.enter_compacted(block, cancelled, durable=subscription.durable)
            for delta in passed_over:
                self._dispatcher.topic.cursor_changes.store(subscription, delta)
            if self._backlog is not None:
                self._backlog.forget(subscription)
        elif self._compacted is not None:
            self._compacted.forget(subscription)
        return block, position

    def _read_ahead(self, ahead: DueAhead, source: DelayedEntries, position: Position) -> tuple[GatheredBlock | None, bool]:
        """What was read before it was due; and whether that is still being read."""
        topic = self._dispatcher.topic
        ttl_s = topic.services.policies.message_ttl_s(topic.name)
        stored_from_ms = topic.services.stores.storage.safe_expiry_ms() - ttl_s * 1000 if ttl_s else 0
        gathered = ahead.find(position, source.due[position.ledger_id], stored_from_ms)
        return gathered, gathered is None and ahead.waits(position, source)

    def in_memory(self, position: Position) -> EntryBlock | None:
        """The block of the topic's ledgers that holds `position`, if it was read for any subscription."""
        return None if self._backlog is None else self._backlog.plan.block_in_memory(position)

    def all_far_behind(self, subscriptions: int) -> bool:
        """Whether as many subscriptions as these read the topic's ledgers, and none of them comes near the cache."""
        backlog = self._backlog
        return backlog is not None and len(backlog.plan.subscriptions) >= subscriptions and not backlog.plan.near_cache()

    def reads_of(self, subscription: Subscription) -> tuple[int, int]:
        """The reads of the topic's ledgers for a subscription: how many wait, and how many are under way."""
        return (0, 0) if self._backlog is None else self._backlog.plan.reads_of(subscription)

    def pending_reads(self, subscription: Subscription) -> int:
        return sum(reader.plan.pending_reads(subscription) for reader in self._readers)

    def forget(self, subscription: Subscription) -> None:
        """Releases what was read for this subscription."""
        for reader in self._readers:
            reader.forget(subscription)

    def close(self) -> None:
        for reader in self._readers:
            reader.close()

    def _reader_at(self, position: Position) -> BacklogReader:
        topic = self._dispatcher.topic
        compacted = topic.ledger_list.compacted
        if compacted is None or compacted.ledger_id != position.ledger_id:
            if self._backlog is None:
                self._backlog = BacklogReader(self._dispatcher, topic.ledger, from_log, self._reader_released)
            return self._backlog
        former = self._compacted
        if former is not None and former.log.ledger_list.last_id == compacted.ledger_id:
            return former
        entries_of = partial(compacted_block, base_ledger_id=compacted.base_ledger_id)
        log = CompactedLog(topic.services.stores.storage, compacted)
        reader = self._compacted = BacklogReader(self._dispatcher, log, entries_of, self._reader_released)
        if former is not None:  # of a compacted ledger that was replaced
            former.close()
        return reader

    def _reader_released(self, reader: BacklogReader) -> None:
        """It holds nothing any more."""
        if self._backlog is reader:
            self._backlog = None
        elif self._compacted is reader:
            self._compacted = None
        if self._backlog is None and self._compacted is None:
            self._dispatcher.stored = None
