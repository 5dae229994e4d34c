"""Pages that stay open while the web process or the worker is away."""

from __future__ import annotations

import os
import re
import signal

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from tests.compat.console.clients import World
from tests.compat.console.pages import shown
from tests.compat.console.tabs import OF_NAMESPACE, OF_TENANT
from tests.support.brokers.standalone import Standalone

pytestmark = [pytest.mark.xdist_group("console"), pytest.mark.standalone, pytest.mark.browser]
GOES_ON_MS = 60_000


def pid(platform: Standalone, name: str) -> int:
    return int(platform.child(name)["pid"])


@pytest.fixture(scope="module")
def pages(context: BrowserContext, world: World) -> dict[str, Page]:
    made = {name: context.new_page() for name in ("platform", "namespace", "subscription", "form")}
    made["platform"].goto("/platform")
    made["namespace"].goto(OF_NAMESPACE)
    made["subscription"].goto(f"{OF_NAMESPACE}/topics/placed/subscriptions/billing")
    made["form"].goto(f"{OF_TENANT}/new-namespace")
    expect(made["namespace"].locator("mag-live-status")).to_have_text("Live", timeout=GOES_ON_MS)
    return made


def test_while_the_web_process_hangs_pages_say_since_when_and_a_form_keeps_what_was_typed(
    pages: dict[str, Page], platform: Standalone
) -> None:
    form = pages["form"]
    form.get_by_label("Name").fill("kept")
    web = pid(platform, "web")
    os.kill(web, signal.SIGSTOP)
    try:
        for name in ("platform", "subscription"):
            notice = pages[name].get_by_text("Not refreshed since")
            expect(notice).to_be_visible(timeout=GOES_ON_MS)
            assert all(one.stale for one in shown(pages[name], name) or [])
        expect(pages["namespace"].locator("mag-live-status")).to_contain_text("no data since", timeout=GOES_ON_MS)
        form.get_by_role("button", name="Create namespace").click()
        expect(form.get_by_role("alert")).to_contain_text("Nothing was sent", timeout=GOES_ON_MS)
        expect(form.get_by_label("Name")).to_have_value("kept")
    finally:
        os.kill(web, signal.SIGCONT)


def test_once_the_web_process_was_killed_and_is_back_pages_go_on_and_the_form_is_sent(
    pages: dict[str, Page], platform: Standalone
) -> None:
    """Without a reload, and without signing in again."""
    platform.kill_child("web")
    for name in ("platform", "subscription"):
        expect(pages[name].get_by_text("Not refreshed since")).to_have_count(0, timeout=GOES_ON_MS)
        expect(pages[name].locator("main .stale")).to_have_count(0, timeout=GOES_ON_MS)
    expect(pages["namespace"].locator("mag-live-status")).to_have_text("Live", timeout=GOES_ON_MS)
    form = pages["form"]
    form.get_by_role("button", name="Create namespace").click()
    expect(form).to_have_url(re.compile("/namespaces/kept"), timeout=GOES_ON_MS)
