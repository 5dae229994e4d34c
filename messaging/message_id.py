"""Message ids as text: base64 of Pulsar's protobuf message ``MessageIdData``, as the WebSocket API and REST show them.

    field 1 ledgerId uint64, 2 entryId uint64, 3 partition int32, 4 batch_index int32     (all varints; others are skipped)

Clients treat the text as opaque. Some write partition and batch index only where there is one, others always, as -1; both are read.
"""

from __future__ import annotations

import base64
import binascii
from typing import NamedTuple

from messaging.errors import InvalidValue

TEXT_LENGTH_MAX = 4096
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_FIELDS = {1: "ledger_id", 2: "entry_id", 3: "partition", 4: "batch_index"}


class MessageIdParts(NamedTuple):
    ledger_id: int
    entry_id: int
    batch_index: int = -1
    partition: int = -1


def encode_message_id(ledger_id: int, entry_id: int, batch_index: int = -1, partition: int = -1) -> str:
    data = b"\x08" + _varint(ledger_id) + b"\x10" + _varint(entry_id)
    if partition >= 0:
        data += b"\x18" + _varint(partition)
    if batch_index >= 0:
        data += b"\x20" + _varint(batch_index)
    return base64.b64encode(data).decode("ascii")


def decode_message_id(text: str) -> MessageIdParts:
    """Raises `InvalidValue` for anything that is not the text of a message id."""
    try:
        if len(text) > TEXT_LENGTH_MAX:
            raise ValueError(f"longer than {TEXT_LENGTH_MAX} characters")
        values = _fields(base64.b64decode(text.encode("ascii"), validate=True))
        return MessageIdParts(values["ledger_id"], values["entry_id"], values.get("batch_index", -1), values.get("partition", -1))
    except (binascii.Error, UnicodeEncodeError, ValueError, KeyError) as error:
        why = f"no {error}" if isinstance(error, KeyError) else str(error)
        raise InvalidValue(f"{text[:80]!r} is not a message id ({why}): use an id exactly as received") from None


def _fields(data: bytes) -> dict[str, int]:
    values: dict[str, int] = {}
    at = 0
    while at < len(data):
        tag, at = _read_varint(data, at)
        wire_type = tag & 7
        if wire_type == _VARINT:
            value, at = _read_varint(data, at)
            name = _FIELDS.get(tag >> 3)
            if name is not None:
                values[name] = value - (1 << 64) if value >> 63 else value
        elif wire_type == _BYTES:
            length, at = _read_varint(data, at)
            at += length
        elif wire_type in (_FIXED64, _FIXED32):
            at += 8 if wire_type == _FIXED64 else 4
        else:
            raise ValueError(f"wire type {wire_type}")
    if at != len(data):
        raise ValueError("cut off")
    return values


def _varint(value: int) -> bytes:
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        if at >= len(data):
            raise ValueError("cut off")
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & ((1 << 64) - 1), at
    raise ValueError("a number without end")
