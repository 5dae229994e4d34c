"""The receiving side of a client's connection without a socket: bytes in, commands out. Pure."""

from __future__ import annotations

from typing import NamedTuple

from google.protobuf.message import DecodeError

from messaging.protocol import pulsar_pb2 as pb
from messaging.protocol.frames import FRAME_PADDING_BYTES, ProtocolError

FRAME_BYTES_MIN = 6  # the size of the command, and its type


class Received(NamedTuple):
    """`rest`: what follows the command in its frame: the stored bytes of a message, empty for all others."""

    command: pb.Command
    rest: bytes


class Parser:
    """`message_bytes_max` is the largest message; it changes when the broker says its limit."""

    def __init__(self, message_bytes_max: int) -> None:
        self.message_bytes_max = message_bytes_max
        self._pieces: list[bytes] = []  # of an incomplete frame
        self._size = 0
        self._needed = 0

    def receive(self, data: bytes) -> list[Received]:
        """Raises `ProtocolError` if the bytes are no frames; the connection is then of no more use."""
        self._pieces.append(data)
        self._size += len(data)
        if self._size < self._needed:
            return []
        buffer = data if len(self._pieces) == 1 else b"".join(self._pieces)
        at, end, events = 0, len(buffer), []
        self._needed = 4
        while end - at >= 4:
            total = int.from_bytes(buffer[at : at + 4], "big")
            if not FRAME_BYTES_MIN <= total <= self.message_bytes_max + FRAME_PADDING_BYTES:
                raise ProtocolError(f"the broker sent a frame of {total} bytes; {self.message_bytes_max} are allowed for a message")
            if end - at < 4 + total:
                self._needed = 4 + total
                break
            events.append(_received(buffer, at + 4, at + 4 + total))
            at += 4 + total
        rest = buffer[at:] if at else buffer
        self._pieces = [rest] if rest else []
        self._size = len(rest)
        return events


def _received(buffer: bytes, start: int, end: int) -> Received:
    stop = start + 4 + int.from_bytes(buffer[start : start + 4], "big")
    if stop > end:
        raise ProtocolError(f"a command of {stop - start - 4} bytes does not fit its frame of {end - start} bytes")
    try:
        command = pb.Command.FromString(buffer[start + 4 : stop])
    except DecodeError:
        raise ProtocolError(f"a command of {stop - start - 4} bytes is not valid protobuf") from None
    return Received(command, buffer[stop:end])
