"""Admin RPC: what is wrong in the topics of some tenants."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from messaging.adminrpc import fields
from messaging.adminrpc.base import Listing, Request
from messaging.problems.order import Problem


class ProblemsList(Request, kw_only=True):
    """Of all topics of `of_tenants`, and of those of single namespaces of others; `everywhere`: of all tenants but those
    in `closed`."""

    of_tenants: fields.TenantsShown = []
    of_namespaces: fields.NamespacesShown = []
    everywhere: bool = False
    closed: fields.TenantsShown = []
    problems_max: fields.ProblemsMax = 100


class ProblemsFound(Listing, kw_only=True):
    """`problems`: the most urgent first; `total` counts all of them, by kind, as far as the broker keeps them. `beyond`: how many
    there are beside them, for which there was no room."""

    problems: list[Problem]
    total: dict[str, int]
    by_namespace: Annotated[dict[str, str], Meta(description="namespace -> the most urgent kind there, of those that have any.")]
    beyond: int
    unknown_topics: Annotated[int, Meta(description="Nobody used them since the start, and only loading them tells.")]
    at_ms: int
    looked_ms: Annotated[int | None, Meta(description="Everything was looked at since then; null: not yet.")]
