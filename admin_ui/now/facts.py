"""What the control plane knows to be wrong: alerts that fire; for administrators of the platform the disk, processes and tasks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from datetime import datetime, timedelta

import msgspec
from django.conf import settings as django_settings
from django.db.models import Q, QuerySet
from django.utils import timezone

from admin_ui import platform_view
from admin_ui.translation.figures import exact, size, span
from admin_ui.translation.said import said
from admin_ui.translation.texts import gettext, gettext_lazy, ngettext
from messaging.adminrpc.problems import ProblemsFound
from messaging.permissions.model import Action, Resource
from messaging.problems.kinds import Kind
from messaging.problems.order import Problem
from messaging.protocol.names import TopicName
from tenants.access import Actor
from tenants.models import Tenant
from tenants.scoping import platform_scope
from workers.alerts.failing import failing_of
from workers.alerts.models import AlertRule, NotificationTarget, PlatformAlert
from workers.history import overview
from workers.models import TaskRun

ALERTS_MAX = 500
WHY_LENGTH_MAX = 300
LOOKS_MISSED, LATE_AT_LEAST = 3, timedelta(minutes=3)  # after so many rules are not looked at
_FAILED = {
    TaskRun.Outcome.FAILED.value: gettext_lazy("failed"),
    TaskRun.Outcome.QUARANTINED.value: gettext_lazy("failed for good, and waits for a decision"),
}
_DOWN = {
    "backing-off": gettext_lazy("ended and is started again after a while"),
    "starting": gettext_lazy("ended and is being started again"),
    "failed": gettext_lazy("ended and is not started again"),
}
ENDS_WITHIN = timedelta(minutes=10)  # of a process that ended more than once in them it is told although it runs again


def alerts(tenants: QuerySet[Tenant]) -> tuple[list[Problem], datetime | None]:
    """The rules that fire; and when they were looked at, if that is too long ago to tell what is so now."""
    with platform_scope():
        rules = AlertRule.objects.filter(tenant__in=tenants.values("name"))
        firing = [_alert(rule) for rule in rules.filter(firing=True).order_by("above_since", "id")[:ALERTS_MAX]]
        looked_at = rules.filter(looked_at__isnull=False).order_by("looked_at").values_list("looked_at", flat=True).first()
    late_after = max(LATE_AT_LEAST, LOOKS_MISSED * timedelta(seconds=django_settings.MAGNETAR.alert_interval_s))
    late = looked_at is not None and timezone.now() - looked_at > late_after
    return firing, looked_at if late else None


# By channel. A webhook and a topic are tried again, a mail is not.
_UNSENT = {
    "mail": gettext_lazy("Notices are not mailed: {why}."),
    "webhook": gettext_lazy("Notices do not reach the webhook: {why}."),
    "topic": gettext_lazy("Notices are not published to {topic}: {why}."),
}


def unsent(tenants: QuerySet[Tenant], *, of_platform: bool) -> Iterator[Problem]:
    """Where the last notice did not arrive; also those of the platform itself, which have no tenant."""
    among = Q(tenant_uid__in=tenants.values("uid")) | (Q(tenant_uid="") if of_platform else Q())
    with platform_scope():
        targets = list(NotificationTarget.objects.filter(among, failing__isnull=False)[:ALERTS_MAX])
    for target in targets:
        for channel, failing in failing_of(target).items():
            why = said(failing.why).rstrip(".")
            yield Problem(
                kind=Kind.NOTICES_UNSENT,
                id=channel,
                sentence=_UNSENT[channel].format(why=why, topic=target.topic),
                remedy=gettext("repair it or change where notices are sent, then send a test notice"),
                since_ms=failing.since_ms,
                tenant=target.tenant,
            )


def alerts_of(actor: Actor, name: TopicName, subscription: str = "") -> list[Problem]:
    """The rules that fire about a topic; with a subscription those that are about it, or about whichever is worst. Within the scope
    of the tenant."""
    if not actor.may(Action.OPERATE, Resource(name.tenant)):
        return []
    rules = AlertRule.objects.filter(firing=True)
    if subscription:
        rules = rules.filter(subscription__in=("", subscription))
    topics = {str(name), str(name.base)}
    rules = rules.filter(Q(is_pattern=False, topic__in=topics) | Q(is_pattern=True, topics__has_any_keys=sorted(topics)))
    firing = [rule for rule in rules.order_by("above_since", "id")[:ALERTS_MAX] if _fires_for(rule, topics)]
    return [_alert(rule) for rule in firing]


def _fires_for(rule: AlertRule, topics: set[str]) -> bool:
    if not rule.is_pattern:
        return rule.topic in topics
    return any(standing.firing and topic in topics for topic, standing in rule.by_topic)


# What a rule measures, as one says it, and the form of its figures.
_MEASURED: dict[str, tuple[Callable[[int], str], Callable[[int], str]]] = {
    AlertRule.Kind.BACKLOG_ENTRIES: (
        lambda value: ngettext(
            "{value} entry waits{where}; it fires at {threshold}", "{value} entries wait{where}; it fires at {threshold}", value
        ),
        exact,
    ),
    AlertRule.Kind.BACKLOG_BYTES: (lambda _: gettext("{value} wait{where}; it fires at {threshold}"), size),
    AlertRule.Kind.BACKLOG_AGE_S: (
        lambda _: gettext("the oldest message that waits{where} is {value} old; it fires at {threshold}"),
        span,
    ),
    AlertRule.Kind.NO_CONSUMER: (lambda _: gettext("messages wait, and no consumer is connected{where}"), exact),
    AlertRule.Kind.BLOCKED: (lambda _: gettext("consumers take no more{where}"), exact),
    AlertRule.Kind.MESSAGES_GROW: (
        lambda value: ngettext(
            "{value} message came since the last look{where}; it fires at {threshold}",
            "{value} messages came since the last look{where}; it fires at {threshold}",
            value,
        ),
        exact,
    ),
    AlertRule.Kind.PUBLISH_THROTTLED: (
        lambda value: ngettext(
            "producers were held back {value} time since the last look{where}; it fires at {threshold}",
            "producers were held back {value} times since the last look{where}; it fires at {threshold}",
            value,
        ),
        exact,
    ),
}


def _alert(rule: AlertRule) -> Problem:
    measured, form = _MEASURED[rule.kind]
    namespace = "/".join(rule.topic.partition("://")[2].split("/")[:2])
    where, topic = (
        gettext(" in subscription {subscription}").format(subscription=rule.subscription) if rule.subscription else "",
        rule.topic,
    )
    if rule.is_pattern:  # no topic has that name: the worst of those that match is shown
        topic = next((name for name, _ in rule.by_topic), "")
        where += gettext(" in the worst topic of {topic}").format(topic=rule.topic.rpartition("/")[2])
    figures = {"value": form(rule.value), "threshold": form(rule.threshold)}
    return Problem(
        kind=Kind.ALERT,
        id=rule.id,
        sentence=f"{rule.name}: {measured(rule.value).format(where=where, **figures)}.",
        since_ms=_ms(rule.above_since),
        tenant=rule.tenant,
        namespace=namespace,
        topic=topic,
        subscription=rule.subscription,
    )


def of_platform() -> Iterator[Problem]:
    """For administrators of the platform. Brokers tell of themselves and of each other."""
    for alert in PlatformAlert.objects.filter(firing=True):
        sentence = gettext("{value} % of the disk is used. When it is full, publishing is refused.").format(value=alert.value)
        remedy = gettext("shorten retention, let consumers catch up, or enlarge the disk")
        yield Problem(kind=Kind.DISK_LOW, id=alert.name, sentence=sentence, remedy=remedy, since_ms=_ms(alert.above_since))
    for child in platform_view.children(())[0]:
        if ended := _process(child):
            since = child.since if child.state in _DOWN else min(_recent(child))
            yield Problem(
                kind=Kind.PROCESS_DOWN, id=child.name, sentence=ended, remedy=gettext("look at its log"), since_ms=_ms(since)
            )
    for task in overview():
        if task["last_outcome"] in _FAILED:
            last = TaskRun.objects.filter(name=task["name"]).order_by("-started_at").first()
            why = said(str(last.summary.get("why", "")) if last else "").rstrip(".")[:WHY_LENGTH_MAX]
            text = gettext("Task “{title}” {failed}: {why}.") if why else gettext("Task “{title}” {failed}.")
            sentence = text.format(title=said(task["title"]), failed=_FAILED[task["last_outcome"]], why=why)
            yield Problem(
                kind=Kind.TASK_FAILED,
                id=task["name"],
                sentence=sentence,
                remedy=gettext("look at the run"),
                since_ms=_ms(task["last_started_at"]),
            )


def _process(child: platform_view.ChildRow) -> str:
    """What is wrong with it; "": nothing."""
    exit_text = gettext(" Its last exit: {last_exit}.").format(last_exit=child.last_exit) if child.last_exit else ""
    if child.state in _DOWN and (child.state != "starting" or child.last_exit):
        return gettext("Process {name} {down}.{exit_text}").format(name=child.name, down=_DOWN[child.state], exit_text=exit_text)
    if (count := len(_recent(child))) > 1:
        text = gettext("Process {name} runs again. How often it ended within 10 minutes: {count}.{exit_text}")
        return text.format(name=child.name, count=count, exit_text=exit_text)
    return ""


def _recent(child: platform_view.ChildRow) -> list[datetime]:
    return [at for at in child.exits if timezone.now() - at < ENDS_WITHIN]


def with_processes(found: ProblemsFound, processes: Iterable[Problem]) -> ProblemsFound:
    """`found` by the brokers without what the supervisor says better: that the process of one of them ended. And with those that do
    not answer."""
    told = {problem.id for problem in processes if problem.kind == Kind.PROCESS_DOWN}
    kept = [each for each in found.problems if each.kind != Kind.PROCESS_DOWN or platform_view.process_of(each.id) not in told]
    known = {each.id for each in kept if each.kind == Kind.PROCESS_DOWN}
    silent = [each for each in found.unreachable if each not in known and platform_view.process_of(each) not in told]
    text, remedy = gettext("Broker {broker_id} is not responding."), gettext("look at its machine and its log")
    kept += [Problem(kind=Kind.PROCESS_DOWN, id=each, sentence=text.format(broker_id=each), remedy=remedy) for each in silent]
    more = len(kept) - len(found.problems)
    total = found.total | ({Kind.PROCESS_DOWN.value: found.total.get(Kind.PROCESS_DOWN, 0) + more} if more else {})
    return msgspec.structs.replace(found, problems=kept, total=total)


def _ms(at: datetime | None) -> int | None:
    return None if at is None else round(at.timestamp() * 1000)
