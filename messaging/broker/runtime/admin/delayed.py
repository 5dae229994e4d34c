"""Admin RPC: delayed messages of a topic: cancelling, rescheduling, listing."""

from __future__ import annotations

from collections.abc import Sequence

from messaging.adminrpc import delayed as schema
from messaging.adminrpc.methods import DELAYED_CHANGE, DELAYED_CHANGE_KEY, DELAYED_COUNTS, DELAYED_LIST
from messaging.adminrpc.topics import TopicRef
from messaging.broker.core.delayed.run_jobs import DueEntry
from messaging.broker.runtime.admin.binding import answers
from messaging.broker.runtime.admin.naming import plain_topic, stored_topic_name
from messaging.broker.runtime.broker import Broker
from messaging.broker.runtime.topics.delayed.changes import DelayedChanges
from messaging.broker.runtime.topics.delayed.due_list import DelayedList
from messaging.broker.runtime.topics.delayed.messages import KeyPage, ReadMessage, page_of_key, read_messages
from messaging.broker.runtime.topics.persistent import PersistentTopic, persistent
from messaging.errors import InvalidValue
from messaging.protocol.frames import as_text
from messaging.storage.ledger_store import Position
from messaging.times import TIME_MS_MAX, time_text

CHANGED_MAX = 1_000  # of one call by key
LISTED_MAX = 1_000  # messages of one page


class DelayedHandlers:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    @answers(DELAYED_LIST)
    async def list(self, request: schema.DelayedList) -> schema.DelayedPage:
        topic = await self._topic(request.topic, None)
        count = min(request.limit, LISTED_MAX)
        if request.key:
            start = Position(request.ledger_id, request.entry_id)
            return _key_page(await page_of_key(topic, request.key, request.from_ms, request.until_ms, start, count))
        after = None if request.after_ms < 0 else DueEntry(request.after_ms, max(0, request.ledger_id), max(0, request.entry_id))
        page = await DelayedList(topic).page(request.from_ms, request.until_ms, after, count)
        messages, last = await read_messages(topic, page.entries)
        following = page.following if last is None else last
        return _page(messages, following, page.complete)

    @answers(DELAYED_COUNTS)
    async def counts(self, request: TopicRef) -> schema.DelayedCounts:
        counted = await DelayedList(await self._topic(request.topic, None)).counts()
        buckets = [
            schema.DelayedBucket(from_ms=bucket.from_ms, until_ms=bucket.until_ms, entries=bucket.entries)
            for bucket in counted.buckets
        ]
        return schema.DelayedCounts(buckets=buckets, entries=counted.entries, exact=counted.exact, complete=counted.complete)

    @answers(DELAYED_CHANGE)
    async def change(self, request: schema.DelayedChange) -> schema.DelayedChanged:
        topic = await self._topic(request.topic, request.deliver_at_ms)
        position = Position(request.ledger_id, request.entry_id)
        done = await DelayedChanges(topic).change(position, request.batch_index, request.deliver_at_ms)
        return schema.DelayedChanged(already=done.already, former_ms=min(done.former_ms, TIME_MS_MAX))

    @answers(DELAYED_CHANGE_KEY)
    async def change_key(self, request: schema.DelayedKeyChange) -> schema.DelayedKeyChanged:
        topic = await self._topic(request.topic, request.deliver_at_ms)
        start = Position(request.ledger_id, request.entry_id)
        page = await DelayedChanges(topic).change_key(request.key, request.deliver_at_ms, start, min(request.limit, CHANGED_MAX))
        return schema.DelayedKeyChanged(
            changed=page.changed,
            refused_count=page.refused_count,
            refused=[
                schema.DelayedRefused(message_id=_text(refusal.position), sentence=refusal.sentence) for refusal in page.refused
            ],
            looked_at=page.looked_at,
            next="" if page.following is None else _text(page.following),
        )

    async def _topic(self, text: str, deliver_at_ms: int | None) -> PersistentTopic:
        """Raises `NotAllowed` for a partitioned or non-persistent topic, `TopicNotFound`, `InvalidValue`."""
        if deliver_at_ms is not None and deliver_at_ms > TIME_MS_MAX:
            raise InvalidValue(f"deliver_at_ms {deliver_at_ms} is later than {time_text(TIME_MS_MAX)}")
        await stored_topic_name(self._broker, text, "changing delayed messages of")
        return persistent(await plain_topic(self._broker, text))


def _page(messages: Sequence[ReadMessage], following: DueEntry | None, complete: bool) -> schema.DelayedPage:
    at = following or DueEntry(-1, -1, -1)
    return schema.DelayedPage(
        messages=[_message(message) for message in messages],
        next_ms=at.at_ms,
        next_ledger_id=at.ledger_id,
        next_entry_id=at.entry_id,
        done=following is None,
        complete=complete,
    )


def _key_page(page: KeyPage) -> schema.DelayedPage:
    following = None if page.following is None else DueEntry(-1, *page.following)
    return _page(page.messages, following, page.complete)


def _message(message: ReadMessage) -> schema.DelayedMessage:
    metadata = message.metadata
    return schema.DelayedMessage(
        message_id=_text(message.position),
        deliver_at_ms=min(message.at_ms, TIME_MS_MAX),
        former_ms=None if message.former_ms is None else min(message.former_ms, TIME_MS_MAX),
        publish_time_ms=min(metadata.publish_time, TIME_MS_MAX),
        producer=as_text(metadata.producer_name),
        key=as_text(metadata.partition_key),
        messages=message.messages,
        size_bytes=message.size_bytes,
    )


def _text(position: Position) -> str:
    return f"{position.ledger_id}:{position.entry_id}"
