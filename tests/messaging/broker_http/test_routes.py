from __future__ import annotations

from messaging.broker.http.app import HTTP_ROUTES
from messaging.broker.http.websocket.binary import BINARY_PATTERN
from messaging.broker.http.websocket.upgrade import WEBSOCKET_ROUTES
from messaging.permissions.table import BROKER_HTTP, WEBSOCKET


def test_the_permission_table_names_every_route_and_nothing_else() -> None:
    assert set(HTTP_ROUTES) == set(BROKER_HTTP)
    assert {*WEBSOCKET_ROUTES, BINARY_PATTERN} == set(WEBSOCKET)
