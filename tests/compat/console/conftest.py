"""One platform, one set of clients and one browser with a tab for each page of the console, for all tests here."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import BrowserContext, Page, sync_playwright

from tests.compat.console.clients import World
from tests.compat.console.tabs import addresses, go
from tests.compat.stock import Stock
from tests.support.brokers.standalone import Standalone
from tests.support.browsing import FLAGS
from tests.support.signing_in import sign_in

SETTINGS = {
    "MAGNETAR_EXPIRY_INTERVAL_S": "1",
    "MAGNETAR_HISTORY_INTERVAL_S": "1",
    "MAGNETAR_USAGE_INTERVAL_S": "1",
    "MAGNETAR_USAGE_JOB_INTERVAL_S": "86400",
}


@pytest.fixture(scope="package")
def platform(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standalone]:
    made = Standalone(tmp_path_factory.mktemp("console") / "data", **SETTINGS)
    try:
        yield made.start()
    finally:
        made.close()


@pytest.fixture(scope="package")
def world(platform: Standalone, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    stock = Stock(platform.ready["broker_url"], tmp_path_factory.mktemp("clients") / "client.log")
    made = World(platform, stock)
    try:
        made.begin()
        yield made
    finally:
        made.end()
        stock.close()


@pytest.fixture(scope="package")
def context(platform: Standalone, chromium: str) -> Iterator[BrowserContext]:
    """Signed in as the administrator of the platform."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=list(FLAGS))
        made = browser.new_context(base_url=platform.ready["web_url"], viewport={"width": 1440, "height": 900})
        made.set_default_timeout(30_000)
        page = made.new_page()
        page.goto("/sign-in")
        sign_in(page, "admin", platform.console_password)
        page.wait_for_url("**/now")
        page.close()
        yield made
        browser.close()


@pytest.fixture(scope="package")
def tabs(context: BrowserContext, world: World) -> dict[str, Page]:
    """Each page in its tab; they load beside each other."""
    made = {name: context.new_page() for name in addresses(world)}
    go(made, world)
    return made
