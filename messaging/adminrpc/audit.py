"""Admin RPC: audit events of the broker's clients (refusals, changes of subscriptions), on their way to the audit log."""

from __future__ import annotations

import msgspec

from messaging.adminrpc import fields
from messaging.adminrpc.base import Answer
from messaging.adminrpc.brokers import BrokerAsked


class AuditTake(BrokerAsked, kw_only=True):
    """Asks for the next events, and says that those up to `acknowledged_sequence` of the run `boot_id` are stored for good.

    Until then the same events come again with the same sequence numbers. Of another run nothing is acknowledged."""

    boot_id: fields.BootId = ""
    acknowledged_sequence: fields.AcknowledgedSequence = 0


class AuditEvent(msgspec.Struct, kw_only=True):
    """`count` equal events, of which the first and the last are known by time. Unknown parts are empty.

    `further`: events that were only counted, because too many different ones came; what they were about is not known."""

    sequence: int  # rises within a run of the broker
    action: str  # as the audit log names it
    role: str
    key_id: str
    address: str
    tenant: str
    tenant_uid: str
    resource: str
    reason: str
    further: bool
    count: int
    first_ms: int
    last_ms: int
    before: str  # position of the subscription, of the first event
    after: str  # of the last


class AuditTaken(Answer, kw_only=True):
    """`boot_id` is another one after each start. `events` in the order of their sequence numbers; none when all were taken.
    `waiting`: how many others there were at that moment."""

    broker_id: str
    boot_id: str
    events: list[AuditEvent]
    waiting: int
