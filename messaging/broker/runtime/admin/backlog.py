"""Admin RPC: analysing the backlog of a subscription, and the size of what follows a position."""

from __future__ import annotations

import asyncio
from typing import NamedTuple

from messaging.adminrpc import schema
from messaging.broker.core.entries import from_log
from messaging.broker.core.subscription import Subscription
from messaging.broker.runtime.admin.internal_stats import position_text
from messaging.broker.runtime.admin.naming import check_plain, plain_topic, topic_name
from messaging.broker.runtime.admin.stats import backlog_bytes
from messaging.broker.runtime.broker import Broker
from messaging.broker.runtime.topics.topic import Topic
from messaging.errors import NotAllowed, NotReady, StorageFailed
from messaging.storage.ledger_store import Corrupt, Position, StoreError

READ_BYTES = 1 << 20  # of one read
READ_ENTRIES = 500  # and of one turn: each may be a block of its own
WINDOW_ENTRIES = 10_000  # looked through in one turn for entries that are not acknowledged


class ScanLimits(NamedTuple):
    """How much of a backlog is read for one answer."""

    entries: int = 10_000  # as in Pulsar
    bytes: int = 256 << 20


LIMITS = ScanLimits()


class BacklogHandlers:
    def __init__(self, broker: Broker, limits: ScanLimits = LIMITS) -> None:
        self._broker = broker
        self._limits = limits

    async def size(self, request: schema.BacklogAfter) -> schema.BacklogSize:
        name = await topic_name(self._broker, request.topic)
        if not name.persistent:
            raise NotAllowed(f"{name} is a non-persistent topic: it has no backlog")
        topic = await plain_topic(self._broker, request.topic)
        behind = topic.ledger_list.count_up_to(Position(request.ledger_id, request.entry_id))
        return schema.BacklogSize(size_bytes=backlog_bytes(topic, topic.ledger_list.entries - behind))

    async def analyze(self, request: schema.BacklogAnalyze) -> schema.BacklogAnalysis:
        """Reads it. Raises `NotReady` where there is no memory for that now."""
        name = await topic_name(self._broker, request.topic)
        await check_plain(self._broker, name)
        topic = await self._broker.topics.get(name, create=False)
        subscription = topic.subscription(request.subscription)
        start = subscription.cursor.mark_delete
        if request.ledger_id is not None and request.entry_id is not None:
            start = max(start, Position(request.ledger_id, request.entry_id - 1))
        if not topic.keeps_messages:
            return schema.BacklogAnalysis(entries=0, messages=0)
        account = self._broker.memory_limiter.egress
        if not account.allows(name.tenant, READ_BYTES):
            raise NotReady("there is not enough memory to read a backlog: try again in a moment")
        account.take(name.tenant, READ_BYTES)
        try:
            return await self._scan(topic, subscription, start)
        except (StoreError, ValueError) as error:
            raise StorageFailed(f"the backlog of {subscription.name!r} on {topic.text} cannot be read: {error}") from error
        finally:
            account.give(name.tenant, READ_BYTES)

    async def _scan(self, topic: Topic, subscription: Subscription, after: Position) -> schema.BacklogAnalysis:
        found = schema.BacklogAnalysis(entries=0, messages=0)
        ledger_list, cursor, read = topic.ledger_list, subscription.cursor, 0
        position = ledger_list.resolve(ledger_list.next_after(after))
        while ledger_list.holds(position):
            await asyncio.sleep(0)
            if found.entries >= self._limits.entries or read >= self._limits.bytes:
                found.aborted = True
                break
            last = min(position.entry_id + WINDOW_ENTRIES, ledger_list.last_of(position.ledger_id))
            unacked = cursor.unacked_ranges(position.ledger_id, position.entry_id, last)
            if not unacked:
                position = ledger_list.next_after(Position(position.ledger_id, last))
                continue
            wanted = Position(position.ledger_id, unacked[0][0])
            try:
                entries_max = min(READ_ENTRIES, self._limits.entries - found.entries)
                blocks = await topic.ledger.read(wanted, entries_max=entries_max, bytes_max=READ_BYTES)
            except Corrupt as error:  # what is lost is not delivered either
                position = ledger_list.resolve(Position(wanted.ledger_id, max(error.resume_entry, wanted.entry_id + 1)))
                continue
            if not blocks:  # dropped meanwhile
                break
            for stored in blocks:
                block = from_log(stored)
                read += len(stored.data)
                begin = max(block.first_entry, wanted.entry_id)
                for first, stop in [] if block.marker else cursor.unacked_ranges(block.ledger_id, begin, block.last_entry):
                    found.first = found.first or position_text(Position(block.ledger_id, first))
                    found.last = position_text(Position(block.ledger_id, stop))
                    found.entries += stop + 1 - first
                    found.messages += block.messages_in(first - block.first_entry, stop + 1 - block.first_entry)
            position = ledger_list.next_after(Position(block.ledger_id, block.last_entry))
        return found
