"""Why nothing arrives: every step that a message passes on its way to a subscription, or into a topic, and where it is fixed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from django.http import Http404, HttpResponse
from django.urls import reverse

from admin_ui import broker
from admin_ui.access import ConsoleRequest, page
from admin_ui.now.facts import alerts_of
from admin_ui.now.rows import row as problem_row
from admin_ui.pages import crumbs, navigation, sentence, show
from admin_ui.topic_lists import ShownMembers, look_at
from admin_ui.topic_stats import SubscriptionRow
from admin_ui.views.topics import topic_name
from admin_ui.why.rows import Place, StepRow
from messaging.adminrpc.diagnosis import SubscriptionExplain, TopicExplain
from messaging.adminrpc.methods import SUBSCRIPTIONS_EXPLAIN, TOPICS_EXPLAIN, TOPICS_PARTITIONS
from messaging.adminrpc.topics import PartitionsGet, TopicMembers
from messaging.errors import MagnetarError, NotFound
from messaging.limits.sizes import NAME_BYTES_MAX
from messaging.problems.order import Problem, rank
from messaging.problems.steps import Step
from messaging.protocol.names import TopicName
from tenants.masking import masks_of

LISTED_MAX = 200  # partitions, or subscriptions


@page
def subscription_why(request: ConsoleRequest, tenant: str, namespace: str, topic: str, subscription: str) -> HttpResponse:
    """`consumer` in the address: what keeps messages from that one."""
    name = topic_name(tenant, namespace, topic)
    chosen = request.GET.get("consumer", "")[:NAME_BYTES_MAX]
    above = (subscription, reverse("console:subscription", args=[tenant, namespace, topic, subscription]))
    state = _asked(name)
    if state["partitions"]:
        state |= _partitions(name, subscription)
    elif not state["away"]:
        asked = SubscriptionExplain(topic=str(name), subscription=subscription)
        explained, state["away"] = _told(lambda rpc: rpc.call(SUBSCRIPTIONS_EXPLAIN, asked))
        if explained is not None:
            rows = Place(request.actor, name, [tenant, namespace, topic], subscription).rows(explained.steps, explained.held_at)
            state |= _verdict(request, rows, [*explained.problems, *alerts_of(request.actor, name, subscription)])
            state |= {"health": explained.health, "of_consumer": _of_consumer(rows, chosen)}
    return show(
        request,
        "pages/why.html",
        navigation(request, "topic", tenant, namespace),
        crumbs=crumbs(tenant, namespace, (topic, reverse("console:topic", args=[tenant, namespace, topic])), above),
        local=topic,
        subscription=subscription,
        consumer=chosen,
        masked=masks_of(request.actor, name).any,
        **state,
    )


@page
def topic_why(request: ConsoleRequest, tenant: str, namespace: str, topic: str) -> HttpResponse:
    """What keeps producers from publishing; and each subscription with its sentence."""
    name = topic_name(tenant, namespace, topic)
    found = look_at(name, ("held", "backlog"), _first_held)
    state: dict[str, Any] = found.state | {"rows": [], "held": None, "problems": []}
    listed = [] if found.view is None else _held_first([(row.name, row) for row in found.view.subscriptions])
    known = len(found.members.subscriptions) if found.members is not None else 0
    state |= {"subscriptions": listed, "more_subscriptions": max(0, known - LISTED_MAX)}
    if not state["partitions"] and not state["away"]:
        explained, state["away"] = _told(lambda rpc: rpc.call(TOPICS_EXPLAIN, TopicExplain(topic=str(name))))
        if explained is not None:
            rows = Place(request.actor, name, [tenant, namespace, topic]).rows(explained.steps, explained.held_at)
            state |= _verdict(request, rows, [*explained.problems, *alerts_of(request.actor, name)])
    return show(
        request,
        "pages/why.html",
        navigation(request, "topic", tenant, namespace),
        crumbs=crumbs(tenant, namespace, (topic, reverse("console:topic", args=[tenant, namespace, topic]))),
        local=topic,
        subscription="",
        **state,
    )


def _asked(name: TopicName) -> dict[str, Any]:
    """How many partitions the topic has, if it is a partitioned one. 404 if there is no such topic."""
    found, away = _told(lambda rpc: rpc.call(TOPICS_PARTITIONS, PartitionsGet(topic=str(name))))
    return {"partitions": found.partitions if found is not None else None, "away": away, "rows": [], "held": None, "problems": []}


def _told(call: Any) -> tuple[Any, str]:
    """The answer, or None and why there is none. 404 for what does not exist."""
    try:
        return broker.ask(call), ""
    except NotFound:
        raise Http404 from None
    except MagnetarError as error:
        return None, sentence(broker.why(error))


def _verdict(request: ConsoleRequest, steps: list[StepRow], problems: list[Problem]) -> dict[str, Any]:
    """The step at which messages are now, and what is wrong for longer than a moment, as Now says it."""
    held = next((row for row in steps if row.is_held), None)
    rows = [problem_row(problem, request.actor) for problem in sorted(problems, key=rank)]
    offered = {request.path, *(fix.url for fix in held.fixes)} if held is not None else {request.path}
    rows = [replace(each, links=[link for link in each.links if link.url not in offered]) for each in rows]
    look = "bad" if any(each.mark.serious for each in rows) else "warn" if rows else ""
    if not look and held is not None:
        look = held.badge.removeprefix("badge-")
    return {"held": held, "rows": steps, "problems": rows, "look": look if look in ("bad", "warn") else ""}


def _partitions(name: TopicName, subscription: str) -> dict[str, Any]:
    """Each partition of the subscription: its backlog, and what holds it back."""
    found = look_at(name, (), lambda members: ShownMembers([subscription]), subscription)
    if found.view is None:
        return {"away": found.away}
    partitions = found.view.partitions
    parts = [(part.local, row) for part in partitions for row in part.subscriptions if row.name == subscription]
    if not parts:
        raise Http404
    return {"parts": _held_first(parts)[:LISTED_MAX], "more_parts": max(0, len(parts) - LISTED_MAX)}


def _first_held(members: TopicMembers) -> ShownMembers:
    rows = zip(members.subscriptions, members.figures["held"], members.figures["backlog"], strict=True)
    return ShownMembers(name for name, _, _ in sorted(rows, key=lambda row: (not row[1], -row[2], row[0]))[:LISTED_MAX])


def _held_first(rows: list[tuple[str, SubscriptionRow]]) -> list[tuple[str, SubscriptionRow]]:
    return sorted(rows, key=lambda row: (not row[1].held_by, -(row[1].backlog or 0)))


_OF_ONE = (Step.CONNECTION, Step.PERMITS, Step.CONSUMER_UNACKED, Step.ACTIVE_CONSUMER)


def _of_consumer(rows: list[StepRow], consumer: str) -> StepRow | None:
    """The step at which this consumer's messages stop, although others may pass."""
    return next((row for row in rows if consumer and row.step in _OF_ONE and consumer in row.who), None)
