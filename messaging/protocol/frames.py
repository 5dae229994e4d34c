"""Frames and stored payloads outside the hot loops: commands through protobuf, metadata parsed where a feature needs it.

Simple command: ``u32 total | u32 size | Command``. SEND and MESSAGE continue with ``[0x0e02 u32 broker metadata] [0x0e01 u32
crc32c] u32 metadata size | Metadata | payload``; the CRC-32C covers everything from the metadata size on. Pure functions;
malformed bytes raise `ProtocolError` and nothing else.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from crc32c import crc32c
from google.protobuf.message import DecodeError

from messaging.protocol import pulsar_pb2 as pb

PROTOCOL_VERSION = 20
FRAME_PADDING_BYTES = 10 * 1024  # a frame may be this much larger than the largest message
COMMAND_BYTES_MAX = 64 * 1024  # before the connection is authenticated
OPEN_COMMAND_BYTES_MAX = 1088 * 1024  # afterwards, for everything but messages: the largest schema, or 50,000 message ids
UNSOLICITED = (1 << 64) - 1  # the request id in commands that do not answer a request
NO_ID = (1 << 64) - 1  # ledger and entry id -1 on the wire


class ProtocolError(ValueError):
    """The bytes are not a valid frame of this protocol; the connection is closed."""

    reason = "bad frame"  # as shown in the log and the metrics


class OverLimit(ProtocolError):
    """A field exceeds its limit in a command that has no response."""

    reason = "field over its limit"


def encode(command: pb.Command) -> bytes:
    body = command.SerializeToString()
    return (len(body) + 4).to_bytes(4, "big") + len(body).to_bytes(4, "big") + body


def command(kind: pb.Command.Type, **field: object) -> bytes:
    """Encodes a simple command as a frame: ``command(Command.PONG, pong=Pong())``."""
    return encode(pb.Command(type=kind, **field))  # type: ignore[arg-type]


PING = command(pb.Command.PING, ping=pb.Ping())
PONG = command(pb.Command.PONG, pong=pb.Pong())


def decode(frame: bytes | memoryview) -> pb.Command:
    """Decodes the command of a whole frame (without the 4 bytes of its total size)."""
    size = int.from_bytes(frame[:4], "big")
    if size > len(frame) - 4:
        raise ProtocolError(f"a command of {size} bytes does not fit its frame of {len(frame)} bytes")
    try:
        command = pb.Command.FromString(bytes(frame[4 : 4 + size]))
    except DecodeError:
        raise ProtocolError(f"a command of {size} bytes is not valid protobuf") from None
    if not command.IsInitialized():  # the parser does not check this; an unknown type counts as missing
        raise ProtocolError(f"a command of {size} bytes lacks a required field")
    body = _REQUIRED_BODIES.get(command.type)
    if body is not None and not command.HasField(body):
        raise ProtocolError(f"a {pb.Command.Type.Name(command.type)} command of {size} bytes lacks its field {body!r}")
    return command


def _required_bodies() -> dict[int, str]:
    """By command type: the field that must carry its body. PING and PONG have no body."""
    fields = pb.Command.DESCRIPTOR.fields_by_name
    names = {kind: name.lower() for name, kind in pb.Command.Type.items() if name not in ("PING", "PONG")}
    return {kind: name for kind, name in names.items() if name in fields}


_REQUIRED_BODIES: Final = _required_bodies()


def error(request_id: int, code: int, message: str) -> bytes:
    return command(
        pb.Command.ERROR,
        error=pb.ErrorAnswer(request_id=request_id, error=code, message=message),  # type: ignore[arg-type]
    )


def success(request_id: int) -> bytes:
    return command(pb.Command.SUCCESS, success=pb.Success(request_id=request_id))


# A field that is given again counts as given last: before the tail of a message id, entry 0 whatever was said before.
REPEATED_ID = b"\x10\x00"


def message_id_tail(partition: int) -> bytes:
    """The partition field of a message id, for the hot loop: empty for a topic that is not a partition."""
    return b"" if partition < 0 else pb.MessageId(ledger_id=0, entry_id=0, partition=partition).SerializeToString()[4:]


def as_text(value: str | bytes) -> str:
    """A text that a producer wrote into a message. Protobuf returns bytes for one that is not UTF-8: invalid bytes are replaced."""
    return value if isinstance(value, str) else value.decode(errors="replace")


class Stored(NamedTuple):
    """A parsed stored payload: the producer's metadata, and its bytes (compressed, perhaps a batch)."""

    metadata: pb.Metadata
    payload: bytes


def parse_stored(data: bytes | memoryview) -> Stored:
    """Parses ``[0x0e01 crc] metadata size | metadata | payload``. The checksum was verified on arrival. Raises `ProtocolError`."""
    view = memoryview(data)
    metadata, end = _parse_metadata(view)
    return Stored(metadata, bytes(view[end:]))


def parse_metadata(data: bytes | memoryview) -> pb.Metadata:
    """Like `parse_stored`, without copying the payload."""
    return _parse_metadata(memoryview(data))[0]


def _parse_metadata(view: memoryview) -> tuple[pb.Metadata, int]:
    """And where the payload begins."""
    at = 6 if bytes(view[:2]) == b"\x0e\x01" else 0
    size = int.from_bytes(view[at : at + 4], "big")
    if at + 4 + size > len(view):
        raise ProtocolError(f"metadata of {size} bytes does not fit a stored entry of {len(view)} bytes")
    try:
        metadata = pb.Metadata.FromString(bytes(view[at + 4 : at + 4 + size]))
    except DecodeError:
        raise ProtocolError(f"metadata of {size} bytes is not valid protobuf") from None
    if not metadata.IsInitialized():
        raise ProtocolError(f"metadata of {size} bytes lacks a required field")
    return metadata, at + 4 + size


def build_send(
    producer_id: int,
    sequence_id: int,
    metadata: pb.Metadata,
    payload: bytes,
    message_count: int = 1,
    *,
    is_chunk: bool = False,
    highest_sequence_id: int = 0,
) -> bytes:
    """Builds a whole SEND frame, for producers of the SDK, inside the broker or in a test."""
    body = metadata.SerializeToString()
    covered = len(body).to_bytes(4, "big") + body + payload
    send = pb.Send(producer_id=producer_id, sequence_id=sequence_id, num_messages=message_count)
    if is_chunk:
        send.is_chunk = True
    if highest_sequence_id:
        send.highest_sequence_id = highest_sequence_id
    head = pb.Command(type=pb.Command.SEND, send=send).SerializeToString()
    rest = len(head).to_bytes(4, "big") + head + b"\x0e\x01" + crc32c(covered).to_bytes(4, "big") + covered
    return len(rest).to_bytes(4, "big") + rest


def topics_hash(names: list[str]) -> str:
    """The hash of a topic list that clients compare: CRC-32C of the sorted names joined by commas, little-endian, in hex."""
    return crc32c(",".join(sorted(names)).encode()).to_bytes(4, "little").hex()
