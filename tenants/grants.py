"""The database as `messaging.permissions.model.Grants`. One object lives for one request: what it read it does not read again."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import cached_property

from django.conf import settings as django_settings

from messaging.permissions.model import ANONYMOUS, USER_ROLE_PREFIX
from messaging.protocol.names import parse_topic
from messaging.settings import Settings
from tenants.models import Grant, Membership, SubscriptionGrant, Tenant, User

PUBLIC_NAMESPACE = "public/default"


class DatabaseGrants:
    """`anonymous_public`: whether this request came over loopback, where anonymous clients may use `public/default`."""

    def __init__(self, anonymous_public: bool = False) -> None:
        self._anonymous_public = anonymous_public
        self._superusers: dict[str, bool] = {}
        self._people: dict[str, dict[str, list[str]]] = {}
        self._admins: dict[str, frozenset[str]] = {}
        self._grants: dict[str, dict[str, dict[str, list[str]]]] = {}

    @cached_property
    def _settings(self) -> Settings:
        found: Settings = django_settings.MAGNETAR
        return found

    def is_superuser(self, role: str) -> bool:
        if role in self._settings.superuser_roles:
            return True
        if not role.startswith(USER_ROLE_PREFIX):
            return False
        if role not in self._superusers:
            username = role.removeprefix(USER_ROLE_PREFIX)
            self._superusers[role] = User.objects.filter(username=username, is_active=True, is_superuser=True).exists()
        return self._superusers[role]

    def tenant_admins(self, tenant: str) -> Collection[str]:
        if tenant not in self._admins:
            roles = Tenant.unscoped.filter(name=tenant).values_list("admin_roles", flat=True).first()
            owners = self._members(tenant)[Membership.Level.OWNER] if roles is not None else []
            self._admins[tenant] = frozenset([*(roles or ()), *owners])
        return self._admins[tenant]

    def tenant_members(self, tenant: str) -> Collection[str]:
        return self._members(tenant)[Membership.Level.MEMBER]

    def namespace_grants(self, namespace: str) -> Mapping[str, Collection[str]]:
        found: Mapping[str, Collection[str]] = self._of_namespace(namespace).get("", {})
        if namespace == PUBLIC_NAMESPACE and self._anonymous_public and self._settings.anonymous_public:
            held = set(found.get(ANONYMOUS, ()))
            return {**found, ANONYMOUS: held | {"produce", "consume"}}
        return found

    def topic_grants(self, topic: str) -> Mapping[str, Collection[str]]:
        name = parse_topic(topic)
        of_namespace = self._of_namespace(str(name.namespace))
        own, inherited = of_namespace.get(topic, {}), of_namespace.get(str(name.base), {})
        return {role: [*own.get(role, ()), *inherited.get(role, ())] for role in {*own, *inherited}}

    def subscription_roles(self, namespace: str, subscription: str) -> Collection[str]:
        rows = SubscriptionGrant.unscoped.filter(namespace=namespace, subscription=subscription)
        return list(rows.values_list("role", flat=True))

    def _members(self, tenant: str) -> dict[str, list[str]]:
        if tenant not in self._people:
            people: dict[str, list[str]] = {level: [] for level in Membership.Level.values}
            rows = Membership.unscoped.filter(tenant=tenant, user__is_active=True).values_list("level", "user__username")
            for level, username in rows:
                people[level].append(USER_ROLE_PREFIX + username)
            self._people[tenant] = people
        return self._people[tenant]

    def _of_namespace(self, namespace: str) -> dict[str, dict[str, list[str]]]:
        """topic ("": the namespace) -> role -> actions."""
        if namespace not in self._grants:
            found: dict[str, dict[str, list[str]]] = {}
            for topic, role, actions in Grant.unscoped.filter(namespace=namespace).values_list("topic", "role", "actions"):
                found.setdefault(topic, {})[role] = actions
            self._grants[namespace] = found
        return self._grants[namespace]
