"""Admin RPC: browsing the messages of a topic, filtered where they are stored."""

from __future__ import annotations

from typing import Annotated

import msgspec

from messaging.adminrpc import fields
from messaging.adminrpc.base import Answer, Request
from messaging.limits.model import Limit
from messaging.limits.sizes import BATCH_MESSAGES_MAX

TEXT_BYTES_MAX = 1024  # that is looked for
TEXT = Limit("is looked for in every payload", bytes_max=TEXT_BYTES_MAX)
PIECE_BYTES_MAX = 16 << 20
PIECE_BYTES = 64 << 10  # of a payload in a list


class MessagesBrowse(Request, kw_only=True):
    """Messages from a position on, itself included; `backward`: towards older ones. It is `ledger_id` and `entry_id`: 2^63-1 is
    the last of the topic, or what follows it, and -1 the first, or where `subscription` or a time (`start_ms`) begins.
    `batch_index`: of the message in that entry to go on with; -1: all. `exact`: of that entry alone, also a part of a larger
    message. The rest must all match (`messaging.payloads.filters`). At most `payload_bytes_max` of each payload are answered."""

    topic: fields.Topic
    ledger_id: fields.LedgerId = -1
    entry_id: fields.LedgerId = -1
    batch_index: fields.BatchIndex = -1
    start_ms: fields.Milliseconds = 0
    subscription: fields.Name = ""
    backward: bool = False
    exact: bool = False
    messages_max: fields.MessagesMax = 50
    payload_bytes_max: Annotated[int, Limit("of one message", minimum=0, maximum=PIECE_BYTES_MAX)] = PIECE_BYTES
    message_key: Annotated[str, TEXT] | None = None
    property_name: fields.PropertyName = ""
    property_value: fields.PropertyValue | None = None
    text: Annotated[str, TEXT] = ""
    path: Annotated[str, TEXT] = ""
    comparison: fields.Kind = "eq"
    value: Annotated[str, TEXT] = ""
    from_ms: fields.Milliseconds = 0
    until_ms: fields.Milliseconds = 0


class BrowsedMessage(msgspec.Struct, kw_only=True):
    """`batch_index` -1: it is not of a batch. `payload`: uncompressed, at most as much as was asked for, of `size_bytes`; as it is
    stored where it is encrypted or `problem` says why it cannot be unpacked. `metadata_cut`: key or properties are longer."""

    ledger_id: int
    entry_id: int
    batch_index: int = -1
    batch_size: int = 1
    publish_time_ms: int = 0
    event_time_ms: int = 0
    stored_at_ms: int = 0
    deliver_at_ms: int = 0
    producer: str = ""
    sequence_id: int = 0
    key: str | None = None
    key_is_base64: bool = False
    properties: dict[str, str] = {}
    metadata_cut: bool = False
    schema_version: int | None = None
    compression: str = "NONE"
    encryption_keys: list[str] = []
    chunk_id: int = -1
    chunks: int = 0
    null_value: bool = False
    size_bytes: int = 0
    payload: bytes = b""
    problem: str = ""


class MessagesBrowsed(Answer, kw_only=True):
    """What was found in `looked_at` entries. The next call goes on at `ledger_id`, `entry_id` and `batch_index`, with
    `left_entries` of the `entries` of the topic before it; `done`: nothing is left."""

    messages: list[BrowsedMessage]
    looked_at: int
    unreadable: int = 0  # entries that are damaged
    ledger_id: int
    entry_id: int
    batch_index: Annotated[int, Limit("a message of the largest batch, or -1", minimum=-1, maximum=BATCH_MESSAGES_MAX)] = -1
    left_entries: int = 0
    entries: int = 0
    done: bool = True
