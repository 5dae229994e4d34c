"""Admin RPC: connected producers and consumers."""

from __future__ import annotations

import msgspec

from messaging.adminrpc import fields
from messaging.adminrpc.base import Answer, Request

PRODUCER, CONSUMER = "producer", "consumer"
KINDS = (PRODUCER, CONSUMER)


class ClientsDisconnect(Request, kw_only=True):
    """Closes those producers and consumers of a topic, of a partitioned one on every partition, that fit each field that is not "".
    `kind`: one of `KINDS`. `subscription`: of consumers only. `address`: as the stats have it. `dry_run`: they are only counted."""

    topic: fields.Topic
    kind: fields.Kind = ""
    name: fields.Name = ""
    subscription: fields.Name = ""
    address: fields.Address = ""
    dry_run: bool = False


class ClientsDisconnected(Answer, kw_only=True):
    """On a partitioned topic a client counts once for each partition."""

    producers: int = 0
    consumers: int = 0


class ClientsList(Request, kw_only=True):
    """Connections of the binary protocol: of clients with something open in `tenant`, or with a key of it; "": all. `words`: part
    of the address, the library, the role, the key or a topic. `order`: one of `ORDERS`."""

    tenant: fields.Name = ""
    words: fields.Words = ""
    order: fields.Kind = "connected_ms"
    descending: bool = False
    connections_max: fields.ClientsMax = 50


class ClientConnection(msgspec.Struct, kw_only=True):
    """`key_id`: "" for a key of another tenant than was asked for. `producers`, `consumers`: of the tenant that was asked for.
    `topics`: some of theirs, full names."""

    address: str
    client: str
    protocol_version: int
    role: str
    key_id: str
    connected_ms: int
    producers: int
    consumers: int
    topics: list[str]
    websocket: bool
    tls: bool
    broker_id: str


class ClientsListed(Answer, kw_only=True):
    """`rows`: the first in the order. `libraries`: connections by what their client calls itself, of all that match. `unreached`:
    brokers of several that did not answer; what is connected to them is not known."""

    rows: list[ClientConnection]
    total: int
    producers: int
    consumers: int
    libraries: dict[str, int]
    uncounted_libraries: int = 0  # connections of further libraries than are listed
    unreached: int = 0


ORDERS = ("connected_ms", "address", "client", "role", "producers", "consumers")
LIBRARIES_MAX = 200


def in_order(rows: list[ClientConnection], order: str, *, descending: bool, connections_max: int) -> list[ClientConnection]:
    return sorted(rows, key=lambda row: (getattr(row, order), row.address), reverse=descending)[:connections_max]
