"""The keyword arguments of `Client.producer` and `Client.consumer`, and the options that they make."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any, TypedDict, Unpack

from messaging.client.consuming.interceptors import ActiveChanged, ConsumerInterceptor
from messaging.client.consuming.options import (
    ConsumerOptions,
    CryptoFailure,
    DeadLetterPolicy,
    Initial,
    Kind,
)
from messaging.client.consuming.redelivery import RedeliveryBackoff
from messaging.client.encryption import Decryptor, Encryptor
from messaging.client.producing.interceptors import ProducerInterceptor
from messaging.client.producing.options import (
    AccessMode,
    BatchLimits,
    CompressionName,
    ProducerOptions,
    Routing,
)
from messaging.protocol.key_hashing import HashingScheme


class ProducerArguments(TypedDict, total=False):
    """Those of `ProducerOptions`, and of `BatchLimits` with ``batch_`` before them; ``batching=False`` for none."""

    name: str | None
    first_sequence_id: int | None
    pending_max: int
    pending_across_partitions_max: int
    send_timeout_s: float
    block_if_full: bool
    batching: bool
    batch_messages_max: int
    batch_bytes_max: int
    batch_delay_ms: float
    batch_by_key: bool
    compression: CompressionName
    chunking: bool
    routing: Routing
    hashing: HashingScheme
    slow_after_s: float
    access: AccessMode
    encryption: Encryptor | None
    interceptors: Sequence[ProducerInterceptor]
    properties: Mapping[str, str]
    initial_subscription: str | None
    partitions_update_s: float


class ConsumerArguments(TypedDict, total=False):
    """Those of `ConsumerOptions`."""

    kind: Kind
    initial: Initial
    name: str | None
    prefetch_max: int
    priority: int
    read_compacted: bool
    properties: Mapping[str, str]
    subscription_properties: Mapping[str, str]
    nack_delay_s: float
    nack_backoff: RedeliveryBackoff | None
    ack_timeout_s: float
    ack_timeout_backoff: RedeliveryBackoff | None
    ack_receipts: bool
    batch_index_ack: bool
    dead_letters: DeadLetterPolicy | None
    retry_enabled: bool
    decryption: Decryptor | None
    crypto_failure: CryptoFailure
    interceptors: Sequence[ConsumerInterceptor]
    active_changed: ActiveChanged | None
    chunked_messages_max: int
    topics_update_s: float


_BATCH = {f"batch_{field.name}": field.name for field in fields(BatchLimits)}


def producer_options(**arguments: Unpack[ProducerArguments]) -> ProducerOptions:
    """Raises `InvalidValue` for values that contradict each other, `TypeError` for unknown names."""
    given: dict[str, Any] = dict(arguments)
    batching = given.pop("batching", not given.get("chunking", False))
    limits = {_BATCH[name]: given.pop(name) for name in list(given) if name in _BATCH}
    return ProducerOptions(batch=BatchLimits(**limits) if batching else None, **given)


def consumer_options(**arguments: Unpack[ConsumerArguments]) -> ConsumerOptions:
    return ConsumerOptions(**arguments)
