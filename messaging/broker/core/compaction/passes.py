"""The two passes of a compaction over the entries of a topic: the first finds the last message of each key, the second gives out
what is left of each entry. Both see the same entries in the same order, and number the messages alike. Pure.

A chunked message is one message: all its chunks stay if the last one does. Chunks of a message that is not complete yet stay.
"""

from __future__ import annotations

import struct
from array import array
from collections import OrderedDict
from collections.abc import Callable
from hashlib import blake2b
from typing import NamedTuple

from pyroaring import BitMap64

from messaging.broker.core.compaction.last_values import BUFFER_BYTES, DIGEST_BYTES, LastValues, RecordBuffer
from messaging.broker.core.compaction.messages import LEFT_OUT, VALUE, EntryChunk, batch_size_of, look_into, rewrite
from messaging.errors import NotAllowed

OPEN_MAX = 10_000  # chunked messages that are followed at the same time; the chunks of further ones stay
OPEN_CHUNKS_MAX = 1_000_000  # all their chunks; as above
MESSAGES_MAX = 1 << 30  # of a topic: a bitmap of at most 128 MiB, and 24 GiB of files
_CHUNK = struct.Struct(">QQ")  # the number of a chunk, and that of the last one of its message


class CompactionRules(NamedTuple):
    """`retain_null_key`: messages without a key are kept; else they are removed. `unpacked_bytes_max`: of a batch."""

    retain_null_key: bool
    unpacked_bytes_max: int


class FirstPass:
    """`chunks` keeps what belongs to which chunked message. `messages`: how many there are, without those that an earlier
    compaction has left out."""

    def __init__(self, last_values: LastValues, chunks: RecordBuffer, rules: CompactionRules) -> None:
        self._last_values = last_values
        self._chunks = chunks
        self._rules = rules
        self._number = 0  # of messages so far, left-out ones included
        # Chunks of messages that are not complete, by a digest of what they are called.
        self._open: OrderedDict[bytes, array[int]] = OrderedDict()
        self._open_chunks = 0
        self._kept = BitMap64()
        self.messages = 0

    def see(self, frame: bytes) -> None:
        """Raises `NotAllowed`: the topic has too many messages."""
        looked = look_into(frame, self._rules.unpacked_bytes_max)
        number = self._number
        self._number += looked.numbers
        self.messages += looked.numbers
        if self._number > MESSAGES_MAX:
            raise NotAllowed(f"the topic has more than {MESSAGES_MAX:,} messages: no topic with so many is compacted")
        if looked.keys is None:
            self._kept.add_range(number, self._number)
            return
        self.messages -= looked.kinds.count(LEFT_OUT)
        if self._rules.retain_null_key and None in looked.keys:
            pairs = zip(looked.keys, looked.kinds, strict=True)
            self._kept.update(number + at for at, (key, kind) in enumerate(pairs) if key is None and kind != LEFT_OUT)
        if looked.chunk is None:
            self._last_values.add(looked.keys, looked.kinds, number)
        elif looked.keys[0] is not None:
            self._see_chunk(looked.chunk, looked.keys[0], number)

    def _see_chunk(self, chunk: EntryChunk, key: bytes, number: int) -> None:
        called = chunk.message.encode() if isinstance(chunk.message, str) else chunk.message
        message = blake2b(called, digest_size=DIGEST_BYTES).digest()  # producers call their messages what they like, at any length
        numbers = self._open.setdefault(message, array("Q"))
        numbers.append(number)
        self._open_chunks += 1
        if chunk.chunk_id == chunk.chunks - 1:
            del self._open[message]
            self._open_chunks -= len(numbers)
            for other in numbers[:-1]:
                self._chunks.buffer += _CHUNK.pack(other, number)
                if len(self._chunks.buffer) >= BUFFER_BYTES:
                    self._chunks.spill()
            self._last_values.add((key,), (VALUE,), number)
        elif len(self._open) > OPEN_MAX or self._open_chunks > OPEN_CHUNKS_MAX:
            oldest = self._open.pop(next(iter(self._open)))
            self._open_chunks -= len(oldest)
            self._kept.update(oldest)

    def surviving(self, step: Callable[[], None] = lambda: None) -> BitMap64:
        """The numbers of the messages that stay. Calls `step` now and then."""
        surviving = self._last_values.surviving(step)
        for records in self._chunks.read():
            surviving.update([chunk for chunk, last in _CHUNK.iter_unpack(records) if last in surviving])
            step()
        for numbers in self._open.values():
            surviving.update(numbers)
        surviving |= self._kept
        return surviving


class SecondPass:
    """`last_batch_index` is of the entry that was kept last, -1 if that is not a batch."""

    def __init__(self, surviving: BitMap64, rules: CompactionRules) -> None:
        self._surviving = surviving
        self._rules = rules
        self._number = 0
        self.last_batch_index = -1

    def keep(self, frame: bytes) -> bytes | None:
        """What is left of an entry; None: nothing."""
        size = batch_size_of(frame)
        number, numbers = self._number, max(1, size)
        self._number += numbers
        kept = self._surviving.range_cardinality(number, self._number)
        if not kept:
            return None
        if kept == numbers:
            self.last_batch_index = size - 1 if size > 0 else -1
            return frame
        stays = [message in self._surviving for message in range(number, self._number)]
        self.last_batch_index = max(index for index, stay in enumerate(stays) if stay)
        return rewrite(frame, self._rules.unpacked_bytes_max, stays)
