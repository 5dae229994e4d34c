"""Socket to log: how the blocks of a topic's producers are appended, and how their receipts come back in order.

Sequence checks, counters and the header are taken once a block. Receipts, and the receipts of duplicates, leave a producer in the
order in which its messages came, and never before the messages are durable.
"""

from __future__ import annotations

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
        self.last_published_ms = 0
        self._deliver = deliver
        self._failed = failed
        self._appended_blocks = 0
        self._answered_blocks = 0
        self._turns: deque[tuple[int, Callable[[bool], None]]] = deque()  # (after so many answered blocks, what is to be done)

    def publish(self, producer: Producer, buf: bytes, sent: list[Sent], message_count: int) -> int:
        """Appends one block of a producer; receipts come through its sink. Returns the bytes appended.

        Raises `StoreError` where the log takes nothing: the topic then has to be opened again."""
        now_ms = self.services.clock_ms()
        asked = sent
        if self.dedup is not None:
            sent, repeated = self.dedup.sift(producer.name_bytes, sent, now_ms)
            if repeated:
                if not sent:
                    self.in_turn(lambda stored: self._answer(producer, asked) if stored else None)
                    return 0
                message_count = sum(one[5] for one in sent)
        data, stops = for_log(buf, sent)
        size = stops[-1]
        if len(buf) > 4 * size:  # a few frames of a large read: do not keep the whole read for them
            buf, sent = _repack(bytes(data), sent, stops)
            data = buf
        header = header_of(sent, producer.name_bytes, now_ms, message_count)

        def confirmed(error: StoreError | None) -> None:
            producer.sink.settled(size)
            if error is None:
                block = EntryBlock(first.ledger_id, first.entry_id, buf, sent, now_ms, message_count)
                self._stored(producer, block, asked, first)
            else:
                self._failed(error)
            self._answered_blocks += 1
            while self._turns and self._turns[0][0] <= self._answered_blocks:
                self._turns.popleft()[1](error is None)

        first = self.ledger.append(header, data, stops, confirmed)
        self._appended_blocks += 1
        return size

    def in_turn(self, act: Callable[[bool], None]) -> None:
        """Does what must not overtake the receipts of anything appended so far: at once, or when the last of them has its answer.

        `act` is told whether that was stored. Blocks of all producers count: the original of a duplicate may have come over a
        connection that is gone, and is not durable before its block is."""
        if self._answered_blocks == self._appended_blocks:
            act(True)
        else:
            self._turns.append((self._appended_blocks, act))

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

    def _answer(self, producer: Producer, asked: list[Sent]) -> None:
        """Receipts one by one, each with the id under which its sequence id is stored (-1:-1 where that is not remembered)."""
        if self.dedup is None or producer.closed:
            return
        for one in asked:
            producer.sink.receipts(producer, [one], self.dedup.position_of(producer.name_bytes, one[1]))


def _repack(data: bytes, sent: list[Sent], stops: array[int]) -> tuple[bytes, list[Sent]]:
    """The same entries over `data`, which holds them back to back."""
    moved, start = [], 0
    for one, stop in zip(sent, stops, strict=True):
        moved.append((one[0], one[1], start, start + one[3] - one[2], stop, one[5], one[6], one[7]))
        start = stop
    return data, moved
