"""What an operator says of brokers that are gone."""

from __future__ import annotations

import msgspec

from messaging.adminrpc.brokers import BrokerForgotten, GoneBroker, RecoverBroker
from messaging.adminrpc.methods import BROKERS_FORGET, BROKERS_RECOVER
from messaging.errors import NotReady, UnderWay
from messaging.permissions.model import Action
from tenants import broker
from tenants.access import Actor, require
from tenants.actions.change import change, limit_rate, record


def recover_broker(actor: Actor, broker_id: str, *, accept_loss: bool) -> None:
    """Has others take over from a broker that is gone; `accept_loss`: also where what it acknowledged last cannot be read. Who
    accepted that is in the audit log before it is done. Blocks. Raises `NotFound`, `Conflict`, `NotAllowed`, `NotReady`."""
    require(actor, Action.SUPERUSER)
    with change(actor, must_confirm=False) as running:
        running.audit("broker.recover", "", broker_id, None, {"accept_loss": accept_loss})
    broker.rpc().call(BROKERS_RECOVER, RecoverBroker(gone_broker_id=broker_id, accept_loss=accept_loss))


def forget_broker(actor: Actor, broker_id: str) -> BrokerForgotten:
    """It never comes back. Blocks; what is refused leaves no record. Raises `NotFound`, `Conflict`, `NotAllowed`, `NotReady`,
    `UnderWay`."""
    require(actor, Action.SUPERUSER)
    limit_rate(actor)
    actor.check_conditions()
    try:
        forgotten = broker.rpc().call(BROKERS_FORGET, GoneBroker(gone_broker_id=broker_id))
    except (NotReady, UnderWay) as error:  # it may have been done
        record(actor, "broker.forget", "", broker_id, None, {"not_confirmed": error.message})
        raise
    record(actor, "broker.forget", "", broker_id, None, msgspec.structs.asdict(forgotten))
    return forgotten
