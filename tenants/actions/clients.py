"""Disconnecting clients of a topic. The broker does it; this checks the permission and writes the audit log."""

from __future__ import annotations

from messaging.adminrpc.clients import PRODUCER, ClientsDisconnect, ClientsDisconnected
from messaging.adminrpc.methods import CLIENTS_DISCONNECT
from messaging.errors import NotFound
from messaging.permissions.model import Action
from messaging.protocol.names import TopicName
from tenants import broker
from tenants.access import Actor, require
from tenants.actions.change import record
from tenants.actions.topics import topic_resource

DISCONNECTED = "client.disconnect"


def disconnect_clients(
    actor: Actor,
    topic: TopicName,
    *,
    kind: str = "",
    name: str = "",
    subscription: str = "",
    address: str = "",
    dry_run: bool = False,
) -> ClientsDisconnected:
    """Those that fit all that is given; a stock client connects again at once. Raises `InvalidValue`, `TopicNotFound`, `NotFound`
    where none fits, `NotReady`."""
    require(actor, Action.OPERATE, topic_resource(topic, subscription))
    asked = ClientsDisconnect(topic=str(topic), kind=kind, name=name, subscription=subscription, address=address, dry_run=dry_run)
    answer = broker.rpc().call(CLIENTS_DISCONNECT, asked)
    if not answer.producers + answer.consumers:
        raise NotFound(f"no {kind or 'client'} of {topic} fits: it has left already, or connected again from another address")
    if not dry_run:
        chosen = {"kind": kind, "name": name, "subscription": subscription, "address": address}
        after = {field: value for field, value in chosen.items() if value}
        resource = f"{topic}/{subscription}" if subscription and kind != PRODUCER else str(topic)
        counts = {"producers": answer.producers, "consumers": answer.consumers}
        record(actor, DISCONNECTED, topic.tenant, resource, after={**after, **counts})
    return answer
