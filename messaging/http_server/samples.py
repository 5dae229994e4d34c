"""Metrics of the limits of a listener, as samples of `messaging.metrics`."""

from __future__ import annotations

from collections.abc import Iterator

from messaging.http_server.bounds import HttpBounds
from messaging.http_server.request_queue import RequestQueues
from messaging.http_server.tunnel_slots import TunnelSlots
from messaging.metrics import Sample


def connection_samples(listener: str, bounds: HttpBounds) -> Iterator[Sample]:
    labels = (listener,)
    yield Sample("magnetar_http_connections", bounds.slots.taken, labels)
    yield Sample("magnetar_http_connections_made_room_total", bounds.slots.made_room, labels)
    yield Sample("magnetar_http_connections_turned_away_total", bounds.slots.turned_away, labels)
    yield Sample("magnetar_http_unread_bytes", bounds.unread.held_bytes, labels)
    yield Sample("magnetar_http_connections_unread_total", bounds.unread.cut_off, labels)


def tunnel_samples(listener: str, slots: TunnelSlots) -> Iterator[Sample]:
    labels = (listener,)
    yield Sample("magnetar_http_tunnels", slots.taken, labels)
    yield Sample("magnetar_http_tunnels_opened_total", slots.opened, labels)
    yield Sample("magnetar_http_tunnels_refused_total", slots.refused, labels)


def request_samples(listener: str, request_queues: RequestQueues) -> Iterator[Sample]:
    for name, request_queue in (
        ("requests", request_queues.requests),
        ("health", request_queues.health),
        ("internal", request_queues.internal),
    ):
        labels = (listener, name)
        yield Sample("magnetar_http_requests_running", request_queue.running, labels)
        yield Sample("magnetar_http_requests_waiting", request_queue.waiting, labels)
        yield Sample("magnetar_http_requests_turned_away_total", request_queue.refused, labels)
    if request_queues.bodies is not None:
        yield Sample("magnetar_http_bodies_waiting_bytes", request_queues.bodies.held_bytes, (listener,))
        yield Sample("magnetar_http_bodies_turned_away_total", request_queues.bodies.refused, (listener,))
