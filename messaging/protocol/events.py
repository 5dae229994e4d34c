"""The events that `inbound.py` turns bytes into. Many messages are one event; any other command is an event of its own."""

from __future__ import annotations

import msgspec

from messaging.errors import MagnetarError
from messaging.protocol import pulsar_pb2 as pb
from messaging.protocol.hot import SendFrame


class SendBlock(msgspec.Struct):
    """SEND frames in the bytes `data` of a read, of one or several producers, in the order in which they came; they and what stood
    between them are `size_bytes`."""

    data: bytes
    frames: list[SendFrame]
    size_bytes: int


class Acks(msgspec.Struct):
    """Plain individual acknowledgements: (consumer id, ledger id, entry id)."""

    ids: list[tuple[int, int, int]]


class Command(msgspec.Struct):
    """Any other command, in a frame of `size` bytes. `violation`: a field is over its limit; the command is only to be refused."""

    kind: int
    message: pb.Command
    size: int
    violation: MagnetarError | None


Event = SendBlock | Acks | Command
