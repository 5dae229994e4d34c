"""Problems as the page lists them: a mark, a sentence, who is affected, and where it is fixed."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

import msgspec
from django.urls import reverse

from admin_ui.access import resource_of
from admin_ui.addresses import short_name
from admin_ui.pages import sentence
from admin_ui.translation.said import said
from admin_ui.translation.texts import gettext, gettext_lazy
from messaging.permissions.model import Action
from messaging.problems.kinds import MARKS, Kind, Mark
from messaging.problems.order import Problem
from tenants.access import Actor

_PARTITION = re.compile(r"(.+)-partition-\d{1,6}")
UNKNOWN_KIND = Mark("PROBLEM", False, "")  # of a later release of the broker


@dataclass(frozen=True)
class Link:
    """`label` of a link to another page; `name` tells it from those of other rows to whoever does not see them."""

    label: str
    url: str
    name: str


@dataclass(frozen=True)
class Row:
    id: str
    mark: Mark
    sentence: str
    remedy: str
    since_ms: int | None
    waiting: int | None  # None: unknown
    partitions: int
    name: str
    url: str
    path: str  # of what it is in: topic · tenant / namespace
    links: list[Link]


def row(problem: Problem, actor: Actor) -> Row:
    kind = Kind(problem.kind) if problem.kind in MARKS else None
    mark, links, crumbs = MARKS[kind] if kind else UNKNOWN_KIND, _links(kind, problem, actor) if kind else [], _crumbs(problem)
    name, url = crumbs[-1] if crumbs else (links[0].label, links[0].url) if links else ("", "")
    return Row(
        id=_id(problem),
        mark=mark._replace(text=said(mark.text), meaning=said(mark.meaning)),
        sentence=_sentence(problem),
        remedy=sentence(said(problem.remedy)),
        since_ms=problem.since_ms,
        waiting=problem.waiting or (None if kind is Kind.NO_CONSUMER else 0),
        partitions=problem.partitions,
        name=name,
        url=url,
        path=_path([label for label, _ in crumbs[:-1]]),
        links=links if crumbs else [],
    )


def _path(labels: list[str]) -> str:
    """The topic first: on a narrow screen the end is cut off, and nobody looks for a tenant."""
    return f"{labels[2]} · {labels[0]} / {labels[1]}" if len(labels) == 3 else " / ".join(labels)


def _sentence(problem: Problem) -> str:
    """Its figures are those of one partition, where several have the problem; what waits is added up."""
    text = said(problem.sentence)
    return gettext("In the worst partition: {sentence}").format(sentence=text) if problem.partitions > 1 else text


def _id(problem: Problem) -> str:
    """The same at each refresh, so that the focus stays where it is."""
    parts = (problem.kind, problem.topic or problem.tenant, problem.subscription, problem.id)
    return re.sub(r"[^A-Za-z0-9_-]", lambda match: f"_{ord(match[0]):x}", "/".join(parts))


def _place(problem: Problem) -> list[str]:
    """The arguments of addresses of the topic: of the whole one, where it is a partition's."""
    tenant, _, namespace = problem.namespace.partition("/")
    match = _PARTITION.fullmatch(problem.topic)
    return [tenant, namespace, short_name(match[1] if match else problem.topic)]


def _crumbs(problem: Problem) -> list[tuple[str, str]]:
    crumbs = []
    if problem.tenant:
        crumbs.append((problem.tenant, reverse("console:tenant", args=[problem.tenant])))
    if problem.namespace:
        tenant, _, namespace = problem.namespace.partition("/")
        crumbs.append((namespace, reverse("console:namespace", args=[tenant, namespace])))
    if problem.topic:
        place = _place(problem)
        crumbs.append((place[2], reverse("console:topic", args=place)))
        if problem.subscription:
            crumbs.append((problem.subscription, reverse("console:subscription", args=[*place, problem.subscription])))
    return crumbs


def _links(kind: Kind, problem: Problem, actor: Actor) -> list[Link]:
    name = problem.subscription or short_name(problem.topic) or problem.tenant

    def link(label: str, route: str, args: list[str], action: Action) -> list[Link]:
        parts = dict(zip(("tenant", "namespace", "topic"), args, strict=False))
        where = resource_of(parts)._replace(subscription=args[3] if len(args) > 3 else "")
        return [Link(label, reverse(f"console:{route}", args=args), name)] if actor.may(action, where) else []

    return _FIXES[kind](problem, link)


MakeLink = Callable[[str, str, list[str], Action], list[Link]]


def _subscription(problem: Problem, link: MakeLink) -> list[Link]:
    place = [*_place(problem), problem.subscription]
    return [
        *link(gettext("Why nothing arrives"), "subscription_why", place, Action.NAMESPACE_READ),
        *link(gettext("Look at its consumers"), "subscription", place, Action.NAMESPACE_READ),
    ]


def _unacknowledged(problem: Problem, link: MakeLink) -> list[Link]:
    place = [*_place(problem), problem.subscription]
    return [*_subscription(problem, link), *link(gettext("Dead-letter policy"), "dead_letter_policy", place, Action.CONSUME)]


def _abandoned(problem: Problem, link: MakeLink) -> list[Link]:
    place = [*_place(problem), problem.subscription]
    return [
        *link(gettext("Clear backlog"), "subscription_clear", place, Action.CURSOR_ADMIN),
        *link(gettext("Delete subscription"), "subscription_delete", place, Action.CURSOR_ADMIN),
    ] or link(gettext("Open subscription"), "subscription", place, Action.NAMESPACE_READ)


