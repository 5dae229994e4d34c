"""How soon a connection to PostgreSQL notices that its server's machine is gone, which tells nobody: parameters of libpq."""

from __future__ import annotations

from typing import Any

TIMEOUTS: dict[str, Any] = {
    "connect_timeout": 5,  # seconds
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": 10_000,  # milliseconds
}
