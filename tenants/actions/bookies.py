"""The racks of bookies, which brokers keep where Pulsar does: in the ZooKeeper of the bookies."""

from __future__ import annotations

from django.conf import settings as django_settings

from messaging.adminrpc.base import Request
from messaging.adminrpc.bookies import BookieRackSet, BookieRef, BookiesSeen
from messaging.adminrpc.methods import BOOKIES_DELETE_RACK, BOOKIES_LIST, BOOKIES_SET_RACK
from messaging.bookkeeper_url import is_bookkeeper
from messaging.errors import PreconditionFailed
from messaging.permissions.model import Action
from tenants import broker
from tenants.access import Actor, require
from tenants.actions.change import record


def on_bookies() -> bool:
    """Whether messages are."""
    return is_bookkeeper(django_settings.MAGNETAR.ledger_url)


def bookies_seen() -> BookiesSeen:
    """Blocks. Raises `PreconditionFailed` where messages are on no bookies, `NotReady`."""
    _require_bookies()
    return broker.rpc().call(BOOKIES_LIST, Request())


def set_bookie_rack(actor: Actor, group: str, bookie: str, rack: str, hostname: str) -> None:
    """For new ledgers, and bookies that replace others. A bookie need not be there. Blocks. Raises as `bookies_seen`."""
    require(actor, Action.SUPERUSER)
    _require_bookies()
    asked = BookieRackSet(bookie=bookie, group=group, rack=rack, hostname=hostname)
    found = broker.rpc().call(BOOKIES_SET_RACK, asked)
    before = None if found.before is None else {"group": found.group, "rack": found.before.rack, "hostname": found.before.hostname}
    record(actor, "bookie_rack.set", "", bookie, before, {"group": group, "rack": rack, "hostname": hostname})


def delete_bookie_rack(actor: Actor, bookie: str) -> None:
    """Blocks. Raises as `bookies_seen`, and `NotFound`."""
    require(actor, Action.SUPERUSER)
    _require_bookies()
    found = broker.rpc().call(BOOKIES_DELETE_RACK, BookieRef(bookie=bookie))
    assert found.before is not None
    before = {"group": found.group, "rack": found.before.rack, "hostname": found.before.hostname}
    record(actor, "bookie_rack.delete", "", bookie, before, None)


def _require_bookies() -> None:
    if not on_bookies():
        raise PreconditionFailed("messages are on no bookies here (ledger_url names no BookKeeper), which could be in racks")
