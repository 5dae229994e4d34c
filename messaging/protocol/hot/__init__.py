"""The loops that run once a message. Everything else in the broker works once a block or once a command.

The modules are plain Python and stay so; where a C compiler is at hand `make setup` compiles them (types in the `.pxd` files) into
`compiled/`, and the same tests hold both against protobuf. Frames, big-endian:

    u32 total | u32 command size | command | [0x0e01 u32 crc32c] u32 metadata size | metadata | payload

`total` does not count its own 4 bytes. A peer controls every byte here: no read leaves the frame, whatever the lengths say.
"""

from messaging.lean_imports import replaced
from messaging.protocol import hot_extensions

with replaced("crc32c._cli", main=None):  # a command that would bring argparse
    import crc32c as _crc32c  # noqa: F401

if hot_extensions.built():
    __path__.insert(0, str(hot_extensions.folder()))

from messaging.protocol.hot import acks, common, incoming, keyed, metadata, outgoing
from messaging.protocol.hot.acks import group_acks, scan_acks
from messaging.protocol.hot.common import BlockSummary, SendFrame, group_by_producer, summarize, varint
from messaging.protocol.hot.incoming import (
    BAD_CHECKSUM,
    CHUNK,
    DELAYED,
    DOUBTFUL,
    MALFORMED,
    MARKER,
    TRANSACTION,
)
from messaging.protocol.hot.keyed import HASH_MAX, NOBODY, key_hashes, route
from messaging.protocol.hot.metadata import deliver_at
from messaging.protocol.hot.outgoing import message_head

COMPILED = all(module.COMPILED for module in (common, metadata, incoming, acks, outgoing, keyed))
# Frames read and made byte by byte are the cheapest where that is compiled and the dearest where it is not.
scan = incoming.scan if incoming.COMPILED else incoming.scan_sequential
messages = outgoing.messages if outgoing.COMPILED else outgoing.joined_messages
picked_messages = outgoing.picked_messages if outgoing.COMPILED else outgoing.joined_picked_messages
receipts = outgoing.receipts if outgoing.COMPILED else outgoing.joined_receipts

__all__ = [
    "BAD_CHECKSUM",
    "CHUNK",
    "COMPILED",
    "DELAYED",
    "DOUBTFUL",
    "HASH_MAX",
    "MALFORMED",
    "MARKER",
    "NOBODY",
    "TRANSACTION",
    "BlockSummary",
    "SendFrame",
    "scan_acks",
    "summarize",
    "deliver_at",
    "message_head",
    "messages",
    "key_hashes",
    "picked_messages",
    "route",
    "group_by_producer",
    "receipts",
    "group_acks",
    "scan",
    "varint",
]
