"""What a subscription decided to send to which consumer. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from messaging.broker.core.consumer import Consumer
from messaging.broker.core.entries import EntryBlock


class Delivery(NamedTuple):
    """Entries of one block for one consumer: all from `first` to before `last`, or those of them that are `picked`."""

    consumer: Consumer
    block: EntryBlock
    first: int  # an index of entries in the block, like `last`
    last: int
    redelivery_counts: list[int] | None  # of each entry that is delivered
    messages: int  # those that take permits: of batches only what is not acknowledged yet
    picked: list[int] | None = None  # indexes, in order

    @property
    def indexes(self) -> Sequence[int]:
        """Of the entries in their block."""
        return range(self.first, self.last) if self.picked is None else self.picked


class Assignment(NamedTuple):
    """What `assign` decided. `deltas` are to be stored (expired entries count as acknowledged). `more`: ask again."""

    deliveries: list[Delivery]
    deltas: list[bytes]
    expired_entries: int
    more: bool
