"""What a tenant changes of its alerts: checked, and written into the audit log."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any, NamedTuple

from django.db import transaction

from messaging.adminrpc.methods import TOPICS_PARTITIONS
from messaging.adminrpc.topics import PartitionsGet
from messaging.errors import InvalidValue, NotFound, PreconditionFailed
from messaging.permissions.model import Action, Resource
from messaging.protocol.names import TopicName, parse_topic
from tenants import broker
from tenants.access import Actor, require
from tenants.actions.change import limit_rate, record
from tenants.models import Tenant
from tenants.scoping import tenant_scope
from workers import mail
from workers.alerts import webhooks
from workers.alerts.models import AlertRule, Notice, NotificationTarget, new_secret
from workers.queue import ask_for
from workers.schedule import SEND_NOTICE

RULES_MAX = 100  # of one tenant: each is looked at every minute
MAIL_MAX = 10
REPLAYED_MAX = 100  # notices of one request
NOTICES_SCANNED_MAX = 10_000  # that one request looks at
PARTITIONS_MAX = 1_000  # of the topic of a rule: each is looked at every minute
PATTERN = re.compile(r"[*?+|()\[\]{}^$\\]")


class Replayed(NamedTuple):
    """So many are sent again; `following`: the time of the next one, None if that were all."""

    notices: int
    following: datetime | None


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


def replay_notice(actor: Actor, tenant: str, notice_id: str) -> Notice:
    """Has a notice sent to the webhook again. Raises `NotAuthorized`, `NotFound`, `PreconditionFailed` without a webhook."""
    require(actor, Action.OPERATE, Resource(tenant))
    limit_rate(actor)
    with transaction.atomic(), tenant_scope(tenant):
        notice: Notice | None = Notice.objects.filter(id=notice_id).first()
        if notice is None:
            raise NotFound(f"notice {notice_id[:64]!r} does not exist")
        _check_webhook(tenant)
        _send_again(notice)
        record(actor, "notice.replay", tenant, f"notice {notice.id}", after={"notices": 1})
    return notice


def replay_notices(actor: Actor, tenant: str, since: datetime, until: datetime | None, *, failed_only: bool) -> Replayed:
    """The same of all within a time, the oldest first and at most `REPLAYED_MAX`; `failed_only`: that did not arrive."""
    require(actor, Action.OPERATE, Resource(tenant))
    limit_rate(actor)
    with transaction.atomic(), tenant_scope(tenant):
        _check_webhook(tenant)
        rows = Notice.objects.filter(at__gte=since).order_by("at", "id")
        rows = rows.filter(at__lt=until) if until is not None else rows
        chosen: list[Notice] = []
        following: datetime | None = None
        for number, notice in enumerate(rows[: NOTICES_SCANNED_MAX + 1]):
            if number == NOTICES_SCANNED_MAX or len(chosen) == REPLAYED_MAX:
                following = notice.at
                break
            if not (failed_only and str(notice.delivered.get("webhook", "")).startswith("answered 2")):
                chosen.append(notice)
        for notice in chosen:
            _send_again(notice)
        record(actor, "notice.replay", tenant, "notices", after={"notices": len(chosen), "since": since.isoformat()})
    return Replayed(len(chosen), following)


def _check_webhook(tenant: str) -> None:
    if not target_of(tenant).webhook_url:
        raise PreconditionFailed(f"tenant {tenant} has no webhook: say first where notices are sent")


def _send_again(notice: Notice) -> None:
    notice.delivered.pop("webhook", None)
    notice.save(update_fields=["delivered"])
    ask_for(SEND_NOTICE, notice=notice.id)


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
