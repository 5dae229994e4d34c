"""The two passes of a compaction over the entries of a topic: the first finds the last message of each key, the second gives out
what is left of each entry. Both see the same entries in the same order. Pure.

A chunked message is one message: all its chunks stay if the last one does. Chunks of a message that is not complete yet stay.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable
from hashlib import blake2b
from typing import NamedTuple

from pyroaring import BitMap64

from messaging.broker.core.compaction.last_values import DIGEST_BYTES, LastValues
from messaging.broker.core.compaction.messages import EntryChunk, EntryContent, KeyedMessage, look_into, rewrite

OPEN_MAX = 10_000  # chunked messages that are followed at the same time; the chunks of further ones stay
OPEN_CHUNKS_MAX = 1_000_000  # all their chunks; as above


class CompactionRules(NamedTuple):
    """`retain_null_key`: messages without a key are kept; else they are removed. `unpacked_bytes_max`: of a batch."""

    retain_null_key: bool
    unpacked_bytes_max: int


class FirstPass:
    def __init__(self, last_values: LastValues, rules: CompactionRules) -> None:
        self._last_values = last_values
        self._rules = rules
        self._number = 0  # of messages so far, left-out ones included
        self._open: dict[bytes, array[int]] = {}  # chunks of messages that are not complete, by a digest of what they are called
        self._open_chunks = 0
        self._groups = array("Q")  # of complete ones: last chunk, how many others, the others
        self._kept = BitMap64()

    def see(self, frame: bytes) -> None:
        looked = look_into(frame, self._rules.unpacked_bytes_max)
        for message in looked.messages or ():
            number = self._number
            self._number += 1
            if message.left_out or message.key is None:
                continue
            if looked.chunk is None:
                self._last_values.add(message.key, number, tombstone=message.empty)
            else:
                self._see_chunk(looked.chunk, message.key, number)

    def _see_chunk(self, chunk: EntryChunk, key: bytes, number: int) -> None:
        called = chunk.message.encode() if isinstance(chunk.message, str) else chunk.message
        message = blake2b(called, digest_size=DIGEST_BYTES).digest()  # producers call their messages what they like, at any length
        numbers = self._open.setdefault(message, array("Q"))
        numbers.append(number)
        self._open_chunks += 1
        if chunk.chunk_id == chunk.chunks - 1:
            del self._open[message]
            self._open_chunks -= len(numbers)
            self._groups.extend((number, len(numbers) - 1, *numbers[:-1]))
            self._last_values.add(key, number, tombstone=False)
        elif len(self._open) > OPEN_MAX or self._open_chunks > OPEN_CHUNKS_MAX:
            oldest = self._open.pop(next(iter(self._open)))
            self._open_chunks -= len(oldest)
            self._kept.update(oldest)

    def surviving(self, step: Callable[[], None] = lambda: None) -> BitMap64:
        """The numbers of the messages with a key that stay."""
        found = self._last_values.surviving(step) | self._kept
        for numbers in self._open.values():
            found.update(numbers)
        at, groups = 0, self._groups
        while at < len(groups):
            others = groups[at + 2 : at + 2 + groups[at + 1]]
            if groups[at] in found:
                found.update(others)
            at += 2 + len(others)
        return found


class SecondPass:
    """`removed` counts messages; `last_batch_index` is of the entry that was kept last, -1 if that is not a batch."""

    def __init__(self, surviving: BitMap64, rules: CompactionRules) -> None:
        self._surviving = surviving
        self._rules = rules
        self._number = 0
        self.removed = 0
        self.last_batch_index = -1

    def keep(self, frame: bytes) -> bytes | None:
        """What is left of an entry; None: nothing."""
        looked = look_into(frame, self._rules.unpacked_bytes_max)
        if looked.messages is None:
            self.last_batch_index = looked.size - 1 if looked.size > 0 else -1
            return frame
        before = self._number
        self._number += len(looked.messages)
        stays = [self._stays(message, before + index) for index, message in enumerate(looked.messages)]
        left_out = sum(message.left_out for message in looked.messages)
        kept = sum(stays)
        self.removed += len(stays) - kept - left_out
        if not kept:
            return None
        self.last_batch_index = _last_index(stays, looked)
        if kept == len(stays) - left_out:
            return frame
        return rewrite(frame, self._rules.unpacked_bytes_max, stays.__getitem__)

    def _stays(self, message: KeyedMessage, number: int) -> bool:
        if message.left_out:
            return False
        if message.key is None:
            return self._rules.retain_null_key
        return number in self._surviving


def _last_index(stays: list[bool], looked: EntryContent) -> int:
    return -1 if looked.size < 0 else max(index for index, kept in enumerate(stays) if kept)
