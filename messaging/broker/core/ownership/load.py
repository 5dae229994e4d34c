"""What a bundle costs its broker: a number to compare brokers by. Pure."""

from __future__ import annotations

MESSAGE = 1.0  # the unit: a message that is published or delivered, a second
BYTES = 1 / 8192  # as many bytes cost as much as a message
TOPIC = 0.01  # one that is loaded and quiet


def load_of(topics: int, messages_per_s: float, bytes_per_s: float) -> float:
    return topics * TOPIC + messages_per_s * MESSAGE + bytes_per_s * BYTES
