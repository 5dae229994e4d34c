"""A consumer of a whole topic, as clients of single messages see it: of each partition where there are some, opened again where the
broker closes one, and of partitions that are added. What is true of a consumer of one topic is so of the whole: what was asked for
comes from all of them together, and the end is the end of all."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from functools import partial
from typing import Protocol

import structlog

from messaging.background import BackgroundLoops
from messaging.broker.core.memory.memory_limiter import MemoryAccount
from messaging.broker.runtime.detach import Detach, DetachAll
from messaging.broker.runtime.local.messages import (
    ConsumerListener,
    DeliveredMessage,
    InitialPosition,
    MessagePosition,
    TopicListener,
)
from messaging.broker.runtime.local.shared_permits import SharedPermits
from messaging.broker.runtime.topics.partitions.partitions import Partitions
from messaging.broker.runtime.turn_slices import TurnSlices, all_in_slices
from messaging.errors import MagnetarError, NotReady
from messaging.protocol.names import TopicName
from messaging.storage.ledger_store import Position

log = structlog.get_logger("broker.local")

OPEN_COST = 1_000  # of one partition, in units of `core/turns/command_costs.py`, as of a client that subscribes
PART_BYTES = 4 << 10  # what the consumer of one partition takes, as measured
BACK_OFF_S, BACK_OFF_MAX_S = 0.1, 10.0  # before it is opened again, where that was refused
ACKS_WAITING_MAX = 1_000  # acknowledgements kept until their partitions are opened again; what is more is delivered again
BATCHES_KEPT_MAX = 100  # of which a reader had a part when its topic was closed
LASTING = (401, 403, 404)  # statuses of errors for which opening again would not help


class PartConsumer(Protocol):
    """The consumer of a plain topic or a partition: `LocalConsumer`, or one of a topic of another broker."""

    remote: bool  # another broker says whether its subscription may be deleted, when it is asked to

    @property
    def continues(self) -> bool:
        """One that takes its place must be told where to begin."""

    def serve(self, permits: int) -> None: ...

    def ack(self, positions: Sequence[MessagePosition]) -> Awaitable[None]: ...

    def nack(self, positions: Sequence[MessagePosition]) -> None: ...

    def check_alone(self) -> None: ...

    async def unsubscribe(self) -> None: ...

    def continue_from(self, batches_max: int) -> tuple[InitialPosition, MessagePosition | None, dict[Position, int]]: ...

    def unacknowledged_ledgers(self) -> Iterator[int]: ...

    def leave(self) -> None: ...

    def close(self) -> None: ...


class OpenConsumer(Protocol):
    """Opens the consumer of one topic."""

    async def __call__(
        self,
        topic: TopicName,
        initial: InitialPosition,
        start: MessagePosition | None,
        sink: ConsumerListener,
        *,
        shared: SharedPermits,
        wanted: dict[Position, int],
    ) -> PartConsumer: ...


class _Part:
    """The consumer of one partition, or of the plain topic: a `ConsumerListener`."""

    def __init__(self, whole: TopicConsumer, topic: TopicName, initial: InitialPosition, start: MessagePosition | None) -> None:
        self._whole = whole
        self.topic = topic
        self.initial: InitialPosition = initial
        self.start = start
        self.wanted: dict[Position, int] = {}
        self.consumer: PartConsumer | None = None
        self.ended = False
        self.back_off_s = 0.0

    def deliver(self, messages: Sequence[DeliveredMessage]) -> None:
        self._whole.deliver(messages)

    def end_of_topic(self) -> None:
        if not self.ended:
            self.ended = True
            self._whole.part_ended()

    def closed(self, error: MagnetarError | None) -> None:
        consumer, self.consumer = self.consumer, None
        if consumer is not None and consumer.continues:
            self.initial, self.start, self.wanted = consumer.continue_from(BATCHES_KEPT_MAX)
        self._whole.part_closed(self, error)


class TopicConsumer:
    """A `ConsumerHandle`. `shared`: it is one of several of a client, which has asked for that much of all of them together."""

    def __init__(
        self,
        topic: TopicName,
        sink: TopicListener,
        open_one: OpenConsumer,
        initial: InitialPosition,
        start: MessagePosition | None,
        *,
        partitions: Partitions,
        memory: MemoryAccount,
        slices: TurnSlices,
        detach: DetachAll,
        background: BackgroundLoops,
        shared: SharedPermits | None = None,
    ) -> None:
        self._topic = topic
        self._sink = sink
        self._open_one = open_one
        self._initial: InitialPosition = initial
        self._start = start
        self._partitions = partitions
        self._memory = memory
        self._charged_bytes = 0
        self._slices = slices
        self._detach = detach
        self._background = background
        self._asked_for = shared or SharedPermits()
        self._parts: dict[int, _Part] = {}
        self._count = 0
        self._ended = 0  # of the parts
        self._acks: dict[_Part, list[MessagePosition]] = {}  # for those that are closed at present
        self._acks_waiting = 0
        self._to_open: list[_Part] = []
        self._opening = False
        self._opened = False
        self._closed = False

    # --- opening

    async def open(self, partitions: Callable[[], Awaitable[int]]) -> None:
        """`partitions`: how many there are, 0 of a plain topic. Raises what opening one of them raises; then none is open."""
        self._partitions.follow(self._topic, self._grown)
        try:
            self._count = max(await partitions(), self._count)
            parts = self._add_parts(self._initial)
            await all_in_slices(self._slices, parts, OPEN_COST, self._open)
            self._opened = True
            self._go_on_after_opening()
        except BaseException:
            self.close()
            raise

    def _go_on_after_opening(self) -> None:
        """With what happened meanwhile. It had to wait, because one task at a time goes through the slices."""
        if self._closed:
            return
        self._open_soon(*(self._add_parts("earliest") if self._count else []))
        self._tell_end()

    def _add_parts(self, initial: InitialPosition) -> list[_Part]:
        """Those that are missing."""
        if not self._count:
            self._parts[-1] = _Part(self, self._topic, initial, self._start)
            return [self._parts[-1]]
        missing = [index for index in range(self._count) if index not in self._parts]
        size = PART_BYTES * len(missing)
        if not self._memory.allows(self._topic.tenant, size):
            raise NotReady(f"no memory is left for consumers of {len(missing)} partitions: close others, or name one partition")
        self._memory.take(self._topic.tenant, size)
        self._charged_bytes += size
        for index in missing:
            self._parts[index] = _Part(self, self._topic.of_partition(index), initial, None)
        return [self._parts[index] for index in missing]

    async def _open(self, part: _Part) -> None:
        consumer = await self._open_one(part.topic, part.initial, part.start, part, shared=self._asked_for, wanted=part.wanted)
        if self._closed:
            consumer.close()
            return
        part.consumer, part.back_off_s = consumer, 0.0
        acknowledged = self._acks.pop(part, [])
        self._acks_waiting -= len(acknowledged)
        if acknowledged:
            consumer.ack(acknowledged)
        self._asked_for.add(consumer)

    def _grown(self, count: int) -> None:
        self._count = max(count, self._count)
        if self._opened and not self._closed:
            try:
                self._open_soon(*self._add_parts("earliest"))  # nothing of a new partition was there to be passed over
            except MagnetarError as error:
                self._end(error)

    def _open_soon(self, *parts: _Part) -> None:
        if self._closed:
            return
        self._to_open += parts
        if self._to_open and self._opened and not self._opening:
            self._opening = True
            self._background.spawn(self._open_all(), f"open consumers of {self._topic}")

    async def _open_all(self) -> None:
        try:
            while self._to_open and not self._closed:
                parts, self._to_open = self._to_open, []
                await all_in_slices(self._slices, parts, OPEN_COST, self._open_again)
        finally:
            self._opening = False

    async def _open_again(self, part: _Part) -> None:
        if self._closed:
            return
        try:
            await self._open(part)
        except MagnetarError as error:
            if error.http_status in LASTING:
                self._end(error)
                return
            part.back_off_s = min(max(2 * part.back_off_s, BACK_OFF_S), BACK_OFF_MAX_S)
            asyncio.get_running_loop().call_later(part.back_off_s, self._open_soon, part)
        except Exception as error:
            log.exception("consumer.not_opened_again", topic=str(part.topic))
            self._end(MagnetarError(f"the consumer could not be opened again: {type(error).__name__}"))

    # --- from the parts

    def deliver(self, messages: Sequence[DeliveredMessage]) -> None:
        if not self._closed:
            self._sink.deliver(messages)

    def part_ended(self) -> None:
        """For the first time: a topic that was terminated stays so."""
        self._ended += 1
        self._tell_end()

    def _tell_end(self) -> None:
        if self._opened and self._ended == len(self._parts):
            self._sink.end_of_topic()

    def part_closed(self, part: _Part, error: MagnetarError | None) -> None:
        if self._closed:
            return
        if error is not None and error.http_status in LASTING:
            self._end(error)
            return
        self._asked_for.ask(self._sink.withdraw(part.topic.partition))
        self._open_soon(part)

    def _end(self, error: MagnetarError) -> None:
        if not self._closed:
            self.close()
            self._sink.closed(error)

    # --- as a handle

    def flow(self, permits: int) -> None:
        if not self._closed:
            self._asked_for.ask(permits)

    def ack(self, positions: Sequence[MessagePosition]) -> Awaitable[None]:
        """An acknowledgement that names none of the partitions changes nothing, as in Pulsar."""
        stored = [self._ack_part(part, its) for part, its in self._by_part(positions).items()]
        return stored[0] if len(stored) == 1 else all_stored(stored)

    def _ack_part(self, part: _Part, positions: list[MessagePosition]) -> asyncio.Future[None]:
        if part.consumer is not None:
            return asyncio.ensure_future(part.consumer.ack(positions))
        kept = positions[: ACKS_WAITING_MAX - self._acks_waiting]
        self._acks.setdefault(part, []).extend(kept)
        self._acks_waiting += len(kept)
        return all_stored([])

    def nack(self, positions: Sequence[MessagePosition]) -> None:
        for part, its in self._by_part(positions).items():
            if part.consumer is not None:
                part.consumer.nack(its)

    def _by_part(self, positions: Sequence[MessagePosition]) -> dict[_Part, list[MessagePosition]]:
        if not self._count:
            return {part: list(positions) for part in self._parts.values()}
        positions_by_part: dict[_Part, list[MessagePosition]] = {}
        for position in positions:
            part = self._parts.get(position.partition)
            if part is not None:
                positions_by_part.setdefault(part, []).append(position)
        return positions_by_part

    async def unsubscribe(self) -> None:
        """Deletes the subscription of each partition, or of none. Raises `PreconditionFailed` while others are attached."""
        self.check_alone()
        self._stop()
        consumers = self._take_consumers()
        in_order = sorted(consumers, key=lambda consumer: not consumer.remote)  # first those that may refuse
        try:
            await all_in_slices(self._slices, in_order, OPEN_COST, lambda consumer: consumer.unsubscribe())
        finally:
            self._detach(self._left(consumers))

    def check_alone(self) -> None:
        """Raises `PreconditionFailed` while others are attached to a subscription of its partitions, `NotReady`."""
        if self._closed or any(part.consumer is None for part in self._parts.values()):
            raise NotReady("the consumer is closed: open it again")
        for part in self._parts.values():
            if part.consumer is not None:
                part.consumer.check_alone()

    @property
    def partitions(self) -> list[int]:
        """-1 of a plain topic."""
        return list(self._parts)

    def unacknowledged_ledgers(self) -> Iterator[int]:
        """Those of which its subscription may have messages that were not acknowledged, as far as its partitions are open."""
        for part in self._parts.values():
            if part.consumer is not None:
                yield from part.consumer.unacknowledged_ledgers()

    def close(self) -> None:
        """What was open is detached in slices, and counts as gone already."""
        self._detach(self.leave())

    def leave(self) -> list[Detach]:
        """Closes it, for a caller that detaches what is returned."""
        self._stop()
        return self._left(self._take_consumers())

    def _take_consumers(self) -> list[PartConsumer]:
        """Those that are open. They are no longer consumers of parts."""
        consumers = [part.consumer for part in self._parts.values() if part.consumer is not None]
        for part in self._parts.values():
            part.consumer = None
        return consumers

    def _left(self, consumers: list[PartConsumer]) -> list[Detach]:
        if not consumers and not self._charged_bytes:
            return []
        for consumer in consumers:
            consumer.leave()
        charged_bytes, self._charged_bytes = self._charged_bytes, 0
        return [*(consumer.close for consumer in consumers), partial(self._memory.give, self._topic.tenant, charged_bytes)]

    def _stop(self) -> None:
        self._closed = True
        self._partitions.unfollow(self._topic, self._grown)
        self._acks.clear()
        self._to_open.clear()


def all_stored(stored: Sequence[Awaitable[None]]) -> asyncio.Future[None]:
    """Done when all of them are, and failed if one is."""

    async def wait() -> None:
        await asyncio.gather(*stored)

    return asyncio.ensure_future(wait())
