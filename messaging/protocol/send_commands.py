"""SEND commands of stored entries, read again by what read them on arrival. Pure.

`hot.scan` skips what it does not know, where Protocol Buffers refuses a whole command for it (a field 0, a message id that is
none). Such a message was accepted and stored, so that whoever reads it again must not fail.
"""

from __future__ import annotations

import struct

from messaging.protocol import hot
from messaging.protocol.hot import SendFrame

_SIZES = struct.Struct(">II")  # of the frame and of its command
_NO_METADATA = bytes(4)


def message_count(command: bytes) -> int:
    """The number of messages that a SEND command announced; 1 if it does not say."""
    frame = b"".join((_SIZES.pack(len(command) + 8, len(command)), command, _NO_METADATA))
    frames: list[SendFrame] = []
    hot.scan(frame, 0, len(frame), frames, True, 1)
    return frames[0].message_count if frames else 1
