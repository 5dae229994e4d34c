"""Blocks of entries between socket, log and consumers: the bytes as received, and where each entry ends."""

from __future__ import annotations

import sys
from array import array
from bisect import bisect_right
from collections.abc import Sequence
from typing import ClassVar

from pyroaring import BitMap

from messaging.broker.core.chunks import Chunk, chunk_of
from messaging.protocol.hot import SendFrame, key_hashes, scan
from messaging.protocol.send_commands import message_count
from messaging.storage.block_header import CHUNKS, DELIVER_AT, MARKER, BlockHeader, Extensions, decode, encode_plain
from messaging.storage.ledger_store import Block, Position

BLOCK_BYTES = 400  # memory that a block takes in addition to its data
STOP_BYTES = 8  # memory of an entry in addition to its data: where it ends, and the hash of its key once that is asked for
TIME_BYTES = 8  # and of its delivery time
CHUNK_BYTES = 250  # and of what it says of itself, in a block with chunks
COPIED_BYTES_MAX = 16 << 10  # copying this much costs less than keeping a view of it
SEND_HEAD = b"\x08\x06"  # type SEND, with which the command of every stored frame begins


class EntryBlock:
    """Consecutive entries of one ledger as they are stored: whole SEND frames back to back. Immutable once confirmed.

    Entry ``first_entry + i`` is ``data[end_offsets[i-1]:end_offsets[i]]`` (0 for i = 0), an array of typecode "I". `message_count`
    sums batch sizes; `uniform` says that every entry is one message, so that counts of both are the same. `deliver_at_ms` has the
    delivery time of each entry, 0 for none, or is None if no entry has one. The same whether it has just come or was read back from
    the log: nothing in here is looked at before somebody wants it.
    """

    __slots__ = (
        "_chunks",
        "_counts",
        "_key_hashes",
        "broker_time_ms",
        "chunked",
        "data",
        "deliver_at_ms",
        "end_offsets",
        "first_entry",
        "ledger_id",
        "marker",
        "message_count",
        "uniform",
    )
    compacted: ClassVar[bool] = False  # of a compacted ledger: see `compacted_block.py`
    gathered: ClassVar[bool] = False  # from many blocks: see `delayed/gathered_block.py`

    def __init__(
        self,
        ledger_id: int,
        first_entry: int,
        data: bytes | memoryview,
        end_offsets: Sequence[int],
        broker_time_ms: int,
        message_count: int,
        marker: bool = False,
        counts: list[int] | None = None,
        deliver_at_ms: Sequence[int] | None = None,
        chunked: bool = False,
    ) -> None:
        self.ledger_id = ledger_id
        self.first_entry = first_entry
        self.data = data
        self.end_offsets = end_offsets
        self.broker_time_ms = broker_time_ms
        self.message_count = message_count
        self.uniform = message_count == len(end_offsets)
        self.marker = marker
        self._counts = counts
        self.deliver_at_ms = deliver_at_ms
        self.chunked = chunked  # some entries are chunks of larger messages
        self._key_hashes: array[int] | None = None
        self._chunks: dict[int, Chunk | None] | None = None

    @property
    def last_entry(self) -> int:
        return self.first_entry + len(self.end_offsets) - 1

    @property
    def first(self) -> Position:
        return Position(self.ledger_id, self.first_entry)

    def entry_at(self, index: int) -> int:
        return self.first_entry + index

    def index_of(self, entry_id: int) -> int:
        return entry_id - self.first_entry

    def entries_at(self, indexes: Sequence[int]) -> BitMap:
        return BitMap(indexes).shift(self.first_entry)

    def spans_of(self, ranges: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
        """The indexes, from the first to before the second, of the entries in each of `ranges`: (first, last), in order."""
        begin = self.first_entry
        return [(first - begin, last + 1 - begin) for first, last in ranges]

    def indexes_in(self, ranges: Sequence[tuple[int, int]]) -> list[int]:
        """Of the entries in `ranges`: (first, last), in order."""
        begin = self.first_entry
        return [entry - begin for first, last in ranges for entry in range(first, last + 1)]

    @property
    def memory_bytes(self) -> int:
        """Memory that this block keeps. A part of a larger read keeps all of it."""
        entry_bytes = STOP_BYTES if self.deliver_at_ms is None else STOP_BYTES + TIME_BYTES
        if self.chunked:
            entry_bytes += CHUNK_BYTES
        return whole_bytes(self.data) + entry_bytes * len(self.end_offsets) + BLOCK_BYTES

    @property
    def counts(self) -> list[int]:
        """Messages in each entry."""
        if self._counts is None:
            if self.uniform:
                self._counts = [1] * len(self.end_offsets)
            else:  # the last entry has the rest; often it is the only one
                self._counts = list(map(self._messages_of, range(len(self.end_offsets) - 1)))
                self._counts.append(self.message_count - sum(self._counts))
        return self._counts

    @property
    def key_hashes(self) -> array[int]:
        """The hash of the key of each entry (type "I"): see `hot.key_hashes`. Found when this is first asked for."""
        if self._key_hashes is None:
            self._key_hashes = key_hashes(self.data, self.end_offsets)
        return self._key_hashes

    def chunk_at(self, index: int) -> Chunk | None:
        """What this entry says, however many subscriptions ask; None for one that is no chunk, or does not say which one."""
        if self._chunks is None:
            self._chunks = {}
        elif index in self._chunks:
            return self._chunks[index]
        chunk = self._chunks[index] = chunk_of(self.view(self.entry_at(index)))
        return chunk

    def messages_of(self, entry_id: int) -> int:
        """Messages in one entry, without looking at the others."""
        if self.uniform:
            return 1
        index = entry_id - self.first_entry
        return self._counts[index] if self._counts is not None else self._messages_of(index)

    def _messages_of(self, index: int) -> int:
        start = self.start_of(index)
        head = bytes(self.data[start + 8 : self._body_of(start)])
        return message_count(head)

    def start_of(self, index: int) -> int:
        """Where entry `index` of the block begins in `data`."""
        return self.end_offsets[index - 1] if index else 0

    def _body_of(self, start: int) -> int:
        return start + 8 + int.from_bytes(self.data[start + 4 : start + 8], "big")

    def payload(self, entry_id: int) -> bytes:
        """What is stored of one entry after its command: checksum, metadata, payload."""
        return bytes(self.view(entry_id))

    def view(self, entry_id: int) -> memoryview:
        """`payload` without a copy."""
        index = entry_id - self.first_entry
        return memoryview(self.data)[self._body_of(self.start_of(index)) : self.end_offsets[index]]

    def messages_in(self, first: int, last: int) -> int:
        """Messages in the entries with index `first` to ``last - 1``."""
        return last - first if self.uniform else sum(self.counts[first:last])

    def messages_among(self, indexes: list[int]) -> int:
        """Messages in these entries."""
        return len(indexes) if self.uniform else sum(map(self.counts.__getitem__, indexes))

    def bytes_in(self, first: int, last: int) -> int:
        """Stored bytes of the entries with index `first` to ``last - 1``."""
        return self.end_offsets[last - 1] - self.start_of(first)

    def last_within(self, entry_id: int, bytes_max: int) -> int:
        """The last entry so that all from `entry_id` on take at most `bytes_max` bytes; at least `entry_id`."""
        index = entry_id - self.first_entry
        stop = bisect_right(self.end_offsets, self.start_of(index) + bytes_max, lo=index)
        return self.first_entry + max(index, stop - 1)


def whole_bytes(data: bytes | memoryview) -> int:
    """The size of the buffer that `data` keeps in memory."""
    return memoryview(data.obj).nbytes if isinstance(data, memoryview) else len(data)


def for_log(buf: bytes, sent: list[SendFrame], end_offsets: Sequence[int]) -> bytes | memoryview:
    """What to append for `sent`: the part of the read as it came, or its pieces joined if other frames lie between them.

    `end_offsets`: see `hot.summarize`. Small parts of a larger read are copied, so that the read is not kept in memory."""
    start, stop = sent[0].start, sent[-1].end
    size = end_offsets[-1]
    if size != stop - start:
        return b"".join([buf[frame.start : frame.end] for frame in sent])
    if size == len(buf):
        return buf
    return buf[start:stop] if size <= COPIED_BYTES_MAX else memoryview(buf)[start:stop]


def header_of(
    sent: list[SendFrame],
    producer: bytes,
    broker_time_ms: int,
    message_count: int,
    *,
    delayed: bool = False,
    chunked: bool = False,
    extensions: Extensions = (),
) -> bytes:
    """`delayed`: some of `sent` ask for a delivery time; `chunked`: some are chunks."""
    last = sent[-1]
    highest = max(last.sequence_id, last.highest_sequence_id)
    if delayed:
        extensions = ((DELIVER_AT, _big_endian(delivery_times(sent)).tobytes()), *extensions)
    if not extensions and not chunked:
        return encode_plain(broker_time_ms, message_count, sent[0].sequence_id, highest, producer)
    flags = CHUNKS if chunked else 0
    return BlockHeader(broker_time_ms, message_count, sent[0].sequence_id, highest, producer, flags, extensions).encode()


def delivery_times(sent: list[SendFrame]) -> array[int]:
    """The delivery time of each, 0 for none."""
    return array("q", [frame.deliver_at_ms for frame in sent])


def _big_endian(times: array[int]) -> array[int]:
    """To the order of the log or back; changes `times`."""
    if sys.byteorder == "little":
        times.byteswap()
    return times


def _stored_times(header: BlockHeader, count: int) -> array[int] | None:
    """The delivery times of a block of `count` entries. Raises `ValueError` if they are not as many."""
    for tag, value in header.extensions:
        if tag == DELIVER_AT:
            if len(value) != TIME_BYTES * count:
                raise ValueError(f"{len(value)} bytes of delivery times do not belong to {count} entries")
            return _big_endian(array("q", value))
    return None


def from_log(block: Block) -> EntryBlock:
    """A block read back from the log. Raises `ValueError` if it is not what `for_log` wrote.

    Its checksum was verified when it was read; the first and the last frame show whether it is one of our blocks."""
    header = decode(block.header)
    entries = EntryBlock(
        block.ledger_id,
        block.first_entry,
        block.data,
        block.end_offsets,
        header.broker_time_ms,
        header.message_count,
        bool(header.flags & MARKER),
        deliver_at_ms=_stored_times(header, block.count) if header.extensions else None,
        chunked=header.flags & CHUNKS != 0,
    )
    last = block.count - 1
    if block.end_offsets[-1] != len(block.data) or not _framed(entries, 0) or (last and not _framed(entries, last)):
        raise _not_ours(block)
    return entries


def _not_ours(block: Block) -> ValueError:
    return ValueError(f"block {block.ledger_id}:{block.first_entry} does not hold the {block.count} entries of its index")


def _framed(block: EntryBlock, index: int) -> bool:
    data, start, stop = block.data, block.start_of(index), block.end_offsets[index]
    whole, size = int.from_bytes(data[start : start + 4], "big"), int.from_bytes(data[start + 4 : start + 8], "big")
    return start + 4 + whole == stop and start + 8 + size <= stop and data[start + 8 : start + 10] == SEND_HEAD


def scanned(block: Block) -> list[SendFrame]:
    """What its producer said of each entry of a block read back from the log. Raises `ValueError` like `from_log`."""
    data = bytes(block.data)
    sent: list[SendFrame] = []
    if scan(data, 0, len(data), sent, True) != len(data) or len(sent) != block.count:
        raise _not_ours(block)
    return sent
