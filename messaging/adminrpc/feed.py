"""The feed: changes of the control plane in the order of their versions, as brokers receive them.

A broker asks ``GET /internal/v1/feed?since=V&feed_id=F`` and gets a page: the changes after V, or, where those are not kept any
more or V is of another feed, the first page of everything; the web process pushes the same by the admin RPC. A page is bounded,
and holds one entity at least.
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from messaging.adminrpc import fields
from messaging.adminrpc.base import Answer, Request

ENTITY_BYTES_MAX = 1 << 20  # of one entity's state as JSON: what would be larger is refused before it is stored
PAGE_BYTES_MAX = 4 << 20  # a page ends with the entity that reaches it
ANSWER_BYTES_MAX = 16 << 20  # of a page with all around it; a broker refuses a longer one


class SpendState(msgspec.Struct):
    """What a broker does because spend caps of a tenant are reached."""

    stopped: str = ""  # why its producers are refused; "": they are not
    rates: dict[str, int] = {}  # a policy that limits a rate of the tenant -> the most that is in force of it


class TenantState(msgspec.Struct):
    uid: str = ""  # tells a tenant from a former one of its name; it never changes and is never used again
    admin_roles: list[str] = []
    allowed_clusters: list[str] = []
    policies: dict[str, Any] = {}  # only what is set
    spend: SpendState | None = None  # None: no spend cap is reached


class NamespaceState(msgspec.Struct):
    tenant_uid: str = ""
    policies: dict[str, Any] = {}  # only what is set; `messaging.policies`
    grants: dict[str, list[str]] = {}  # role -> actions
    topic_grants: dict[str, dict[str, list[str]]] = {}  # full topic name -> role -> actions
    grant_ends_ms: dict[str, dict[str, int]] = {}  # full topic name, "" for `grants` -> role -> when what it was granted ends
    subscription_roles: dict[str, list[str]] = {}
    boundaries: list[int] = []  # of its bundles (`messaging.protocol.bundles`); none: the usual ones
    restored_ms: int = 0  # when it came back from the recycle bin; 0: it never was there


class TopicState(msgspec.Struct):
    """Only what is set; a topic on which nothing is set has no state."""

    policies: Annotated[dict[str, Any], fields.POLICIES] = {}
    subscriptions: fields.Subscriptions = {}  # subscription -> its policies


class KeyScope(msgspec.Struct):
    """What a key was made for: `namespace` is tenant/namespace, "" for all of its tenant; `topics` a pattern, "" for all."""

    actions: list[str] = []
    namespace: str = ""
    topics: str = ""


class KeyState(msgspec.Struct):
    role: str = ""
    tenant: str = ""
    tenant_uid: str = ""
    revoked: bool = False
    expires_ms: int = 0
    scope: list[KeyScope] | None = None  # None: what its role may
    networks: list[str] = []  # from which it may be used; none: from everywhere


class IssuerState(msgspec.Struct):
    """An issuer whose tokens a tenant accepts (`messaging.identity.issuers`)."""

    tenant_uid: str = ""
    issuer: str = ""
    audience: str = ""
    role_claim: str = "sub"
    roles: dict[str, str] = {}  # value of the claim -> role
    clock_skew_s: int = 0
    keys: list[dict[str, str]] = []  # public keys as in its JWKS document


class RecycledState(msgspec.Struct):
    """A namespace in the recycle bin: there is none of its name, and its topics stay as they are."""

    tenant_uid: str = ""  # who pays for what is stored of it


class BrokerState(msgspec.Struct):
    """Settings that were changed at run time, by our names (`messaging.policies.dynamic`). They come before configured ones."""

    settings: dict[str, Any] = {}


class IsolationState(msgspec.Struct):
    """An isolation policy (`messaging.policies.isolation`)."""

    namespaces: list[str] = []
    primary: list[str] = []
    secondary: list[str] = []
    min_limit: int = 1
    usage_threshold: int = 100
    unload_scope: str = "changed"


class FailureDomainState(msgspec.Struct):
    """Brokers that may fail together: of a rack, say."""

    brokers: list[str] = []


State = (
    TenantState
    | NamespaceState
    | KeyState
    | TopicState
    | BrokerState
    | IssuerState
    | RecycledState
    | IsolationState
    | FailureDomainState
)
KINDS: dict[str, type[State]] = {
    "tenant": TenantState,  # key: its name
    "namespace": NamespaceState,  # key: tenant/name
    "key": KeyState,  # key: its id
    "broker": BrokerState,  # key: `EVERY_BROKER`
    "issuer": IssuerState,  # key: tenant/name
    "isolation": IsolationState,  # key: its name
    "failure_domain": FailureDomainState,  # key: its name
    "topic": TopicState,  # key: its full name, of a partitioned topic the one without partition
    "recycled": RecycledState,  # key: tenant/name
}


EVERY_BROKER = "all"  # the key of the only entity of its kind


class FeedChange(msgspec.Struct, kw_only=True):
    """The whole state of one entity as of `version`, in the shape of its kind; `state` is None when it was deleted."""

    version: fields.Version
    kind: fields.Kind  # one of `KINDS`, or one that only a newer broker knows
    key: fields.Topic
    state: Annotated[dict[str, Any] | None, fields.STATE]


class FeedApply(Request, kw_only=True):
    """Changes with `from_version` < version <= `to_version`, ascending. `full`: they are everything; forget what is not in them.

    `feed_id` names the database that the versions are of. `newest_version` was the newest when this was read: if it is above
    `to_version`, there is more to ask for. A full feed may come in pages: `next_key` is where the next one begins, "" in the last.
    `from_version` of a full feed is the version that the broker was found to hold, which may be above `to_version` after a database
    was restored from a backup.
    """

    from_version: fields.Version
    to_version: fields.Version
    full: bool = False
    changes: Annotated[list[FeedChange], fields.CHANGES]
    feed_id: fields.Name = ""
    newest_version: fields.Version = 0
    next_key: fields.Topic = ""


class FeedVersion(Answer, kw_only=True):
    """The version that the broker holds now, 0 of a feed that it does not follow. Below `to_version` there was a gap: send again
    from this version."""

    version: int
