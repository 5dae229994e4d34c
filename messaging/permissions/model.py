"""Who may do what: actions, resources, principals, and the view on what the control plane granted. `decision` decides.

A *principal* is who a request comes from: a role name and nothing else. A key of a tenant has the role ``name@tenant``: the part
after the last ``@`` is the tenant that the key belongs to, so that no tenant can make a key whose role is another tenant's.
`Grants` is the view on tenants and namespaces that both halves implement: the broker over its snapshot of the feed, the web
over its database.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple, Protocol

from messaging.protocol.names import parse_topic

ANONYMOUS = "anonymous"
USER_ROLE_PREFIX = "user:"
SERVICE_ROLE_PREFIX = "service:"
EXTERNAL_ROLE_PREFIX = "external:"  # of tokens of another issuer, unless a setting maps them to a role
CERTIFICATE_ROLE_PREFIX = "certificate:"  # of client certificates, unless a setting maps them to a role
TENANT_ROLE_PREFIX = "tenant:"  # of a tenant itself: what its administrators set up goes on when they are gone
# Roles that no token may carry: people act by their session, our processes by their service identity, tenants by what is set up.
RESERVED_ROLE_PREFIXES = (USER_ROLE_PREFIX, SERVICE_ROLE_PREFIX, TENANT_ROLE_PREFIX)
FOREIGN_ROLE_PREFIXES = (EXTERNAL_ROLE_PREFIX, CERTIFICATE_ROLE_PREFIX)  # of no tenant, whatever follows
RESERVED_KEY_NAME_PREFIXES = (*RESERVED_ROLE_PREFIXES, *FOREIGN_ROLE_PREFIXES)


class Action(StrEnum):
    """What a command, route or path does; the permission table names one for each."""

    PUBLIC = "public"  # nothing of any tenant: health, the sign-in page
    HANDSHAKE = "handshake"  # before who-you-are is known: CONNECT, AUTH_RESPONSE, PING, PONG
    AUTHENTICATED = "authenticated"  # anybody known; the answer holds only what is theirs
    SESSION = "session"  # acts on a producer or consumer that this connection opened under its own check
    LOOKUP = "lookup"  # produce or consume on the topic
    PRODUCE = "produce"
    CONSUME = "consume"
    MESSAGE_READ = "message_read"  # reads what messages hold, and leaves every subscription as it is
    CURSOR_ADMIN = "cursor_admin"  # creates, resets, skips and deletes subscriptions, without reading messages
    NAMESPACE_READ = "namespace_read"  # lists topics: produce or consume at namespace level
    TENANT_SEE = "tenant_see"  # knows of a tenant, and of what it holds sees what may be read
    TENANT_READ = "tenant_read"  # sees a tenant: its keys, members, roles and policies
    TOPIC_ADMIN = "topic_admin"  # creates and deletes topics, changes their policies and schemas
    NAMESPACE_ADMIN = "namespace_admin"  # creates and deletes namespaces, changes their policies
    OPERATE = "operate"  # unloads, redrives and raises alerts; restrictions of subscriptions do not bind
    GRANT_ADMIN = "grant_admin"  # grants and revokes permissions on namespaces, topics and subscriptions
    KEY_ADMIN = "key_admin"  # creates and revokes keys
    AUDIT_READ = "audit_read"  # reads the audit log
    USAGE_READ = "usage_read"  # reads what a tenant used and what that costs
    BILLING_READ = "billing_read"  # reads invoices, budgets and reports
    BILLING_ADMIN = "billing_admin"  # changes budgets and reports
    TENANT_ADMIN = "tenant_admin"  # people, roles, labels, and whatever of a tenant no other action covers
    TENANT_OWNER = "tenant_owner"  # makes owners, and takes that away
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
    issuer_key: str = field(default="", compare=False)  # of another issuer that a tenant trusts: tenant/issuer and the key
    address: str = field(default="", compare=False)  # from where it connects to the broker; says nothing about rights

    @property
    def anonymous(self) -> bool:
        return self.role == ANONYMOUS

    @property
    def tenant(self) -> str:
        """Whose key it came with; for roles of no tenant, the role."""
        return self.role if self.role.startswith(FOREIGN_ROLE_PREFIXES) else self.role.rpartition("@")[2]


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


class Scope(NamedTuple):
    """Where a binding holds: a whole tenant, a namespace, or the topics of either whose name matches a pattern."""

    namespace: str = ""  # tenant/namespace; "": every namespace of the tenant
    topics: str = ""  # a pattern of names without domain, tenant and namespace; "": everything

    def covers(self, resource: Resource) -> bool:
        if self.namespace and resource.namespace != self.namespace:
            return False
        return not self.topics or (bool(resource.topic) and matches(self.topics, parse_topic(resource.topic).base.local))

    def __str__(self) -> str:
        """For people."""
        where = f"namespace {self.namespace}" if self.namespace else "the whole tenant"
        return f"topics {self.topics} of {where}" if self.topics else where


class Binding(NamedTuple):
    """`name` is the role that was bound, such as developer; `via` through what somebody has it, such as a team, "" for
    themselves."""

    name: str
    actions: frozenset[Action]
    scope: Scope = Scope()
    via: str = ""


def matches(pattern: str, name: str) -> bool:
    """Whether `name` is matched by `pattern`, in which ``*`` stands for any characters and all others for themselves. Linear in the
    length of the name for each ``*``."""
    first, *rest = pattern.split("*")
    if not rest:
        return name == pattern
    *middle, last = rest
    if not name.startswith(first) or len(name) < len(first) + len(last) or not name.endswith(last):
        return False
    at, end = len(first), len(name) - len(last)
    for part in middle:
        at = name.find(part, at, end)
        if at < 0:
            return False
        at += len(part)
    return True


class Grants(Protocol):
    def is_superuser(self, role: str) -> bool: ...

    def tenant_admins(self, tenant: str) -> Collection[str]:
        """Roles that administer `tenant`; empty if there is no such tenant."""

    def bindings(self, tenant: str, role: str) -> Sequence[Binding]:
        """What was bound to `role` in `tenant`: roles such as developer, each within its scope."""

    def key_bindings(self, key_id: str) -> Sequence[Binding] | None:
        """What a key with a scope may do, and nothing else; None for one that may do what its role may."""

    def namespace_grants(self, namespace: str) -> Mapping[str, Collection[str]]:
        """role -> {"produce", "consume", ...} on ``tenant/namespace``; empty if there is no such namespace."""

    def topic_grants(self, topic: str) -> Mapping[str, Collection[str]]:
        """The same on one topic (full name; a partition inherits its partitioned topic's)."""

    def subscription_roles(self, namespace: str, subscription: str) -> Collection[str]:
        """Roles a subscription is restricted to; empty for no restriction."""

    def prefixes_subscriptions(self, namespace: str) -> bool:
        """Whether the name of a subscription must begin with the role that uses it."""
