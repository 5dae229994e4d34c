"""What operators do to brokers of a fleet, by the console and the command line."""

from __future__ import annotations

from messaging.adminrpc.bundles import BrokerDrained
from messaging.adminrpc.methods import BROKERS_DRAIN
from messaging.errors import NotReady
from messaging.permissions.model import Action
from tenants import broker
from tenants.access import Actor, require
from tenants.actions.change import limit_rate, record


def drain_broker(actor: Actor, broker_id: str, *, ends: bool = False) -> int:
    """It gives its bundles to the other brokers, and takes none until it starts again; `ends`: it takes bundles again. How many it
    still has. Blocks until they are given; what is refused leaves no record. Raises `NotAuthorized`, `NotAllowed`, `NotReady`."""
    require(actor, Action.SUPERUSER)
    limit_rate(actor)
    actor.check_conditions()
    action = "broker.end_drain" if ends else "broker.drain"
    try:
        left = broker.rpc().call(BROKERS_DRAIN, BrokerDrained(broker_id=broker_id, ends=ends)).left
    except NotReady as error:  # it may have begun
        record(actor, action, "", broker_id, None, {"not_confirmed": error.message})
        raise
    record(actor, action, "", broker_id, None, {"bundles_left": left})
    return left
