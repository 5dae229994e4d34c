"""The blocking classes of the SDK. Generated from the asynchronous ones by `make client`. Edit those, not this module."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from types import TracebackType
from typing import Any, Self, Unpack

from messaging.client import client as asynchronous_client
from messaging.client import delayed as asynchronous_delayedmessages
from messaging.client.arguments import ConsumerArguments, ProducerArguments
from messaging.client.blocking.loop_thread import LoopThread
from messaging.client.client import ClientStatistics, E, Opening
from messaging.client.consuming import consumer as asynchronous_consumer
from messaging.client.consuming import reader as asynchronous_reader
from messaging.client.consuming import table_view as asynchronous_tableview
from messaging.client.consuming.consumer import ConsumerStatistics
from messaging.client.consuming.table_view import Listener
from messaging.client.delayed import DelayedMessage
from messaging.client.message import LATEST, Key, Message, MessageId
from messaging.client.producing import producer as asynchronous_producer
from messaging.client.producing.arguments import SendArguments
from messaging.client.producing.producer import ProducerStatistics
from messaging.client.schemas import BYTES, Schema


class Client:
    """Made by `connect`. Producers and consumers share one connection to each broker. May be used from several threads."""

    def __init__(self, thread: LoopThread, inner: asynchronous_client.Client) -> None:
        self._thread = thread
        self._inner = inner

    def producer(self, topic: str, *, schema: Schema[Any] = BYTES, **arguments: Unpack[ProducerArguments]) -> Producer:
        """A producer of `topic` (``persistent://tenant/namespace/topic``). Arguments: see `ProducerOptions` and `BatchLimits`.

        Opening raises the broker's error (`NotAuthorized`, `TopicNotFound`, `ProducerBusy`, ...) or `NotReady`.
        """
        return Producer(self._thread, self._thread.run(_opened(self._inner.producer(topic, schema=schema, **arguments))))

    def create_producer(self, topic: str, *, schema: Schema[Any] = BYTES, **arguments: Unpack[ProducerArguments]) -> Producer:
        """The same, open."""
        return Producer(self._thread, self._thread.run(self._inner.create_producer(topic, schema=schema, **arguments)))

    def consumer(
        self, topic: str | Sequence[str], subscription: str, *, schema: Schema[Any] = BYTES, **arguments: Unpack[ConsumerArguments]
    ) -> Consumer:
        """A consumer of `subscription` on a topic, or on several. Arguments: see `ConsumerOptions`; opening raises as for
        `producer`."""
        return Consumer(
            self._thread, self._thread.run(_opened(self._inner.consumer(topic, subscription, schema=schema, **arguments)))
        )

    def subscribe(
        self, topic: str | Sequence[str], subscription: str, *, schema: Schema[Any] = BYTES, **arguments: Unpack[ConsumerArguments]
    ) -> Consumer:
        """The same, open."""
        return Consumer(self._thread, self._thread.run(self._inner.subscribe(topic, subscription, schema=schema, **arguments)))

    def pattern_consumer(
        self, pattern: str, subscription: str, *, schema: Schema[Any] = BYTES, **arguments: Unpack[ConsumerArguments]
    ) -> Consumer:
        """A consumer of all topics of a namespace whose whole name matches: ``persistent://tenant/namespace/orders-.*``. New topics
        are found within `topics_update_s`; a new subscription begins there with `initial`. A persistent topic that is deleted is
        left, and not made again. Acknowledge its messages, not their ids: an id does not say of which topic it is."""
        return Consumer(
            self._thread, self._thread.run(_opened(self._inner.pattern_consumer(pattern, subscription, schema=schema, **arguments)))
        )

    def reader(
        self,
        topic: str,
        start: MessageId = LATEST,
        *,
        inclusive: bool = False,
        schema: Schema[Any] = BYTES,
        **arguments: Unpack[ConsumerArguments],
    ) -> Reader:
        """Reads `topic` (each of its partitions) from after `start`, or from it if `inclusive`; `EARLIEST` and `LATEST` are the
        ends of the topic. The id of a message is of one partition: where there are more, it begins at one of the ends."""
        return Reader(
            self._thread,
            self._thread.run(_opened(self._inner.reader(topic, start, inclusive=inclusive, schema=schema, **arguments))),
        )

    def table_view(self, topic: str, *, schema: Schema[Any] = BYTES) -> TableView:
        """The latest value of each key of `topic`, read when it opens and followed from then on."""
        return TableView(self._thread, self._thread.run(_opened(self._inner.table_view(topic, schema=schema))))

    def partitions(self, topic: str) -> list[str]:
        """The names of its partitions; the topic itself if it has none."""
        return self._thread.run(self._inner.partitions(topic))

    def delayed(self, topic: str) -> DelayedMessages:
        """The delayed messages that wait in `topic`, to cancel and reschedule them. Needs `admin_url`."""
        return DelayedMessages(self._thread, self._inner.delayed(topic))

    @property
    def statistics(self) -> ClientStatistics:
        return self._inner.statistics

    def close(self) -> None:
        """Closes every producer and consumer, as they close, and the connections. Idempotent."""
        if self._thread.closed:
            return
        try:
            self._thread.run(self._inner.close())
        finally:
            self._thread.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._thread.closed:
            return
        try:
            self._thread.run(self._inner.__aexit__(kind, error, trace))
        finally:
            self._thread.close()


class Producer:
    """Sends messages to one topic. Made by `Client.producer`; may be used from several threads.

    A message whose id came back is stored. Messages of one key, and all messages to a topic without partitions, are stored in the
    order of the calls. When a connection breaks, messages without a receipt are sent again, in order: with deduplication on the
    namespace they are stored once, without it at least once.
    """

    def __init__(self, thread: LoopThread, inner: asynchronous_producer.Producer) -> None:
        self._thread = thread
        self._inner = inner

    @property
    def name(self) -> str:
        return self._inner.name

    @property
    def last_sequence_id(self) -> int:
        """The highest that was given to a message; -1 for none. Of a topic without partitions."""
        return self._inner.last_sequence_id

    @property
    def partitions(self) -> int:
        """0 for a topic that has none."""
        return self._inner.partitions

    @property
    def closed(self) -> bool:
        return self._inner.closed

    @property
    def statistics(self) -> ProducerStatistics:
        return self._inner.statistics

    def send(self, value: Any, **arguments: Unpack[SendArguments]) -> MessageId:
        """Sends one message and returns its id once it is stored. Waits while there is no room. Messages that are sent at the same
        time share a batch, which does not wait for more. Arguments: see `SendArguments`.

        Raises `SendFailed`, `SendTimedOut`, `MessageTooLarge`, `QueueFull`, `Closed`. Cancelled before the message left, it is not
        sent.
        """
        return self._thread.run(self._inner.send(value, **arguments))

    def send_nowait(self, value: Any, **arguments: Unpack[SendArguments]) -> Future[MessageId]:
        """Sends one message, in a batch that waits for company, and returns the future of its id. Raises `QueueFull` instead of
        waiting; else as `send`."""
        return self._thread.start(lambda: self._inner.send_nowait(value, **arguments))

    def flush(self) -> None:
        """Ends the open batches and waits until everything sent so far has its receipt or its error."""
        self._thread.run(self._inner.flush())

    def close(self) -> None:
        """Waits for what is on its way, then closes. Called again while it waits, it closes at once."""
        self._thread.run(self._inner.close())

    def abort(self) -> None:
        """Closes at once; what is on its way fails with `Closed`, and may be stored or not."""
        self._thread.run(self._inner.abort())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._thread.run(self._inner.__aexit__(kind, error, trace))


class Consumer:
    """Receives messages of one subscription. Made by `Client.consumer`; may be used from several threads.

    ::

        for message in consumer:
            handle(message)
            consumer.ack(message)

    Each message comes at least once: what was not acknowledged when the connection broke comes again. Messages of one topic or
    partition come in its order (exclusive and failover), or in the order of each key (key_shared).
    """

    def __init__(self, thread: LoopThread, inner: asynchronous_consumer.Consumer) -> None:
        self._thread = thread
        self._inner = inner

    def receive(self, timeout_s: float | None = None) -> Message:
        """The next message. Raises `ReceiveTimedOut` after `timeout_s`, `Closed`. Cancelling it loses no message."""
        return self._thread.run(self._inner.receive(timeout_s))

    def receive_batch(self, messages_max: int = 100, bytes_max: int = 10 << 20, timeout_s: float = 0.1) -> list[Message]:
        """What arrives until one of the limits is reached; at least one message if there is any in time, else an empty list."""
        return self._thread.run(self._inner.receive_batch(messages_max, bytes_max, timeout_s))

    @property
    def queued_messages(self) -> int:
        """Messages that have arrived and were not received yet."""
        return self._inner.queued_messages

    @property
    def closed(self) -> bool:
        return self._inner.closed

    @property
    def reached_end(self) -> bool:
        """All its topics were terminated, and everything was delivered."""
        return self._inner.reached_end

    @property
    def topics(self) -> list[str]:
        """Each partition on its own."""
        return self._inner.topics

    @property
    def statistics(self) -> ConsumerStatistics:
        return self._inner.statistics

    def ack(self, message: Message | MessageId) -> bool:
        """The message is done with. Returns when that is on its way; with `ack_receipts` when it is stored. If the connection
        breaks before, it is sent again on the next; `ConnectionLost` says that no receipt came within `request_timeout_s`.

        False, at once: the broker is not told of this message, which may come again. It is one of a batch, and the broker hears of
        batches only when all of their messages are acknowledged (`batch_index_ack=False`), or the batch is not known here any more:
        it was acknowledged before, the subscription was moved by `seek`, or the id is of another consumer. Or its topic was one of
        a pattern, and is deleted."""
        return self._thread.run(self._inner.ack(message))

    def ack_cumulative(self, message: Message | MessageId) -> bool:
        """This message and all before it, of its topic or partition, are done with. Returns as `ack` does; False: the broker is
        told of the batches before that of this message."""
        return self._thread.run(self._inner.ack_cumulative(message))

    def nack(self, message: Message | MessageId, *, delay_s: float | None = None) -> None:
        """Asks for the message again, after the consumer's `nack_delay_s` or `delay_s`. On an exclusive or failover subscription
        everything that is not acknowledged comes again."""
        self._thread.run(self._inner.nack(message, delay_s=delay_s))

    def reconsume_later(self, message: Message, delay_s: float, properties: dict[str, str] | None = None) -> None:
        """Sends the message to the retry topic, to come again after `delay_s`, and acknowledges it. What came too often goes to the
        dead letter topic. Needs `retry_enabled`, and a message that was decrypted."""
        self._thread.run(self._inner.reconsume_later(message, delay_s, properties))

    def redeliver(self) -> None:
        """Everything that is not acknowledged comes again, at once."""
        self._thread.run(self._inner.redeliver())

    def seek(self, target: MessageId | int, *, inclusive: bool = False) -> None:
        """Continues after a message, with it if `inclusive`, or at the first that was published at this time or later (ms since
        1970, in all partitions). The whole subscription moves; other consumers of a shared one may get the message named."""
        self._thread.run(self._inner.seek(target, inclusive=inclusive))

    def last_message_ids(self) -> dict[str, MessageId]:
        """By topic or partition; entry -1 for an empty one."""
        return self._thread.run(self._inner.last_message_ids())

    def unsubscribe(self, *, force: bool = False) -> None:
        """Deletes the subscription with its position, and closes."""
        self._thread.run(self._inner.unsubscribe(force=force))

    def close(self) -> None:
        """Sends the acknowledgements that are due and closes. What was received and not acknowledged comes again. Idempotent."""
        self._thread.run(self._inner.close())

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Message:
        try:
            return self._thread.run(self._inner.__anext__())
        except StopAsyncIteration:
            raise StopIteration from None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._thread.run(self._inner.__aexit__(kind, error, trace))

    def run(self, handle: Callable[[Message], None], *, workers: int = 1) -> None:
        """Calls `handle` with each message until the consumer is closed, in a thread each, `workers` of them at once. What `handle`
        returns from is acknowledged; what it raises is logged, and the message comes again."""

        async def handled(message: Message) -> None:
            await asyncio.to_thread(handle, message)

        self._thread.run(self._inner.run(handled, workers=workers))


class Reader:
    """Made by `Client.reader`. Also after a break of the connection each message comes once, in order."""

    def __init__(self, thread: LoopThread, inner: asynchronous_reader.Reader) -> None:
        self._thread = thread
        self._inner = inner

    @property
    def topic(self) -> str:
        return self._inner.topic

    def read(self, timeout_s: float | None = None) -> Message:
        """The next message. Raises `ReceiveTimedOut`, `Closed`."""
        return self._thread.run(self._inner.read(timeout_s))

    def has_message(self) -> bool:
        """Whether `read` would return without waiting for a message that is yet to be sent."""
        return self._thread.run(self._inner.has_message())

    def seek(self, target: MessageId | int) -> None:
        """Continues after a message, or at the first that was published at this time or later (ms since 1970). Where the broker was
        not asked, or refused, it continues where it was: of several partitions, in those."""
        self._thread.run(self._inner.seek(target))

    def close(self) -> None:
        self._thread.run(self._inner.close())

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Message:
        try:
            return self._thread.run(self._inner.__anext__())
        except StopAsyncIteration:
            raise StopIteration from None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._thread.run(self._inner.__aexit__(kind, error, trace))


class TableView(Mapping[Key, Any]):
    """A mapping from key to value; a message without a value removes its key, one without a key is left out. Made by
    `Client.table_view`, which returns when everything that is in the topic was read."""

    def __init__(self, thread: LoopThread, inner: asynchronous_tableview.TableView) -> None:
        self._thread = thread
        self._inner = inner

    def __getitem__(self, key: Key) -> Any:
        return self._inner[key]

    def __iter__(self) -> Iterator[Key]:
        return iter(self._inner)

    def __len__(self) -> int:
        return len(self._inner)

    def listen(self, listener: Listener) -> None:
        """Called in the event loop with each change; the value is None for a key that was removed."""
        self._thread.call(lambda: self._inner.listen(listener))

    def refresh(self) -> None:
        """Returns when everything that was in the topic at the time of the call is in here."""
        self._thread.run(self._inner.refresh())

    def close(self) -> None:
        self._thread.run(self._inner.close())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._thread.run(self._inner.__aexit__(kind, error, trace))


class DelayedMessages:
    """Of one topic. Made by `Client.delayed`. Each call is one request, in a thread."""

    def __init__(self, thread: LoopThread, inner: asynchronous_delayedmessages.DelayedMessages) -> None:
        self._thread = thread
        self._inner = inner

    def cancel(self, message_id: MessageId) -> bool:
        """No subscription is sent the message any more. False: it was cancelled before. Raises `NotFound` for one that does not
        wait here, or not any more."""
        return self._thread.run(self._inner.cancel(message_id))

    def reschedule(self, message_id: MessageId, *, deliver_at_ms: int | None = None, deliver_after_s: float | None = None) -> bool:
        """The message keeps its id and comes at this time. False: it already was to come then."""
        return self._thread.run(self._inner.reschedule(message_id, deliver_at_ms=deliver_at_ms, deliver_after_s=deliver_after_s))

    def next(self, count: int = 100) -> list[DelayedMessage]:
        """Those that are due next, at most 1000."""
        return self._thread.run(self._inner.next(count))


async def _opened(opening: Opening[E]) -> E:
    return await opening
