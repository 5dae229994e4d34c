"""Admin RPC: analysing the backlog of a subscription, and the size of what follows a position."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from messaging.adminrpc.backlog import BacklogAfter, BacklogAnalysis, BacklogAnalyze, BacklogSize
from messaging.adminrpc.methods import SUBSCRIPTIONS_ANALYZE_BACKLOG, TOPICS_BACKLOG_SIZE
from messaging.broker.core.entries import from_log
from messaging.broker.core.subscription import Subscription
from messaging.broker.runtime.admin.binding import answers
from messaging.broker.runtime.admin.naming import check_plain, plain_topic, topic_name
from messaging.broker.runtime.admin.stats.internal_stats import position_text
from messaging.broker.runtime.admin.stats.stats import backlog_bytes
from messaging.broker.runtime.broker import Broker
from messaging.broker.runtime.topics.topic import Topic
from messaging.errors import NotAllowed, NotReady, StorageFailed
from messaging.fairness.turns import FairTurns
from messaging.storage.ledger_store import Corrupt, Position, StoreError

READ_BYTES = 1 << 20  # of one read
READ_ENTRIES = 500  # and of one turn: each may be a block of its own
WINDOW_ENTRIES = 10_000  # looked through in one turn for entries that are not acknowledged


class ScanLimits(NamedTuple):
    """How much of a backlog is read for one answer."""

    entries: int = 10_000  # as in Pulsar
    bytes: int = 256 << 20
    seconds: float = 5.0  # whoever asked has an answer in time


LIMITS = ScanLimits()


class BacklogHandlers:
    """`scans`: the turns of whoever reads a topic at length."""

    def __init__(self, broker: Broker, scans: FairTurns, limits: ScanLimits = LIMITS) -> None:
        self._broker = broker
        self._scans = scans
        self._limits = limits

    @answers(TOPICS_BACKLOG_SIZE)
    async def size(self, request: BacklogAfter) -> BacklogSize:
        name = await topic_name(self._broker, request.topic)
        if not name.persistent:
            raise NotAllowed(f"{name} is a non-persistent topic: it has no backlog")
        topic = await plain_topic(self._broker, request.topic)
        behind = topic.ledger_list.count_up_to(Position(request.ledger_id, request.entry_id))
        return BacklogSize(size_bytes=backlog_bytes(topic, topic.ledger_list.entries - behind))

    @answers(SUBSCRIPTIONS_ANALYZE_BACKLOG)
    async def analyze(self, request: BacklogAnalyze) -> BacklogAnalysis:
        """Reads it. Raises `NotReady` where there is no memory for that now."""
        name = await topic_name(self._broker, request.topic)
        await check_plain(self._broker, name)
        topic = await self._broker.topics.get(name, create=False)
        subscription = topic.subscriptions.named(request.subscription)
        start = subscription.cursor.mark_delete
        if request.ledger_id is not None and request.entry_id is not None:
            start = max(start, Position(request.ledger_id, request.entry_id - 1))
        if not topic.keeps_messages:
            return BacklogAnalysis(entries=0, messages=0)
        try:
            return await self._scan(topic, subscription, start)
        except StoreError as error:
            raise StorageFailed(f"the backlog of {subscription.name!r} on {topic.text} cannot be read: {error}") from error

    async def _scan(self, topic: Topic, subscription: Subscription, after: Position) -> BacklogAnalysis:
        analysis = BacklogAnalysis(entries=0, messages=0)
        ledger_list, read_bytes = topic.ledger_list, 0
        position = ledger_list.resolve(ledger_list.next_after(after))
        now_s = asyncio.get_running_loop().time
        until_s = now_s() + self._limits.seconds
        while ledger_list.holds(position):
            await asyncio.sleep(0)
            if analysis.entries >= self._limits.entries or read_bytes >= self._limits.bytes or now_s() >= until_s:
                analysis.aborted = True
                break
            async with self._scans.turn(topic.name.tenant):
                with self._charged(topic.name.tenant):
                    following, size = await self._read(topic, subscription, position, analysis)
            if following is None:  # dropped meanwhile
                break
            position, read_bytes = following, read_bytes + size
        return analysis

    @contextmanager
    def _charged(self, tenant: str) -> Iterator[None]:
        account = self._broker.memory_limiter.egress
        if not account.allows(tenant, READ_BYTES):
            raise NotReady("there is not enough memory to read a backlog: try again in a moment")
        account.take(tenant, READ_BYTES)
        try:
            yield
        finally:
            account.give(tenant, READ_BYTES)

    async def _read(
        self, topic: Topic, subscription: Subscription, position: Position, analysis: BacklogAnalysis
    ) -> tuple[Position | None, int]:
        """Adds what one read finds. Returns where the next one begins, None if nothing is left, and how many bytes it read."""
        ledger_list, cursor, size = topic.ledger_list, subscription.cursor, 0
        last = min(position.entry_id + WINDOW_ENTRIES, ledger_list.last_of(position.ledger_id))
        unacked = cursor.unacked_ranges(position.ledger_id, position.entry_id, last)
        if not unacked:
            return ledger_list.next_after(Position(position.ledger_id, last)), 0
        wanted = Position(position.ledger_id, unacked[0][0])
        try:
            entries_max = min(READ_ENTRIES, self._limits.entries - analysis.entries)
            blocks = await topic.ledger.read(wanted, entries_max=entries_max, bytes_max=READ_BYTES)
        except Corrupt as error:  # what is lost is not delivered either
            return ledger_list.resolve(Position(wanted.ledger_id, max(error.resume_entry, wanted.entry_id + 1))), 0
        if not blocks:
            return None, 0
        for stored in blocks:
            size += len(stored.data)
            try:
                block = from_log(stored)
            except ValueError:  # nor is what cannot be taken apart
                continue
            begin = max(block.first_entry, wanted.entry_id)
            for first, stop in [] if block.marker else cursor.unacked_ranges(block.ledger_id, begin, block.last_entry):
                analysis.first = analysis.first or position_text(Position(block.ledger_id, first))
                analysis.last = position_text(Position(block.ledger_id, stop))
                analysis.entries += stop + 1 - first
                analysis.messages += block.messages_in(first - block.first_entry, stop + 1 - block.first_entry)
        return ledger_list.next_after(Position(stored.ledger_id, stored.last_entry)), size
