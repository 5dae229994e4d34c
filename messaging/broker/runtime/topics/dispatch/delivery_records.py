"""A short memory of what was delivered of late, for tracing messages: one record for each block that a consumer is sent.

Each topic keeps its last records; how many topics keep some is limited, and the newest come first. All their memory is charged.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from typing import Protocol

from messaging.broker.core.diagnosis.trace import DeliveryEvent
from messaging.broker.core.memory.memory_charge import Charge
from messaging.broker.core.memory.memory_limiter import MemoryAccount

RECORDS = 32  # of one topic
RECORD_BYTES = 300
SHARE = 8  # this part of the account at most
KEPT_MS = 60_000  # a topic keeps its records so long, however many others want some

# A record as a plain tuple of the fields of `DeliveryRecord`: it is made for each block.
Records = deque[tuple[int, DeliveryEvent, str, str, int, int, int, bool]]


class RecordsOwner(Protocol):
    records: Records | None  # None while nothing is recorded


class DeliveryRecords:
    def __init__(self, account: MemoryAccount) -> None:
        self._charge = Charge(account, "")
        self._topics_max = max(1, account.limit_bytes // SHARE // (RECORDS * RECORD_BYTES))
        self._kept: OrderedDict[RecordsOwner, int] = OrderedDict()  # since when, the oldest first

    def open(self, topic: RecordsOwner, now_ms: int) -> None:
        """From now on what this topic delivers is recorded, if there is room."""
        if topic.records is not None:
            return
        if len(self._kept) >= self._topics_max:
            oldest = next(iter(self._kept))
            if now_ms - self._kept[oldest] < KEPT_MS:
                return
            self.close(oldest)
        if self._charge.allows(RECORDS * RECORD_BYTES):
            self._charge.change(RECORDS * RECORD_BYTES)
            self._kept[topic] = now_ms
            topic.records = deque(maxlen=RECORDS)

    def close(self, topic: RecordsOwner) -> None:
        """Idempotent."""
        topic.records = None
        if self._kept.pop(topic, None) is not None:
            self._charge.change(-RECORDS * RECORD_BYTES)
