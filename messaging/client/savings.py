"""What producers of a topic would save with the advised settings, from its measured traffic. Pure.

What costs is the entry: a frame with its metadata, a receipt, and the work for them on both sides, whether it holds one message or
a thousand. Bytes are those before compression, which saves more the larger batches are; how much nobody knows who has not seen the
messages.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from messaging.client.message import OutgoingMessage
from messaging.client.producing.serializing import batch_payload
from messaging.client.tuning import Advice, Traffic, filled
from messaging.errors import InvalidValue
from messaging.protocol import frames
from messaging.protocol import pulsar_pb2 as pb

# Of a processor at 2.5 GHz, by `magnetar bench producer`: what an unbatched message takes more than one in a full batch.
CLIENT_CPU_US_PER_ENTRY, BROKER_CPU_US_PER_ENTRY = 55.0, 20.0
DAY_S, GIB = 86_400, 1 << 30


@dataclass(frozen=True, slots=True)
class TopicTraffic:
    """`messages_per_s` of all producers together, `messages_per_entry` as they batch now: 1 where they do not, None where it is
    not known."""

    messages_per_s: float
    message_bytes: float
    messages_per_entry: float | None
    partitions: int = 1
    producers: int = 1

    def __post_init__(self) -> None:
        numbers = (self.messages_per_s, self.message_bytes, self.messages_per_entry, self.partitions, self.producers)
        if not all(number is None or number > 0 for number in numbers):
            raise InvalidValue("rate, size, messages in an entry, partitions and producers are positive numbers")

    def traffic(self, latency_ms: float, *, keyed: bool) -> Traffic:
        """Of one of the producers."""
        return Traffic(max(1, round(self.message_bytes)), self.messages_per_s / self.producers, self.partitions, latency_ms, keyed)


@dataclass(frozen=True, slots=True)
class Savings:
    """A day. `messages_per_entry`: with the advised settings. Nothing is saved where producers batch as well already."""

    messages_per_entry: float
    entries: float
    traffic_bytes: float
    client_cpu_s: float
    broker_cpu_s: float

    def money(self, gib_price: float | None, cpu_hour_price: float | None) -> float | None:
        """In the currency of the prices. None: of neither is the price known."""
        if gib_price is None and cpu_hour_price is None:
            return None
        cpu_hours = (self.client_cpu_s + self.broker_cpu_s) / 3600
        return self.traffic_bytes / GIB * (gib_price or 0.0) + cpu_hours * (cpu_hour_price or 0.0)


def savings(measured: TopicTraffic, traffic: Traffic, advice: Advice) -> Savings:
    """Where it is not known how producers batch now: compared with sending each message alone."""
    now = measured.messages_per_entry or 1.0
    advised = max(now, filled(traffic, advice))
    messages = measured.messages_per_s * DAY_S
    entries = messages / now - messages / advised
    saved_bytes = messages * (_bytes_per_message(now) - _bytes_per_message(advised))
    return Savings(
        advised,
        entries,
        max(0.0, saved_bytes),
        entries * CLIENT_CPU_US_PER_ENTRY / 1e6,
        entries * BROKER_CPU_US_PER_ENTRY / 1e6,
    )


def _bytes_per_message(messages_per_entry: float) -> float:
    """Beside its payload, key and properties."""
    return entry_bytes() / messages_per_entry + (single_bytes() if messages_per_entry > 1 else 0)


@cache
def single_bytes() -> int:
    """Of a message in a batch, without its payload."""
    return len(batch_payload([OutgoingMessage(b"x" * 200)], [1_000_000])) - 200


@cache
def entry_bytes() -> int:
    """Of the frame of an entry without its payload, and of its receipt."""
    metadata = pb.Metadata(producer_name="broker-1-100000", sequence_id=1_000_000, publish_time=1_700_000_000_000)
    stored = pb.MessageId(ledger_id=100_000, entry_id=10_000)
    receipt = pb.SendReceipt(producer_id=1, sequence_id=1_000_000, message_id=stored)
    frame = frames.build_send(1, 1_000_000, metadata, b"")
    return len(frame) + len(frames.command(pb.Command.SEND_RECEIPT, send_receipt=receipt))
