"""Who may do what: the decision, as one pure function over what the control plane granted.

A *principal* is who a request comes from: a role name and nothing else. A key of a tenant has the role ``name@tenant``: the part
after the last ``@`` is the tenant that the key belongs to, so that no tenant can make a key whose role is another tenant's.
`Grants` is the view on tenants and namespaces that both halves implement: the broker over its snapshot of the feed, the web
over its database.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple, Protocol, runtime_checkable

from messaging.errors import NotAuthorized
from messaging.protocol.system_topics import is_change_events

ANONYMOUS = "anonymous"
USER_ROLE_PREFIX = "user:"
SERVICE_ROLE_PREFIX = "service:"
EXTERNAL_ROLE_PREFIX = "external:"  # of tokens of another issuer, unless a setting maps them to a role
TENANT_ROLE_PREFIX = "tenant:"  # of a tenant itself: what its administrators set up goes on when they are gone
# Roles that no token may carry: people act by their session, our processes by their service identity, tenants by what is set up.
RESERVED_ROLE_PREFIXES = (USER_ROLE_PREFIX, SERVICE_ROLE_PREFIX, TENANT_ROLE_PREFIX)
RESERVED_KEY_NAME_PREFIXES = (*RESERVED_ROLE_PREFIXES, EXTERNAL_ROLE_PREFIX)


class Action(StrEnum):
    """What a command, route or path does; the permission table names one for each."""

    PUBLIC = "public"  # nothing of any tenant: health, the sign-in page
    HANDSHAKE = "handshake"  # before who-you-are is known: CONNECT, AUTH_RESPONSE, PING, PONG
    AUTHENTICATED = "authenticated"  # anybody known; the answer holds only what is theirs
    SESSION = "session"  # acts on a producer or consumer that this connection opened under its own check
    LOOKUP = "lookup"  # produce or consume on the topic
    PRODUCE = "produce"
    CONSUME = "consume"
    NAMESPACE_READ = "namespace_read"  # lists topics: produce or consume at namespace level
    TENANT_READ = "tenant_read"  # sees a tenant: its admins and members
    TENANT_ADMIN = "tenant_admin"  # changes namespaces, policies, grants, keys, topics of one tenant
    SUPERUSER = "superuser"  # tenants, clusters, the platform itself
    SERVICE = "service"  # a process of ours, by its service identity


class Resource(NamedTuple):
    """What is acted on; parts that do not apply are empty. `topic` is the full name, of a partition or not."""

    tenant: str = ""
    namespace: str = ""  # tenant/namespace
    topic: str = ""
    subscription: str = ""


NOTHING = Resource()


@dataclass(frozen=True, slots=True)
class Principal:
    """`role` is what grants name. `key_id` is the id of the key it came with, empty for none. `service` marks our own processes."""

    role: str
    key_id: str = ""
    service: bool = False
    expires_ms: int = 0  # 0: never
    signing_key_id: str = field(default="", compare=False)  # of our key that signed the token
    address: str = field(default="", compare=False)  # from where it connects to the broker; says nothing about rights

    @property
    def anonymous(self) -> bool:
        return self.role == ANONYMOUS

    @property
    def tenant(self) -> str:
        """Whose key it came with; for roles of no tenant, the role."""
        return self.role if self.role.startswith(EXTERNAL_ROLE_PREFIX) else self.role.rpartition("@")[2]


def key_role(name: str, tenant: str) -> str:
    return f"{name}@{tenant}"


def tenant_of_key_role(role: str) -> str:
    """Whose keys have this role; "" for one that no key of a tenant can have. A person's name may hold an ``@`` too."""
    return "" if role.startswith(RESERVED_KEY_NAME_PREFIXES) or "@" not in role else role.rpartition("@")[2]


def user_role(username: str) -> str:
    """The role of somebody signed in at the console."""
    return USER_ROLE_PREFIX + username


def tenant_role(tenant: str) -> str:
    """The role of a tenant itself, which may do within it what its administrators may."""
    return TENANT_ROLE_PREFIX + tenant


