"""Admin RPC: what brokers of a fleet tell each other of what happened at them."""

from __future__ import annotations

from typing import Annotated

from messaging.adminrpc import fields
from messaging.adminrpc.base import Answer, Request


class NewsTold(Request, kw_only=True):
    """`changed`: topics that were made (true) or deleted. `grown`: partitioned topics, and how many partitions they have now.
    `made`: tenants that have more topics, partitions, subscriptions or versions of schemas than were counted before."""

    changed: Annotated[dict[str, bool], fields.NEWS] = {}
    grown: Annotated[dict[str, int], fields.NEWS] = {}
    made: Annotated[list[str], fields.NEWS] = []


class UseTold(Request, kw_only=True):
    """What a broker has of what limits of tenants are about: producers and consumers by namespace (which has a slash) and tenant,
    connections by tenant; bytes `appended` since some time, by tenant with a ceiling of what is stored. `published` and
    `dispatched`: by level and whose limit, which part of it was sent a second ago, and whether senders wait for more."""

    broker_id: fields.Name
    producers: Annotated[dict[str, int], fields.NEWS]
    consumers: Annotated[dict[str, int], fields.NEWS]
    connections: Annotated[dict[str, int], fields.NEWS]
    appended: Annotated[dict[str, int], fields.NEWS]
    published: Annotated[dict[str, tuple[float, bool]], fields.NEWS]
    dispatched: Annotated[dict[str, tuple[float, bool]], fields.NEWS]


class OpenBytesAsked(Request, kw_only=True):
    tenant: fields.Name


class OpenBytes(Answer, kw_only=True):
    """What a tenant has in ledgers that this broker writes to, whose length the metadata does not have yet."""

    open_bytes: int
