"""Connections of web process, workers and commands to PostgreSQL, when its server is started again, or is away for a while."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import cast
from urllib.parse import urlsplit, urlunsplit

import psycopg
import pytest
import pytest_django
from django.db import DEFAULT_DB_ALIAS, OperationalError
from django.db.backends.postgresql.base import DatabaseWrapper
from django.db.utils import ConnectionHandler

from controlplane.databases import CONNECT_S, database
from messaging.settings import Settings
from messaging.storage.postgresql.timeouts import TIMEOUTS
from tests.support.cuttable_proxy import CuttableProxy
from tests.support.databases import drop_connections, other_database


@pytest.fixture(autouse=True)
def databases_of_this_module(django_db_blocker: pytest_django.DjangoDbBlocker) -> Iterator[None]:
    with django_db_blocker.unblock():
        yield


@contextmanager
def connected(url: str) -> Iterator[DatabaseWrapper]:
    """As a thread of a process is, with a pool of its own."""
    configuration = database(Settings(database_url=url))
    handler = ConnectionHandler({DEFAULT_DB_ALIAS: configuration})
    connection = cast("DatabaseWrapper", handler[DEFAULT_DB_ALIAS])
    connection.alias = "of this test"  # pools are kept by it
    try:
        yield connection
    finally:
        connection.close()
        connection.close_pool()


def asked(connection: DatabaseWrapper) -> int:
    """As one request, which gives its connection back."""
    try:
        with connection.cursor() as cursor:
            cursor.execute("select 1")
            return int(cursor.fetchone()[0])
    finally:
        connection.close()


def test_the_first_request_after_a_restart_of_the_server_succeeds(postgresql: str) -> None:
    with other_database(postgresql) as url, connected(url) as connection:
        for _ in range(3):
            assert asked(connection) == 1
            with psycopg.connect(url, autocommit=True) as server:
                drop_connections(server)
        assert asked(connection) == 1


def test_all_connections_of_a_pool_are_looked_at(postgresql: str) -> None:
    """Several threads had one each: no one of the next requests gets one that is dead."""
    with other_database(postgresql) as url, connected(url) as connection:
        assert asked(connection) == 1
        pool = connection.pool
        held = [pool.getconn() for _ in range(4)]
        for each in held:
            pool.putconn(each)
        with psycopg.connect(url, autocommit=True) as server:
            drop_connections(server)
        assert [asked(connection) for _ in range(8)] == [1] * 8


def test_a_server_that_is_back_is_used_by_the_next_request(postgresql: str) -> None:
    """However long it was away: the pool's own pauses grow to as long as that. Connections that were cut by a machine that is gone
    are not waited for."""
    parts = urlsplit(postgresql)
    with CuttableProxy(parts.hostname or "", parts.port or 5432) as proxy:
        through = urlunsplit(parts._replace(netloc=f"{parts.username}@127.0.0.1:{proxy.port}", query="connect_timeout=1"))
        with connected(through) as connection:
            assert asked(connection) == 1
            pool = connection.pool
            assert pool.timeout == CONNECT_S and pool.reconnect_timeout < CONNECT_S
            pool.timeout = 0.2  # not in real time
            proxy.cut()
            proxy.drop()
            for _ in range(3):
                with pytest.raises(OperationalError, match="couldn't get a connection"):
                    asked(connection)
            proxy.heal()
            pool.timeout = CONNECT_S
            assert asked(connection) == 1


def test_a_machine_that_is_gone_is_noticed() -> None:
    """Nothing closes a connection to it: without these a request would wait for two hours."""
    options = database(Settings(database_url="postgresql://me@db.example/magnetar?tcp_user_timeout=3000"))["OPTIONS"]
    assert {*TIMEOUTS} <= {*options}
    assert options["tcp_user_timeout"] == "3000"  # what the operator writes counts
