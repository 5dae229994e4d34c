"""Evaluates alert rules, notices keys that expire soon, and sends notices."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from datetime import date, timedelta
from typing import Any

from django.db.models import Case, DateField, F, Q, Value, When

from messaging import logs
from messaging.adminrpc.messages import MessageGiven, MessagesPublish
from messaging.adminrpc.methods import MESSAGES_PUBLISH
from messaging.errors import MagnetarError, NotReady
from messaging.settings import Settings
from tenants.models import Key, Tenant
from tenants.scoping import platform_scope
from workers import mail
from workers.alerts import sentences, webhooks
from workers.alerts.ceilings import look_at_ceilings
from workers.alerts.failing import note_sent
from workers.alerts.looks import TopicStats, look
from workers.alerts.models import AlertRule, Notice, NotificationTarget
from workers.alerts.notices import TenantRef, say, send_mail
from workers.alerts.platform import look_at_disk
from workers.carriers import Turn
from workers.environment import Environment, Stopping
from workers.runs import Renew
from workers.spend_caps.enforcement import look_at_spend
from workers.translation.of_tenants import told_in
from workers.translation.said import said

log = logs.get_logger("magnetar.worker")
CALLED = "answered"  # how what a webhook answered begins
ARRIVED = ("mailed to", CALLED, "published to")  # how what is said of a notice that arrived begins
DAYS_BEFORE = (14, 7, 1)  # that a key expires; each is said once


@platform_scope()
def evaluate_alerts(environment: Environment, task_id: str, renew: Renew) -> dict[str, Any]:
    """Looks at every rule. One that cannot be looked at stands as it stood, says why, and holds up no other; safe to run twice.

    A topic that is not loaded is not loaded for it (`topics.figures`)."""
    looked_at = fired = over = problems = 0
    disk = _disk(environment)
    near_ceilings, spending = look_at_ceilings(environment, renew), look_at_spend(environment, renew)
    uids = dict(Tenant.objects.values_list("name", "uid"))
    figures = TopicStats(environment)
    for rule in AlertRule.objects.order_by("topic", "id").iterator():
        renew(looked_at=looked_at)
        if uids.get(rule.tenant) != rule.tenant_uid:  # of a tenant that is gone: a later one of its name is another
            rule.delete()
            continue
        try:
            after = look(environment, rule, figures, renew)
        except Stopping:
            raise
        except Exception as error:  # whatever is wrong with one tenant's rule, the others' are not to wait for it
            problems += 1
            why = error.message if isinstance(error, MagnetarError) else f"{type(error).__name__}: {error}"
            if not isinstance(error, MagnetarError):
                log.exception("alert-rule-failed", rule=rule.id, tenant=rule.tenant)
            AlertRule.objects.filter(id=rule.id).update(problem=why[:500], looked_at=environment.now())
            continue
        looked_at += 1
        fired += after.firing and not rule.firing
        over += rule.firing and not after.firing
    rules = {"looked_at": looked_at, "fired": fired, "over": over, "problems": problems}
    return {**rules, "disk": disk, "ceilings": near_ceilings, "spending": spending}


def _disk(environment: Environment) -> str:
    """How full the disk is, in words; why it is not known."""
    try:
        return f"{look_at_disk(environment).value} % used"
    except Exception as error:  # the tenants' rules are not to wait for it
        log.exception("disk-not-looked-at")
        return f"{type(error).__name__}: {error}"[:300]


@platform_scope()
def notice_expiring_keys(environment: Environment, task_id: str, renew: Renew) -> dict[str, Any]:
    """Says of each key that it expires soon, once for each of `DAYS_BEFORE` that has come; of one that comes late, the nearest."""
    now, said = environment.now(), 0
    soon = now + timedelta(days=max(DAYS_BEFORE))
    keys = list(Key.objects.filter(revoked_at=None, expires_at__gt=now, expires_at__lte=soon, tenant__isnull=False))
    uids = dict(Tenant.objects.values_list("name", "uid"))
    for key in keys:
        renew(said=said)
        assert key.expires_at is not None and key.tenant_id is not None
        days = min(days_before for days_before in DAYS_BEFORE if key.expires_at - now <= timedelta(days=days_before))
        notice = say(
            now,
            TenantRef(key.tenant_id, uids.get(key.tenant_id, "")),
            "key_expires",
            f"key {key.id} {days} {key.expires_at.timestamp():.0f}",
            *sentences.key_expires(key.name, key.role, days, key.expires_at),
        )
        said += notice is not None
    return {"keys": len(keys), "said": said}


@platform_scope()
def turn_of(notice: str) -> Turn:
    """Of the tenant, to the host of its webhook."""
    uid = Notice.objects.filter(id=notice).values_list("tenant_uid", flat=True).first() or ""
    url = NotificationTarget.objects.filter(tenant_uid=uid).values_list("webhook_url", flat=True).first()
    return Turn(uid, webhooks.host_of(url or ""))


@platform_scope()
def send_notice(environment: Environment, task_id: str, renew: Renew, notice: str) -> dict[str, Any]:
    """Each channel once; what fails is tried again, what is not allowed is not, and none waits for another. The topic comes last:
    what is wrong may be the broker that has it. Raises `NotReady`."""
    row = Notice.objects.filter(id=notice).first()
    target = NotificationTarget.objects.filter(tenant_uid=row.tenant_uid).first() if row else None
    mail_to = sorted({*(row.mail_to if row else ()), *(target.mail_to if target else ())})
    if row is None or not (mail_to or target):
        return {"notice": "it does not exist, or nobody wants it"}
    failed = None
    channels: list[tuple[str, Callable[[], str]]] = []
    if mail_to:
        channels.append(("mail", lambda: _mail(environment, mail_to, row)))
    if target and target.webhook_url:
        channels.append(("webhook", lambda: _call(environment, target, row)))
    if target and target.topic:
        channels.append(("topic", lambda: _publish(environment, target, row)))
    for channel, send in channels:
        if channel in row.delivered:
            continue
        try:
            how = send()
            _done(row, channel, how)
            if not how.startswith((*ARRIVED, mail.FAILED)):  # a limit, say: whether it would arrive is not known
                continue
            why = how if how.startswith(mail.FAILED) else ""
        except NotReady as error:
            failed, why = failed or error, error.message
        except MagnetarError as error:
            if channel == "mail":
                raise
            why = error.message
            _done(row, channel, why)
        note_sent(target, channel, why, environment.now())
    if failed is not None:
        raise failed
    return dict(row.delivered)


def _mail(environment: Environment, mail_to: Sequence[str], notice: Notice) -> str:
    settings, told = environment.settings, TenantRef(notice.tenant, notice.tenant_uid)
    with told_in(settings, notice.tenant_uid):
        title, text = said(notice.title), said(notice.text)
    text += f"\n\nRunbook: {notice.runbook_url}" if notice.runbook_url else ""
    return send_mail(settings, environment.now(), told, mail_to, title, text)


def _done(notice: Notice, channel: str, how: str) -> None:
    notice.delivered[channel] = how[:300]
    notice.save(update_fields=["delivered"])


def body_of(settings: Settings, notice: Notice) -> bytes:
    """What webhooks and topics are sent: title and text in the language of the tenant, the rest for programs."""
    with told_in(settings, notice.tenant_uid):
        title, text = said(notice.title), said(notice.text)
    fields = {
        "id": notice.id,
        "kind": notice.kind,
        "tenant": notice.tenant,
        "title": title,
        "text": text,
        "at": notice.at.isoformat(),
    }
    of_rule = {"rule": notice.rule, "runbook_url": notice.runbook_url} if notice.rule else {}
    return json.dumps({**fields, **of_rule}).encode()


def _publish(environment: Environment, target: NotificationTarget, notice: Notice) -> str:
    """A message whose key is the rule, so that what one rule says comes in its order."""
    message = MessageGiven(
        payload=body_of(environment.settings, notice),
        key=notice.rule or notice.kind,
        properties={"notice_id": notice.id, "kind": notice.kind, "content_type": "application/json"},
        event_time_ms=int(notice.at.timestamp() * 1000),
    )
    environment.rpc.call(MESSAGES_PUBLISH, MessagesPublish(topic=target.topic, messages=[message]))
    return sentences.published(target.topic)


def _call(environment: Environment, target: NotificationTarget, notice: Notice) -> str:
    """How it went. One rule with a pattern may have a thousand topics to tell of: those have a limit a day."""
    now, most = environment.now(), environment.settings.pattern_webhooks_per_day_max
    if _of_pattern(notice) and not counted(target, now.date(), most):
        say(
            now,
            TenantRef(notice.tenant, notice.tenant_uid),
            "webhook_limit",
            f"webhook limit {now.date()}",
            *sentences.webhook_limit(notice.tenant, most, now.date()),
        )
        return sentences.calls_used_up(most)
    return f"{CALLED} {_post(environment, target, notice)}"


def _of_pattern(notice: Notice) -> bool:
    """Or of a rule that was deleted, which may have had one: a rule is not made anew to call more often."""
    return bool(notice.rule) and not AlertRule.objects.filter(id=notice.rule, is_pattern=False).exists()


def counted(target: NotificationTarget, day: date, most: int) -> bool:
    """Whether the webhook may be called once more on `day` (UTC) for a rule with a pattern, which then counts: also in vain, and
    for a notice that is sent again, of whatever day. A later day than ours, by the clock of another worker, is not begun again."""
    if most <= 0:
        return False
    begun = Q(pattern_calls_on__gte=day)
    free = Q(begun, pattern_calls__lt=most) | Q(pattern_calls_on=None) | Q(pattern_calls_on__lt=day)
    calls = NotificationTarget.objects.filter(free, pk=target.pk).update(  # in one statement: others count at the same time
        pattern_calls=Case(When(begun, then=F("pattern_calls") + 1), default=Value(1)),
        pattern_calls_on=Case(When(begun, then=F("pattern_calls_on")), default=Value(day, DateField())),
    )
    return bool(calls)


def _post(environment: Environment, target: NotificationTarget, notice: Notice) -> int:
    allowed = webhooks.networks(environment.settings.webhook_allowed_networks)
    at_s = int(environment.now().timestamp())
    return webhooks.post(
        target.webhook_url, target.secret, notice.id, body_of(environment.settings, notice), at_s, allowed, resolve()
    )


def resolve() -> Callable[[str, int], list[str]]:
    """How names are looked up; tests put another in its place."""
    return webhooks.resolved
