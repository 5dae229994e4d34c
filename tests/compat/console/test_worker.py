"""Pages that stay open while the worker stands still, and after it was killed."""

from __future__ import annotations

import os
import signal

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from tests.compat.console.clients import LETTERS, World
from tests.compat.console.tabs import OF_NAMESPACE, OF_TENANT
from tests.support.brokers.standalone import Standalone

pytestmark = [pytest.mark.xdist_group("console"), pytest.mark.standalone, pytest.mark.browser]
GOES_ON_MS = 60_000
REDRIVES = f"{OF_NAMESPACE}/topics/{LETTERS.rpartition('/')[2]}/redrives"
SAID = {  # by page, what of it is of then or waits
    "/usage": "Usage is as it was computed last",
    "/tasks": "is begun once it is back",
    "/platform/alerts": "Rules are not evaluated",
    "/audit/chain": "No head is signed",
    f"{OF_TENANT}/audit": "What brokers did since then is missing here",
    f"{OF_TENANT}/history": "Brokers keep their points",
    f"{OF_TENANT}/dead-letters": "Redrives stand still",
    f"{OF_TENANT}/invoices": "Usage, and so drafts",
    f"{OF_TENANT}/keys": "When keys were last used",
    f"{OF_NAMESPACE}/topics/placed/operations": "“Compact” waits until it is back",
    REDRIVES: "Redrives stand still",
}


@pytest.fixture(scope="module")
def pages(context: BrowserContext, world: World) -> dict[str, Page]:
    made = {path: context.new_page() for path in (*SAID, "/now", "/platform")}
    for path, page in made.items():
        page.goto(path)
    return made


def test_pages_say_since_when_the_worker_stands_still_and_what_waits_for_it(pages: dict[str, Page], platform: Standalone) -> None:
    worker = platform.child("worker")["pid"]
    os.kill(worker, signal.SIGSTOP)
    for path, meaning in SAID.items():
        expect(pages[path].get_by_role("status").filter(has_text="No worker has begun a task since")).to_contain_text(
            meaning, timeout=GOES_ON_MS
        )
    expect(pages["/now"].get_by_role("main")).to_contain_text("The worker does not run tasks.", timeout=GOES_ON_MS)
    expect(pages["/platform"].get_by_role("main")).to_contain_text("Not running tasks", timeout=GOES_ON_MS)
    redrives = pages[REDRIVES]
    redrives.get_by_role("button", name="Start", exact=True).click()
    expect(redrives.get_by_role("status").filter(has_text="The redrive was started")).to_be_visible()
    expect(redrives.locator("#redrives tbody tr").first).to_contain_text("Running")
    expect(redrives.locator("#worker-away")).to_contain_text("Redrives stand still")


def test_once_the_worker_is_back_the_pages_say_so_and_what_waited_is_done(pages: dict[str, Page], platform: Standalone) -> None:
    """It is killed while it stands still, and comes back as another process."""
    platform.kill_child("worker")
    for path in SAID:
        expect(pages[path].locator("#worker-away .notice")).to_have_count(0, timeout=GOES_ON_MS)
    expect(pages["/now"].get_by_text("The worker does not run tasks.")).to_have_count(0, timeout=GOES_ON_MS)
    expect(pages["/platform"].get_by_text("Not running tasks")).to_have_count(0, timeout=GOES_ON_MS)
    expect(pages[REDRIVES].locator("#redrives tbody tr").first).to_contain_text("Done", timeout=GOES_ON_MS)
