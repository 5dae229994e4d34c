"""Admin RPC: the brokers of a fleet, and calls about one of them."""

from __future__ import annotations

import msgspec

from messaging.adminrpc import fields
from messaging.adminrpc.base import Answer, Request


class BrokerAsked(Request, kw_only=True):
    """What is asked of one broker. `broker_id` "": of whoever is asked. Raises not_ready where that broker is away."""

    broker_id: fields.Name = ""


class BrokerSeen(msgspec.Struct, kw_only=True):
    """`live`: it renewed its session lately. `broker_url`: where clients of its topics are sent. `service_url`: where clients
    begin, which several brokers of a machine share. Those that it does not have are empty, all of one that is not ready yet.
    `problem`: why others cannot take over from one that is gone, and what to do; empty if they can."""

    broker_id: str
    live: bool
    broker_url: str
    broker_url_tls: str = ""
    service_url: str = ""
    service_url_tls: str = ""
    ws_url: str = ""
    rpc_url: str = ""
    problem: str = ""


class BrokersSeen(Answer, kw_only=True):
    """By id, whoever is asked among them."""

    brokers: list[BrokerSeen]


class GoneBroker(Request, kw_only=True):
    """A broker that is gone, and others may take over from. Raises not_found, conflict if it is alive, not_ready, not_allowed where
    each broker has a log of its own."""

    gone_broker_id: fields.Name


class RecoverBroker(GoneBroker, kw_only=True):
    """`accept_loss`: where what it acknowledged last cannot be read, those messages come again."""

    accept_loss: bool = False


class BrokerForgotten(Answer, kw_only=True):
    """`bundles` that were its own and are nobody's now; `ledgers` that nothing refers to and were deleted, and their size."""

    bundles: int
    ledgers: int
    length_bytes: int
