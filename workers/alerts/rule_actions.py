"""What a tenant changes of its alert rules: checked, and written into the audit log."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from django.db import IntegrityError, transaction
from django.db.models import QuerySet

from messaging.adminrpc.methods import TOPICS_PARTITIONS
from messaging.adminrpc.topics import PartitionsGet
from messaging.errors import Conflict, InvalidValue, NotFound, PreconditionFailed
from messaging.permissions.model import Action, Resource
from messaging.protocol.names import TopicName, parse_topic
from tenants import broker
from tenants.access import Actor, require
from tenants.actions.change import record
from tenants.actions.members import check_pattern
from tenants.actions.namespaces import existing
from tenants.models import AuditRecord
from tenants.scoping import tenant_scope
from workers.alerts import webhooks
from workers.alerts.actions import uid_of
from workers.alerts.models import AlertRule, Notice
from workers.alerts.patterns import PARTITIONS_MAX

RULES_MAX = 100  # of one tenant: each is looked at every minute
PATTERNS_MAX = 10  # of these: each is about as many as `patterns.TOPICS_MAX` topics
SILENCE_S_MAX = 30 * 86_400
CHANGEABLE = ("name", "threshold", "clear", "hold_s", "runbook_url")
KEPT = ("name", "kind", "topic", "is_pattern", "subscription", "threshold", "clear", "hold_s", "runbook_url")  # of a deleted one
UNDO_H = 24
DELETED = "alert_rule.delete"
_EXPRESSION = re.compile(r"[?+|()\[\]{}^$\\]")


class FormerRule(NamedTuple):
    """`fields`: what it was."""

    id: str
    name: str
    topic: str
    at: datetime
    role: str
    fields: dict[str, Any]


def create_rule(actor: Actor, tenant: str, given: dict[str, Any]) -> AlertRule:
    """Raises `NotAuthorized`, `InvalidValue` for a topic of another tenant, `NotFound` for one that does not exist,
    `PreconditionFailed` where there are too many."""
    require(actor, Action.OPERATE, Resource(tenant))
    if "://" not in given["topic"] or parse_topic(given["topic"]).tenant != tenant:
        raise InvalidValue(
            f"topic {given['topic'][:80]!r} is not a topic of tenant {tenant}: use persistent://{tenant}/namespace/topic"
        )
    topic = parse_topic(given["topic"])
    is_pattern = _check_topic(topic)
    threshold = given.get("threshold", 1)
    clear = given.get("clear", threshold)
    if given["kind"] not in AlertRule.Kind.values:
        raise InvalidValue(f"kind must be one of {', '.join(AlertRule.Kind.values)}")
    _check(threshold, clear, given.get("runbook_url", ""))
    fields: dict[str, Any] = {
        name: given[name] for name in ("name", "kind", "subscription", "hold_s", "runbook_url") if name in given
    }
    with transaction.atomic(), tenant_scope(tenant):
        _check_count(tenant, is_pattern=is_pattern)
        rule = AlertRule.objects.create(
            tenant=tenant,
            tenant_uid=uid_of(tenant),
            topic=str(topic),
            is_pattern=is_pattern,
            threshold=threshold,
            clear=clear,
            created_at=datetime.now(UTC),
            **fields,
        )
        after = {"topic": rule.topic, "threshold": threshold, **fields}
        record(actor, "alert_rule.create", tenant, f"alert rule {rule.name}", after=after)
    return rule


def change_rule(actor: Actor, tenant: str, rule_id: str, given: dict[str, Any]) -> AlertRule:
    """Some of `CHANGEABLE`. Raises `NotAuthorized`, `NotFound`, `InvalidValue`."""
    require(actor, Action.OPERATE, Resource(tenant))
    with transaction.atomic(), tenant_scope(tenant):
        rule = _locked(rule_id)
        before = {name: getattr(rule, name) for name in CHANGEABLE if name in given}
        for name in before:
            setattr(rule, name, given[name])
        _check(rule.threshold, rule.clear, rule.runbook_url)
        rule.save(update_fields=list(before))
        after = {name: given[name] for name in before}
        record(actor, "alert_rule.change", tenant, f"alert rule {rule.name}", before=before, after=after)
    return rule


def silence_rule(actor: Actor, tenant: str, rule_id: str, for_s: int, reason: str = "") -> AlertRule:
    """Its notices are written and not sent for so long; one that fires then is sent. 0: from now on they are sent again. Raises
    `NotAuthorized`, `NotFound`, `InvalidValue`."""
    require(actor, Action.OPERATE, Resource(tenant))
    if not 0 <= for_s <= SILENCE_S_MAX:
        raise InvalidValue(f"a rule is silenced for at most {SILENCE_S_MAX} s, and not for {for_s}")
    with transaction.atomic(), tenant_scope(tenant):
        rule = _locked(rule_id)
        before = {"until": rule.silenced_until.isoformat() if rule.silenced_until else None}
        now = datetime.now(UTC)
        rule.silenced_until = now + timedelta(seconds=for_s) if for_s or rule.silenced_until else None  # that ends is said
        rule.silenced_by = actor.principal.role if for_s else ""
        rule.silence_reason = reason[:200] if for_s else ""
        rule.save(update_fields=["silenced_until", "silenced_by", "silence_reason"])
        after = {"until": rule.silenced_until.isoformat(), "reason": reason} if for_s and rule.silenced_until else {"until": None}
        record(actor, "alert_rule.silence", tenant, f"alert rule {rule.name}", before=before, after=after)
    return rule


def delete_rule(actor: Actor, tenant: str, rule_id: str) -> None:
    """The audit log keeps what it was, so that this can be undone."""
    require(actor, Action.OPERATE, Resource(tenant))
    rule = rule_of(tenant, rule_id)
    with transaction.atomic(), tenant_scope(tenant):
        AlertRule.objects.filter(id=rule.id).delete()
        before = {name: getattr(rule, name) for name in (*KEPT, "id")}
        record(actor, DELETED, tenant, f"alert rule {rule.name}", before=before)


def former_rules(now: datetime, limit: int) -> list[FormerRule]:
    """Those of the tenant in scope that were deleted in the last `UNDO_H` hours and are not there again, the newest first."""
    rows = AuditRecord.objects.filter(action=DELETED, at__gt=now - timedelta(hours=UNDO_H)).order_by("-id")[: 2 * RULES_MAX]
    present = set(AlertRule.objects.values_list("id", flat=True))
    deleted: dict[str, FormerRule] = {}
    for row in rows:
        before = row.before or {}
        if {*KEPT, "id"} <= before.keys() and before["id"] not in present:
            deleted.setdefault(before["id"], FormerRule(before["id"], before["name"], before["topic"], row.at, row.role, before))
    return list(deleted.values())[:limit]


def restore_rule(actor: Actor, tenant: str, rule_id: str) -> AlertRule:
    """Takes its deletion back: it has its id again, and so what it said; where it stands it finds out anew. Raises `NotAuthorized`,
    `NotFound` where it was not deleted in the last `UNDO_H` hours, `PreconditionFailed`."""
    require(actor, Action.OPERATE, Resource(tenant))
    with transaction.atomic(), tenant_scope(tenant):
        now = datetime.now(UTC)
        deleted = next((rule for rule in former_rules(now, RULES_MAX) if rule.id == rule_id), None)
        if deleted is None:
            raise NotFound(f"no alert rule {rule_id[:64]!r} was deleted in the last {UNDO_H} hours")
        fields = {name: deleted.fields[name] for name in KEPT}
        _check_count(tenant, is_pattern=fields["is_pattern"])
        try:
            with transaction.atomic():
                rule = AlertRule.objects.create(id=rule_id, tenant=tenant, tenant_uid=uid_of(tenant), created_at=now, **fields)
        except IntegrityError:
            raise Conflict(f"alert rule {rule_id} is there again: somebody else took its deletion back just now") from None
        record(actor, "alert_rule.restore", tenant, f"alert rule {rule.name}", after={"id": rule_id, "topic": rule.topic})
    return rule


def _check_count(tenant: str, *, is_pattern: bool) -> None:
    """Raises `PreconditionFailed` where there are too many."""
    if AlertRule.objects.count() >= RULES_MAX:
        raise PreconditionFailed(f"tenant {tenant} has {RULES_MAX} alert rules, which is the limit: delete some")
    if is_pattern and AlertRule.objects.filter(is_pattern=True).count() >= PATTERNS_MAX:
        raise PreconditionFailed(
            f"tenant {tenant} has {PATTERNS_MAX} alert rules with a pattern, which is the limit: delete some, or name topics"
        )


def rule_of(tenant: str, rule_id: str) -> AlertRule:
    """Raises `NotFound`."""
    with tenant_scope(tenant):
        rule: AlertRule | None = AlertRule.objects.filter(id=rule_id).first()
    if rule is None:
        raise NotFound(f"alert rule {rule_id[:64]!r} does not exist")
    return rule


def notices_of(rule: AlertRule) -> QuerySet[Notice]:
    """What it has said, newest first; within the scope of its tenant."""
    return Notice.objects.filter(rule=rule.id)


def _locked(rule_id: str) -> AlertRule:
    rule: AlertRule | None = AlertRule.objects.select_for_update().filter(id=rule_id).first()
    if rule is None:
        raise NotFound(f"alert rule {rule_id[:64]!r} does not exist")
    return rule


def _check(threshold: int, clear: int, runbook_url: str) -> None:
    if clear > threshold or threshold < 1:
        raise InvalidValue("threshold must be at least 1, and clear at most threshold")
    if runbook_url:
        webhooks.check_url(runbook_url, "a runbook")


def _check_topic(topic: TopicName) -> bool:
    """Whether it is a pattern; else a topic, a partition or a partitioned topic that exists. Raises `NotFound`, `InvalidValue`,
    `PreconditionFailed`."""
    try:
        meta = broker.rpc().call(TOPICS_PARTITIONS, PartitionsGet(topic=str(topic)))
    except NotFound:
        if "*" not in topic.local or _EXPRESSION.search(topic.local):
            if _EXPRESSION.search(topic.local):
                raise InvalidValue(
                    f"topic {str(topic)[:200]!r} does not exist; in a pattern * stands for any characters, and nothing else does"
                ) from None
            raise
        check_pattern(topic.local)
        existing(str(topic.namespace))
        return True
    if meta.partitions > PARTITIONS_MAX:
        raise PreconditionFailed(
            f"topic {topic} has {meta.partitions} partitions: a rule is about at most {PARTITIONS_MAX}; make rules for partitions"
        )
    return False
