"""Blocks of entries between socket, log and consumers: the bytes as they came, and where each entry is in them."""

from __future__ import annotations

from array import array
from bisect import bisect_right

from messaging.protocol.hot import Sent, measured, scan
from messaging.storage.block_header import MARKER, decode, encode_plain
from messaging.storage.seam import Block, Position

# What one scanned SEND costs in memory beside its bytes: a tuple of eight and its larger integers.
SCANNED_BYTES = 280
COPIED_BYTES_MAX = 16 << 10  # copying so much costs less than keeping a view of it


class EntryBlock:
    """Consecutive entries of one ledger. `sent[i]` locates entry ``first_entry + i`` in `buf`. Immutable once confirmed.

    `message_count` sums batch sizes; `uniform` says that every entry is one message, so that counts of both are the same.
    """

    __slots__ = ("broker_time_ms", "buf", "first_entry", "ledger_id", "marker", "message_count", "sent", "uniform")

    def __init__(
        self,
        ledger_id: int,
        first_entry: int,
        buf: bytes,
        sent: list[Sent],
        broker_time_ms: int,
        message_count: int,
        marker: bool = False,
    ) -> None:
        self.ledger_id = ledger_id
        self.first_entry = first_entry
        self.buf = buf
        self.sent = sent
        self.broker_time_ms = broker_time_ms
        self.message_count = message_count
        self.uniform = message_count == len(sent)
        self.marker = marker

    @property
    def last_entry(self) -> int:
        return self.first_entry + len(self.sent) - 1

    @property
    def first(self) -> Position:
        return Position(self.ledger_id, self.first_entry)

    @property
    def cached_bytes(self) -> int:
        """What keeping this block costs. A small block may hold on to a larger read buffer."""
        return len(self.buf) + SCANNED_BYTES * len(self.sent)

    def payload(self, entry_id: int) -> bytes:
        """What is stored of one entry after its command: checksum, metadata, payload."""
        one = self.sent[entry_id - self.first_entry]
        return self.buf[one[3] : one[4]]

    def messages_in(self, first: int, last: int) -> int:
        """Messages in ``sent[first:last]``."""
        return last - first if self.uniform else sum(one[5] for one in self.sent[first:last])


def for_log(buf: bytes, sent: list[Sent], stops: list[int]) -> bytes | memoryview:
    """What to append for `sent`: the stretch of the read as it came; its pieces joined where other frames lie between.

    `stops` as `hot.measured` has them. Small stretches of a larger read are copied, so that nothing keeps the read in memory."""
    start, stop = sent[0][2], sent[-1][4]
    size = stops[-1]
    if size != stop - start:
        return b"".join([buf[one[2] : one[4]] for one in sent])
    if size == len(buf):
        return buf
    return buf[start:stop] if size <= COPIED_BYTES_MAX else memoryview(buf)[start:stop]


def repacked(buf: bytes, sent: list[Sent], stops: list[int]) -> tuple[bytes, list[Sent]]:
    """The same entries in a buffer that holds them and nothing else, back to back."""
    moved, start = [], 0
    for one, stop in zip(sent, stops, strict=True):
        moved.append((one[0], one[1], start, start + one[3] - one[2], stop, one[5], one[6], one[7]))
        start = stop
    return bytes(for_log(buf, sent, stops)), moved


def header_of(sent: list[Sent], producer: bytes, broker_time_ms: int, message_count: int) -> bytes:
    last = sent[-1]
    highest = last[6] if last[6] > last[1] else last[1]
    return encode_plain(broker_time_ms, message_count, sent[0][1], highest, producer)


def from_log(block: Block) -> EntryBlock:
    """A block read back from the log. Raises `ValueError` where it is not what `for_log` wrote."""
    header = decode(block.header)
    buf = bytes(block.data)
    sent: list[Sent] = []
    if scan(buf, 0, len(buf), sent, True) != len(buf) or len(sent) != len(block.stops):
        raise ValueError(f"block {block.ledger_id}:{block.first_entry} does not hold the {len(block.stops)} entries of its index")
    _, messages, _, _ = measured(sent)  # the header counts those of the whole block, of which this may be a piece
    return EntryBlock(block.ledger_id, block.first_entry, buf, sent, header.broker_time_ms, messages, bool(header.flags & MARKER))


def pieces(block: Block, bytes_max: int) -> list[Block]:
    """`block` in pieces of whole entries, of at most `bytes_max` bytes or one entry each."""
    stops, found, first, start = block.stops, [], 0, 0
    while first < len(stops):
        last = max(first + 1, bisect_right(stops, start + bytes_max, lo=first))
        stop = stops[last - 1]
        cut = array("I", [end - start for end in stops[first:last]])
        found.append(Block(block.ledger_id, block.first_entry + first, block.header, block.data[start:stop], cut))
        first, start = last, stop
    return found
