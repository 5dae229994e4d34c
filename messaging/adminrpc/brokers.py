"""Admin RPC: the brokers of a fleet, and calls about one of them."""

from __future__ import annotations

import msgspec

from messaging.adminrpc import fields
from messaging.adminrpc.base import Answer, Request


class BrokerAsked(Request, kw_only=True):
    """What is asked of one broker. `broker_id` "": of whoever is asked. Raises not_ready where that broker is away."""

    broker_id: fields.Name = ""


class BrokerSeen(msgspec.Struct, kw_only=True):
    """`live`: it renewed its session lately. `broker_url`: where clients of its topics are sent."""

    broker_id: str
    live: bool
    broker_url: str


class BrokersSeen(Answer, kw_only=True):
    """By id, whoever is asked among them."""

    brokers: list[BrokerSeen]
