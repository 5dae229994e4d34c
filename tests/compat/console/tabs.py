"""The pages of the console, each in a tab."""

from __future__ import annotations

import contextlib
import os
import signal

from playwright.sync_api import Error, Page

from tests.compat.console.clients import NAMESPACE, PLACED, TENANT, World
from tests.support.brokers.standalone import Standalone

OF_TENANT = f"/tenants/{TENANT}"
OF_NAMESPACE = f"{OF_TENANT}/namespaces/{NAMESPACE}"
PAGES = {
    "now": "/now",
    "tenants": "/tenants",
    "tenant": OF_TENANT,
    "placed/history": f"{OF_NAMESPACE}/topics/placed/history?span=1h",
    "platform": "/platform",
    "brokers": "/platform/brokers",
    "clients": "/platform/clients",
    "tenant clients": f"{OF_TENANT}/clients",
    "dead letters": f"{OF_TENANT}/dead-letters",
    "namespace": OF_NAMESPACE,
    "bundles": f"{OF_NAMESPACE}/bundles",
    **{name: f"{OF_NAMESPACE}/topics/{name}" for name in ("placed", "parts", "failing", "jobs", "steady")},
    "placed/billing": f"{OF_NAMESPACE}/topics/placed/subscriptions/billing",
    "placed/why": f"{OF_NAMESPACE}/topics/placed/why",
    "placed/storage": f"{OF_NAMESPACE}/topics/placed/storage",
    "placed/messages": f"{OF_NAMESPACE}/topics/placed/messages",
    "parts/storage": f"{OF_NAMESPACE}/topics/parts/storage",
    "jobs/delayed": f"{OF_NAMESPACE}/topics/jobs/delayed",
    "typed/schemas": f"{OF_NAMESPACE}/topics/typed/schemas",
}
# Those that stay true by themselves.
LIVE = (
    "now",
    "platform",
    "namespace",
    "placed",
    "parts",
    "failing",
    "jobs",
    "steady",
    "placed/billing",
    "placed/why",
)


def addresses(world: World) -> dict[str, str]:
    return {**PAGES, "placed/trace": f"{OF_NAMESPACE}/topics/placed/trace?id={world.address(PLACED)}"}


def leave_for(page: Page, address: str) -> None:
    """Begins to load it, and does not wait for it."""
    try:
        page.evaluate("address => { setTimeout(() => location.assign(address)) }", address)
    except Error:  # it loads itself again at this moment
        page.wait_for_load_state("domcontentloaded")
        page.evaluate("address => { setTimeout(() => location.assign(address)) }", address)


def go(tabs: dict[str, Page], world: World) -> None:
    """Loads each page anew, all at once."""
    for name, page in tabs.items():
        address = world.platform.ready["web_url"] + addresses(world)[name]
        leave_for(page, address)
    for page in tabs.values():
        page.wait_for_load_state("load")


class Stopped:
    """The broker stands still within this context, as if its machine did: it neither answers nor refuses."""

    def __init__(self, platform: Standalone) -> None:
        self._pid = platform.child("broker")["pid"]

    def __enter__(self) -> None:
        os.kill(self._pid, signal.SIGSTOP)

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(ProcessLookupError):  # it was killed meanwhile
            os.kill(self._pid, signal.SIGCONT)
