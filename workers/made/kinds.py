"""What people make in a tenant: by which records of the audit log it is told, and what of it exists."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.db.models import Q, QuerySet
from django.utils import timezone

from messaging.adminrpc.methods import TOPICS_FIGURES, TOPICS_TIMES
from messaging.adminrpc.topics import TopicRef, TopicsAsked
from messaging.errors import MagnetarError, NotFound, NotReady
from messaging.permissions.model import Action
from messaging.protocol.names import PERSISTENT
from tenants import broker
from tenants.models import (
    AuditRecord,
    CustomRole,
    Grant,
    Invitation,
    Key,
    Membership,
    Namespace,
    SavedView,
    SubscriptionGrant,
    Team,
    Tenant,
    TokenIssuer,
    TopicPolicies,
)
from workers.alerts import webhooks
from workers.alerts.models import AlertRule, NotificationTarget
from workers.audit_streams.models import AuditStream
from workers.billing.budget_models import Budget, ReportSchedule
from workers.redrive.models import RedriveJob
from workers.spend_caps.models import SpendCap


@dataclass(frozen=True)
class Thing:
    """Something that exists. `id`: by which its page and its route know it. `exists` False: the broker could not be asked.
    `made_by`: a role, where the thing itself says it."""

    name: str
    id: str = ""
    created_at: datetime | None = None
    expires_at: datetime | None = None
    exists: bool = True
    made_by: str = ""


_BILLING = Action.BILLING_READ
Things = Mapping[str, list[Thing]]  # key, as `Kind.key` has it -> those that have it: names need not be unique


@dataclass(frozen=True)
class Kind:
    """`makes` and `changes`: actions of the log. `sets`: an action of `makes` makes it only where there was nothing before.
    `key`: of a record, None where it is about nothing of this kind. `present`: of the tenant in scope, which of some keys exist.
    `before`: so many of those that were made before a time, by a role or by nobody knows whom, theirs first; where the database
    knows that. `needs`: to be told of it."""

    name: str
    key: Callable[[AuditRecord], str | None]
    present: Callable[[list[str]], Things]
    makes: tuple[str, ...] = ()
    changes: tuple[str, ...] = ()
    sets: bool = False
    before: Callable[[datetime, str, int], Iterable[Thing]] | None = None
    needs: Action = Action.TENANT_READ
    actions: frozenset[str] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "actions", frozenset({*self.makes, *self.changes}))

    def is_made_by(self, record: AuditRecord) -> bool:
        return record.action in self.makes and (not self.sets or record.before is None)


def _last(record: AuditRecord) -> str:
    """Of a resource such as tenant/name."""
    return record.resource.partition("/")[2]


def _whole(record: AuditRecord) -> str:
    return record.resource


def _named(prefix: str) -> Callable[[AuditRecord], str | None]:
    return lambda record: record.resource.removeprefix(prefix) if record.resource.startswith(prefix) else None


def _keys_in_use() -> QuerySet[Key]:
    return Key.objects.filter(Q(expires_at=None) | Q(expires_at__gt=timezone.now()), revoked_at=None)


def _key(row: Key) -> Thing:
    return Thing(row.name, row.id, row.created_at, row.expires_at, made_by=row.created_by)


def _open_invitations() -> QuerySet[Invitation]:
    return Invitation.objects.filter(accepted_at=None, revoked_at=None, expires_at__gt=timezone.now())


def _invitation(row: Invitation) -> Thing:
    return Thing(row.email, row.id, row.created_at, row.expires_at, made_by=row.created_by)


def _by_name(row: Any) -> Thing:
    return Thing(row.name, row.name, row.created_at)


def _by_id(row: Any) -> Thing:
    return Thing(row.name, row.id, row.created_at)


def _members(keys: list[str]) -> Things:
    rows = Membership.objects.filter(user__username__in=keys).select_related("user")
    return {row.user.username: [Thing(f"{row.user.username}: {row.role}", row.user.username, None, row.expires_at)] for row in rows}


def _grant_key(record: AuditRecord) -> str | None:
    """Role and place: neither holds a blank before the other's end."""
    state = record.after if isinstance(record.after, dict) else record.before
    role = state.get("role") if isinstance(state, dict) else None
    return f"{record.resource} {role}" if role else None


def _grants(keys: list[str]) -> Things:
    wanted = set(keys)
    roles = {key.partition(" ")[2] for key in keys}
    found: dict[str, list[Thing]] = {}
    for row in Grant.objects.filter(role__in=roles).select_related("namespace"):
        key = f"{row.topic or row.namespace_id} {row.role}"
        if key in wanted:
            text = f"{row.role}: {', '.join(row.actions)}, {row.topic or row.namespace_id}"
            found[key] = [Thing(text, row.namespace_id, None, row.expires_at)]
    return found


