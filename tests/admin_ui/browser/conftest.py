"""The console on a free port, and browsers that visit it."""

from __future__ import annotations

import faulthandler
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import uvicorn
import uvicorn.server
from django.conf import settings
from django.test import Client
from playwright.sync_api import Browser, Page, sync_playwright

from tenants.models import User
from tests.admin_ui.console_broker import ConsoleBroker
from tests.admin_ui.people import populate
from tests.support.browsing import FLAGS
from tests.support.waiting import eventually_sync


@pytest.fixture(scope="module", autouse=True)
def beside_a_loop() -> Iterator[None]:
    """Playwright runs a loop on this thread; Django would refuse to ask the database beside it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DJANGO_ALLOW_ASYNC_UNSAFE", "true")
        yield


@pytest.fixture(scope="module")
def browser(chromium: str) -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=list(FLAGS))
        yield browser
        browser.close()


@pytest.fixture
def site(transactional_db: None, broker: ConsoleBroker) -> Iterator[str]:
    """The real application on a free port, in a thread; only the broker behind it is not."""
    from controlplane.asgi import application

    populate(broker)
    server = uvicorn.server.Server(
        uvicorn.Config(application, port=0, log_config=None, lifespan="off", timeout_graceful_shutdown=1)
    )
    thread = threading.Thread(target=server.run, name="site")
    thread.start()
    eventually_sync(lambda: server.started)
    yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    server.should_exit = True
    thread.join(60)
    if thread.is_alive():
        faulthandler.dump_traceback()
    assert not thread.is_alive(), "above: where each thread stands"


def session_of(username: str) -> str:
    """The key of a session that somebody has who has just signed in."""
    client = Client()
    client.force_login(User.objects.get(username=username))
    return client.cookies[settings.SESSION_COOKIE_NAME].value


@pytest.fixture
def visit(site: str, browser: Browser) -> Iterator[Callable[..., Page]]:
    """`visit("owner", "/tenants")`: a page of its own browser profile, signed in without the page of it, which would cost each test
    two more pages and the hash of a password. Errors in its scripts fail the test."""
    contexts, troubles = [], []

    def make(username: str = "", path: str = "/", **options: Any) -> Page:
        context = browser.new_context(**{"base_url": site, "viewport": {"width": 1280, "height": 800}, **options})
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(30_000)
        page.on("pageerror", lambda error: troubles.append(str(error)))
        page.on("console", lambda message: troubles.append(message.text) if "Content Security Policy" in message.text else None)
        if username:
            context.add_cookies([{"name": settings.SESSION_COOKIE_NAME, "value": session_of(username), "url": site}])
        page.goto(path)
        return page

    yield make
    for context in contexts:
        context.close()
    assert troubles == []
