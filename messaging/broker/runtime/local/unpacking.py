"""Entries on their way to a consumer that takes single messages: opened one after another, in slices, never further than asked for.

A few bytes may hold very many messages. So an entry stays packed until its turn comes; what unpacking it makes is charged to the
memory budget before it is made, and a large one is decompressed on a thread, in turns by tenant and in one call: its codec lets
other threads run, and makes no more than was declared and charged (ADR 16). Its messages are then made as the consumer has room for
them: what waits is bytes that are accounted for, not objects.

An entry that cannot be opened comes whole, as it is stored, with the reason in a property, so that its consumer can look at it and
acknowledge it: it is not lost, and does not stand in the way of the rest.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import ClassVar

from messaging.broker.core.memory.memory_limiter import MemoryAccount
from messaging.broker.runtime.local.messages import DeliveredMessage, EncryptionContext, EncryptionKey, MessagePosition
from messaging.broker.runtime.local.shared_permits import SharedPermits
from messaging.fairness.turns import FairTurns
from messaging.protocol import pulsar_pb2 as pb
from messaging.protocol.batch import Single, batch_size, singles, unpack, unpacked_bytes
from messaging.protocol.frames import ProtocolError, Stored, as_text, parse_stored
from messaging.storage.ledger_store import Position

SLICE_MESSAGES_MAX = 256  # looked at before others have the loop
SLICE_BYTES_MAX = 1 << 20
INLINE_BYTES_MAX = 32 << 10  # unpacked on the loop, in about 0.1 ms; what is larger goes to a thread
RETRY_S = 0.05  # until memory is asked for again
UNREADABLE = "magnetar.unreadable"  # the property that says why a message comes as it is stored

# A tenant uses two of them, and leaves one to others.
THREADS = 3
_threads = ThreadPoolExecutor(THREADS, thread_name_prefix="unpack")


@dataclass(slots=True)
class Packed:
    """An entry as it is stored. `assigned`: the permits it took."""

    position: Position
    payload: bytes
    broker_time_ms: int
    redelivery_count: int
    assigned: int


@dataclass(slots=True)
class _Opened:
    packed: Packed
    stored: Stored
    singles: Iterator[Single]
    open_bits: int = 1  # of a batch: a bit for each message that is not acknowledged yet
    handed_over: int = 0


class Unpacker:
    """Where nothing is open, the next entry is opened however much it takes: it waits for others, and never for what only waits.

    `asked_for`: how many messages are asked for, of this and perhaps of others.
    `open_bits` is told how many messages a batch has when it is opened and answers which of them are still open. `finished` is
    told of the permits that an entry took and did not use (below zero: it held more messages than were counted)."""

    open_bytes: ClassVar[int] = 0  # made by all of them, and not handed over yet

    def __init__(
        self,
        account: MemoryAccount,
        tenant: str,
        bytes_max: int,
        partition: int,
        *,
        asked_for: SharedPermits,
        turns: FairTurns,
        deliver: Callable[[Sequence[DeliveredMessage]], None],
        open_bits: Callable[[Position, int], int],
        finished: Callable[[int], None],
    ) -> None:
        self._asked_for = asked_for
        self.held_bytes = 0
        self._account = account
        self._tenant = tenant
        self._bytes_max = bytes_max
        self._partition = partition
        self._turns = turns
        self._deliver = deliver
        self._open_bits = open_bits
        self._finished = finished
        self._packed: deque[Packed] = deque()
        self._current: _Opened | None = None
        self._current_bytes = 0
        self._made_bytes = 0  # of them, those that unpacking made
        self._waits = False  # for its turn, a thread or memory
        self._closed = False
        self._work: asyncio.Task[bytes | ProtocolError] | None = None  # on a thread

    def add(self, packed: Packed) -> None:
        self._charge(len(packed.payload))
        self._packed.append(packed)
        self._asked_for.packed += packed.assigned
        self._soon()

    def resume(self) -> bool:
        """There is something to hand over messages for."""
        scheduled = not self._waits
        self._soon()
        return scheduled and self._waits

    def close(self) -> None:
        """Idempotent. What was not handed over is the subscription's again."""
        self._closed = True
        self._asked_for.packed -= sum(packed.assigned for packed in self._packed)
        if self._current is not None:
            self._asked_for.packed -= self._current.packed.assigned - self._current.handed_over
        self._asked_for.forget(self)
        self._asked_for.serve_soon()
        self._packed.clear()
        self._current = None
        self._made(0)
        self._charge(-self.held_bytes)

    def _charge(self, size: int) -> None:
        self.held_bytes += size
        if size > 0:
            self._account.take(self._tenant, size)
        elif size < 0:
            self._account.give(self._tenant, -size)

    def _made(self, size: int) -> None:
        Unpacker.open_bytes += size - self._made_bytes
        self._made_bytes = size

    # --- in slices

    def _soon(self) -> None:
        if self._waits or self._closed or not (self._current or self._packed):
            return
        if self._asked_for.asked <= 0:
            self._asked_for.wait(self)
            return
        self._waits = True
        asyncio.get_running_loop().call_soon(self._turn)

    def _turn(self) -> None:
        """Later than `add` and `ask`, so that a sink that acknowledges does not do so inside the decision that gave it entries."""
        self._waits = False
        messages: list[DeliveredMessage] = []
        size = 0
        for _ in range(SLICE_MESSAGES_MAX):
            if self._closed or self._asked_for.asked <= 0 or size >= SLICE_BYTES_MAX:
                break
            opened = self._current or self._open_next()
            if opened is None:
                break
            message = self._next_of(opened)
            if message is not None:
                messages.append(message)
                size += len(message.payload)
                self._asked_for.asked -= 1
        if messages:
            self._deliver(messages)
        self._soon()
        self._asked_for.pass_on()

    def _next_of(self, opened: _Opened) -> DeliveredMessage | None:
        """None for a message that was acknowledged before, and at the end."""
        try:
            single = next(opened.singles, None)
        except ProtocolError as error:  # in the middle of a batch: what is left of it comes as one message
            opened.singles = iter(())
            single = _unreadable(opened.stored.payload, error)
        if single is None:
            self._finish(opened)
            return None
        if single.batch_index >= 0 and not opened.open_bits >> single.batch_index & 1:
            return None
        opened.handed_over += 1
        self._asked_for.packed -= 1
        message = self._message(opened, single)
        if max(single.batch_index, 0) + 1 == single.batch_size:
            self._finish(opened)  # now: nobody may ask for more for a long time
        return message

    def _finish(self, opened: _Opened) -> None:
        self._current = None
        self._made(0)
        self._charge(-self._current_bytes)
        unused = opened.packed.assigned - opened.handed_over
        self._asked_for.packed -= unused
        self._asked_for.serve_soon()
        self._finished(unused)

    # --- opening

    def _open_next(self) -> _Opened | None:
        """None where there is no further entry, or it waits for memory or a thread."""
        if self._waits or not self._packed:
            return None
        packed = self._packed[0]
        made_bytes = 0
        try:
            stored = parse_stored(packed.payload)
            made_bytes = unpacked_bytes(stored, self._bytes_max)
        except ProtocolError as error:
            self._begin(0)
            return self._as_stored(packed, error)
        if made_bytes and Unpacker.open_bytes and not self._account.allows(self._tenant, made_bytes):
            self._waits = True
            asyncio.get_running_loop().call_later(RETRY_S, self._turn)
            return None
        self._begin(made_bytes)
        if made_bytes <= INLINE_BYTES_MAX:
            return self._opened(packed, stored, _unpacked(stored, self._bytes_max))
        self._waits = True
        self._work = asyncio.get_running_loop().create_task(self._on_thread(stored), name="unpack an entry")
        self._work.add_done_callback(lambda done: self._unpack_done(packed, stored, done))
        return None

    async def _on_thread(self, stored: Stored) -> bytes | ProtocolError:
        async with self._turns.turn(self._tenant):
            if self._closed:  # while it waited
                return b""
            return await asyncio.get_running_loop().run_in_executor(_threads, _unpacked, stored, self._bytes_max)

    def _begin(self, made_bytes: int) -> None:
        self._current_bytes = len(self._packed.popleft().payload) + made_bytes
        self._made(made_bytes)
        self._charge(made_bytes)

    def _unpack_done(self, packed: Packed, stored: Stored, done: asyncio.Future[bytes | ProtocolError]) -> None:
        self._waits, self._work = False, None
        if not self._closed and not done.cancelled():
            self._opened(packed, stored, done.result())
            self._soon()

    def _opened(self, packed: Packed, stored: Stored, data: bytes | ProtocolError) -> _Opened:
        try:
            if isinstance(data, ProtocolError):
                raise data
            size = batch_size(stored, data)
        except ProtocolError as error:
            return self._as_stored(packed, error, stored)
        bits = self._open_bits(packed.position, size) if size else 1
        self._current = _Opened(packed, stored, singles(stored, data), bits)
        return self._current

    def _as_stored(self, packed: Packed, error: ProtocolError, stored: Stored | None = None) -> _Opened:
        if stored is None:  # metadata is the producer's own, and this one's is not readable
            stored = Stored(pb.Metadata(producer_name="", sequence_id=0, publish_time=packed.broker_time_ms), packed.payload)
        self._current = _Opened(packed, stored, iter((_unreadable(stored.payload, error),)))
        return self._current

    def _message(self, opened: _Opened, single: Single) -> DeliveredMessage:
        metadata = opened.stored.metadata
        position = opened.packed.position
        return DeliveredMessage(
            position=MessagePosition(position.ledger_id, position.entry_id, single.batch_index, self._partition),
            payload=single.payload,
            publish_time_ms=metadata.publish_time,
            properties=single.properties,
            key=single.partition_key,
            event_time_ms=single.event_time_ms,
            redelivery_count=opened.packed.redelivery_count,
            batch_size=single.batch_size,
            producer_name=as_text(metadata.producer_name),
            sequence_id=single.sequence_id,
            null_value=single.null_value,
            encryption=_encryption(metadata) if metadata.encryption_keys else None,
        )


def _unpacked(stored: Stored, bytes_max: int) -> bytes | ProtocolError:
    """Runs on a thread where there is much to do."""
    try:
        return unpack(stored, bytes_max)
    except ProtocolError as error:
        return error


def _encryption(metadata: pb.Metadata) -> EncryptionContext:
    return EncryptionContext(
        keys={
            as_text(key.key): EncryptionKey(key.value, {as_text(pair.key): as_text(pair.value) for pair in key.metadata})
            for key in metadata.encryption_keys
        },
        param=metadata.encryption_param,
        algorithm=as_text(metadata.encryption_algo),
        compression=pb.Compression.Name(metadata.compression),
        uncompressed_bytes=metadata.uncompressed_size,
        batch_size=metadata.num_messages_in_batch if metadata.HasField("num_messages_in_batch") else None,
    )


def _unreadable(payload: bytes, error: ProtocolError) -> Single:
    """Acknowledging it acknowledges the whole entry."""
    return Single(-1, 1, {UNREADABLE: str(error)}, None, False, 0, -1, payload, False)
