"""The racks of bookies, which brokers keep where Pulsar does: in the ZooKeeper of the bookies."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from django.conf import settings as django_settings

from messaging.adminrpc.base import Request
from messaging.adminrpc.bookies import BookieRackBefore, BookieRackSet, BookieRef, BookiesSeen
from messaging.adminrpc.methods import BOOKIES_DELETE_RACK, BOOKIES_LIST, BOOKIES_SET_RACK
from messaging.bookkeeper_url import is_bookkeeper
from messaging.errors import NotReady, PreconditionFailed
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
    """For new ledgers, and bookies that replace others. A bookie need not be there. Blocks. Raises as `bookies_seen`; where it is
    not known whether that happened, the record says so."""
    require(actor, Action.SUPERUSER)
    _require_bookies()
    after = {"group": group, "rack": rack, "hostname": hostname}
    with _recorded_if_not_confirmed(actor, "bookie_rack.set", bookie, after):
        found = broker.rpc().call(BOOKIES_SET_RACK, BookieRackSet(bookie=bookie, group=group, rack=rack, hostname=hostname))
    record(actor, "bookie_rack.set", "", bookie, _before(found), after)


def delete_bookie_rack(actor: Actor, bookie: str) -> None:
    """Blocks. Raises as `set_bookie_rack`, and `NotFound`."""
    require(actor, Action.SUPERUSER)
    _require_bookies()
    with _recorded_if_not_confirmed(actor, "bookie_rack.delete", bookie, {}):
        found = broker.rpc().call(BOOKIES_DELETE_RACK, BookieRef(bookie=bookie))
    record(actor, "bookie_rack.delete", "", bookie, _before(found), None)


@contextmanager
def _recorded_if_not_confirmed(actor: Actor, action: str, bookie: str, after: dict[str, str]) -> Iterator[None]:
    """What is refused leaves no record."""
    try:
        yield
    except NotReady as error:  # the broker may have done it
        record(actor, action, "", bookie, None, {**after, "not_confirmed": error.message})
        raise


def _before(found: BookieRackBefore) -> dict[str, str] | None:
    return None if found.before is None else {"group": found.group, "rack": found.before.rack, "hostname": found.before.hostname}


def _require_bookies() -> None:
    if not on_bookies():
        raise PreconditionFailed("messages are on no bookies here (ledger_url names no BookKeeper), which could be in racks")
