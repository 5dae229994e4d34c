"""Socket to log: how the blocks of a topic's producers are appended, and how their receipts come back in order.

Sequence checks, counters and the header are taken once a block. Receipts, and the receipts of duplicates, leave a producer in the
order in which its messages came, and never before the messages are durable.
"""

from __future__ import annotations

import asyncio
from array import array
from collections import deque
from collections.abc import Callable

from messaging.broker.core.dedup import Deduplication
from messaging.broker.core.entries import EntryBlock, for_log, header_of
from messaging.broker.core.producers import Producer, ProducerTable
from messaging.broker.runtime.topics.services import TopicServices
from messaging.protocol.hot import Sent
from messaging.storage.managed_ledger import ManagedLedger
from messaging.storage.seam import Position, StoreError


class Inlet:
    """`deliver` is handed each block once it is durable; `failed` is told when the log did not take one."""

    def __init__(
        self,
        services: TopicServices,
        ledger: ManagedLedger,
        deliver: Callable[[EntryBlock], None],
        failed: Callable[[StoreError], None],
    ) -> None:
        self.services = services
        self.ledger = ledger
        self.producers = ProducerTable()
        self.dedup: Deduplication | None = None
        self.messages_in = 0
        self.bytes_in = 0
        self.duplicates = 0
        self.last_published_ms = 0
        self._deliver = deliver
        self._failed = failed

    def publish(self, producer: Producer, buf: bytes, sent: list[Sent], message_count: int) -> int:
        """Appends one block of a producer; receipts come through its sink. Returns the bytes appended.

        Raises `StoreError` where the log takes nothing: the topic then has to be opened again."""
        now_ms = self.services.clock_ms()
        asked = sent
        if self.dedup is not None:
            sent, repeated = self.dedup.sift(producer.name_bytes, sent, now_ms)
            if repeated:
                self.duplicates += len(asked) - len(sent)
                if not sent:
                    self._answer_in_turn(producer, asked)
                    return 0
                message_count = sum(one[5] for one in sent)
        data, stops = for_log(buf, sent)
        size = stops[-1]
        if len(buf) > 4 * size:  # a few frames of a large read: do not keep the whole read for them
            buf, sent = _repack(bytes(data), sent, stops)
            data = buf
        header = header_of(sent, producer.name_bytes, now_ms, message_count)
        producer.pending_blocks += 1

        def confirmed(error: StoreError | None) -> None:
            producer.pending_blocks -= 1
            producer.sink.settled(size)
            if error is None:
                block = EntryBlock(first.ledger_id, first.entry_id, buf, sent, now_ms, message_count)
                self._stored(producer, block, asked, first)
            else:
                self._failed(error)
            if not producer.pending_blocks:
                self._drained(producer)

        try:
            first = self.ledger.append(header, data, stops, confirmed)
        except StoreError:
            producer.pending_blocks -= 1
            raise
        return size

    def _stored(self, producer: Producer, block: EntryBlock, asked: list[Sent], first: Position) -> None:
        self.messages_in += block.message_count
        self.bytes_in += block.payload_bytes
        producer.messages_in += block.message_count
        producer.bytes_in += block.payload_bytes
        self.last_published_ms = block.broker_time_ms
        if self.dedup is not None:
            self.dedup.stored(producer.name_bytes, block.sent, first)
        if not producer.closed:
            if len(asked) == len(block.sent):
                producer.sink.receipts(producer, block.sent, first)
            else:
                self._answer(producer, asked)
        self._deliver(block)

    # --- duplicates

    def _answer_in_turn(self, producer: Producer, repeated: list[Sent]) -> None:
        """Nothing of this read is new. Its receipts come after those of what is still on its way to the disk."""
        if producer.pending_blocks:
            if producer.repeated is None:
                producer.repeated = deque()
            producer.repeated.append(repeated)
        else:
            self._answer(producer, repeated)

    def _answer(self, producer: Producer, asked: list[Sent]) -> None:
        """Receipts one by one, each with the id under which its sequence id is stored (-1:-1 where that is not remembered)."""
        assert self.dedup is not None
        for one in asked:
            producer.sink.receipts(producer, [one], self.dedup.position_of(producer.name_bytes, one[1]))

    def _drained(self, producer: Producer) -> None:
        while producer.repeated and not producer.closed:
            self._answer(producer, producer.repeated.popleft())
        if producer.on_drained is not None:
            # After the receipts of this block.
            asyncio.get_running_loop().call_soon(producer.on_drained)


def _repack(data: bytes, sent: list[Sent], stops: array[int]) -> tuple[bytes, list[Sent]]:
    """The same entries over `data`, which holds them back to back."""
    moved, start = [], 0
    for one, stop in zip(sent, stops, strict=True):
        moved.append((one[0], one[1], start, start + one[3] - one[2], stop, one[5], one[6], one[7]))
        start = stop
    return data, moved