def _policies(label: str) -> Callable[[Problem, MakeLink], list[Link]]:
    return lambda problem, link: link(label, "topic_policies", _place(problem), Action.NAMESPACE_READ)


def _held(label: str) -> Callable[[Problem, MakeLink], list[Link]]:
    """What is published is held by a policy."""
    return lambda problem, link: [
        *link(gettext("Why nothing is published"), "topic_why", _place(problem), Action.NAMESPACE_READ),
        *_policies(label)(problem, link),
    ]


def _dead_letters(problem: Problem, link: MakeLink) -> list[Link]:
    place = _place(problem)
    if not problem.subscription:
        return link(gettext("Redrive"), "redrives", place, Action.OPERATE)
    links = link(gettext("Policy"), "dead_letter_policy", [*place, problem.subscription], Action.CONSUME)
    if problem.target.startswith(f"persistent://{problem.tenant}/"):
        namespace = "/".join(problem.target.partition("://")[2].split("/")[:2])
        target = msgspec.structs.replace(problem, namespace=namespace, topic=problem.target, subscription="")
        links = [*link(gettext("Redrive"), "redrives", _place(target), Action.OPERATE), *links]
    return links


def _stuck_letters(problem: Problem, link: MakeLink) -> list[Link]:
    """What cannot be moved is not in the target: there is nothing to redrive."""
    place = [*_place(problem), problem.subscription]
    return link(gettext("Policy"), "dead_letter_policy", place, Action.CONSUME) or _subscription(problem, link)


def _slowed(problem: Problem, link: MakeLink) -> list[Link]:
    """Which limit it is, and who has set it, is said where the subscription is explained."""
    why = link(gettext("Why nothing arrives"), "subscription_why", [*_place(problem), problem.subscription], Action.NAMESPACE_READ)
    return [*why, *_policies(gettext("Dispatch rate"))(problem, link)]


def _delayed(problem: Problem, link: MakeLink) -> list[Link]:
    return link(gettext("Delayed messages"), "delayed", _place(problem), Action.NAMESPACE_READ)


def _unread(problem: Problem, link: MakeLink) -> list[Link]:
    return [
        *link(gettext("Create subscription"), "subscription_create", _place(problem), Action.CURSOR_ADMIN),
        *_policies(gettext("Retention"))(problem, link),
    ]


def _unserved(problem: Problem, link: MakeLink) -> list[Link]:
    place = problem.namespace.split("/")
    return link(gettext("Brokers"), "brokers", [], Action.SUPERUSER) or link(
        gettext("Open namespace"), "namespace", place, Action.NAMESPACE_READ
    )


def _unsent(problem: Problem, link: MakeLink) -> list[Link]:
    if not problem.tenant:
        return link(gettext("Notices"), "platform_alerts", [], Action.SUPERUSER)
    return link(gettext("Notices"), "alerts", [problem.tenant], Action.OPERATE)


def _copies(problem: Problem, link: MakeLink) -> list[Link]:
    """Whoever runs the platform is led to what to do, others to what is affected."""
    brokers = link(gettext("Brokers"), "brokers", [], Action.SUPERUSER)
    runbook = reverse("console:docs_page", args=["operators-guide"]) + "#magnetartoofewbookies"
    if brokers:
        return [Link(gettext("Runbook"), runbook, problem.namespace), *brokers]
    return link(gettext("Open namespace"), "namespace", problem.namespace.split("/"), Action.NAMESPACE_READ)


def _platform(label: str, route: str) -> Callable[[Problem, MakeLink], list[Link]]:
    return lambda problem, link: link(label, route, [], Action.SUPERUSER)


_FIXES: dict[Kind, Callable[[Problem, MakeLink], list[Link]]] = {
    Kind.DISK_LOW: _platform(gettext_lazy("Disk"), "platform_alerts"),
    Kind.PROCESS_DOWN: _platform(gettext_lazy("Processes"), "platform"),
    Kind.UNSERVED: _unserved,
    Kind.BLOCKED: _subscription,
    Kind.PRODUCERS_HELD: _held(gettext_lazy("Backlog quota")),
    Kind.DISPATCH_FAILED: _subscription,
    Kind.SCHEMA_REFUSED: _held(gettext_lazy("Schema policies")),
    Kind.DEAD_LETTERS_STUCK: _stuck_letters,
    Kind.NO_CONSUMER: _abandoned,
    Kind.FEWER_COPIES: _copies,
    Kind.DELAYED_LATE: _delayed,
    Kind.ALERT: lambda problem, link: link(gettext("Alert rule"), "alert_rule", [problem.tenant, problem.id], Action.OPERATE),
    Kind.NOTICES_UNSENT: _unsent,
    Kind.TASK_FAILED: _platform(gettext_lazy("Tasks"), "tasks"),
    Kind.DEAD_LETTERS: _dead_letters,
    Kind.UNACKNOWLEDGED: _unacknowledged,
    Kind.FALLING_BEHIND: _subscription,
    Kind.PUBLISH_THROTTLED: _held(gettext_lazy("Publish rate")),
    Kind.DISPATCH_THROTTLED: _slowed,
    Kind.UNREAD: _unread,
}
