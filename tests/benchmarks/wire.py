"""Frames made before the clock starts, and the few answers that a load generator has to understand.

Built with our own codec (`messaging.protocol`), which other tests hold against stock clients; here only speed is measured.
"""

from __future__ import annotations

import time

from crc32c import crc32c

from messaging.protocol import pulsar_pb2 as pb
from messaging.protocol.frames import command

CONNECTED, SEND_RECEIPT, SEND_ERROR, MESSAGE, SUCCESS, ERROR, PRODUCER_SUCCESS, PING, PONG = (
    pb.Command.CONNECTED,
    pb.Command.SEND_RECEIPT,
    pb.Command.SEND_ERROR,
    pb.Command.MESSAGE,
    pb.Command.SUCCESS,
    pb.Command.ERROR,
    pb.Command.PRODUCER_SUCCESS,
    pb.Command.PING,
    pb.Command.PONG,
)


def connect(token: str = "") -> bytes:
    request = pb.Connect(client_version="magnetar-bench", protocol_version=20)
    if token:
        request.auth_method_name, request.auth_data = "token", token.encode()
    return command(pb.Command.CONNECT, connect=request)


def lookup(topic: str) -> bytes:
    return command(pb.Command.LOOKUP, lookup=pb.Lookup(topic=topic, request_id=1))


def producer(topic: str, producer_id: int = 1) -> bytes:
    return command(pb.Command.PRODUCER, producer=pb.Producer(topic=topic, producer_id=producer_id, request_id=2))


def subscribe(topic: str, subscription: str = "bench", kind: pb.Subscribe.SubType = pb.Subscribe.Shared) -> bytes:
    request = pb.Subscribe(topic=topic, subscription=subscription, sub_type=kind, consumer_id=1, request_id=3)
    return command(pb.Command.SUBSCRIBE, subscribe=request)


def flow(permits: int) -> bytes:
    return command(pb.Command.FLOW, flow=pb.Flow(consumer_id=1, message_permits=permits))


def ping() -> bytes:
    return command(pb.Command.PING, ping=pb.Ping())


def pong() -> bytes:
    return command(pb.Command.PONG, pong=pb.Pong())


class Stream:
    """`count` whole SEND frames back to back; entry i ends at ``stops[i]``. Each holds `batch` messages of `size` bytes.

    `keys`: how many partition keys they have, in turn; 0: none. `numbered`: the last four bytes of each are its number."""

    def __init__(self, producer_name: str, count: int, size: int, batch: int, keys: int = 0, *, numbered: bool = False) -> None:
        self.batch = batch
        self._keys = keys
        single = bytes(97 + (7 * index + index // 13) % 26 for index in range(size))
        payload = single
        if batch > 1:
            metadata = pb.SingleMetadata(payload_size=size).SerializeToString()
            payload = (len(metadata).to_bytes(4, "big") + metadata + single) * batch
        now_ms = time.time_ns() // 1_000_000
        parts: list[bytes] = []
        self.stops: list[int] = []
        end = 0
        for sequence in range(count):
            if numbered:
                payload = single[:-4] + sequence.to_bytes(4, "big")
            frame = self._frame(producer_name, sequence, now_ms, payload)
            parts.append(frame)
            end += len(frame)
            self.stops.append(end)
        self.data = memoryview(b"".join(parts))

    def _frame(self, name: str, sequence: int, now_ms: int, payload: bytes) -> bytes:
        metadata = pb.Metadata(producer_name=name, sequence_id=sequence, publish_time=now_ms)
        send = pb.Send(producer_id=1, sequence_id=sequence)
        if self._keys:
            metadata.partition_key = f"key-{sequence % self._keys:06}"
        if self.batch > 1:
            metadata.num_messages_in_batch = send.num_messages = self.batch
        encoded = metadata.SerializeToString()
        checked = len(encoded).to_bytes(4, "big") + encoded + payload
        body = pb.Command(type=pb.Command.SEND, send=send).SerializeToString()
        rest = b"\x0e\x01" + crc32c(checked).to_bytes(4, "big") + checked
        return (4 + len(body) + len(rest)).to_bytes(4, "big") + len(body).to_bytes(4, "big") + body + rest

    def slice(self, first: int, last: int) -> memoryview:
        """Entries `first` to `last` - 1."""
        return self.data[self.stops[first - 1] if first else 0 : self.stops[last - 1]]


def split(buffer: bytearray) -> list[tuple[int, memoryview]]:
    """(command type, frame without its total) of each whole frame, which is removed from `buffer`."""
    view = memoryview(bytes(buffer))
    frames = []
    position, end = 0, len(view)
    while end - position >= 4:
        stop = position + 4 + int.from_bytes(view[position : position + 4], "big")
        if stop > end:
            break
        frames.append((view[position + 9], view[position + 4 : stop]))
        position = stop
    del buffer[:position]
    return frames
