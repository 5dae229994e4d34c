"""What the connections of one listener share: deadlines, slots, and the responses that peers have not read."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from messaging.http_server.connection_slots import ConnectionSlots
from messaging.http_server.unread_responses import UnreadResponses


@dataclass(slots=True)
class HttpBounds:
    header_s: float
    transfer_s: float
    slots: ConnectionSlots[Any]
    unread: UnreadResponses[Any] = field(default_factory=UnreadResponses)
