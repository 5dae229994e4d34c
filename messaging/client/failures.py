"""How a connection fails. Inside the SDK only: what users see is in `errors`."""

from __future__ import annotations

from messaging.errors import PlatformError


class ConnectionLost(PlatformError):
    """The connection broke while something waited on it. The network's fault: another try may succeed."""

    code, http_status, wire_code = "connection_lost", 503, 6


class Unreachable(PlatformError):
    """Nothing answers at the address, or what answers is no broker."""

    code, http_status, wire_code = "unreachable", 503, 6
