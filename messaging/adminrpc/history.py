"""Admin RPC: points of history, on the way from a broker to the control plane."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from messaging.adminrpc import fields
from messaging.adminrpc.base import Answer
from messaging.adminrpc.brokers import BrokerAsked


class HistoryPoint(msgspec.Struct, array_like=True):
    """Of one series (`messaging.history.points`). `topic` and `subscription` are "" where it is of more than one; `namespace` is ""
    for a tenant."""

    tenant_uid: str
    namespace: str
    topic: str
    subscription: str
    from_ms: int
    until_ms: int
    values: list[int]


class HistorySpan(msgspec.Struct, array_like=True):
    """What is known of a time. `tenant_uid` "": of all tenants.

    `covered`: where there is no point of a series, nothing happened. `lost`: points of it were given up, so nothing is known.
    `behind`: from then on points are still to come."""

    kind: str
    tenant_uid: str
    from_ms: int
    until_ms: int


class HistoryTake(BrokerAsked, kw_only=True):
    """Asks for the next points, and says that the batch of this number is stored. 0: none is."""

    acknowledged_batch: fields.AcknowledgedBatch = 0


class HistoryTaken(Answer, kw_only=True):
    """`spans` come once every point of before their end has been taken. None are left when both are empty."""

    broker_id: str
    batch: int
    points: list[HistoryPoint]
    spans: list[HistorySpan]
    waiting: Annotated[int, Meta(description="Further points.")]
