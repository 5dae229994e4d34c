"""Pages of the console as people find them: by their links, one address of each route."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable
from datetime import timedelta
from urllib.parse import urlsplit

from allauth.mfa.models import Authenticator
from django.urls import Resolver404, resolve
from django.utils import timezone
from playwright.sync_api import Page

from admin_ui.permissions import CONSOLE
from messaging.broker.runtime.local.messages import OutgoingMessage
from messaging.policies.isolation import Isolation
from messaging.protocol.names import parse_topic
from tenants.access import Actor, platform_actor
from tenants.actions import create_key, set_custom_role, set_member, set_team
from tenants.actions.cursor_moves import clear_backlog
from tenants.actions.grants import grant_permission
from tenants.actions.invitations import invite
from tenants.actions.people import set_administrator
from tenants.actions.placement import set_failure_domain, set_isolation_policy
from tenants.actions.saved_views import save_view
from tenants.models import Tenant, TokenIssuer, User
from tests.admin_ui.console_broker import ConsoleBroker
from tests.admin_ui.pages import NAMESPACE
from tests.admin_ui.people import ORDERS, PLACED
from tests.support.billing.billing_rows import APRIL, MARCH, with_plan
from tests.support.recycled_namespaces import recycled_namespace, recycled_tenant
from workers.alerts.rule_actions import create_rule
from workers.audit_streams.actions import set_stream
from workers.billing.budget_actions import create_budget, create_schedule
from workers.billing.drafts import refresh
from workers.redrive.actions import Request, start
from workers.redrive.models import RedriveOutcome


def furnish(broker: ConsoleBroker) -> None:
    """One of each thing that has a page."""
    actor = platform_actor()
    consumer = {"consumerName": "c", "address": "127.0.0.1:1", "connectedSince": "2026-01-01T00:00:00Z"}
    broker.stats[PLACED] = {
        "publishers": [{"producerName": "p"}],
        "subscriptions": {"s": {"type": "Shared", "consumers": [consumer]}},
    }
    broker.real.add(PLACED, "s")
    broker.real.add(f"{PLACED}-before")
    broker.real.recycle(f"{PLACED}-before", "x1")
    create_key(actor, "acme", "checkout")
    set_custom_role(actor, "acme", "keeper", ["produce"])
    set_team(actor, "acme", "payments", [])
    TokenIssuer.unscoped.create(tenant_id="acme", name="corp", issuer="i", audience="a", jwks_url="https://i/", roles={"v": "app"})
    recycled_namespace(actor, "acme/gone", "x1")
    recycled_tenant(actor, "gone", "x2")
    acme = Tenant.unscoped.get(name="acme")
    with_plan(acme)
    refresh(acme, MARCH, APRIL)
    create_budget(actor, "acme", "All", "1.00", "EUR")
    create_schedule(actor, "acme", "Daily", "day", "topic")
    _give_for_a_time(actor)
    _have_dead_letters(broker, actor)
    set_isolation_policy(actor, "gold", Isolation(("acme/.*",), ("broker-2",), ("broker-3",), 2, 80, "none"))
    set_failure_domain(actor, "rack-1", ["broker-1"])
    superuser = User.objects.get(username="superuser")
    save_view(actor, superuser, "eu-1", f"{NAMESPACE}?sort=-backlog", "acme", shared=True)
    create_rule(actor, "acme", {"name": "Orders wait", "kind": "backlog_entries", "topic": PLACED, "threshold": 100})
    for tenant in ("", "acme"):
        set_stream(actor, tenant, "https://siem.example/records", oldest=True)


def _give_for_a_time(actor: Actor) -> None:
    week = timezone.now() + timedelta(days=7)
    grant_permission(actor, ORDERS, "contractor@acme", ["consume"], PLACED, week)
    set_member(actor, "acme", "stranger", "metadata", "orders", "pla*", week)
    set_administrator(actor, "teammate", True, week)
    invite(actor, "acme", "new@acme.example", "operator", member_days=7)
    Authenticator.objects.create(user=User.objects.get(username="owner"), type=Authenticator.Type.TOTP, data={"secret": "x"})


def _have_dead_letters(broker: ConsoleBroker, actor: Actor) -> None:
    """Of a subscription that was moved, too; one redrive of them has run."""
    letters = f"{PLACED}-s-DLQ"
    broker.real.add(letters)
    for number in range(3):
        broker.real.publish_messages(PLACED, OutgoingMessage(b'{"order": %d}' % number, key=f"k{number}"))
        said = {"REAL_TOPIC": PLACED, "REAL_SUBSCRIPTION": "s", "DEAD_LETTER_REASON": "late"}
        broker.real.publish_messages(letters, OutgoingMessage(b'{"order": %d}' % number, said, key=f"k{number}"))
    clear_backlog(actor, parse_topic(PLACED), "s")
    job = start(actor, parse_topic(letters), Request())
    RedriveOutcome.objects.create(job=job, ledger_id=0, entry_id=0, messages=1, why="it was redriven too often", step=1)


def route_of(address: str) -> str:
    try:
        return resolve(urlsplit(address).path).view_name
    except Resolver404:
        return ""


class Crawl:
    """Visits one address of each route that links lead to, or `pages_max` of them in an order of `seed`."""

    def __init__(self, page: Page, *starts: str, pages_max: int = 0, seed: int = 0) -> None:
        self._page = page
        self._waiting = deque(starts)
        self._pages_max, self._random = pages_max, random.Random(seed)
        self.visited: dict[str, str] = {}

    def __call__(self, look: Callable[[Page, str], None]) -> None:
        seen = {route_of(start) for start in self._waiting}
        while self._waiting and not (self._pages_max and len(self.visited) >= self._pages_max):
            if self._pages_max:
                self._waiting.rotate(-self._random.randrange(len(self._waiting)))
            address = self._waiting.popleft()
            answer = self._page.goto(address)
            assert answer is not None and (answer.status < 400 or address == "/nowhere"), f"{address}: {answer and answer.status}"
            self.visited[route_of(address)] = address
            look(self._page, address)
            for link in self._page.locator("a[href^='/']").evaluate_all("all => all.map(a => a.getAttribute('href'))"):
                route = route_of(link)
                if route in PAGES and route not in seen:
                    seen.add(route)
                    self._waiting.append(link)


# Answers that are no pages of the console: fragments, files, JSON.
_NO_PAGES = ("_fragment", "_export", "_pdf", "_html", "_json", "_payload", "_file", "_picture", "_chart", "_marks", "_link")
PAGES = {name for method, name in CONSOLE if method == "GET" and not name.endswith(_NO_PAGES)} - {"console:jump"}


TOPIC = f"{NAMESPACE}/topics/placed"
# Beside what links lead to from the first page: where a script draws the links, and what one comes to by a form.
STARTS = (
    "/now",
    TOPIC,
    f"{TOPIC}/messages/publish",
    "/docs/search?q=topic",
    "/tenants/acme/new-key",
    "/tenants/globex/namespaces/edge",
    f"{NAMESPACE}/policies",
    f"{NAMESPACE}/policies?policy=retention",
    f"{NAMESPACE}/topics/placed-s-DLQ/messages",
    "/tune",
    "/tune?message_bytes=200&messages_per_s=20000&partitions=8&batch_messages_max=2000&pending_max=1000&gib_price=0.09",
    "/nowhere",
)
ROUTES_MIN = 85
