"""Delays that policies give to messages, whatever their producers ask for. Pure."""

from __future__ import annotations

from typing import NamedTuple

from messaging.protocol import hot
from messaging.protocol.hot import DELAYED, BlockSummary, SendFrame


class GivenDelays(NamedTuple):
    """Milliseconds; 0: none. `fixed_ms` is that of every message, `default_ms` of those that ask for no delivery time."""

    default_ms: int
    fixed_ms: int

    def deliver_at_ms(self, frame: SendFrame, now_ms: int) -> int:
        """When a message is to be delivered; 0: at once."""
        if self.fixed_ms:
            return now_ms + self.fixed_ms
        return frame.deliver_at_ms or (now_ms + self.default_ms if self.default_ms else 0)

    def give(self, sent: list[SendFrame], now_ms: int) -> BlockSummary:
        """Changes `sent`."""
        for frame in sent:
            frame.deliver_at_ms = self.deliver_at_ms(frame, now_ms)
            if frame.deliver_at_ms:
                frame.flags |= DELAYED
        return hot.summarize(sent)


NONE_GIVEN = GivenDelays(0, 0)
