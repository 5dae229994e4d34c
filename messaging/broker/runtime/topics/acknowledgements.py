"""Acknowledgements of clients, whichever way they came: checked, then applied, then stored.

Both functions do at once what can be done at once. Where the size of a batch is not known they return the rest as a coroutine,
which reads it first; acknowledgements may overtake each other there, because each only takes something away. `done` is called
once, when everything is durable: with why something was refused ("" if nothing was), and the error of the store.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from typing import Any, NamedTuple

from messaging.broker.core.ack_validation import CumulativeAck, IndividualAcks, MessageAck, check_cumulative, check_individual
from messaging.broker.core.consumer import Consumer
from messaging.broker.core.subscription import Subscription
from messaging.broker.runtime.topics.entry_lookup import block_at
from messaging.broker.runtime.topics.topic import Topic
from messaging.errors import QuotaExceeded, StorageFailed
from messaging.storage.ledger_store import Position, StoreError

Done = Callable[[str, StoreError | None], None]
Rest = Coroutine[Any, Any, None] | None


class AckContext(NamedTuple):
    """Who acknowledges. `sizes`: of batches, as far as it knows them itself."""

    topic: Topic
    subscription: Subscription
    consumer: Consumer
    now_ms: int
    sizes: dict[Position, int]

    @property
    def gone(self) -> bool:
        return self.topic.closed is not None or self.topic.subscriptions.get(self.subscription.name) is not self.subscription

    def size_of(self, position: Position) -> int | None:
        """Messages in an entry that exists, where that is known without reading: to whoever was sent it, or in memory."""
        if position in self.sizes:
            return self.sizes[position]
        if position.entry_id in self.consumer.held.get(position.ledger_id, ()):
            return self.consumer.held_batches.get(position, 1)
        dispatcher = self.topic.dispatcher
        block = dispatcher.cache.find(position) or (dispatcher.backlog.held(position) if dispatcher.backlog is not None else None)
        return block.messages_of(position.entry_id) if block is not None else None


def acknowledge(holder: AckContext, asked: Sequence[MessageAck], done: Done) -> Rest:
    """Each of `asked` by itself: what cannot be acknowledged is left out."""
    found = check_individual(asked, holder.topic.ledger_list, holder.subscription.cursor, holder.size_of)
    deltas, refused = _apply(holder, found)
    if found.unknown:
        _store(holder, deltas, None)
        return _after_reading(holder, found.unknown, refused, done)
    _store(holder, deltas, lambda error: done(refused, error))
    return None


async def _after_reading(holder: AckContext, unknown: Sequence[MessageAck], refused_before: str, done: Done) -> None:
    asked, unread = await _with_sizes(holder, unknown)
    if holder.gone:
        done("the subscription was closed meanwhile: acknowledge again", None)
        return
    found = check_individual(asked, holder.topic.ledger_list, holder.subscription.cursor, holder.size_of)
    deltas, refused = _apply(holder, found)
    _store(holder, deltas, lambda error: done(refused_before or refused or unread, error))


def acknowledge_up_to(holder: AckContext, asked: MessageAck, done: Done) -> Rest:
    """Cumulatively: everything before, and what `asked` names of the entry itself."""
    found = check_cumulative(asked, holder.topic.ledger_list, holder.subscription.cursor, holder.size_of)
    if found is None:
        return _up_to_after_reading(holder, asked, done)
    if isinstance(found, str):
        done(found, None)
        return None
    deltas, refused = _apply_up_to(holder, found)
    _store(holder, deltas, lambda error: done(refused, error))
    return None


async def _up_to_after_reading(holder: AckContext, asked: MessageAck, done: Done) -> None:
    known, unread = await _with_sizes(holder, [asked])
    if holder.gone:
        done("the subscription was closed meanwhile: acknowledge again", None)
    elif not known:
        done(unread, None)
    else:
        acknowledge_up_to(holder, asked, done)


async def _with_sizes(holder: AckContext, asked: Sequence[MessageAck]) -> tuple[list[MessageAck], str]:
    """Reads the sizes of their batches; those whose batch can be read, and why the first other one cannot."""
    known, unread = [], ""
    for one in asked:
        try:
            block = await block_at(holder.topic, one.position)
        except StorageFailed as error:
            unread = unread or error.message
            continue
        if block is None:
            unread = unread or f"entry {one.position.ledger_id}:{one.position.entry_id} does not exist any more"
            continue
        holder.sizes[one.position] = block.messages_of(one.position.entry_id)
        known.append(one)
    return known, unread


def _apply(holder: AckContext, accepted: IndividualAcks) -> tuple[list[bytes], str]:
    """What changed, and why the first that could not be taken was not."""
    _, subscription, consumer, now_ms, sizes = holder
    deltas, refused = [], accepted.refused
    for position, words in accepted.partial.items():
        delta, why = _part(holder, position, words)
        deltas.append(delta)
        refused = refused or why
    for ledger_id, entries in accepted.whole.items():
        deltas.append(subscription.acknowledge(consumer, ledger_id, entries, now_ms))
        for entry_id in entries if sizes else ():
            sizes.pop(Position(ledger_id, entry_id), None)
    return deltas, refused


def _apply_up_to(holder: AckContext, up_to: CumulativeAck) -> tuple[list[bytes], str]:
    _, subscription, consumer, now_ms, _ = holder
    consumer.last_acked_ms = now_ms
    deltas = [subscription.acknowledge_up_to(up_to.position, now_ms)]
    if up_to.entry is None:
        return deltas, ""
    delta, refused = _part(holder, up_to.entry, up_to.words)
    return [*deltas, delta], refused


def _part(holder: AckContext, position: Position, words: Sequence[int]) -> tuple[bytes, str]:
    try:
        return holder.subscription.acknowledge_batch(holder.consumer, position, words, holder.now_ms), ""
    except QuotaExceeded as error:
        return b"", error.message


def _store(holder: AckContext, deltas: list[bytes], done: Callable[[StoreError | None], None] | None) -> None:
    """`done` hears when the last of them is durable; the log keeps their order."""
    topic, subscription = holder.topic, holder.subscription
    changes = [delta for delta in deltas if delta]
    for delta in changes[:-1]:
        topic.store(subscription, delta)
    if changes or done is not None:
        topic.store(subscription, changes[-1] if changes else b"", done)
    topic.dispatcher.dispatch_soon(subscription)  # any consumer may have been held at its bound
