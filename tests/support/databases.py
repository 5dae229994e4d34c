"""Databases of a real PostgreSQL server for tests."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit, urlunsplit

import psycopg

from messaging.storage.postgresql.connection import SCHEMA
from messaging.storage.postgresql.ledgers import tables


@contextmanager
def other_database(server: str) -> Iterator[str]:
    """URL of a new one beside the one that `server` names; it goes at the end."""
    name = f"magnetar_{secrets.token_hex(6)}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f'CREATE DATABASE "{name}"')
    yield urlunsplit(urlsplit(server)._replace(path=f"/{name}"))
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f'DROP DATABASE "{name}" WITH (FORCE)')


def forget_broker(url: str) -> None:
    """Its metadata and its ledgers."""
    with psycopg.connect(url, autocommit=True) as connection:
        for schema in (SCHEMA, tables.SCHEMA):
            connection.execute(f"DROP SCHEMA IF EXISTS {schema} CASCADE".encode())


def drop_connections(server: psycopg.Connection[tuple[object, ...]]) -> None:
    """All but this one, of its database."""
    server.execute(
        "select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()"
    )
