"""Evaluates alert rules, notices keys that expire soon, and sends notices."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from django.db import transaction

from messaging import logs
from messaging.adminrpc.methods import TOPICS_FIGURES
from messaging.adminrpc.topics import TopicRef
from messaging.errors import MagnetarError, NotAllowed
from tenants.models import Key, Tenant
from tenants.scoping import platform_scope
from workers.alerts import webhooks
from workers.alerts.ceilings import look_at_ceilings
from workers.alerts.models import AlertRule, Notice, NotificationTarget
from workers.alerts.notices import TenantRef, say, send_mail
from workers.alerts.platform import look_at_disk
from workers.alerts.rules import Reading, Standing, judge, read, read_partitions, sum_of
from workers.carriers import Turn
from workers.environment import Environment, Stopping
from workers.runs import Renew
from workers.spend_caps.enforcement import look_at_spend

log = logs.get_logger("magnetar.worker")
PARTITIONS_SAID = 5  # of a partitioned topic, those with the largest values
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
            after = _look(environment, rule, figures.at(rule.topic))
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


class TopicStats:
    """The figures of one topic at a time: rules come in the order of their topics, and each topic is looked at once for all."""

    def __init__(self, environment: Environment) -> None:
        self._environment = environment
        self._topic = ""
        self._figures: dict[str, Any] | MagnetarError = {}

    def at(self, topic: str) -> dict[str, Any]:
        """Raises what the broker answers."""
        if topic != self._topic:
            self._topic = topic
            try:
                self._figures = self._environment.rpc.call(TOPICS_FIGURES, TopicRef(topic=topic)).stats
            except MagnetarError as error:
                self._figures = error
        if isinstance(self._figures, MagnetarError):
            raise self._figures
        return self._figures


def _look(environment: Environment, rule: AlertRule, stats: dict[str, Any]) -> Standing:
    now = environment.now()
    reading, partitions = _read(rule, stats)
    before = Standing(rule.firing, rule.above_since)
    after = judge(before, reading.value, now, threshold=rule.threshold, clear=rule.clear, hold_s=rule.hold_s)
    with transaction.atomic():
        AlertRule.objects.filter(id=rule.id).update(
            value=reading.value,
            counter=reading.counter,
            partitions=partitions,
            above_since=after.above_since,
            firing=after.firing,
            looked_at=now,
            problem="",
        )
        if after.firing != before.firing:
            rule.partitions = partitions
            _say_alert(environment, rule, reading.value, firing=after.firing)
    return after


def _read(rule: AlertRule, stats: dict[str, Any]) -> tuple[Reading, dict[str, list[int | None]]]:
    """The value, and those of the partitions."""
    parts = stats.get("partitions")
    if parts is None:
        return read(rule.kind, stats, rule.subscription, rule.counter), {}
    counters = {index: counter for index, (_, counter) in rule.partitions.items() if counter is not None}
    readings = read_partitions(rule.kind, parts, rule.subscription, counters)
    value = sum_of(rule.kind, parts, rule.subscription, readings)
    return Reading(value), {index: [reading.value, reading.counter] for index, reading in readings.items()}


def _say_alert(environment: Environment, rule: AlertRule, value: int, *, firing: bool) -> None:
    now = environment.now()
    of = f"{rule.topic} {rule.subscription}".strip()
    word = "fired" if firing else "is over"
    largest = ", ".join(f"partition {index}: {of_it}" for index, of_it in rule.by_partition[:PARTITIONS_SAID] if of_it)
    say(
        now,
        TenantRef(rule.tenant, rule.tenant_uid),
        "alert_fired" if firing else "alert_over",
        f"alert {rule.id} {word} {now.timestamp():.0f}",
        f"Alert {rule.name!r} {word}",
        f"{rule.get_kind_display()} of {of} is {value}; the threshold is {rule.threshold}, and it is over below {rule.clear}."
        + (f" Of its partitions, {largest}." if largest else ""),
    )


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
            f"Key {key.name!r} expires within {days} {'day' if days == 1 else 'days'}",
            f"The key {key.name} ({key.role}) expires at {key.expires_at:%Y-%m-%d %H:%M} UTC. Create another with the same name, "
            f"give it to its clients, and revoke this one.",
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
    """Each channel once; what fails is tried again, what is not allowed is not. Raises `NotReady`."""
    row = Notice.objects.filter(id=notice).first()
    target = NotificationTarget.objects.filter(tenant_uid=row.tenant_uid).first() if row else None
    mail_to = sorted({*(row.mail_to if row else ()), *(target.mail_to if target else ())})
    if row is None or not (mail_to or target):
        return {"notice": "it does not exist, or nobody wants it"}
    if mail_to and "mail" not in row.delivered:
        told = TenantRef(row.tenant, row.tenant_uid)
        _done(row, "mail", send_mail(environment.settings, environment.now(), told, mail_to, row.title, row.text))
    if target and target.webhook_url and "webhook" not in row.delivered:
        try:
            status = _post(environment, target, row)
        except NotAllowed as error:
            _done(row, "webhook", error.message)
        else:
            _done(row, "webhook", f"answered {status}")
    return dict(row.delivered)


def _done(notice: Notice, channel: str, how: str) -> None:
    notice.delivered[channel] = how[:300]
    notice.save(update_fields=["delivered"])


def _post(environment: Environment, target: NotificationTarget, notice: Notice) -> int:
    body = {
        "id": notice.id,
        "kind": notice.kind,
        "tenant": notice.tenant,
        "title": notice.title,
        "text": notice.text,
        "at": notice.at.isoformat(),
    }
    allowed = webhooks.networks(environment.settings.webhook_allowed_networks)
    at_s = int(environment.now().timestamp())
    return webhooks.post(target.webhook_url, target.secret, notice.id, json.dumps(body).encode(), at_s, allowed, resolve())


def resolve() -> Callable[[str, int], list[str]]:
    """How names are looked up; tests put another in its place."""
    return webhooks.resolved
