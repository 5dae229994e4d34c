"""What is offered while nobody can have sent anything with a key: the quick start, which makes one and shows a program."""

from __future__ import annotations

from typing import NamedTuple

from messaging.permissions.model import Action
from tenants.access import Actor
from tenants.models import Key, Namespace, TokenIssuer
from tenants.scoping import platform_scope
from tenants.visible import tenants_for

PUBLIC = "public"  # the tenant that clients without a key use


class FirstStep(NamedTuple):
    """The namespace, as local names, whose quick start is next."""

    tenant: str
    namespace: str


def first_step(actor: Actor) -> FirstStep | None:
    """None once the tenants that the actor administers have had a key or trust an issuer of tokens, or where there is no
    namespace. The public one is offered only where there is no other."""
    tenants = tenants_for(actor, Action.TENANT_ADMIN).values("name")
    with platform_scope():
        if Key.objects.filter(tenant__in=tenants).exists() or TokenIssuer.objects.filter(tenant__in=tenants).exists():
            return None
        rows = Namespace.objects.filter(tenant__in=tenants).order_by("name")
        row = rows.exclude(tenant=PUBLIC).first() or rows.first()
    return FirstStep(row.tenant_id, row.local) if row else None
