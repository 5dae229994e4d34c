"""Admin RPC: connected producers and consumers."""

from __future__ import annotations

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
