"""Figures of the console against what clients did, with the broker stopped and killed in the middle."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from playwright.sync_api import Page

from tests.compat.console.clients import PLACED, World
from tests.compat.console.pages import UNMARKED, Shown, shown
from tests.compat.console.table import BROKER, KEPT
from tests.compat.console.tabs import LIVE, Stopped, go
from tests.support.brokers.standalone import Standalone

pytestmark = [pytest.mark.xdist_group("console"), pytest.mark.standalone, pytest.mark.browser]
SOON_S = 40.0
TOLD_S = 90.0
KEEP_ALIVE_S = 25.0  # stock clients connect anew to a broker that has answered nothing for 30 s


def untrue(world: World, one: Shown) -> str:
    """What is wrong with it, or ""."""
    expected = {**BROKER, **KEPT}.get(one.hook)
    if expected is None:
        return f"{one.page}: {one.hook} has no row in the table"
    numbers = expected(world, one)
    if numbers is None:
        return "" if not one.known else f"{one.page}: {one.hook} of {one.row!r} is {one.text!r}, and nobody knows it"
    found = one.numbers
    if len(found) == len(numbers) and all(value in wanted for value, wanted in zip(found, numbers, strict=True)):
        return "" if not one.stale else f"{one.page}: {one.hook} is true and said to be stale"
    return f"{one.page}: {one.hook} of {one.row!r} is {one.text!r}, not {numbers}"


def current(world: World, one: Shown) -> str:
    """Shown as if it were known, while the broker is away."""
    if one.hook not in BROKER or one.stale or not one.known:
        return ""
    return f"{one.page}: {one.hook} of {one.row!r} is {one.text!r} as if the broker had just said it"


def eventually_none(tabs: dict[str, Page], find: Callable[[Shown], str]) -> set[str]:
    """Until no figure of any page is found; the hooks that were looked at."""
    seen: set[str] = set()
    left: dict[str, list[str]] = {}

    def look() -> bool:
        left.clear()
        for name, page in tabs.items():
            if (figures := shown(page, name)) is None:
                left[name] = [f"{name} is just being loaded"]
                continue
            seen.update(one.hook for one in figures)
            if found := [text for text in map(find, figures) if text]:
                left[name] = found
        return not left

    first = next(iter(tabs.values()))
    for _ in range(int(SOON_S * 2)):
        if look():
            return seen
        first.wait_for_timeout(500)
    raise AssertionError("\n".join(text for texts in left.values() for text in texts[:4]))


def told_by_now(history: Page, world: World) -> None:
    """The minute in which they were sent is over: all messages are in the history."""
    row = history.get_by_role("row").filter(has_text="Messages in")
    for _ in range(int(TOLD_S)):
        if row.first.inner_text().split()[-1] == str(world.sent[PLACED]):
            return
        history.wait_for_timeout(1_000)
        history.reload()
    raise AssertionError(row.first.inner_text())


def test_every_figure_is_what_clients_did(tabs: dict[str, Page], world: World) -> None:
    seen = eventually_none(tabs, lambda one: untrue(world, one))
    assert {hook for hook in BROKER if not hook.startswith("namespace.")} - seen == set()


def test_no_number_stands_on_a_page_without_saying_what_it_is(tabs: dict[str, Page]) -> None:
    found = [f"{name}: {number}" for name, page in tabs.items() for number in page.evaluate(UNMARKED)]
    assert found == [], "\n".join(found)


def test_open_pages_say_that_the_broker_stands_still_and_come_back(
    tabs: dict[str, Page], world: World, platform: Standalone
) -> None:
    live = {name: page for name, page in tabs.items() if name in LIVE}
    begun = time.monotonic()
    with Stopped(platform):
        eventually_none(live, lambda one: current(world, one))
        go(tabs, world)
        eventually_none(tabs, lambda one: current(world, one))
    world.stood_still += time.monotonic() - begun > KEEP_ALIVE_S
    eventually_none(live, lambda one: untrue(world, one))


def test_after_a_crash_of_the_broker_open_pages_are_true_again(tabs: dict[str, Page], world: World, platform: Standalone) -> None:
    told_by_now(tabs["placed/history"], world)
    platform.kill_child("broker")
    world.restarted = True
    live = {name: page for name, page in tabs.items() if name in LIVE}
    eventually_none(live, lambda one: untrue(world, one))
    go(tabs, world)
    eventually_none(tabs, lambda one: untrue(world, one))
    told_by_now(tabs["placed/history"], world)  # a crash takes nothing away that was told before it