def _restrictions(keys: list[str]) -> Things:
    found: dict[str, list[Thing]] = {}
    wanted, names = set(keys), {key.rpartition("/")[2] for key in keys}
    for row in SubscriptionGrant.objects.filter(subscription__in=names):
        key = f"{row.namespace_id}/{row.subscription}"
        if key in wanted:
            found[key] = [Thing(key, row.namespace_id)]
    return found


def _policies(keys: list[str]) -> Things:
    """Of the tenant, of namespaces, topics and subscriptions: where anything is set."""
    found: dict[str, list[Thing]] = {}
    for tenant in Tenant.objects.filter(name__in=keys):
        if tenant.policies:
            found[tenant.name] = [Thing(tenant.name, tenant.name)]
    for namespace in Namespace.objects.filter(name__in=keys):
        if namespace.policies:
            found[namespace.name] = [Thing(namespace.name, namespace.name)]
    of_topics: dict[str, list[str]] = {}  # a topic and each of its subscriptions have theirs
    for key in keys:
        if "://" in key:
            of_topics.setdefault(_topic_of(key), []).append(key)
    for row in TopicPolicies.objects.filter(topic__in=of_topics):
        for key in of_topics[row.topic]:
            if row.policies if key == row.topic else row.subscriptions.get(key.removeprefix(f"{row.topic}/")):
                found[key] = [Thing(key, row.topic)]
    return found


def _topic_of(resource: str) -> str:
    """Full name of the topic of a resource that may have a subscription behind it."""
    return "/".join(resource.split("/")[:5])


def _on_brokers(keys: list[str]) -> Things:
    """Topics, and subscriptions behind their topic. One question tells which topics there are; for what lies in one, its owner is
    asked. Once a broker does not answer, it is not known of the others."""
    topics = dict.fromkeys(map(_topic_of, keys))
    lasting = [topic for topic in topics if topic.startswith(f"{PERSISTENT}://")]
    try:
        there = set(broker.rpc().call(TOPICS_TIMES, TopicsAsked(topics=lasting)).created_ms) if lasting else set()
    except MagnetarError:
        return {key: [Thing(key, _topic_of(key), exists=False)] for key in keys}
    inside = {_topic_of(key) for key in keys if key not in topics}
    held: dict[str, Collection[str] | None] = dict.fromkeys(there, ())  # subscriptions; None: that is not known
    answers = True
    for topic in [*(there & inside), *(topics.keys() - lasting)]:  # what keeps nothing is there only while its owner has it
        try:
            held[topic] = _subscriptions_of(topic) if answers else None
        except NotFound:
            held.pop(topic, None)
        except NotReady:
            answers, held[topic] = False, None
        except MagnetarError:  # of a topic that cannot be read: it is there
            held[topic] = ()
    found: dict[str, list[Thing]] = {}
    for key in keys:
        topic = _topic_of(key)
        if topic in held:
            subscriptions = held[topic]
            known = (key == topic and topic in there) or subscriptions is not None
            if subscriptions is None or key == topic or key.removeprefix(f"{topic}/") in subscriptions:
                found[key] = [Thing(key, topic, exists=known)]
    return found


def _subscriptions_of(topic: str) -> Collection[str]:
    """Raises `MagnetarError`."""
    held: Collection[str] = broker.rpc().call(TOPICS_FIGURES, TopicRef(topic=topic)).stats.get("subscriptions", ())
    return held


def _notifications(keys: list[str]) -> Things:
    rows = NotificationTarget.objects.all()
    targets = [text for row in rows for text in (*row.mail_to, row.topic, row.webhook_url and "webhook") if text]
    return {"notifications": [Thing(", ".join(targets))]} if targets else {}


def _audit_streams(keys: list[str]) -> Things:
    rows = AuditStream.objects.all()
    return {"audit stream": [Thing(row.topic or webhooks.host_of(row.url), row.id, row.created_at) for row in rows]}


def _spend_caps(keys: list[str]) -> Things:
    return {row.whose: [Thing(f"{row.whose}: {row.money}")] for row in SpendCap.objects.all()}


def _redrive_key(record: AuditRecord) -> str | None:
    states = [state for state in (record.after, record.before) if isinstance(state, dict)]
    return next((str(state["job"]) for state in states if state.get("job")), None)


