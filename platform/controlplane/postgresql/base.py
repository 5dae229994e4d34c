"""`DatabaseWrapper` as Django finds it by the name of its package (`ENGINE`)."""

from __future__ import annotations

from typing import Any

import psycopg
from django.db.backends.postgresql import base
from psycopg_pool import ConnectionPool


class DatabaseWrapper(base.DatabaseWrapper):
    """Asks each connection that it takes from the pool whether it still works, which costs a round trip: the server may have been
    started again since its last use. The pool itself can ask, too, but waits longer and longer between two that do not answer: with
    ten of them the first request after a restart would take its whole time limit."""

    def get_new_connection(self, conn_params: dict[str, Any]) -> Any:
        connection = super().get_new_connection(conn_params)
        try:
            ConnectionPool.check_connection(connection)
        except psycopg.Error:
            self.pool.putconn(connection)
            self.pool.drain()  # whatever ended this one has ended those that lie beside it
            connection = super().get_new_connection(conn_params)
        return connection
