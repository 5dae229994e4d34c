"""The documents in a real browser: reading, searching, copying, by keyboard and on a phone."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

from tests.admin_ui.browser.keyboard import left_out

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("browser"), pytest.mark.django_db(transaction=True)]
PAGES = (
    "",
    "/getting-started",
    "/architecture",
    "/glossary",
    "/configuration",
    "/adr",
    "/examples/delayed",
    "/search?q=backlog",
    "/readme",
    "/admin-api",
)


def test_somebody_who_is_not_signed_in_finds_and_copies(visit: Callable[..., Page]) -> None:
    page = visit("", "/sign-in")
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.get_by_role("link", name="Documentation").click()
    page.get_by_role("searchbox", name="Search the documentation").fill("first message sixty")
    page.keyboard.press("Enter")
    page.get_by_role("link", name="Sixty seconds to the first message").click()
    expect(page.get_by_role("heading", name="Sixty seconds to the first message")).to_be_in_viewport()
    page.get_by_role("link", name="Getting started", exact=True).first.click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Getting started")
    page.get_by_role("button", name="Copy").first.click()
    assert page.evaluate("navigator.clipboard.readText()").startswith("make run")


def test_a_tenant_of_the_console_comes_here_and_back(visit: Callable[..., Page]) -> None:
    page = visit("owner", "/tenants/acme")
    page.get_by_role("link", name="Documentation").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Documentation")
    page.get_by_role("link", name="Console", exact=True).click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Now")


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("scheme", "width"),
    [
        ("light", 1440),
        ("dark", 390),
        pytest.param("dark", 1440, marks=pytest.mark.thorough),
        pytest.param("light", 390, marks=pytest.mark.thorough),
    ],
)
def test_documents_are_accessible_and_fit(scheme: str, width: int, visit: Callable[..., Page]) -> None:
    page = visit("", "/docs", color_scheme=scheme, viewport={"width": width, "height": 844})
    found = {}
    for path in PAGES:
        page.goto(f"/docs{path}")
        violations = Axe().run(page).response["violations"]
        found[path] = [f"{one['id']}: {node['html'][:200]}" for one in violations for node in one["nodes"]]
        if page.evaluate("document.documentElement.scrollWidth > innerWidth"):
            found[path].append("the page scrolls sideways")
        found[path] += left_out(page) if width < 640 else []
    assert {path: what for path, what in found.items() if what} == {}


def test_the_contents_are_in_reach_on_a_phone(visit: Callable[..., Page]) -> None:
    page = visit("", "/docs/messages", viewport={"width": 390, "height": 844})
    page.get_by_role("link", name="Contents").click()
    expect(page.get_by_role("navigation", name="Documentation")).to_be_in_viewport()
    page.get_by_role("link", name="Billing", exact=True).click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Billing")
