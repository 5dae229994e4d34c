"""The database as `messaging.permissions.model.Grants`. One object lives for one request: what it read it does not read again."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

from django.conf import settings as django_settings

from messaging.permissions.inherited import ANONYMOUS_NAMESPACE, InheritedGrants
from messaging.permissions.model import USER_ROLE_PREFIX, Action, Binding, Scope
from messaging.permissions.roles import BUILT_IN, complete, key_binding, known
from messaging.policies.model import ROLE_PREFIX
from messaging.settings import Settings
from tenants.models import CustomRole, Grant, Key, Membership, Namespace, SubscriptionGrant, TeamRole, Tenant, administrators

NAMES_A_QUERY = 1_000
_OF_TENANT = ("uid", "admin_roles", "policies", "second_factor_required")


class _Bound(NamedTuple):
    """A role that somebody has. `via` is the team through which they have it, "" for themselves."""

    tenant: str
    role: str
    scope: Scope
    via: str = ""


class DatabaseGrants(InheritedGrants):
    """`anonymous_public`: whether this request came over loopback, where anonymous clients may use `public/default`."""

    def __init__(self, anonymous_public: bool = False) -> None:
        self._anonymous_public = anonymous_public
        self._public: bool | None = None
        self._superusers: dict[str, bool] = {}
        self._bindings: dict[str, list[_Bound]] = {}
        self._key_bindings: dict[str, list[Binding] | None] = {}
        self._custom_roles: dict[str, dict[str, frozenset[Action]]] = {}
        self._admins: dict[str, frozenset[str]] = {}
        self._uids: dict[str, str] = {}
        self._policies: dict[str, Mapping[str, Any]] = {}
        self._second_factors: dict[str, bool] = {}
        self._grants: dict[str, dict[str, dict[str, list[str]]]] = {}
        self._subscription_roles: dict[str, dict[str, list[str]]] = {}  # of the namespaces that were read as a whole
        self._prefixing: dict[str, bool] = {}

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
            self._superusers[role] = administrators().filter(username=username).exists()
        return self._superusers[role]

    def tenant_admins(self, tenant: str) -> Collection[str]:
        self._read(tenant)
        return self._admins[tenant]

    def tenant_uid(self, tenant: str) -> str:
        """ "" if there is no such tenant."""
        self._read(tenant)
        return self._uids[tenant]

    def tenant_policies(self, tenant: str) -> Mapping[str, Any]:
        """What is set on the tenant."""
        self._read(tenant)
        return self._policies[tenant]

    def requires_second_factor(self, tenant: str) -> bool:
        self._read(tenant)
        return self._second_factors[tenant]

    def _read(self, tenant: str) -> None:
        if tenant in self._uids:
            return
        row = Tenant.unscoped.filter(name=tenant).values_list(*_OF_TENANT).first()
        self._keep(tenant, *(row or ("", [], {}, False)))

    def _keep(self, tenant: str, uid: str, roles: Iterable[str], policies: Mapping[str, Any], required: bool) -> None:
        self._uids[tenant], self._policies[tenant], self._second_factors[tenant] = uid, policies, required
        self._admins[tenant] = frozenset(roles)

    def read_tenants(self, tenants: Collection[str]) -> None:
        """What decisions about these tenants ask for, in two queries: for lists, which would ask for each."""
        unread = {tenant for tenant in tenants if tenant not in self._uids or tenant not in self._custom_roles}
        if not unread:
            return
        # A database takes a limited number of names; of very many tenants all are read.
        few = len(unread) <= NAMES_A_QUERY
        rows = Tenant.unscoped.filter(name__in=unread) if few else Tenant.unscoped.all()
        for name, *columns in rows.values_list("name", *_OF_TENANT):
            self._keep(name, *columns)
        custom = CustomRole.unscoped.filter(tenant__in=unread) if few else CustomRole.unscoped.all()
        self._custom_roles.update({tenant: {} for tenant in unread})
        for tenant, name, actions in custom.values_list("tenant_id", "name", "actions"):
            self._custom_roles.setdefault(tenant, {})[name] = complete(known(actions))

    def read_namespaces(self, namespaces: Collection[str]) -> None:
        """What decisions about these namespaces (tenant/namespace), their topics and subscriptions ask for, in three queries for
        each thousand of them."""
        unread = [name for name in dict.fromkeys(namespaces) if name not in self._subscription_roles]
        for start in range(0, len(unread), NAMES_A_QUERY):
            names = unread[start : start + NAMES_A_QUERY]
            self._grants.update({name: {} for name in names})
            for name, topic, role, actions in Grant.unscoped.filter(namespace__in=names).values_list(
                "namespace_id", "topic", "role", "actions"
            ):
                self._grants[name].setdefault(topic, {})[role] = actions
            self._subscription_roles.update({name: {} for name in names})
            for name, subscription, role in SubscriptionGrant.unscoped.filter(namespace__in=names).values_list(
                "namespace_id", "subscription", "role"
            ):
                self._subscription_roles[name].setdefault(subscription, []).append(role)
            self._prefixing.update(dict.fromkeys(names, False))
            for name, policies in Namespace.unscoped.filter(name__in=names).values_list("name", "policies"):
                self._prefixing[name] = _prefixes(policies)

    def bindings(self, tenant: str, role: str) -> Sequence[Binding]:
        if not tenant or not role.startswith(USER_ROLE_PREFIX):
            return ()
        if role not in self._bindings:
            self._bindings[role] = self._read_bindings(role.removeprefix(USER_ROLE_PREFIX))
        bound = [each for each in self._bindings[role] if each.tenant == tenant]
        return [Binding(each.role, self.role_actions(tenant, each.role), each.scope, each.via) for each in bound]

    def key_bindings(self, key_id: str) -> Sequence[Binding] | None:
        if key_id not in self._key_bindings:
            scope = Key.unscoped.filter(id=key_id).values_list("scope", flat=True).first()
            self._key_bindings[key_id] = _bindings_of(scope)
        return self._key_bindings[key_id]

    def remember(self, tenant: str, members: Iterable[Membership], keys: Iterable[Key]) -> None:
        """What was read of the tenant, with the users of its members, so that nothing is asked for each."""
        teams: dict[int, list[_Bound]] = {}
        for row in TeamRole.unscoped.filter(team__tenant=tenant).select_related("team").prefetch_related("team__members"):
            for member in row.team.members.all():
                teams.setdefault(member.user_id, []).append(_through_team(row))
        for membership in members:
            user = membership.user
            self._superusers[user.role] = user.administers
            bound = [_bound(membership), *teams.get(user.pk, ())]
            self._bindings[user.role] = bound if user.is_active else []
        for key in keys:
            self._key_bindings[key.id] = _bindings_of(key.scope)

    def role_actions(self, tenant: str, name: str) -> frozenset[Action]:
        """Of a built-in role, or one of the tenant's own; none of a role that does not exist."""
        if name in BUILT_IN:
            return BUILT_IN[name].actions
        if tenant not in self._custom_roles:
            rows = CustomRole.unscoped.filter(tenant=tenant).values_list("name", "actions")
            self._custom_roles[tenant] = {row_name: complete(known(actions)) for row_name, actions in rows}
        return self._custom_roles[tenant].get(name, frozenset())

    def stored_grants(self, namespace: str, topic: str) -> Mapping[str, Collection[str]]:
        return self._of_namespace(namespace).get(topic, {})

    def opens_public(self) -> bool:
        if not (self._anonymous_public and self._settings.anonymous_public):
            return False
        if self._public is None:
            self._public = Namespace.unscoped.filter(name=ANONYMOUS_NAMESPACE).exists()
        return self._public

    def subscription_roles(self, namespace: str, subscription: str) -> Collection[str]:
        of_namespace = self._subscription_roles.get(namespace)
        if of_namespace is not None:
            return of_namespace.get(subscription, ())
        rows = SubscriptionGrant.unscoped.filter(namespace=namespace, subscription=subscription)
        return list(rows.values_list("role", flat=True))

    def prefixes_subscriptions(self, namespace: str) -> bool:
        if namespace not in self._prefixing:
            policies = Namespace.unscoped.filter(name=namespace).values_list("policies", flat=True).first()
            self._prefixing[namespace] = _prefixes(policies)
        return self._prefixing[namespace]

    def _read_bindings(self, username: str) -> list[_Bound]:
        """In all tenants: lists of tenants ask for many of them. Teams count for members of their tenant alone."""
        own = [_bound(row) for row in Membership.unscoped.filter(user__username=username, user__is_active=True)]
        tenants = {bound.tenant for bound in own}
        if not tenants:
            return own
        teams = TeamRole.unscoped.filter(team__members__user__username=username, team__tenant__in=tenants)
        return own + [_through_team(row) for row in teams.select_related("team")]

    def _of_namespace(self, namespace: str) -> dict[str, dict[str, list[str]]]:
        """topic ("": the namespace) -> role -> actions."""
        if namespace not in self._grants:
            found: dict[str, dict[str, list[str]]] = {}
            for topic, role, actions in Grant.unscoped.filter(namespace=namespace).values_list("topic", "role", "actions"):
                found.setdefault(topic, {})[role] = actions
            self._grants[namespace] = found
        return self._grants[namespace]


def _prefixes(policies: Mapping[str, Any] | None) -> bool:
    return bool((policies or {}).get("subscription_auth_mode") == ROLE_PREFIX)


def _bound(row: Membership) -> _Bound:
    return _Bound(row.tenant_id, row.role, row.scope)


def _through_team(row: TeamRole) -> _Bound:
    return _Bound(row.team.tenant_id, row.role, row.scope, f"team {row.team.name}")


def _bindings_of(scope: Any) -> list[Binding] | None:
    return None if scope is None else [key_binding(**entry) for entry in scope]
