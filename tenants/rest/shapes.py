"""The objects of our API: each is declared once, for validation, for the OpenAPI document and for docs/limits.md."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, Literal, TypeVar

import msgspec
from msgspec import UNSET, Meta, UnsetType

from messaging.adminrpc.changes import ChangeProgress
from messaging.adminrpc.delayed import DelayedRefused
from messaging.bodies import AS_SENT, Text, Time
from messaging.json_types import converted
from messaging.languages import Language
from messaging.limits import rest as limits
from messaging.limits.model import Limit
from messaging.payloads.masks import RULE_CHARACTERS_MAX, RULES_MAX
from messaging.permissions.model import Action
from messaging.permissions.roles import OF_TENANT, BuiltInRole, complete, known
from messaging.policies.api_schema import policies_schema
from messaging.policies.ceilings import CEILINGS
from messaging.policies.model import MaskRules
from messaging.policies.validation import split
from tenants.audit.diff import changes
from tenants.explanations import Answer, Others
from tenants.models import AuditHead, AuditRecord, CustomRole, Grant, Key, Membership, Namespace, Tenant

S = TypeVar("S", bound=msgspec.Struct)

POLICIES = policies_schema()
CEILINGS_SCHEMA = policies_schema(only=CEILINGS)
CEILINGS_GIVEN = {"application/json": policies_schema(nullable=True, only=CEILINGS)}
POLICIES_GIVEN = {"application/json": policies_schema(nullable=True)}  # null removes a policy, so that it is inherited

Role = Annotated[str, Meta(description="The role to which permissions are granted: name@tenant.")]
Actions = Annotated[list[Text], Limit("there are six actions", bytes_max=64, count_max=16)]
Milliseconds = Annotated[int, limits.MILLISECONDS]


def shown(kind: type[S], row: object, **computed: Any) -> S:
    """What an API shows of a row: the attributes that have the names of fields, and what is computed."""
    return kind(**{name: getattr(row, name) for name in kind.__struct_fields__ if name not in computed}, **computed)


class Problem(msgspec.Struct, kw_only=True):
    type: str
    title: str
    status: int
    detail: Annotated[str, Meta(description="What was wrong and what to do.")]
    code: Annotated[str, Meta(description="A stable code for programs.")]
    request_id: Annotated[str, Meta(description="Also in the header X-Request-ID, the logs and the audit log.")]


class Me(msgspec.Struct, kw_only=True):
    role: str
    key_id: str
    superuser: bool
    broker_url: Annotated[str, Meta(description="Where clients of the binary protocol find the broker; empty while it is down.")]
    broker_url_tls: Annotated[str, Meta(description="The same with TLS; empty without such a listener.")]
    ws_url: Annotated[str, Meta(description="Where its WebSockets are.")]


class TenantShape(msgspec.Struct, kw_only=True):
    name: str
    admin_roles: list[str]
    allowed_clusters: list[str]
    created_at: Time


class NewTenant(msgspec.Struct, kw_only=True):
    name: Annotated[Text, limits.NAME]
    admin_roles: Annotated[list[Text], limits.ROLES] = []
    allowed_clusters: Annotated[list[Text], limits.CLUSTERS] | UnsetType = UNSET


class TenantChange(msgspec.Struct, kw_only=True):
    admin_roles: Annotated[list[Text], limits.ROLES] | UnsetType = UNSET
    allowed_clusters: Annotated[list[Text], limits.CLUSTERS] | UnsetType = UNSET


class LabelsShape(msgspec.Struct, kw_only=True):
    labels: Annotated[dict[str, Text], limits.LABELS, Meta(description="Key to value, such as team to payments.")]


class LanguageShape(msgspec.Struct, kw_only=True):
    language: Annotated[Language | Literal[""], Meta(description="Of mails, notices and invoices; empty: that of the platform.")]


class NamespaceShape(msgspec.Struct, kw_only=True):
    name: Annotated[str, Meta(description="tenant/namespace")]
    tenant: str
    policies: Annotated[
        dict[str, Any],
        Meta(description="Policies set on the namespace; others are inherited.", extra_json_schema=policies_schema()),
    ]
    policies_not_enforced: Annotated[
        dict[str, Any],
        Meta(description="Stored by an earlier release but not enforced; null in a PATCH of the policies removes one."),
    ]
    created_at: Time


class NewNamespace(msgspec.Struct, kw_only=True):
    name: Annotated[Text, limits.NAME, Meta(description="Without the tenant.")]
    policies: Annotated[
        dict[str, Any],
        Limit("the policies have their own limits (messaging.policies)", count_max=100),
        Meta(extra_json_schema=policies_schema(nullable=True)),
        AS_SENT,
    ] = {}


class MaskedFields(msgspec.Struct, kw_only=True):
    masked_fields: Annotated[
        MaskRules,
        Limit("rules of the policy `masked_fields`", bytes_max=4 * RULE_CHARACTERS_MAX, count_max=RULES_MAX),
        Meta(description="As in the policy `masked_fields`: `key`, `$.customer.email`, `$..card`."),
    ]


class PolicyInForce(msgspec.Struct, kw_only=True):
    name: str
    title: str
    value: Annotated[Any, Meta(description="The value in force.")]
    text: Annotated[str, Meta(description="The same in words, with its unit.")]
    unit: str
    level: Annotated[str, Meta(description="Where the value in force is set.")]
    set: Annotated[dict[str, Any], Meta(description="level -> what is set there")]
    levels: Annotated[list[str], Meta(description="Where it may be set, the nearest first.")]
    meaning: str
    pulsar: Annotated[str, Meta(description="Pulsar's name.")]


class PoliciesInForce(msgspec.Struct, kw_only=True):
    policies: list[PolicyInForce]


class PolicyBlame(msgspec.Struct, kw_only=True):
    name: str
    value: Any
    record: Annotated[
        str | None, Meta(description="Id of the change in the history; null: the audit log does not have it any more.")
    ]
    at: Time | None
    role: Annotated[str | None, Meta(description="Who made it.")]
    key_id: Annotated[str | None, Meta(description="With which key; empty: signed in at the console.")]


class PolicyBlames(msgspec.Struct, kw_only=True):
    policies: list[PolicyBlame]


class UndoneChange(msgspec.Struct, kw_only=True):
    record: Annotated[Text, Limit("an id of the audit log", bytes_max=19), Meta(description="Id of the change in the history.")]


class CeilingShape(msgspec.Struct, kw_only=True):
    name: str
    title: str
    limit: Annotated[int | None, Meta(description="The ceiling in force; null: there is none.")]
    used: Annotated[int | None, Meta(description="Null: unknown, because its owner does not answer; -1: unlimited.")]
    used_percent: Annotated[int | None, Meta(description="Of the limit, rounded down; null without one, or where it is unknown.")]
    limit_text: Annotated[str, Meta(description="The limit in words, with its unit.")]
    used_text: str
    unit: str
    level: Annotated[str, Meta(description="Where the limit in force is set: tenant, or broker for the platform's settings.")]
    meaning: str


class CeilingsShape(msgspec.Struct, kw_only=True):
    ceilings: list[CeilingShape]


class CeilingsSet(msgspec.Struct, kw_only=True):
    set: Annotated[dict[str, Any], Meta(description="The ceilings that are set on the tenant.", extra_json_schema=CEILINGS_SCHEMA)]


class Permissions(msgspec.Struct, kw_only=True):
    permissions: Annotated[dict[str, list[str]], Meta(description="role -> actions")]
    expires_at: Annotated[
        dict[str, Time], Meta(description="role -> until when; of those that are missing it does not end by itself")
    ]


class PermissionActions(msgspec.Struct, kw_only=True):
    actions: Actions
    expires_at: Annotated[Time | None, Meta(description="Until when; missing: it does not end by itself.")] = None


def show_grants(grants: Iterable[Grant]) -> Permissions:
    rows = list(grants)
    ends = {row.role: row.expires_at for row in rows if row.expires_at is not None}
    return Permissions(permissions={row.role: row.actions for row in rows}, expires_at=ends)


class TopicShape(msgspec.Struct, kw_only=True):
    topic: Annotated[str, Meta(description="Full name.")]
    partitions: Annotated[int, Meta(description="0: a non-partitioned topic.")]


class PageOfTopics(msgspec.Struct, kw_only=True):
    items: list[TopicShape]
    next: str | None
    unreachable: Annotated[
        list[str], Meta(description="Ids of brokers that did not answer: their topics that are not persistent are missing.")
    ]


class NewTopic(msgspec.Struct, kw_only=True):
    name: Annotated[Text, limits.NAME, Meta(description="Without domain, tenant and namespace.")]
    partitions: Annotated[int, limits.PARTITIONS, Meta(description="0 or missing: a non-partitioned topic.")] = 0
    persistent: Annotated[
        bool, Meta(description="false: messages are delivered at once or dropped. Its address has non-persistent.")
    ] = True


class TopicStats(msgspec.Struct, kw_only=True):
    stats: Annotated[dict[str, Any], Meta(description="Pulsar's TopicStats.")]


class NewDeadLetterPolicy(msgspec.Struct, kw_only=True):
    max_redeliver_count: Annotated[int, limits.REDELIVERIES, Meta(description="A message that is redelivered more often is moved.")]
    target: Annotated[str, limits.TOPIC, Meta(description="Full name of a topic; missing: <topic>-<subscription>-DLQ.")] = ""
    initial_subscription: Annotated[str, limits.NAME, Meta(description="Created on the target if it is missing.")] = ""


class DelayedTime(msgspec.Struct, kw_only=True):
    deliver_at_ms: Annotated[Milliseconds, Meta(description="The new time: milliseconds since 1970.")] | UnsetType = UNSET
    delay_ms: Annotated[Milliseconds, Meta(description="Or how long from now on.")] | UnsetType = UNSET


class DelayedTimeOfKey(DelayedTime, kw_only=True):
    key: Annotated[Text, limits.TOPIC, Meta(description="As text; a binary key in base64."), AS_SENT]
    after: Annotated[
        str,
        Limit("a message id: ledger:entry", bytes_max=40),
        Meta(description="The value of `next` from the previous answer."),
    ] = ""
    limit: Annotated[
        int,
        Limit("messages changed by one request", minimum=1, maximum=1_000),
        Meta(description="Messages changed by this request, 1 to 1000; default 1000."),
    ] = 1_000


class DelayedKeyChanged(msgspec.Struct, kw_only=True):
    changed: int
    refused_count: Annotated[int, Meta(description="Messages that some subscription had.")]
    refused: Annotated[list[DelayedRefused], Meta(description="Of those, the first 100.")]
    looked_at: int
    next: Annotated[str | None, Meta(description="`after` of the next request; null: there is nothing more.")]


class ChangesShape(msgspec.Struct, kw_only=True):
    items: list[ChangeProgress]


class KeyUseShape(msgspec.Struct, kw_only=True):
    actions: Annotated[list[Text], Limit("produce and consume", bytes_max=64, count_max=2), Meta(description="produce, consume.")]
    namespace: Annotated[str, limits.NAMESPACE, Meta(description="Without the tenant; empty: every namespace.")] = ""
    topics: Annotated[str, limits.NAME, Meta(description="A pattern, in which * stands for any characters; empty: all.")] = ""


class KeyShape(msgspec.Struct, kw_only=True):
    id: str
    name: str
    role: Role
    created_at: Time
    created_by: str
    expires_at: Time | None
    revoked_at: Time | None
    scope: Annotated[
        list[KeyUseShape] | None, Meta(description="What the key may do, and nothing else; null: what is granted to its role.")
    ]
    networks: Annotated[list[str], Meta(description="From which it may be used; empty: from everywhere.")]
    last_used_at: Annotated[
        Time | None,
        Meta(
            description="The last minute in which a client was connected with it or called with it; null: none, as far as is known."
        ),
    ]
    replaces: Annotated[str | None, Meta(description="The key that this one replaces: revoke it once nobody uses it any more.")]


class NewKey(msgspec.Struct, kw_only=True):
    name: Annotated[Text, limits.NAME]
    expires_at: Time | None = None
    scope: (
        Annotated[
            list[KeyUseShape],
            Limit("each is looked at when something is opened", count_max=20),
            Meta(description="What the key may do, and nothing else; missing: what is granted to its role."),
        ]
        | UnsetType
    ) = UNSET
    networks: Annotated[
        list[Text],
        Limit("each is compared with every connection", bytes_max=64, count_max=20),
        Meta(description="Such as 192.0.2.0/24."),
    ] = []


class KeyRotation(msgspec.Struct, kw_only=True):
    overlap_s: Annotated[
        int,
        Limit("30 days", minimum=60, maximum=30 * 86_400),
        Meta(description="For how long the former key goes on; default a day."),
    ] = 86_400


class LeakedToken(msgspec.Struct, kw_only=True):
    token: Annotated[Text, Limit("as long as a token can be", bytes_max=16_384), Meta(description="The token that leaked.")]


class KeyWithToken(KeyShape, kw_only=True):
    token: Annotated[str, Meta(description="Returned only once.")]


class MemberShape(msgspec.Struct, kw_only=True):
    username: str
    role: Annotated[str, Meta(description="owner, admin, operator, developer, viewer, metadata, billing, or a role of the tenant.")]
    namespace: Annotated[str, Meta(description="Where the role holds: tenant/namespace; empty: in the whole tenant.")]
    topics: Annotated[str, Meta(description="A pattern of names of topics; empty: all.")]
    expires_at: Annotated[Time | None, Meta(description="Until when they are a member; null: it does not end by itself.")]


class NewMemberRole(msgspec.Struct, kw_only=True):
    role: Annotated[Text, limits.NAME, Meta(description="A built-in role, or one of the tenant's own.")]
    namespace: Annotated[
        str, limits.NAME, Meta(description="Where the role holds: a namespace without the tenant; empty: in the whole tenant.")
    ] = ""
    topics: Annotated[
        str, limits.NAME, Meta(description="A pattern of names of topics, in which * stands for any characters; empty: all.")
    ] = ""
    expires_at: Annotated[Time | None, Meta(description="Until when they are a member; missing: it does not end by itself.")] = None


class RoleShape(msgspec.Struct, kw_only=True):
    name: str
    built_in: bool
    description: str
    actions: Annotated[list[str], Meta(description="Actions of the permission table, with those that come with them.")]


class NewRole(msgspec.Struct, kw_only=True):
    actions: Annotated[
        list[Text],
        Limit("there are fewer actions", bytes_max=64, count_max=32),
        Meta(description="Actions of the permission table."),
    ]
    description: Annotated[str, Limit("is shown in lists", bytes_max=200)] = ""


class AuditChange(msgspec.Struct, kw_only=True):
    path: Annotated[str, Meta(description="Names, with dots between them.")]
    before: Annotated[str | None, Meta(description="As JSON; null: it was not there.")]
    after: Annotated[str | None, Meta(description="As JSON; null: it is not there any more.")]


class AuditShape(msgspec.Struct, kw_only=True):
    id: str
    at: Time
    role: str
    address: Annotated[str, Meta(description="Address of the caller; empty: a process of the platform.")]
    key_id: str
    tenant: Annotated[str, Meta(description="Name of the tenant at that time; empty: the platform.")]
    action: str
    resource: str
    before: dict[str, Any] | None
    after: dict[str, Any] | None
    changes: Annotated[list[AuditChange], Meta(description="What differs between `before` and `after`, at most 100.")]
    request_id: str
    previous_hash: Annotated[str, Meta(description="Of the record before it in the whole log.")]
    tenant_previous_hash: Annotated[str, Meta(description="Of the record before it in the log of its tenant.")]
    hash: Annotated[str, Meta(description="SHA-256 of all that the record says, with both of the others.")]
    masked: Annotated[bool, Meta(description="Something in it is hidden from you, as •••: what somebody looked for.")]


class AuditHeadShape(msgspec.Struct, kw_only=True):
    sequence: Annotated[int, Meta(description="Id of the newest record then.")]
    hash: str
    at: Annotated[Time, Meta(description="When that record was written.")]
    statement: Annotated[str, Meta(description="The same as a signed JWT (ES256): keep it elsewhere.")]


class AuditHeadsShape(msgspec.Struct, kw_only=True):
    items: list[AuditHeadShape]
    next: str | None
    public_key: Annotated[str, Meta(description="PEM: verifies the statements.")]


class ReasonShape(msgspec.Struct, kw_only=True):
    rule: Annotated[str, Meta(description="A stable code, such as role, namespace_grant, tenant_admin or key_scope.")]
    text: str


class AccessOfOne(msgspec.Struct, kw_only=True):
    role: str
    key_id: Annotated[str, Meta(description="Of a key with a scope; empty: whoever has the role.")]
    reasons: Annotated[list[ReasonShape], Meta(description="Each is enough by itself; none: it is not allowed.")]


class AccessShape(AccessOfOne, kw_only=True):
    allowed: bool
    refusal: Annotated[str, Meta(description="Why not, and what to do; empty if it is allowed.")]
    others: Annotated[list[AccessOfOne], Meta(description="Who else may. Superusers may everything and are not listed.")]
    others_complete: Annotated[bool, Meta(description="false: there are more members and keys than are looked at.")]


def show_access(answer: Answer, others: Others) -> AccessShape:
    also = [_access(other) for other in others.answers if other.principal != answer.principal]
    own = _access(answer)
    return AccessShape(
        role=own.role,
        key_id=own.key_id,
        reasons=own.reasons,
        allowed=answer.decision.allowed,
        refusal=answer.refusal,
        others=also,
        others_complete=others.complete,
    )


def _access(answer: Answer) -> AccessOfOne:
    reasons = [ReasonShape(rule=reason.rule, text=reason.text) for reason in answer.decision.reasons]
    return AccessOfOne(role=answer.principal.role, key_id=answer.principal.key_id, reasons=reasons)


def show_tenant(row: Tenant) -> TenantShape:
    return shown(TenantShape, row)


def show_language(row: Tenant) -> LanguageShape:
    return shown(LanguageShape, row)


def show_namespace(row: Namespace) -> NamespaceShape:
    enforced, idle = split(row.policies)
    return shown(NamespaceShape, row, tenant=row.tenant_id, policies=enforced, policies_not_enforced=idle)


def show_key(row: Key) -> KeyShape:
    return shown(KeyShape, row, **_of_key(row))


def show_new_key(row: Key, token: str) -> KeyWithToken:
    return shown(KeyWithToken, row, token=token, **_of_key(row))


def _of_key(row: Key) -> dict[str, Any]:
    """Namespaces are shown without their tenant, as they are given."""
    entries = None if row.scope is None else [{**use, "namespace": use["namespace"].partition("/")[2]} for use in row.scope]
    return {"scope": None if entries is None else converted(entries, list[KeyUseShape]), "replaces": row.replaces_id}


def show_member(row: Membership) -> MemberShape:
    return shown(MemberShape, row, username=row.user.username, namespace=row.namespace_id or "")


def show_built_in_role(role: BuiltInRole) -> RoleShape:
    return RoleShape(name=role.name, built_in=True, description=role.description, actions=_in_order(role.actions))


def show_custom_role(row: CustomRole) -> RoleShape:
    return shown(RoleShape, row, built_in=False, actions=_in_order(complete(known(row.actions))))


def _in_order(actions: frozenset[Action]) -> list[str]:
    return [str(action) for action in OF_TENANT if action in actions]


def show_audit(row: AuditRecord, masked: bool = False) -> AuditShape:
    differing = [AuditChange(path=path, before=before, after=after) for path, before, after in changes(row.before, row.after)]
    return shown(AuditShape, row, id=str(row.id), changes=differing, masked=masked)


def show_blame(name: str, value: Any, record: AuditRecord | None) -> PolicyBlame:
    if record is None:
        return PolicyBlame(name=name, value=value, record=None, at=None, role=None, key_id=None)
    return PolicyBlame(name=name, value=value, record=str(record.id), at=record.at, role=record.role, key_id=record.key_id)


def show_audit_head(row: AuditHead) -> AuditHeadShape:
    return shown(AuditHeadShape, row)
