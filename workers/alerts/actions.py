"""What a tenant changes of its alerts: checked, and written into the audit log."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any

from django.db import transaction

from messaging.adminrpc.methods import TOPICS_PARTITIONS
from messaging.adminrpc.topics import PartitionsGet
from messaging.errors import InvalidValue, NotFound, PreconditionFailed
from messaging.permissions.model import Action, Resource
from messaging.protocol.names import TopicName, parse_topic
from tenants import broker
from tenants.access import Actor, require
from tenants.actions.change import record
from tenants.models import Tenant
from tenants.scoping import tenant_scope
from workers import mail
from workers.alerts import webhooks
from workers.alerts.models import AlertRule, NotificationTarget, new_secret

RULES_MAX = 100  # of one tenant: each is looked at every minute
MAIL_MAX = 10
PARTITIONS_MAX = 1_000  # of the topic of a rule: each is looked at every minute
PATTERN = re.compile(r"[*?+|()\[\]{}^$\\]")


def create_rule(actor: Actor, tenant: str, given: dict[str, Any]) -> AlertRule:
    """Raises `NotAuthorized`, `InvalidValue` for a topic of another tenant, `NotFound` for one that does not exist,
    `PreconditionFailed` where there are too many."""
    require(actor, Action.OPERATE, Resource(tenant))
    if "://" not in given["topic"] or parse_topic(given["topic"]).tenant != tenant:
        raise InvalidValue(
            f"topic {given['topic'][:80]!r} is not a topic of tenant {tenant}: use persistent://{tenant}/namespace/topic"
        )
    topic = parse_topic(given["topic"])
    _check_topic(topic)
    threshold = given.get("threshold", 1)
    clear = given.get("clear", threshold)
    if given["kind"] not in AlertRule.Kind.values:
        raise InvalidValue(f"kind must be one of {', '.join(AlertRule.Kind.values)}")
    if clear > threshold or threshold < 1:
        raise InvalidValue("threshold must be at least 1, and clear at most threshold")
    fields: dict[str, Any] = {name: given[name] for name in ("name", "kind", "subscription", "hold_s") if name in given}
    with transaction.atomic(), tenant_scope(tenant):
        if AlertRule.objects.count() >= RULES_MAX:
            raise PreconditionFailed(f"tenant {tenant} has {RULES_MAX} alert rules, which is the limit: delete some")
        rule = AlertRule.objects.create(
            tenant=tenant,
            tenant_uid=_uid(tenant),
            topic=str(topic),
            threshold=threshold,
            clear=clear,
            created_at=datetime.now(UTC),
            **fields,
        )
        record(
            actor,
            "alert_rule.create",
            tenant,
            f"alert rule {rule.name}",
            after={"topic": rule.topic, "threshold": threshold, **fields},
        )
    return rule


def _check_topic(topic: TopicName) -> None:
    """A topic, a partition or a partitioned topic that exists. Raises `NotFound`, `InvalidValue`, `PreconditionFailed`."""
    try:
        meta = broker.rpc().call(TOPICS_PARTITIONS, PartitionsGet(topic=str(topic)))
    except NotFound:
        if PATTERN.search(topic.local):
            raise InvalidValue(
                f"topic {str(topic)[:200]!r} does not exist; patterns are not supported: make a rule for each topic"
            ) from None
        raise
    if meta.partitions > PARTITIONS_MAX:
        raise PreconditionFailed(
            f"topic {topic} has {meta.partitions} partitions: a rule is about at most {PARTITIONS_MAX}; make rules for partitions"
        )


def rule_of(tenant: str, rule_id: str) -> AlertRule:
    with tenant_scope(tenant):
        rule: AlertRule | None = AlertRule.objects.filter(id=rule_id).first()
    if rule is None:
        raise NotFound(f"alert rule {rule_id[:64]!r} does not exist")
    return rule


def delete_rule(actor: Actor, tenant: str, rule_id: str) -> None:
    require(actor, Action.OPERATE, Resource(tenant))
    rule = rule_of(tenant, rule_id)
    with transaction.atomic(), tenant_scope(tenant):
        AlertRule.objects.filter(id=rule.id).delete()
        record(actor, "alert_rule.delete", tenant, f"alert rule {rule.name}", before={"topic": rule.topic, "kind": rule.kind})


def target_of(tenant: str) -> NotificationTarget:
    """Not stored, where there is none."""
    with tenant_scope(tenant):
        return NotificationTarget.objects.first() or NotificationTarget(tenant=tenant, tenant_uid=_uid(tenant), secret="")


def set_target(actor: Actor, tenant: str, webhook_url: str, mail_to: list[str]) -> NotificationTarget:
    """A webhook gets a new secret each time it is set. Raises `NotAuthorized`, `InvalidValue`."""
    require(actor, Action.TENANT_ADMIN, Resource(tenant))
    check_target(webhook_url, mail_to)
    with transaction.atomic(), tenant_scope(tenant):
        before = NotificationTarget.objects.first()
        fields = {"tenant": tenant, "webhook_url": webhook_url, "mail_to": mail_to}
        if before is None or before.webhook_url != webhook_url:
            fields["secret"] = new_secret()
        target, _ = NotificationTarget.objects.update_or_create(tenant_uid=_uid(tenant), defaults=fields)
        record(actor, "notifications.set", tenant, "notifications", after={"webhook": bool(webhook_url), "mail_to": mail_to})
    return target


def check_target(webhook_url: str, mail_to: list[str]) -> None:
    """Raises `InvalidValue`."""
    if webhook_url:
        webhooks.check_url(webhook_url)
    mail.recipients(mail_to, MAIL_MAX)


def _uid(tenant: str) -> str:
    uid = Tenant.objects.filter(name=tenant).values_list("uid", flat=True).first()
    if uid is None:
        raise NotFound(f"tenant {tenant!r} does not exist")
    return uid
