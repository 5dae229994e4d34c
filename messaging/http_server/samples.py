"""What the bounds of a listener hold and refused, as samples of `messaging.metrics`."""

from __future__ import annotations

from collections.abc import Iterator

from messaging.http_server.lanes import Lanes
from messaging.http_server.protocol import HttpBounds
from messaging.metrics import Sample


def connection_samples(listener: str, bounds: HttpBounds) -> Iterator[Sample]:
    labels = (listener,)
    yield Sample("magnetar_http_connections", bounds.places.taken, labels)
    yield Sample("magnetar_http_connections_made_room_total", bounds.places.made_room, labels)
    yield Sample("magnetar_http_connections_turned_away_total", bounds.places.turned_away, labels)
    yield Sample("magnetar_http_unread_bytes", bounds.unread.held_bytes, labels)
    yield Sample("magnetar_http_connections_unread_total", bounds.unread.cut_off, labels)


def request_samples(listener: str, lanes: Lanes) -> Iterator[Sample]:
    for name, lane in (("requests", lanes.requests), ("health", lanes.health), ("internal", lanes.internal)):
        labels = (listener, name)
        yield Sample("magnetar_http_requests_running", lane.running, labels)
        yield Sample("magnetar_http_requests_waiting", lane.waiting, labels)
        yield Sample("magnetar_http_requests_turned_away_total", lane.refused, labels)
    if lanes.bodies is not None:
        yield Sample("magnetar_http_bodies_waiting_bytes", lanes.bodies.held_bytes, (listener,))
        yield Sample("magnetar_http_bodies_turned_away_total", lanes.bodies.refused, (listener,))
