"""Pages of the console as people find them: by their links, one address of each route."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable
from urllib.parse import urlsplit

from django.urls import Resolver404, resolve
from playwright.sync_api import Page

from admin_ui.permissions import CONSOLE
from tenants.access import platform_actor
from tenants.actions import create_key, set_custom_role, set_team
from tenants.models import Tenant, TokenIssuer
from tests.admin_ui.console_broker import ConsoleBroker
from tests.admin_ui.pages import NAMESPACE
from tests.admin_ui.people import PLACED
from tests.support.billing.billing_rows import APRIL, MARCH, with_plan
from tests.support.recycled_namespaces import recycled_namespace, recycled_tenant
from workers.billing.budget_actions import create_budget, create_schedule
from workers.billing.drafts import refresh


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
    "/tune",
    "/tune?message_bytes=200&messages_per_s=20000&partitions=8&batch_messages_max=2000&pending_max=1000&gib_price=0.09",
    "/nowhere",
)
ROUTES_MIN = 85
