"""The session of a WebSocket producer: each frame is a message and gets a response, in the order of the frames."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from messaging.broker.core.partition_routing import PartitionRouter
from messaging.broker.http.context import EdgeCounters
from messaging.broker.http.websocket.encryption import read_keys
from messaging.broker.http.websocket.frames import (
    UNKNOWN_ERROR,
    InvalidFrame,
    read_outgoing,
    receipt_frame,
    send_error_code,
    send_error_frame,
)
from messaging.broker.http.websocket.link import INTERNAL, Link
from messaging.broker.http.websocket.memory import MemoryReservation, SessionThrottle
from messaging.broker.http.websocket.parameters import ProducerParameters
from messaging.broker.runtime.detach import DetachAll
from messaging.broker.runtime.local.messages import MessagePosition, OutgoingMessage, ProducerHandle, ProducerListener
from messaging.errors import MagnetarError, NotReady

logger = logging.getLogger(__name__)

PENDING_BYTES_MAX = 8 << 20  # of frames whose answers were not taken, a connection
SLOT_BYTES = 512  # what a frame costs beside its text, until its answer was taken
PENDING_MESSAGES_MAX = 10_000
PRODUCER_BYTES = 4 << 10  # what the producer of one partition takes
OPENING_MAX = 4  # producers of partitions at once
LONG_KEY = 4096  # characters; hashing more takes part of a millisecond


@dataclass(slots=True)
class _Slot:
    """The place of one frame in the order of answers; `answer` is None until there is one."""

    context: str | None
    size_bytes: int
    answer: str | None = None


class OpenProducer(Protocol):
    async def __call__(self, partition: int | None, name: str | None, listener: ProducerListener) -> ProducerHandle:
        """Opens the producer of a partition, or of the plain topic, under a name or under one that the broker chooses."""


_LASTING = (401, 403, 404)  # statuses of errors for which opening again would not help


class _PartitionProducer:
    """The producer of one partition, or of the plain topic, opened when there is a message for it: a `ProducerListener`."""

    def __init__(self, session: ProducerSession, partition: int | None) -> None:
        self._session = session
        self.partition = partition
        self.handle: ProducerHandle | None = None
        self.opening: asyncio.Task[None] | None = None
        self.gathered: list[tuple[OutgoingMessage, _Slot]] = []

    def closed(self, error: MagnetarError | None) -> None:
        self.handle = None
        self._session.closed(error)


class ProducerSession:
    """Messages of frames that came together, and go to the same partition, are published together.

    A producer that the broker closes, because its topic is unloaded or terminated, is opened again for the next message. If that is
    refused, the message is, and the connection stays.
    """

    def __init__(
        self,
        link: Link,
        parameters: ProducerParameters,
        counters: EdgeCounters,
        message_bytes_max: int,
        clock_ms: Callable[[], int],
        throttle: SessionThrottle,
        open_producer: OpenProducer,
        producers: MemoryReservation,
        router: PartitionRouter | None,
        detach: DetachAll,
    ) -> None:
        """`router`: of a topic with partitions."""
        self._detach = detach
        self._throttle = throttle
        self._open = open_producer
        self._name = parameters.producer_name
        self._closed = False
        self._router = router
        self._producers: dict[int | None, _PartitionProducer] = {}
        self._producers_memory = producers
        self._opening = asyncio.Semaphore(OPENING_MAX)
        self.unfollow: Callable[[], None] = lambda: None  # the partitions
        self._link = link
        self._counters = counters
        self._message_bytes_max = message_bytes_max
        self._clock_ms = clock_ms
        self._keys = read_keys(parameters.encryption_keys)
        self._pending_max = min(max(parameters.max_pending_messages, 1), PENDING_MESSAGES_MAX)
        initial = parameters.initial_sequence_id
        self._next_sequence_id = None if initial is None else initial + 1
        self._slots: deque[_Slot] = deque()
        self._pending_bytes = 0
        self._gathered: dict[_PartitionProducer, None] = {}  # those that have something to publish

    async def open(self) -> None:
        """Opens the producer of the plain topic, or of the first partition. Raises what the broker refuses with."""
        await self._open_one(self._producer_of(None if self._router is None else self._router.choose(None)))

    def grown(self, partitions: int) -> None:
        """There are more partitions."""
        if self._router is not None:
            self._router.partitions = max(partitions, self._router.partitions)

    def _producer_of(self, partition: int | None) -> _PartitionProducer:
        producer = self._producers.get(partition)
        if producer is None:
            producer = self._producers[partition] = _PartitionProducer(self, partition)
            self._producers_memory.set(len(self._producers) * PRODUCER_BYTES)
        return producer

    async def _open_one(self, producer: _PartitionProducer) -> None:
        if producer.partition is not None and not self._producers_memory.room:
            raise NotReady("no memory is left for producers of more partitions: close others, or name one partition")
        async with self._opening:
            handle = await self._open(producer.partition, self._name, producer)
        if self._closed:
            handle.close()
            return
        producer.handle, self._name = handle, handle.producer_name

    def closed(self, error: MagnetarError | None) -> None:
        """From the broker, of one of its producers."""
        if error is None or error.http_status in _LASTING:
            self._link.end_for(error)

    def start(self) -> None:
        pass

    def accepting(self) -> bool:
        return len(self._slots) < self._pending_max and self._pending_bytes < PENDING_BYTES_MAX and not self._throttle.paused

    async def on_text(self, text: str) -> None:
        try:
            message, context = read_outgoing(text, self._clock_ms(), self._keys)
            if len(message.payload) > self._message_bytes_max:
                reason = (
                    f"the message has {len(message.payload)} bytes; at most {self._message_bytes_max} are taken: send it in parts"
                )
                raise InvalidFrame(UNKNOWN_ERROR, reason, context)
        except InvalidFrame as error:
            answer = send_error_frame(error.code, str(error), error.context)
            self._hold(_Slot(None, SLOT_BYTES + len(answer), answer))
            self._link.wake()
            return
        if message.sequence_id is None and self._next_sequence_id is not None:
            message.sequence_id = self._next_sequence_id
        if message.sequence_id is not None and self._next_sequence_id is not None:
            self._next_sequence_id = message.sequence_id + 1
        self._counters.messages_in += 1
        slot = _Slot(context, SLOT_BYTES + len(text))  # the text is longer than all that was made of it
        self._hold(slot)
        producer = self._producer_of(None if self._router is None else self._router.choose(message.key))
        producer.gathered.append((message, slot))
        if not self._gathered:
            self._link.soon(self._publish)
        self._gathered[producer] = None
        if message.key is not None and len(message.key) > LONG_KEY:
            await asyncio.sleep(0)

    def _hold(self, slot: _Slot) -> None:
        self._slots.append(slot)
        self._pending_bytes += slot.size_bytes
        self._throttle.take(slot.size_bytes)

    def next_frame(self) -> str | None:
        if not self._slots or self._slots[0].answer is None:
            return None
        slot = self._slots.popleft()
        self._pending_bytes -= slot.size_bytes
        self._throttle.give(slot.size_bytes)
        self._link.wake()  # the reader may continue
        return slot.answer

    def close(self) -> None:
        """What was read before is still published; its answers have nobody to go to."""
        if self._closed:
            return
        self._closed = True
        self.unfollow()
        self._publish()
        handles = []
        for producer in self._producers.values():
            if producer.opening is not None:
                producer.opening.cancel()
            if producer.handle is not None:
                producer.handle.leave()
                handles.append(producer.handle)
                producer.handle = None
        self._detach([*(handle.close for handle in handles), partial(self._producers_memory.set, 0)])
        self._throttle.leave()

    def _publish(self) -> None:
        producers, self._gathered = self._gathered, {}
        for producer in producers:
            self._publish_on(producer)

    def _publish_on(self, producer: _PartitionProducer) -> None:
        if producer.handle is None:
            if producer.gathered and producer.opening is None and not self._closed:
                producer.opening = asyncio.ensure_future(self._open_again(producer))
            return
        gathered, producer.gathered = producer.gathered, []
        if not gathered:
            return
        if producer.handle.gathers:
            self._publish_together(producer.handle, gathered)
            return
        for each in gathered:
            self._publish_together(producer.handle, [each])

    def _publish_together(self, handle: ProducerHandle, gathered: list[tuple[OutgoingMessage, _Slot]]) -> None:
        slots = [slot for _, slot in gathered]

        def on_receipt(positions: Sequence[MessagePosition] | None, error: MagnetarError | None) -> None:
            self._answer(slots, positions, error)

        try:
            handle.publish([message for message, _ in gathered], on_receipt)
        except MagnetarError as error:
            self._answer(slots, None, error)

    async def _open_again(self, producer: _PartitionProducer) -> None:
        try:
            await self._open_one(producer)
        except MagnetarError as error:
            gathered, producer.gathered = producer.gathered, []
            self._answer([slot for _, slot in gathered], None, error)
            if error.http_status in _LASTING:
                self._link.end_for(error)
        except Exception:
            logger.exception("websocket producer could not be opened again", extra={"producer": self._name})
            self._link.end(INTERNAL, "the broker failed; its log says why")
            producer.gathered.clear()
        finally:
            producer.opening = None
        self._publish_on(producer)

    def _answer(self, slots: list[_Slot], positions: Sequence[MessagePosition] | None, error: MagnetarError | None) -> None:
        if error is not None or positions is None:
            failed = error or MagnetarError("the broker did not confirm the message: send it again")
            code = send_error_code(failed)
            for slot in slots:
                slot.answer = send_error_frame(code, failed.message, slot.context)
        else:
            for slot, position in zip(slots, positions, strict=True):
                slot.answer = receipt_frame(position, slot.context)
        self._link.wake()
