"""Django's view of `database_url`: SQLite in the data directory when it is empty, else PostgreSQL."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from messaging.settings import ConfigError, Settings
from messaging.storage.postgresql.timeouts import TIMEOUTS

_POOL_CONNECTIONS_MAX = 10
CONNECT_S = 10.0  # a request that gets no connection by then is answered with 503; a task is tried again
# A server that is back is used at once: the pool gives up soon, and the next who wants a connection has it try again. With the
# pool's own 300 s the pauses between its attempts grow to as long as the server was away.
_RECONNECT_S = 3.0


def database(settings: Settings) -> dict[str, Any]:
    return _postgresql(settings.database_url) if settings.database_url else _sqlite(settings)


def _sqlite(settings: Settings) -> dict[str, Any]:
    """WAL lets readers continue beside the writer. IMMEDIATE takes the write lock at BEGIN, where waiting for it works; a
    transaction that reads and then writes would otherwise fail at once with "database is locked", whatever the timeout.
    A full disk: see `controlplane.sqlite`."""
    folder = settings.data_path / "control"
    return {
        "ENGINE": "controlplane.sqlite",
        "NAME": str(folder / "db.sqlite3"),
        "OPTIONS": {
            "transaction_mode": "IMMEDIATE",
            "timeout": 20,
            "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;",
        },
        # In memory, each thread of a test would see an empty database of its own.
        "TEST": {"NAME": str(settings.data_path / "test.sqlite3")},
    }


def _postgresql(url: str) -> dict[str, Any]:
    """`postgresql://user:password@host:port/name?sslmode=...`; further parameters go to libpq."""
    parts = urlsplit(url)
    try:
        port = parts.port
    except ValueError:
        raise ConfigError("database_url has a port that is not a number: write postgresql://user:password@host:5432/name") from None
    name = unquote(parts.path.removeprefix("/"))
    if parts.scheme not in ("postgresql", "postgres") or not name:
        raise ConfigError("database_url is not a PostgreSQL URL: write postgresql://user:password@host:5432/name")
    return {
        "ENGINE": "controlplane.postgresql",
        "NAME": name,
        "USER": unquote(parts.username or ""),
        "PASSWORD": unquote(parts.password or ""),
        "HOST": unquote(parts.hostname or ""),
        "PORT": str(port or ""),
        "OPTIONS": {
            "pool": {
                "min_size": 1,
                "max_size": _POOL_CONNECTIONS_MAX,
                "timeout": CONNECT_S,
                "reconnect_timeout": _RECONNECT_S,
            },
            **TIMEOUTS,
            **dict(parse_qsl(parts.query)),
        },
    }
