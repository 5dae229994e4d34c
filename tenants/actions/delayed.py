"""Delayed messages: cancelling and rescheduling. The broker decides and stores; these actions check permissions and write the audit
log."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from messaging.adminrpc.delayed import DelayedChange, DelayedChanged, DelayedKeyChange, DelayedKeyChanged
from messaging.adminrpc.methods import DELAYED_CHANGE, DELAYED_CHANGE_KEY
from messaging.errors import NotReady
from messaging.permissions.model import Action
from messaging.protocol.names import TopicName
from tenants import broker
from tenants.access import Actor, require
from tenants.actions.change import record
from tenants.actions.topics import topic_resource
from tenants.masking import masks_of
from tenants.names import MessageId

CANCELLED, RESCHEDULED = "delayed.cancel", "delayed.reschedule"


def change_delayed(actor: Actor, message: MessageId, deliver_at_ms: int | None) -> DelayedChanged:
    """None: it is cancelled. Raises `NotFound`: there is no such delayed message; `Conflict`: a subscription had it;
    `QuotaExceeded`, `InvalidValue`, `NotReady`."""
    require(actor, Action.PRODUCE, topic_resource(message.topic))
    named = f"{message.topic}/{message.ledger_id}:{message.entry_id}"
    after: dict[str, object] = {"batch_index": message.batch_index, "deliver_at_ms": deliver_at_ms}
    with _recorded_if_unknown(actor, message.topic, named, after):
        answer = broker.rpc().call(
            DELAYED_CHANGE,
            DelayedChange(
                topic=str(message.topic),
                ledger_id=message.ledger_id,
                entry_id=message.entry_id,
                batch_index=message.batch_index,
                deliver_at_ms=deliver_at_ms,
            ),
        )
    if not answer.already:
        _record(actor, message.topic, named, answer.former_ms, after)
    return answer


def change_delayed_key(
    actor: Actor, topic: TopicName, key: str, deliver_at_ms: int | None, after: tuple[int, int], limit: int
) -> DelayedKeyChanged:
    """The messages with this key that are not due yet, stored at the position `after` or later: so many of them at most. Raises
    `NotAuthorized` also where keys are masked for the actor: how many there were tells of them. Raises `QuotaExceeded`,
    `InvalidValue`, `NotReady`."""
    require(actor, Action.PRODUCE, topic_resource(topic))
    masks_of(actor, topic).check_filter(key=True, property_name="", text=False, path=())
    ledger_id, entry_id = after
    with _recorded_if_unknown(actor, topic, str(topic), {"key": key, "deliver_at_ms": deliver_at_ms}):
        answer = broker.rpc().call(
            DELAYED_CHANGE_KEY,
            DelayedKeyChange(
                topic=str(topic), key=key, deliver_at_ms=deliver_at_ms, ledger_id=ledger_id, entry_id=entry_id, limit=limit
            ),
        )
    if answer.changed:
        _record(actor, topic, str(topic), None, {"key": key, "messages": answer.changed, "deliver_at_ms": deliver_at_ms})
    return answer


@contextmanager
def _recorded_if_unknown(actor: Actor, topic: TopicName, named: str, after: dict[str, object]) -> Iterator[None]:
    """Where the broker did not say what became of it: what was asked, as it may have been done."""
    try:
        yield
    except NotReady as error:
        _record(actor, topic, named, None, {**after, "status": str(error.http_status)})
        raise


def _record(actor: Actor, topic: TopicName, named: str, former_ms: int | None, after: dict[str, object]) -> None:
    action = CANCELLED if after["deliver_at_ms"] is None else RESCHEDULED
    before = None if former_ms is None else {"deliver_at_ms": former_ms}
    record(actor, action, topic.tenant, named, before, after)
