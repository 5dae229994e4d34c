"""No page of the console has English in it that is neither a name nor a term, when it is asked for in German."""

from __future__ import annotations

import re
from collections import deque
from datetime import timedelta
from html import unescape
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from admin_ui.translation.languages import COOKIE
from messaging.problems.kinds import Kind
from messaging.problems.order import Problem
from tenants.models import Tenant
from tests.admin_ui.browser.crawl import PAGES, STARTS, TOPIC, furnish, route_of
from tests.admin_ui.browser.english import english_of
from tests.admin_ui.console_broker import ConsoleBroker
from tests.admin_ui.pages import NAMESPACE, Browse
from tests.admin_ui.people import PLACED
from workers.alerts.models import AlertRule, PlatformAlert
from workers.models import TaskRun

# English that stays: names, settings of programs, Pulsar's own terms. It only gets shorter.
STAYS = re.compile(
    r"All"  # a budget of that name
    r"|id, who\.name"  # fields of a payload
    r"|user:\S+"
)
ROUTES_MIN = 105
LATE = f"{NAMESPACE}/topics/late-orders"
LATER = (
    "/now", TOPIC, f"{TOPIC}/why", f"{TOPIC}/history", f"{TOPIC}/subscriptions/s/why", f"{TOPIC}/trace?id=0:0",
    LATE, f"{LATE}/subscriptions/slow", f"{LATE}/subscriptions/slow/why",
)  # fmt: skip


def faults(world: ConsoleBroker) -> None:
    """A platform on which much is wrong, beside one of each thing that has a page."""
    furnish(world)
    now, uid = timezone.now(), Tenant.unscoped.get(name="acme").uid
    told: dict[str, Any] = {"tenant": "acme", "namespace": "acme/orders", "topic": PLACED, "subscription": "s"}
    sentences = {
        Kind.NO_CONSUMER: ("No consumer is connected, and 12,408 entries are not acknowledged.", "look at the broker's log"),
        Kind.BLOCKED: (
            "Consumer 'c' has not asked for more messages.",
            "acknowledge messages, or raise max_unacked_per_subscription",
        ),
        Kind.DELAYED_LATE: (
            "Delayed messages were due at 2026-07-21T14:14:20.000Z and were not sent.",
            "wait until the delivery time",
        ),
    }
    world.set_problems(*(Problem(kind=kind, sentence=a, remedy=b, since_ms=1, **told) for kind, (a, b) in sentences.items()))
    quiet = "persistent://acme/orders/late-orders"
    world.real.add(quiet, "slow")
    world.real.publish(quiet, b"1", b"2")
    for number, kind in enumerate(AlertRule.Kind):
        AlertRule.unscoped.create(
            name=f"rule-{number}", kind=kind, threshold=10, value=12, firing=True, above_since=now, tenant="acme", tenant_uid=uid,
            topic=PLACED, created_at=now,
        )  # fmt: skip
    PlatformAlert.objects.create(name="disk", firing=True, value=91, looked_at=now)
    for number, outcome in enumerate(TaskRun.Outcome):
        TaskRun.objects.create(name="expire", task_id=str(number), outcome=outcome, started_at=now - timedelta(minutes=number))


@pytest.mark.slow
def test_pages_in_german_have_no_english_that_is_left(browse: Browse, world: ConsoleBroker) -> None:
    faults(world)
    client = browse("superuser")
    client.cookies[COOKIE] = "de"
    found: dict[str, str] = {}
    visited = visit(client, found)
    left = {text: address for text, address in found.items() if not STAYS.fullmatch(text)}
    assert left == {}, "mark these texts, or have them said (docs.translations)"
    assert len(visited) >= ROUTES_MIN


def visit(client: Client, found: dict[str, str]) -> set[str]:
    """One address of each route that links lead to. `found` gets the English texts, each with a page that has it."""
    waiting, visited = deque((*STARTS, *LATER)), {route_of(start) for start in STARTS}
    while waiting:
        address = waiting.popleft()
        if route_of(address).startswith("console:doc"):
            continue  # the documents are in English
        answer = client.get(address)
        assert answer.status_code in (200, 302) or address == "/nowhere", (address, answer.status_code)
        page = answer.content.decode()
        for text in english_of(page):
            found.setdefault(text, address)
        for link in map(unescape, re.findall(r'href="(/[^"]*)"', page)):
            route = route_of(link)
            if route in PAGES and route not in visited:
                visited.add(route)
                waiting.append(link)
    return visited


def test_english_that_is_left_in_a_page_is_found() -> None:
    page = '<p title="{}">{} <b>{}</b><code>the code of it</code><span lang="en">the bill</span></p>'
    assert list(english_of(page.format("Einträge", "Kein Consumer ist verbunden, „the one“", "persistent://a/of/the"))) == []
    assert list(english_of(page.format("Sign out", "The topic is closed", "is"))) == ["Sign out", "The topic is closed", "is"]
