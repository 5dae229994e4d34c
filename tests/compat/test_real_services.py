"""The same platform on PostgreSQL and Redis, as at scale, where `.ci/run` started them."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import psycopg
import pytest

from tests.compat.stock import Stock, receive
from tests.support.brokers.standalone import Standalone

pytestmark = [pytest.mark.xdist_group("standalone"), pytest.mark.standalone]


@pytest.fixture
def database(postgresql: str) -> Iterator[str]:
    """A database of this test alone."""
    name = f"magnetar_{secrets.token_hex(6)}"
    with psycopg.connect(postgresql, autocommit=True) as connection:
        connection.execute(f'CREATE DATABASE "{name}"')
    yield urlunsplit(urlsplit(postgresql)._replace(path=f"/{name}"))
    with psycopg.connect(postgresql, autocommit=True) as connection:
        connection.execute(f'DROP DATABASE "{name}" WITH (FORCE)')


@pytest.mark.timeout(240)
def test_on_postgresql_and_redis(tmp_path: Path, database: str, redis_server: str) -> None:
    platform = Standalone(tmp_path / "data", MAGNETAR_DATABASE_URL=database, MAGNETAR_REDIS_URL=redis_server)
    stock = None
    try:
        platform.start()
        assert {child["name"] for child in platform.state()["children"]} == {"prepare", "broker", "web", "worker"}
        token = platform.admin_token
        assert platform.http("POST", "/api/v1/tenants", {"name": "acme"}, token).status == 201
        assert platform.http("POST", "/api/v1/tenants/acme/namespaces", {"name": "orders"}, token).status == 201
        key = platform.http("POST", "/api/v1/tenants/acme/keys", {"name": "app"}, token).json()["token"]
        grant = {"actions": ["produce", "consume"]}
        assert platform.http("PUT", "/api/v1/tenants/acme/namespaces/orders/permissions/app@acme", grant, token).status == 200
        stock = Stock(platform.ready["broker_url"], tmp_path / "client.log")
        client = stock.client(key)
        consumer = client.subscribe("persistent://acme/orders/new", "billing")
        client.create_producer("persistent://acme/orders/new").send(b"order 1")
        assert [message.data() for message in receive(consumer, 1)] == [b"order 1"]
        assert not (platform.folder / "control" / "db.sqlite3").exists()
    finally:
        if stock is not None:
            stock.close()
        platform.close()
