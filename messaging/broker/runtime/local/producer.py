"""A producer inside the broker's process: plain messages become frames and go the way of all others."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from functools import partial

from messaging.broker.core.producers.producer import Producer
from messaging.broker.runtime.broker import Broker
from messaging.broker.runtime.local.frames import message_frame
from messaging.broker.runtime.local.messages import MessagePosition, OutgoingMessage, ProducerListener, Receipt
from messaging.broker.runtime.topics.limits.admission import check_spend_cap
from messaging.broker.runtime.topics.producers.topic_producers import fenced_out
from messaging.broker.runtime.topics.topic import Topic
from messaging.errors import InvalidValue, MagnetarError, MessageTooLarge, NotAllowed, NotReady, QuotaExceeded, StorageFailed
from messaging.permissions.model import Action, Principal, Resource
from messaging.protocol import hot
from messaging.protocol.hot import SendFrame
from messaging.storage.ledger_store import Position, StoreError


class LocalProducer:
    """A `ProducerHandle` to its client, a `core.producers.producer.ProducerSink` to the topic, and an `OpenSession` to the
    permission checks."""

    action = Action.PRODUCE
    gathers = True

    def __init__(
        self,
        service: Broker,
        topic: Topic,
        name: str,
        sink: ProducerListener | None,
        principal: Principal,
        *,
        encrypts: bool = False,
    ) -> None:
        self.service = service
        self.topic = topic
        self.principal = principal
        self.producer_name = name
        self.last_sequence_id = topic.publisher.last_sequence_id(name.encode())
        self._sink = sink
        self._producer = Producer(0, name, self, now_ms=service.now_ms())
        self._due: deque[tuple[int, Receipt]] = deque()
        self._ids: list[MessagePosition] = []  # receipted, and not yet enough for the first of `_due`
        self._unsent: deque[tuple[int, list[MessagePosition]]] = deque()  # not stored, with bytes that may wait to be sent
        self._sent_bytes = 0  # of the first of `_unsent`
        self._sequence = self.last_sequence_id + 1
        self.open = True
        self._stopped = self._leaves = False
        self._producer.encrypted = encrypts
        self._producer.session = None if principal.service else self
        check_spend_cap(topic)
        topic.producers.attach(self._producer)

    @property
    def resource(self) -> Resource:
        return self.topic.resource()

    def publish(self, messages: Sequence[OutgoingMessage], on_receipt: Receipt) -> None:
        loop = asyncio.get_running_loop()
        limit = self.service.settings.message_bytes_max
        if not self.open or self._stopped or self._producer.closed:
            loop.call_soon(on_receipt, None, NotReady("the producer is closed: open it again"))
            return
        largest = max(len(message.payload) for message in messages)
        if largest > limit:
            text = f"a message of {largest} bytes is larger than message_bytes_max = {limit}: send it in parts"
            loop.call_soon(on_receipt, None, MessageTooLarge(text))
            return
        try:
            buf = b"".join([self._frame(message) for message in messages])
        except ValueError as error:
            loop.call_soon(on_receipt, None, InvalidValue(f"the message is not valid: {error}"))
            return
        sent: list[SendFrame] = []
        hot.scan(buf, 0, len(buf), sent)
        topic_max = self.topic.publisher.message_bytes_max
        if topic_max and (size := max(frame.end - frame.payload_start for frame in sent)) > topic_max:
            text = f"a message of {size} bytes is larger than max_message_size_bytes of the topic = {topic_max}: send it in parts"
            loop.call_soon(on_receipt, None, MessageTooLarge(text))
            return
        summary = hot.summarize(sent)
        stored_limit = self.topic.publisher.stored_limit
        if stored_limit is not None and (why := stored_limit.refusal(summary.end_offsets[-1])):
            loop.call_soon(on_receipt, None, QuotaExceeded(why))
            return
        delays = self.topic.publisher.delay_check()
        if delays is not None and (why := next(filter(None, map(delays.refusal, sent)), "")):
            loop.call_soon(on_receipt, None, NotAllowed(why))
            return
        self._due.append((len(sent), on_receipt))
        try:
            waiting_bytes = self.topic.publisher.publish(self._producer, buf, sent, summary)
            if delays is not None:
                delays.hold(partial(self.topic.publisher.run_in_order, self._producer))
            if self._unsent:
                self.append_completed(summary.end_offsets[-1] - waiting_bytes)
        except StoreError as error:
            self._due.pop()
            loop.call_soon(on_receipt, None, StorageFailed(f"the message could not be stored: {error}"))

    def _frame(self, message: OutgoingMessage) -> bytes:
        """Raises `ValueError` for what a message cannot hold."""
        sequence_id = self._sequence if message.sequence_id is None else message.sequence_id
        frame = message_frame(message, 0, self.producer_name, sequence_id, self.service.now_ms())
        self._sequence = max(self._sequence, sequence_id + 1)
        return frame

    # --- from the topic

    def receipts(self, producer: Producer, sent: list[SendFrame], first: Position) -> None:
        """Duplicates come one by one, so that what one call published may be answered in several."""
        partition = self.topic.name.partition
        self._receipted([MessagePosition(first.ledger_id, first.entry_id + index, -1, partition) for index in range(len(sent))])

    def receipts_of_unstored(self, producer: Producer, sent: list[SendFrame], position: Position) -> None:
        """The client is told when the messages were sent to all subscriptions: what waits until then is bounded by what it may send
        without a receipt."""
        ids = [MessagePosition(*position, -1, self.topic.name.partition)] * len(sent)
        self._unsent.append((hot.summarize(sent).end_offsets[-1], ids))

    def _receipted(self, ids: list[MessagePosition]) -> None:
        self._ids += ids
        while self._due and len(self._ids) >= self._due[0][0]:
            count, on_receipt = self._due.popleft()
            ids, self._ids = self._ids[:count], self._ids[count:]
            on_receipt(ids, None)

    def append_completed(self, size: int) -> None:
        """May come while `publish` still runs; the client is told later."""
        self._sent_bytes += size
        while self._unsent and self._sent_bytes >= self._unsent[0][0]:
            sent_bytes, ids = self._unsent.popleft()
            self._sent_bytes -= sent_bytes
            asyncio.get_running_loop().call_soon(self._receipted, ids)
        if not self._unsent:
            self._sent_bytes = 0

    def parked(self, size: int) -> None:
        pass

    def unparked(self, size: int) -> None:
        pass

    def unpublished(self, producer: Producer, sent: list[SendFrame]) -> None:
        """`fenced` tells."""

    def fenced(self, producer: Producer) -> None:
        self.end(fenced_out(producer))

    def promoted(self, producer: Producer) -> None:
        """It never waits: local producers share their topic."""

    def refused(self, producer: Producer, error: MagnetarError) -> None:
        """See `promoted`."""

    def alive(self) -> bool:
        return self.open and not self._leaves

    def closed(self, producer: Producer) -> None:
        self.end(self.topic.closed or NotReady("the topic was closed: open the producer again"))

    def stop(self) -> None:
        """From now on nothing is taken; `end` follows."""
        self._stopped = True

    def end(self, error: MagnetarError) -> None:
        """The broker closes this producer; receipts still due get the error: whether the messages are stored is not known."""
        if self.open:
            self._leave()
            while self._due:
                self._due.popleft()[1](None, error)
            if self._sink is not None:
                self._sink.closed(error)

    def leave(self) -> None:
        self._stopped = self._leaves = True

    def close(self) -> None:
        if self.open:
            self._leave()
            while self._due:
                self._due.popleft()[1](None, NotReady("the producer was closed before the receipt arrived"))

    def _leave(self) -> None:
        self.open = False
        self.topic.producers.detach(self._producer)
        self.service.peers.sessions.discard(self)
