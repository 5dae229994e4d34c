"""Admin RPC: browsing the messages of a topic, filtered where they are stored, a bounded piece of it a call."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from messaging.adminrpc.browse import MessagesBrowse, MessagesBrowsed
from messaging.adminrpc.methods import MESSAGES_BROWSE
from messaging.broker.runtime.admin.binding import answers
from messaging.broker.runtime.admin.browse.matches import (
    BrowseConditions,
    BrowsedPage,
    PageEnd,
    look,
    schema_version,
    unpacked_size,
)
from messaging.broker.runtime.admin.browse.slices import CHUNKED_BYTES_MAX, Slice, SliceReader
from messaging.broker.runtime.admin.naming import plain_topic, stored_topic_name
from messaging.broker.runtime.broker import Broker
from messaging.broker.runtime.topics.topic import Topic
from messaging.errors import NotFound, NotReady, TopicNotFound
from messaging.fairness.in_thread import in_thread
from messaging.fairness.turns import FairTurns
from messaging.payloads.budget import PayloadError
from messaging.payloads.filters import MessageFilter, message_filter
from messaging.payloads.reading import SchemaReader, schema_reader
from messaging.protocol.batch import UNPACKED_TIMES_MAX
from messaging.protocol.names import parse_topic
from messaging.storage.ledger_store import EARLIEST, LATEST, Position

ENTRIES_MAX = 2_000  # of one call
STORED_BYTES_MAX = 16 << 20
SECONDS_MAX = 1.5
SLICE_ENTRIES, SLICE_BYTES = 100, 256 << 10  # of one turn: they are read, and then looked at in a thread together
SCHEMAS_MAX = 8  # versions whose definitions are read for one call


class BrowseHandlers:
    """`scans`: the turns of whoever reads a topic at length."""

    def __init__(self, broker: Broker, scans: FairTurns) -> None:
        self._broker = broker
        self._scans = scans

    @answers(MESSAGES_BROWSE)
    async def browse(self, request: MessagesBrowse) -> MessagesBrowsed:
        """Raises `TopicNotFound`, `SubscriptionNotFound`, `NotAllowed` for a partitioned topic, `InvalidValue` for a filter that is
        not understood, `StorageFailed`, and `NotReady` where there is no memory for it now."""
        wanted = message_filter(
            key=request.message_key,
            property_name=request.property_name,
            property_value=request.property_value,
            text=request.text,
            path=request.path,
            comparison=request.comparison,
            value=request.value,
            from_ms=request.from_ms,
            until_ms=request.until_ms,
        )
        await stored_topic_name(self._broker, request.topic, "browsing")
        topic = await plain_topic(self._broker, request.topic)
        return await _Browse(self._broker, self._scans, topic, request, wanted).run()


class _Browse:
    """One call."""

    def __init__(self, broker: Broker, scans: FairTurns, topic: Topic, request: MessagesBrowse, wanted: MessageFilter) -> None:
        self._broker = broker
        self._scans = scans
        self._topic = topic
        self._request = request
        self._wanted = wanted
        self._readers: dict[int, SchemaReader | None] = {}
        self._ends_s = time.monotonic() + SECONDS_MAX
        self._slices = SliceReader(topic, wanted, self._expired, backward=request.backward, exact=request.exact)

    async def run(self) -> MessagesBrowsed:
        request, ledgers = self._request, self._topic.ledger_list
        async with self._scans.turn(self._topic.name.tenant):  # a time is looked for in what is stored
            position, stop = await self._begin(), await self._stop()
        if request.exact:
            if not ledgers.holds(position):
                raise NotFound(f"topic {self._topic.text} has no entry {request.ledger_id}:{request.entry_id}")
            stop = position
        page, index = BrowsedPage(request.messages_max), request.batch_index
        answer = MessagesBrowsed(messages=page.messages, looked_at=0, ledger_id=-1, entry_id=-1)
        size = read = 0
        while ledgers.holds(position) and self._slices.within(position, stop):
            if page.full or read >= ENTRIES_MAX or size >= STORED_BYTES_MAX or (read and self._expired()):
                break
            async with self._scans.turn(self._topic.name.tenant):
                part = await self._slices.read(position, stop, SLICE_ENTRIES, SLICE_BYTES)
                goes = await self._look(part, page, index)
            passed = part.looked_at if goes is None else abs(ledgers.count_up_to(goes.position) - ledgers.count_up_to(position))
            answer.looked_at, size = answer.looked_at + passed, size + part.size_bytes
            read += part.looked_at + part.further
            answer.unreadable += part.unreadable
            position, index = goes if goes is not None else (part.following, -1)
        answer.ledger_id, answer.entry_id, answer.batch_index = position.ledger_id, position.entry_id, index
        answer.done = not (ledgers.holds(position) and self._slices.within(position, stop))
        answer.entries, answer.left_entries = ledgers.entries, 0 if answer.done else self._left(position, stop)
        return answer

    async def _begin(self) -> Position:
        request, ledgers = self._request, self._topic.ledger_list
        at = Position(request.ledger_id, request.entry_id)
        if request.subscription and at == EARLIEST:
            mark_delete = self._topic.subscriptions.named(request.subscription).cursor.mark_delete
            return ledgers.resolve(ledgers.next_after(mark_delete))
        if request.backward:
            if at == EARLIEST and request.start_ms:
                return await self._mark_at(request.start_ms)
            if at < LATEST:
                return ledgers.last_up_to(at)
            return await self._mark_at(self._wanted.until_ms) if self._wanted.until_ms else ledgers.last
        if at == EARLIEST and (request.start_ms or self._wanted.from_ms):
            mark = await self._mark_at(max(request.start_ms, self._wanted.from_ms))
            return ledgers.resolve(ledgers.next_after(mark))
        if at == LATEST:
            return ledgers.next_after(ledgers.last)
        return ledgers.resolve(at) if at > EARLIEST else ledgers.first

    async def _stop(self) -> Position:
        """The last entry to look at: times of publishing rise along a topic, as far as clocks of producers agree."""
        if self._request.backward:
            mark = await self._mark_at(self._wanted.from_ms) if self._wanted.from_ms else EARLIEST
            return self._topic.ledger_list.next_after(mark) if mark > EARLIEST else EARLIEST
        if self._wanted.until_ms:
            return await self._mark_at(self._wanted.until_ms)
        return self._topic.ledger_list.last

    async def _mark_at(self, publish_time_ms: int) -> Position:
        return await self._topic.entries.mark_delete_at_time(publish_time_ms)

    def _left(self, position: Position, stop: Position) -> int:
        ledgers = self._topic.ledger_list
        if self._request.backward:
            return ledgers.count_up_to(position) - (ledgers.count_up_to(ledgers.before(stop)) if stop > EARLIEST else 0)
        return ledgers.count_up_to(stop) - ledgers.count_up_to(position) + 1

    async def _look(self, part: Slice, page: BrowsedPage, first_index: int) -> PageEnd | None:
        if not part.entries:
            return None
        if self._wanted.path:
            await self._read_schemas(part)
        wanted = BrowseConditions(
            self._wanted, self._readers, self._request.payload_bytes_max, self._unpacked_max, self._request.backward, self._expired
        )
        largest = max(unpacked_size(looked, self._unpacked_max) for looked in part.entries)
        with self._charged(largest + sum(len(looked.stored.payload) for looked in part.entries)):
            return await in_thread(look, part.entries, wanted, page, first_index)

    async def _read_schemas(self, part: Slice) -> None:
        """Of the versions that entries were published with: a value in them is found by their definition."""
        versions = {version for looked in part.entries if (version := schema_version(looked.stored.metadata)) is not None}
        for version in sorted(versions - self._readers.keys()):
            if len(self._readers) < SCHEMAS_MAX:
                self._readers[version] = await self._reader(version)

    async def _reader(self, version: int) -> SchemaReader | None:
        try:
            async with self._broker.schemas.reading(parse_topic(self._topic.text), version) as stored:
                return None if stored.schema is None else await in_thread(schema_reader, stored.schema)
        except (TopicNotFound, PayloadError):  # it was deleted, or says nothing that can be read
            return None

    @contextmanager
    def _charged(self, size_bytes: int) -> Iterator[None]:
        account, tenant = self._broker.memory_limiter.egress, self._topic.name.tenant
        if not account.allows(tenant, size_bytes):
            raise NotReady(f"there is not enough memory to unpack {size_bytes} bytes of messages: try again in a moment")
        account.take(tenant, size_bytes)
        try:
            yield
        finally:
            account.give(tenant, size_bytes)

    def _expired(self) -> bool:
        return time.monotonic() >= self._ends_s

    @property
    def _unpacked_max(self) -> int:
        return max(self._broker.settings.message_bytes_max * UNPACKED_TIMES_MAX, CHUNKED_BYTES_MAX)
