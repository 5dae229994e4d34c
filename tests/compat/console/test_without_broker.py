"""What people do at the moment when the broker stands still and is then killed: each page says so, and goes on by itself."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from tests.compat.console.clients import LETTERS, World
from tests.compat.console.tabs import OF_NAMESPACE, OF_TENANT, Stopped, leave_for
from tests.support.brokers.standalone import Standalone

pytestmark = [pytest.mark.xdist_group("console"), pytest.mark.standalone, pytest.mark.browser]
GOES_ON_MS = 60_000
TOPICS = f"{OF_NAMESPACE}/topics"
AWAY = re.compile("did not respond|does not respond|not responding|does not answer|cannot be reached")
ITSELF = re.compile("goes on by itself")
# Opened once the broker stands still: what they say then, and once it is back.
LATER = {
    f"{TOPICS}/placed/messages": "25 messages",
    f"{TOPICS}/placed/messages?key=4711": "No message matches",
    f"{OF_TENANT}/dead-letters": "dead-letter topic",
    f"{TOPICS}/placed/history": "Move there",
}


def opened(context: BrowserContext, platform: Standalone) -> dict[str, Page]:
    """The pages that are open before the broker stands still, and an empty one for each that is opened later."""
    pages = {name: context.new_page() for name in ("tail", "timeline", "redrive", *LATER)}
    pages["tail"].goto(f"{TOPICS}/steady/messages/tail")
    expect(pages["tail"].locator("#tail li").first).to_be_visible(timeout=GOES_ON_MS)
    pages["timeline"].goto(f"{TOPICS}/placed/history")
    expect(pages["timeline"].locator("[data-handle]").first).to_be_visible(timeout=GOES_ON_MS)
    pages["redrive"].goto(f"{TOPICS}/{LETTERS.rpartition('/')[2]}/redrives")
    return pages


def drag(page: Page) -> None:
    """To the beginning of the span."""
    page.locator("[data-handle]").first.evaluate(
        "it => { it.value = it.min; it.dispatchEvent(new Event('change', {bubbles: true})) }"
    )


def test_each_says_that_the_broker_stands_still_and_goes_on_once_it_was_killed_and_is_back(
    context: BrowserContext, world: World, platform: Standalone
) -> None:
    pages = opened(context, platform)
    with Stopped(platform):
        for path in LATER:  # all at once: each waits for the broker
            leave_for(pages[path], platform.ready["web_url"] + path)
        pages["redrive"].get_by_role("button", name="Start", exact=True).click(no_wait_after=True)
        drag(pages["timeline"])
        for path in LATER:
            expect(pages[path].get_by_role("main")).to_contain_text(AWAY, timeout=GOES_ON_MS)
            expect(pages[path].get_by_role("main")).to_contain_text(ITSELF)
        expect(pages["tail"].locator("#poll")).to_contain_text(AWAY, timeout=GOES_ON_MS)
        expect(pages["tail"].locator("#poll")).to_contain_text(ITSELF)
        expect(pages["timeline"].locator(".timeline-preview").first).to_contain_text(AWAY, timeout=GOES_ON_MS)
        lines = pages["tail"].locator("#tail li").count()
        platform.kill_child("broker")
    for path, there in LATER.items():
        expect(pages[path].get_by_role("main")).to_contain_text(there, timeout=GOES_ON_MS)
        expect(pages[path].get_by_text(ITSELF)).to_have_count(0)
    expect(pages["tail"].locator("#tail li").nth(lines)).to_be_attached(timeout=GOES_ON_MS)
    drag(pages["timeline"])
    expect(pages["timeline"].locator(".timeline-preview").first).to_contain_text("It continues with", timeout=GOES_ON_MS)
    redrive = pages["redrive"]
    if AWAY.search(redrive.get_by_role("main").inner_text()):  # nothing was started
        redrive.get_by_role("button", name="Start", exact=True).click()
    expect(redrive.locator("#redrives tbody tr").first).to_contain_text("Done", timeout=GOES_ON_MS)
