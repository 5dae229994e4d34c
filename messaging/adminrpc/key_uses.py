"""Admin RPC: when keys were used last, on the way to the control plane."""

from __future__ import annotations

from messaging.adminrpc import fields
from messaging.adminrpc.base import Answer
from messaging.adminrpc.brokers import BrokerAsked


class KeyUsesTake(BrokerAsked, kw_only=True):
    """Asks for the next uses, and says that those of the batch of this number are stored. 0: of none."""

    acknowledged_batch: fields.AcknowledgedBatch = 0


class KeyUsesTaken(Answer, kw_only=True):
    """`uses`: key id -> the beginning of the last minute in which it was in use. None are left when it is empty."""

    batch: int
    uses: dict[str, int]
    waiting: int
