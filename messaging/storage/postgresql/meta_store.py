"""`MetaStore` in a PostgreSQL database, for one broker or several."""

from __future__ import annotations

from messaging.background import BackgroundLoop
from messaging.storage.postgresql.connection import NOW_MS, PAGES, connect
from messaging.storage.postgresql.thread import PostgresqlThread
from messaging.storage.sql.meta_store import SqlMetaStore


class PostgresqlMetaStore(SqlMetaStore):
    """`url`: as psycopg takes it. A fence is locked against being raised while something is changed under it: whoever raises it
    waits for the changes that came first, and those that come after it are refused."""

    def __init__(self, url: str, health: BackgroundLoop | None = None) -> None:
        super().__init__(PostgresqlThread(lambda: connect(url), health), PAGES, NOW_MS, lock=" for share")
