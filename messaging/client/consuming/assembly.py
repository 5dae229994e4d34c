"""Chunks become a message again. Pure."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import NamedTuple

from messaging.client.consuming.redelivery import Entry
from messaging.protocol import pulsar_pb2 as pb
from messaging.protocol.frames import Stored

CHUNKED_BYTES_MAX = 1 << 30  # of one message: what a producer declares is not trusted beyond it


@dataclass(slots=True)
class _Partial:
    chunks: int
    size: int
    parts: list[bytes] = field(default_factory=list)
    entries: list[Entry] = field(default_factory=list)
    received: int = 0


class Assembled(NamedTuple):
    """`entries`: those of all chunks before the last, in order."""

    stored: Stored
    entries: list[Entry]


class Assembly:
    """At most `messages_max` are incomplete at once: the oldest is given up for another."""

    def __init__(self, messages_max: int) -> None:
        self._messages_max = messages_max
        self._partial: OrderedDict[tuple[str, str], _Partial] = OrderedDict()
        self._put_off: OrderedDict[tuple[str, str], None] = OrderedDict()
        self.given_up: list[Entry] = []  # entries of messages that will not be complete; the caller takes them
        self.again: list[Entry] = []  # entries of messages that were put off; the caller takes them

    def clear(self) -> None:
        """All chunks come again."""
        self._partial.clear()
        self._put_off.clear()
        self.given_up.clear()
        self.again.clear()

    def put_off(self, metadata: pb.Metadata) -> None:
        """One of its chunks cannot be read now. All come again, also those that are on their way."""
        key = _key(metadata)
        partial = self._partial.pop(key, None)
        if partial is not None:
            self.again.extend(partial.entries)
        self._put_off[key] = None
        if len(self._put_off) > self._messages_max:
            self._put_off.popitem(last=False)

    def add(self, entry: Entry, stored: Stored) -> Assembled | None:
        """Returns the message with its last chunk."""
        metadata = stored.metadata
        key = _key(metadata)
        chunk_id, chunks = metadata.chunk_id, metadata.num_chunks_from_msg
        if chunk_id == 0:
            self._put_off.pop(key, None)
            self._drop(key)
            if not chunks >= 1 or not 0 <= metadata.total_chunk_msg_size <= CHUNKED_BYTES_MAX:
                self.given_up.append(entry)
                return None
            if len(self._partial) >= self._messages_max:
                self._drop(next(iter(self._partial)))
            self._partial[key] = _Partial(chunks, metadata.total_chunk_msg_size)
        if key in self._put_off:
            self.again.append(entry)
            return None
        partial = self._partial.get(key)
        if partial is None or chunk_id < len(partial.parts):
            # Its first chunk was acknowledged or given up before, or the producer sent this one again.
            self.given_up.append(entry)
            return None
        partial.received += len(stored.payload)
        if chunk_id > len(partial.parts) or partial.received > partial.size or chunks != partial.chunks:
            self._drop(key)
            self.given_up.append(entry)
            return None
        partial.parts.append(stored.payload)
        if len(partial.parts) < partial.chunks:
            partial.entries.append(entry)
            return None
        del self._partial[key]
        whole = pb.Metadata()
        whole.CopyFrom(metadata)
        return Assembled(Stored(whole, b"".join(partial.parts)), partial.entries)

    def _drop(self, key: tuple[str, str]) -> None:
        partial = self._partial.pop(key, None)
        if partial is not None:
            self.given_up.extend(partial.entries)


def _key(metadata: pb.Metadata) -> tuple[str, str]:
    return str(metadata.producer_name), str(metadata.uuid)
