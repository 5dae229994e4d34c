"""Bookies and their racks, as Pulsar's tools know them."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest

from messaging.adminrpc.bookies import BookieRack
from messaging.errors import NotFound, PreconditionFailed
from tenants.actions.bookies import bookies_seen, delete_bookie_rack, on_bookies, set_bookie_rack
from tenants.http.views import actor, body, route
from tenants.pulsar.bodies import BookieInfo


def _all(request: HttpRequest) -> dict[str, Any]:
    """None where messages are elsewhere."""
    return {"bookies": [{"bookieId": each.bookie} for each in bookies_seen().bookies] if on_bookies() else []}


def _racks(request: HttpRequest) -> dict[str, Any]:
    if not on_bookies():
        return {}
    racks = bookies_seen().racks
    return {group: {bookie: _shown(rack) for bookie, rack in bookies.items()} for group, bookies in racks.items()}


def _rack(request: HttpRequest, bookie: str) -> dict[str, str]:
    for bookies in bookies_seen().racks.values():
        if bookie in bookies:
            return _shown(bookies[bookie])
    raise NotFound(f"Bookie rack placement configuration not found: {bookie[:80]}")


def _set_rack(request: HttpRequest, bookie: str) -> None:
    group = request.GET.get("group")
    if group is None:
        raise PreconditionFailed("Bookie 'group' parameters is missing")
    info = body(request, BookieInfo, BookieInfo())
    rack = info.rack or ""
    if "/" in rack.strip("/"):
        raise PreconditionFailed(f"Bookie 'rack' parameter is invalid: {rack[:80]!r} has a slash elsewhere than at its ends")
    set_bookie_rack(actor(request), group, bookie, rack, info.hostname or "")


def _delete_rack(request: HttpRequest, bookie: str) -> None:
    delete_bookie_rack(actor(request), bookie)


def _shown(rack: BookieRack) -> dict[str, str]:
    """Without what was not given."""
    return {name: value for name, value in (("rack", rack.rack), ("hostname", rack.hostname)) if value}


bookies_view = route(GET=_all)
racks_view = route(GET=_racks)
rack_view = route(GET=_rack, POST=_set_rack, DELETE=_delete_rack)