def _unfinished_redrives(keys: list[str]) -> Things:
    states = (RedriveJob.State.RUNNING, RedriveJob.State.PAUSED)
    rows = RedriveJob.objects.filter(id__in=keys, state__in=states)
    return {row.id: [Thing(row.topic, row.id, row.created_at)] for row in rows}


def _view(row: SavedView) -> Thing:
    return Thing(row.name, str(row.pk), row.created_at)


def _shared_views() -> QuerySet[SavedView]:
    return SavedView.objects.filter(shared=True, tenant_uid__in=Tenant.objects.values("uid"))


def _kind_of_rows(
    name: str,
    rows: Callable[[], QuerySet[Any]],
    by: str,
    thing: Callable[[Any], Thing],
    key: Callable[[AuditRecord], str | None],
    makes: tuple[str, ...],
    changes: tuple[str, ...] = (),
    *,
    sets: bool = False,
    needs: Action = Action.TENANT_READ,
    maker: str = "",
) -> Kind:
    """Of rows of the database, which say when they were made; `by` is the column that the key of a record names, `maker` that of
    the role that made it, if there is one."""

    def present(keys: list[str]) -> Things:
        found: dict[str, list[Thing]] = {}
        for row in rows().filter(**{f"{by}__in": keys}):
            found.setdefault(str(getattr(row, by)), []).append(thing(row))
        return found

    def before(at: datetime, role: str, limit: int) -> Iterable[Thing]:
        of_role = {f"{maker}__in": (role, "")} if maker else {}
        order = [f"-{maker}", "created_at"] if maker else ["created_at"]
        return map(thing, rows().filter(created_at__lt=at, **of_role).order_by(*order)[:limit])

    return Kind(name, key, present, makes, changes, sets, before, needs)


_SETS_POLICIES = ("tenant.set_policies", "namespace.set_policies", "topic.set_policies")
_CHANGES_RULE = ("alert_rule.change", "alert_rule.silence", "alert_rule.restore")
KINDS: tuple[Kind, ...] = (
    _kind_of_rows("key", _keys_in_use, "id", _key, _last, ("key.create",), ("key.replace",), maker="created_by"),
    _kind_of_rows("role", CustomRole.objects.all, "name", _by_name, _last, ("role.set",), sets=True),
    _kind_of_rows("team", Team.objects.all, "name", _by_name, _last, ("team.set",), ("team.add_member",), sets=True),
    _kind_of_rows("issuer", TokenIssuer.objects.all, "name", _by_name, _last, ("issuer.set",), sets=True),
    Kind("member", _last, _members, ("member.set",), sets=True),
    _kind_of_rows("invitation", _open_invitations, "id", _invitation, _last, ("invitation.create",), maker="created_by"),
    Kind("permission", _grant_key, _grants, ("permission.grant",), sets=True),
    Kind("restriction", _whole, _restrictions, (), ("subscription.restrict",)),
    _kind_of_rows(
        "alert_rule", AlertRule.objects.all, "name", _by_id, _named("alert rule "), ("alert_rule.create",), _CHANGES_RULE
    ),
    Kind("notifications", _whole, _notifications, (), ("notifications.set",)),
    Kind("audit_stream", _whole, _audit_streams, ("audit_stream.set",), sets=True, needs=Action.AUDIT_READ),
    _kind_of_rows(
        "report", ReportSchedule.objects.all, "name", _by_id, _whole, ("report.create",), ("report.update",), needs=_BILLING
    ),
    _kind_of_rows("budget", Budget.objects.all, "name", _by_id, _whole, ("budget.create",), ("budget.update",), needs=_BILLING),
    Kind("spend_cap", _named("spend cap of "), _spend_caps, (), ("spend_cap.set",), needs=_BILLING),
    Kind("redrive", _redrive_key, _unfinished_redrives, ("redrive.start",), ("redrive.resume",), needs=Action.OPERATE),
    _kind_of_rows("namespace", Namespace.objects.all, "name", _by_name, _whole, ("namespace.create",), ("namespace.restore",)),
    Kind("policies", _whole, _policies, (), _SETS_POLICIES),
    Kind("topic", _whole, _on_brokers, ("topic.create",), ("topic.grow", "topic.restore")),
    Kind("subscription", _whole, _on_brokers, ("subscription.create",)),
    Kind("dead_letter_policy", _whole, _on_brokers, (), ("subscription.set_dead_letter_policy",)),
    _kind_of_rows("view", _shared_views, "name", _view, _whole, ("view.save",)),
)
KIND_OF = {action: kind for kind in KINDS for action in kind.actions}  # an action makes or changes one kind of thing
