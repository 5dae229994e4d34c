"""The events that `inbound.py` parses from bytes. Many messages form one event; any other command is an event of its own."""

from __future__ import annotations

import msgspec

from messaging.errors import MagnetarError
from messaging.protocol import pulsar_pb2 as pb
from messaging.protocol.hot import SendFrame


class SendBlock(msgspec.Struct):
    """Consecutive SEND frames of one or several producers, in order of arrival, in the bytes `data` of a read; together with what
    stood between them they are `size_bytes` long."""

    data: bytes
    frames: list[SendFrame]
    size_bytes: int


class Acks(msgspec.Struct):
    """Plain individual acknowledgements: (consumer id, ledger id, entry id)."""

    ids: list[tuple[int, int, int]]


class Command(msgspec.Struct):
    """Any other command, in a frame of `size` bytes. `violation`: a field exceeds its limit; the command must be refused."""

    kind: int
    message: pb.Command
    size: int
    violation: MagnetarError | None


Event = SendBlock | Acks | Command
