"""Admin RPC: what a tenant uses of its ceilings."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from messaging.adminrpc import fields
from messaging.adminrpc.base import Answer, Request


class CeilingsAsked(Request, kw_only=True):
    tenant: fields.Name


class CeilingsUsed(Answer, kw_only=True):
    used: Annotated[dict[str, int], Meta(description="By the policy that sets the ceiling; those that the broker owns.")]
