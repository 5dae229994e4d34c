"""What somebody made, in the form that the console shows: how it is called, and the page where it is changed or taken away."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import NamedTuple

from django.urls import reverse

from admin_ui.addresses import short_name
from admin_ui.translation.texts import gettext_lazy
from messaging.permissions.model import USER_ROLE_PREFIX, user_role
from messaging.protocol.names import parse_topic
from tenants.models import Membership, administrators
from workers.made.kinds import Thing

KIND_TEXTS = {
    "key": gettext_lazy("Key"),
    "role": gettext_lazy("Role"),
    "team": gettext_lazy("Team"),
    "issuer": gettext_lazy("Token issuer"),
    "member": gettext_lazy("Member"),
    "invitation": gettext_lazy("Invitation"),
    "permission": gettext_lazy("Permission"),
    "restriction": gettext_lazy("Restriction of a subscription"),
    "alert_rule": gettext_lazy("Alert rule"),
    "notifications": gettext_lazy("Where notices go"),
    "audit_stream": gettext_lazy("Stream of the audit log"),
    "report": gettext_lazy("Report on schedule"),
    "budget": gettext_lazy("Budget"),
    "spend_cap": gettext_lazy("Spend cap"),
    "redrive": gettext_lazy("Redrive"),
    "namespace": gettext_lazy("Namespace"),
    "policies": gettext_lazy("Policies"),
    "topic": gettext_lazy("Topic"),
    "subscription": gettext_lazy("Subscription"),
    "dead_letter_policy": gettext_lazy("Dead-letter policy"),
    "view": gettext_lazy("Shared view"),
}
_OF_TENANT = {  # pages of which there is one a tenant
    "invitation": "members",
    "notifications": "alerts",
    "audit_stream": "audit_stream",
    "report": "reports",
    "budget": "budgets",
    "spend_cap": "spend_caps",
}
_BY_ID = {"key": "key", "role": "role", "team": "team", "issuer": "token_issuer", "member": "member", "alert_rule": "alert_rule"}


class MadeRow(NamedTuple):
    kind: str
    name: str
    address: str  # of its page; "": there is none for others
    thing: Thing


def made_row(tenant: str, kind: str, thing: Thing) -> MadeRow:
    return MadeRow(str(KIND_TEXTS[kind]), thing.name.removeprefix(f"{tenant}/"), _address(tenant, kind, thing), thing)


def _address(tenant: str, kind: str, thing: Thing) -> str:
    if kind in _OF_TENANT:
        return reverse(f"console:{_OF_TENANT[kind]}", args=[tenant])
    if kind in _BY_ID:
        return reverse(f"console:{_BY_ID[kind]}", args=[tenant, thing.id])
    build: Callable[[str, str, Thing], str] | None = _BUILT.get(kind)
    return build(tenant, kind, thing) if build is not None else ""


def _of_namespace(page: str) -> Callable[[str, str, Thing], str]:
    return lambda tenant, kind, thing: reverse(f"console:{page}", args=[tenant, thing.id.partition("/")[2]])


def _topic(page: str, topic: str, *further: str) -> str:
    name = parse_topic(topic)
    return reverse(f"console:{page}", args=[name.tenant, name.namespace_local, short_name(topic), *further])


def _policies(tenant: str, kind: str, thing: Thing) -> str:
    if "://" in thing.id:
        return _topic("topic_policies", thing.id)
    return _of_namespace("policies")(tenant, kind, thing) if "/" in thing.id else reverse("console:tenant_policies", args=[tenant])


def _subscription(page: str) -> Callable[[str, str, Thing], str]:
    return lambda tenant, kind, thing: _topic(page, thing.id, thing.name.removeprefix(f"{thing.id}/"))


_BUILT: dict[str, Callable[[str, str, Thing], str]] = {
    "permission": _of_namespace("grants"),
    "restriction": _of_namespace("grants"),
    "namespace": _of_namespace("namespace"),
    "policies": _policies,
    "redrive": lambda tenant, kind, thing: _topic("redrive", thing.name, thing.id),
    "topic": lambda tenant, kind, thing: _topic("topic", thing.id),
    "subscription": _subscription("subscription"),
    "dead_letter_policy": _subscription("dead_letter_policy"),
}


def left(roles: Iterable[str]) -> Collection[str]:
    """Those of the roles that are people who are no members of the tenant in scope now, and do not administer the platform."""
    people = {role for role in roles if role.startswith(USER_ROLE_PREFIX)}
    if not people:
        return people
    names = [role.removeprefix(USER_ROLE_PREFIX) for role in people]
    current = Membership.objects.filter(user__username__in=names, user__is_active=True).values_list("user__username", flat=True)
    administering = administrators().filter(username__in=names).values_list("username", flat=True)
    return people - {user_role(name) for name in (*current, *administering)}
