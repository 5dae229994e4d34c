"""What a subscription decided to hand out. Pure."""

from __future__ import annotations

from typing import NamedTuple

from messaging.broker.core.consumer import Consumer
from messaging.broker.core.entries import EntryBlock


class Delivery(NamedTuple):
    consumer: Consumer
    block: EntryBlock
    first: int  # indexes of entries in the block: all before `last`
    last: int
    redelivery_counts: list[int] | None


class Assignment(NamedTuple):
    """What `assign` decided. `deltas` are to be stored (expired entries count as acknowledged). `more`: ask again."""

    deliveries: list[Delivery]
    deltas: list[bytes]
    expired_entries: int
    more: bool
