"""The batches of which a consumer of single messages was given some and has not acknowledged all. Pure.

What an acknowledgement names is checked against the entry it names: an index that the batch does not have, or a batch that this
consumer was not given, acknowledges nothing.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Sequence
from itertools import islice

from messaging.storage.ledger_store import Position

ENTRY_BYTES = 256  # what one costs beside its bits


class OpenBatches:
    """`charge` is told of what these take and give back, in bytes."""

    def __init__(self, charge: Callable[[int], None]) -> None:
        self._charge = charge
        self._open: dict[Position, int] = {}  # a bit for each message that is not acknowledged
        self._sizes: dict[Position, int] = {}

    def __len__(self) -> int:
        return len(self._open)

    def add(self, position: Position, size: int, acknowledged: Sequence[int] | None, wanted: int = -1) -> int:
        """A batch of `size` messages is opened; `acknowledged`: its ack set as the cursor has it; `wanted`: a bit for each message
        that is. Returns the open messages."""
        bits = (1 << size) - 1 & wanted
        if acknowledged is not None:
            bits &= int.from_bytes(struct.pack(f"<{len(acknowledged)}Q", *acknowledged), "little")
        if position not in self._open:
            self._charge(_cost(size))
        self._open[position] = bits
        self._sizes[position] = size
        return bits

    def size_of(self, position: Position) -> int | None:
        """Messages of a batch that is held."""
        return self._sizes.get(position)

    def acknowledge(self, position: Position, indexes: Iterable[int]) -> int | None:
        """The messages that are open afterwards, as bits: 0, all are done. None where the acknowledgement changes nothing."""
        unacked = self._open.get(position)
        if unacked is None:
            return None
        size = self._sizes[position]
        done = bytearray((size + 7) // 8)
        for index in indexes:
            if 0 <= index < size:
                done[index >> 3] |= 1 << (index & 7)
        left = unacked & ~int.from_bytes(done, "little")
        if left == unacked:
            return None
        if left:
            self._open[position] = left
        else:
            self.discard(position)
        return left

    def discard(self, position: Position) -> None:
        if self._open.pop(position, None) is not None:
            self._charge(-_cost(self._sizes.pop(position)))

    def discard_if(self, acknowledged: Callable[[Position], bool]) -> None:
        """Forgets those that others acknowledged meanwhile."""
        for position in [position for position in self._open if acknowledged(position)]:
            self.discard(position)

    def discard_oldest(self) -> None:
        self.discard(next(iter(self._open)))

    def open_bits(self, batches_max: int) -> dict[Position, int]:
        """Of so many at most, a bit for each message that is not acknowledged."""
        return dict(islice(self._open.items(), batches_max))

    def clear(self) -> None:
        for position in list(self._open):
            self.discard(position)


def words(bits: int) -> list[int]:
    """A bit set as 64-bit words, lowest first."""
    count = (bits.bit_length() + 63) // 64
    return list(struct.unpack(f"<{count}Q", bits.to_bytes(8 * count, "little")))


def _cost(size: int) -> int:
    return ENTRY_BYTES + size // 4  # the bits, twice: as they are and as they become
