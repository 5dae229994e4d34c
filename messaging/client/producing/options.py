"""What a producer can be asked for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from messaging.client.encryption import Encryptor
from messaging.client.message import OutgoingMessage
from messaging.client.producing.interceptors import ProducerInterceptor
from messaging.errors import InvalidValue
from messaging.limits.sizes import BATCH_MESSAGES_MAX
from messaging.protocol import pulsar_pb2 as pb
from messaging.protocol.key_hashing import HashingScheme

CompressionName = Literal["none", "lz4", "zlib", "zstd", "snappy"]
AccessMode = Literal["shared", "exclusive", "wait_for_exclusive", "exclusive_with_fencing"]
CustomRouter = Callable[[OutgoingMessage, int], int]
Routing = Literal["round_robin", "single"] | CustomRouter

COMPRESSION: dict[CompressionName, pb.Compression] = {
    "none": pb.NONE,
    "lz4": pb.LZ4,
    "zlib": pb.ZLIB,
    "zstd": pb.ZSTD,
    "snappy": pb.SNAPPY,
}
ACCESS_MODES: dict[AccessMode, pb.Producer.AccessMode] = {
    "shared": pb.Producer.Shared,
    "exclusive": pb.Producer.Exclusive,
    "wait_for_exclusive": pb.Producer.WaitForExclusive,
    "exclusive_with_fencing": pb.Producer.ExclusiveWithFencing,
}


@dataclass(frozen=True, slots=True)
class BatchLimits:
    """A batch ends when the first of them is reached. `delay_ms` counts from its first message."""

    messages_max: int = 1000
    bytes_max: int = 128 * 1024
    delay_ms: float = 10.0
    by_key: bool = False  # each batch has messages of one key: Key_Shared subscriptions keep them apart

    def __post_init__(self) -> None:
        if not 1 <= self.messages_max <= BATCH_MESSAGES_MAX:
            raise InvalidValue(f"batch_messages_max is {self.messages_max}: use 1 to {BATCH_MESSAGES_MAX}")
        if self.bytes_max < 1 or self.delay_ms < 0:
            raise InvalidValue(f"a batch of {self.bytes_max} bytes within {self.delay_ms} ms: use positive numbers")


@dataclass(frozen=True, slots=True)
class ProducerOptions:
    """`name`: None for one that the broker makes. A name that was used before continues its sequence ids where deduplication
    remembers them; `first_sequence_id` sets the first by hand.

    `pending_max` messages of a partition, and `pending_across_partitions_max` of all, may be without a receipt; each has
    `send_timeout_s` for it (0: no limit). Where there is no room `send` waits, or raises `QueueFull` if `block_if_full` is False.
    `batch` None sends every message alone. `chunking` divides messages larger than the broker takes, and needs `batch` None.
    Messages without a key avoid partitions that are `slow_after_s` behind.
    """

    name: str | None = None
    first_sequence_id: int | None = None
    pending_max: int = 1000
    pending_across_partitions_max: int = 50_000
    send_timeout_s: float = 30.0
    block_if_full: bool = True
    batch: BatchLimits | None = field(default_factory=BatchLimits)
    compression: CompressionName = "none"
    chunking: bool = False
    routing: Routing = "round_robin"
    hashing: HashingScheme = "JavaStringHash"
    slow_after_s: float = 0.5
    access: AccessMode = "shared"
    encryption: Encryptor | None = None
    interceptors: Sequence[ProducerInterceptor] = ()
    properties: Mapping[str, str] = field(default_factory=dict)
    initial_subscription: str | None = None
    partitions_update_s: float = 60.0

    def __post_init__(self) -> None:
        if self.pending_max < 1 or self.pending_across_partitions_max < 1:
            raise InvalidValue(
                f"pending_max is {self.pending_max}, over all partitions {self.pending_across_partitions_max}: use 1 or more"
            )
        if self.send_timeout_s < 0 or self.slow_after_s <= 0 or self.partitions_update_s <= 0:
            raise InvalidValue("send_timeout_s, slow_after_s and partitions_update_s are positive; only send_timeout_s may be 0")
        if self.chunking and self.batch is not None:
            raise InvalidValue("a producer that divides messages into chunks sends them alone: set batching=False")
        if self.compression not in COMPRESSION or self.access not in ACCESS_MODES:
            raise InvalidValue(
                f"compression {self.compression!r}, access {self.access!r}: use {', '.join(COMPRESSION)}; {', '.join(ACCESS_MODES)}"
            )
        if not callable(self.routing) and self.routing not in ("round_robin", "single"):
            raise InvalidValue(f"routing is {self.routing!r}: use round_robin, single or a function of message and partitions")
        if self.hashing not in ("JavaStringHash", "Murmur3_32Hash"):
            raise InvalidValue(f"hashing is {self.hashing!r}: use JavaStringHash or Murmur3_32Hash")
