"""Who a producer or consumer belongs to, as statistics show it."""

from __future__ import annotations

from typing import NamedTuple


class ClientInfo(NamedTuple):
    address: str  # of the other end of the connection, with the port
    version: str  # as the client gave it


LOCAL_CLIENT = ClientInfo("local", "")  # inside this process