class Grants(Protocol):
    def is_superuser(self, role: str) -> bool: ...

    def tenant_admins(self, tenant: str) -> Collection[str]:
        """Roles that administer `tenant`; empty if there is no such tenant."""

    def namespace_grants(self, namespace: str) -> Mapping[str, Collection[str]]:
        """role -> {"produce", "consume", ...} on ``tenant/namespace``; empty if there is no such namespace."""

    def topic_grants(self, topic: str) -> Mapping[str, Collection[str]]:
        """The same on one topic (full name; a partition inherits its partitioned topic's)."""

    def subscription_roles(self, namespace: str, subscription: str) -> Collection[str]:
        """Roles a subscription is restricted to; empty for no restriction."""

    def prefixes_subscriptions(self, namespace: str) -> bool:
        """Whether the name of a subscription must begin with the role that uses it."""


@runtime_checkable
class TenantMembers(Protocol):
    """What grants may know besides: the roles that see a tenant and what is in it, but change nothing. Brokers know none."""

    def tenant_members(self, tenant: str) -> Collection[str]: ...


def allowed(grants: Grants, principal: Principal, action: Action, resource: Resource = NOTHING) -> bool:
    """Whether `principal` may do `action` on `resource`. Order of Pulsar: superuser, tenant admin, namespace grant, topic grant.
    Into a topic of change events, which says what the platform did, no tenant writes."""
    if action in (Action.PUBLIC, Action.HANDSHAKE, Action.SESSION):
        return True
    if action is Action.SERVICE:
        return principal.service
    if principal.service or grants.is_superuser(principal.role):
        return True
    if action is Action.AUTHENTICATED:
        return True
    if action is Action.SUPERUSER or (action is Action.PRODUCE and is_change_events(resource.topic)):
        return False
    if principal.role in grants.tenant_admins(resource.tenant) or (
        principal.role.startswith(TENANT_ROLE_PREFIX) and principal.role == tenant_role(resource.tenant)
    ):
        return True
    reads = action in (Action.TENANT_READ, Action.NAMESPACE_READ)
    if reads and isinstance(grants, TenantMembers) and principal.role in grants.tenant_members(resource.tenant):
        return True
    if action in (Action.TENANT_ADMIN, Action.TENANT_READ):
        return False
    granted = set(grants.namespace_grants(resource.namespace).get(principal.role, ()))
    if resource.topic:
        granted |= set(grants.topic_grants(resource.topic).get(principal.role, ()))
    if action is Action.PRODUCE:
        return "produce" in granted
    if action is Action.CONSUME:
        if "consume" not in granted:
            return False
        return not resource.subscription or _may_use(grants, principal.role, resource)
    return "produce" in granted or "consume" in granted  # LOOKUP, NAMESPACE_READ


def _may_use(grants: Grants, role: str, resource: Resource) -> bool:
    """Whether a role that may consume may use this subscription."""
    only = grants.subscription_roles(resource.namespace, resource.subscription)
    return (not only or role in only) and not _lacks_prefix(grants, role, resource)


def _lacks_prefix(grants: Grants, role: str, resource: Resource) -> bool:
    return not resource.subscription.startswith(role) and grants.prefixes_subscriptions(resource.namespace)


def require(grants: Grants, principal: Principal, action: Action, resource: Resource = NOTHING) -> None:
    """Raises `NotAuthorized`, saying which role lacks what, without saying whether the resource exists."""
    if not allowed(grants, principal, action, resource):
        may_consume = action is Action.CONSUME and allowed(grants, principal, action, resource._replace(subscription=""))
        if may_consume and _lacks_prefix(grants, principal.role, resource):
            raise NotAuthorized(
                f"the name of a subscription in {resource.namespace} must begin with the role that uses it, {principal.role!r} "
                "(policy subscription_auth_mode): choose such a name"
            )
        if action is Action.PRODUCE and is_change_events(resource.topic):
            raise NotAuthorized(
                f"role {principal.role!r} may not publish to {resource.topic}: the platform writes there which policies of topics "
                "have changed; use another topic, or ask an administrator of the platform"
            )
        where = resource.topic or resource.namespace or resource.tenant or "the platform"
        raise NotAuthorized(
            f"role {principal.role!r} lacks {action.value!r} on {where}: ask an administrator of the tenant to grant it"
        )
