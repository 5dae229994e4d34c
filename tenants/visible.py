"""Which tenants somebody may see, as a query: of thousands of them nobody is told in Python, or named in a statement."""

from __future__ import annotations

from typing import Any

from django.db import connection
from django.db.models import BooleanField, F, Func, Q, QuerySet, Value

from messaging.permissions.model import USER_ROLE_PREFIX, Action, Resource
from tenants.access import Actor
from tenants.models import Membership, Tenant
from tenants.scoping import platform_scope


class _Holds(Func):
    """Whether a list of texts holds a text, in SQLite."""

    template = "exists (select 1 from json_each(%(expressions)s))"
    arg_joiner = ") where value = ("
    output_field = BooleanField()


def visible_tenants(actor: Actor) -> QuerySet[Tenant]:
    """As administrator of the platform, by an admin role, or as an active member. In no order; to be read in any scope."""
    role = actor.principal.role
    with platform_scope():
        rows = Tenant.objects.order_by()
        if actor.may(Action.SUPERUSER):
            return rows
        members = Membership.objects.filter(user__is_active=True, user__username=role.removeprefix(USER_ROLE_PREFIX))
        of_person: Any = members.values("tenant_id") if role.startswith(USER_ROLE_PREFIX) else ()
        return rows.filter(_administered_by(role) | Q(name__in=of_person))


def open_tenants(actor: Actor) -> QuerySet[Tenant]:
    """Of the visible tenants those whose data the actor may be told of at all: who has no second factor is told nothing of tenants
    that require one, whatever else they may do."""
    rows = visible_tenants(actor)
    return rows if actor.second_factor else rows.filter(second_factor_required=False)


def closed_tenants(actor: Actor) -> QuerySet[Tenant]:
    """The visible tenants that are not open, to be left out of what is asked about all tenants."""
    rows = visible_tenants(actor)
    return rows.none() if actor.second_factor else rows.filter(second_factor_required=True)


def tenants_for(actor: Actor, action: Action) -> QuerySet[Tenant]:
    """Those in the whole of which the actor may do this. Of administrators it is not asked for each of thousands."""
    rows = open_tenants(actor)
    if actor.may(Action.SUPERUSER):
        return rows
    names = list(rows.values_list("name", flat=True))
    actor.grants.read_tenants(names)
    return rows.filter(name__in=[name for name in names if actor.may(action, Resource(name))])


def sees_everything(actor: Actor) -> bool:
    """Whether there is no tenant, nor what is left of one, of which the actor may not be told."""
    return actor.may(Action.SUPERUSER) and not closed_tenants(actor).exists()


def _administered_by(role: str) -> Q:
    if connection.features.supports_json_field_contains:
        return Q(admin_roles__contains=[role])
    return Q(_Holds(F("admin_roles"), Value(role)))
