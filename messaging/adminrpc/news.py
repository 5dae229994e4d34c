"""Admin RPC: what brokers of a fleet tell each other of what happened at them."""

from __future__ import annotations

from typing import Annotated

from messaging.adminrpc import fields
from messaging.adminrpc.base import Request


class NewsTold(Request, kw_only=True):
    """`changed`: topics that were made (true) or deleted. `grown`: partitioned topics, and how many partitions they have now.
    `made`: tenants that have more topics, partitions, subscriptions or versions of schemas than were counted before."""

    changed: Annotated[dict[str, bool], fields.NEWS] = {}
    grown: Annotated[dict[str, int], fields.NEWS] = {}
    made: Annotated[list[str], fields.NEWS] = []
