"""What a consumer can be asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from messaging.client.consuming.interceptors import ActiveChanged, ConsumerInterceptor
from messaging.client.consuming.redelivery import RedeliveryBackoff
from messaging.client.encryption import Decryptor, Encryptor
from messaging.client.message import MessageId
from messaging.errors import InvalidValue
from messaging.protocol import pulsar_pb2 as pb

Kind = Literal["exclusive", "shared", "failover", "key_shared"]
Initial = Literal["latest", "earliest"]
CryptoFailure = Literal["fail", "discard", "consume"]

KINDS: dict[Kind, pb.Subscribe.SubType] = {
    "exclusive": pb.Subscribe.Exclusive,
    "shared": pb.Subscribe.Shared,
    "failover": pb.Subscribe.Failover,
    "key_shared": pb.Subscribe.Key_Shared,
}
PREFETCH_ACROSS_MAX = 50_000


@dataclass(frozen=True, slots=True)
class DeadLetterPolicy:
    """A message that was delivered `max_redeliveries` times again and is refused once more goes to `dead_letter_topic`
    (``<topic>-<subscription>-DLQ`` if None). `retry_topic` is where `reconsume_later` sends (``<topic>-<subscription>-RETRY``).
    `initial_subscription` is made on the dead letter topic, so that its messages are kept. `encryption`: with it what goes to
    either is encrypted again; without it what this consumer decrypted goes there as it read it."""

    max_redeliveries: int
    dead_letter_topic: str | None = None
    retry_topic: str | None = None
    initial_subscription: str | None = None
    encryption: Encryptor | None = None

    def __post_init__(self) -> None:
        if self.max_redeliveries < 0:
            raise InvalidValue(f"max_redeliveries is {self.max_redeliveries}: use 0 or more")


@dataclass(frozen=True, slots=True)
class ConsumerOptions:
    """`initial` is where a new subscription begins. Up to `prefetch_max` messages of a topic or partition are on their way before
    they are received. A negatively acknowledged message comes again after `nack_delay_s`, or as `nack_backoff` says; one that is
    neither acknowledged nor refused after `ack_timeout_s` (0: never), or as `ack_timeout_backoff` says.

    `active_changed` is called with a topic and whether this consumer gets its messages: one of a failover subscription does.
    `ack_receipts`: `ack` returns when the broker has stored it. `batch_index_ack`: the broker is told of single messages of a
    batch; without it of whole batches, and `ack` of a part returns False at once, as there is nothing to store yet.
    `crypto_failure`: a message that no key fits comes again ("fail"), is acknowledged ("discard") or delivered as it is
    ("consume"). If the function of the private keys failed, it comes again in any case; what follows it waits, if the subscription
    is not shared.
    """

    kind: Kind = "exclusive"
    initial: Initial = "latest"
    name: str | None = None
    prefetch_max: int = 1000
    priority: int = 0
    durable: bool = True
    start: MessageId | None = None
    read_compacted: bool = False
    properties: Mapping[str, str] = field(default_factory=dict)
    subscription_properties: Mapping[str, str] = field(default_factory=dict)
    nack_delay_s: float = 60.0
    nack_backoff: RedeliveryBackoff | None = None
    ack_timeout_s: float = 0.0
    ack_timeout_backoff: RedeliveryBackoff | None = None
    ack_receipts: bool = False
    batch_index_ack: bool = True
    dead_letters: DeadLetterPolicy | None = None
    retry_enabled: bool = False
    decryption: Decryptor | None = None
    crypto_failure: CryptoFailure = "fail"
    interceptors: Sequence[ConsumerInterceptor] = ()
    active_changed: ActiveChanged | None = None
    chunked_messages_max: int = 100
    topics_update_s: float = 60.0

    def __post_init__(self) -> None:
        if self.kind not in KINDS or self.initial not in ("latest", "earliest"):
            raise InvalidValue(f"kind is {self.kind!r}, initial {self.initial!r}: use {', '.join(KINDS)}, and latest or earliest")
        if not 1 <= self.prefetch_max <= PREFETCH_ACROSS_MAX:
            raise InvalidValue(f"prefetch_max is {self.prefetch_max}: use 1 to {PREFETCH_ACROSS_MAX}")
        if self.nack_delay_s < 0 or self.ack_timeout_s < 0 or self.topics_update_s <= 0 or self.chunked_messages_max < 1:
            raise InvalidValue("nack_delay_s, ack_timeout_s, topics_update_s and chunked_messages_max are not negative")
        if self.dead_letters is not None and self.kind not in ("shared", "key_shared"):
            raise InvalidValue(
                "dead letters need a shared or key_shared subscription: of the others the broker redelivers everything"
            )
        if self.crypto_failure not in ("fail", "discard", "consume"):
            raise InvalidValue(f"crypto_failure is {self.crypto_failure!r}: use fail, discard or consume")

    def refused_delay_s(self, redelivery_count: int) -> float:
        """After how long a message comes again that was refused."""
        return self.nack_delay_s if self.nack_backoff is None else self.nack_backoff.delay_s(redelivery_count)

    def ack_delay_s(self, redelivery_count: int) -> float:
        """After how long one comes again that was neither acknowledged nor refused; 0: never, as for a reader."""
        if not self.durable:
            return 0.0
        return self.ack_timeout_s if self.ack_timeout_backoff is None else self.ack_timeout_backoff.delay_s(redelivery_count)

    @property
    def shared(self) -> bool:
        return self.kind in ("shared", "key_shared")
