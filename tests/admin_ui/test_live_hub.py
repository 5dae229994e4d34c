"""One poller per watched namespace, none when nobody watches, and honesty about a broker that does not answer."""

from __future__ import annotations

import asyncio
import json

from admin_ui.live import hub as hub_module
from admin_ui.live.hub import LiveHub
from admin_ui.live.state import apply
from messaging.adminrpc.topics import LiveAsked, NamespaceLive
from tests.admin_ui.scripted_live import ScriptedLive, live_row
from tests.support.waiting import eventually

ORDERS = LiveAsked(namespace="acme/orders")
TOPIC = "persistent://acme/orders/placed"


def live_hub(fake: ScriptedLive) -> LiveHub:
    return LiveHub(fake.poll, interval_s=0.005, now_ms=lambda: 42)


async def test_two_watchers_share_one_poller() -> None:
    fake = ScriptedLive()
    hub = live_hub(fake)
    async with hub.watch(ORDERS) as one, hub.watch(ORDERS) as other:
        assert one is other
        await one.after(3)
        assert hub.namespaces == ["acme/orders"]
        tasks = [task for task in asyncio.all_tasks() if task.get_name() == "live acme/orders"]
        assert len(tasks) == 1
    assert fake.asked.keys() == {"acme/orders"}


async def test_nobody_watches_nothing_is_asked() -> None:
    fake = ScriptedLive()
    hub = live_hub(fake)
    assert fake.asked == {}
    async with hub.watch(ORDERS) as feed:
        await feed.after(2)
        async with hub.watch(ORDERS):
            pass
        assert hub.namespaces == ["acme/orders"]  # one of two left: it goes on
    asked = fake.asked["acme/orders"]
    assert hub.namespaces == []
    async with hub.watch(LiveAsked(namespace="acme/other")) as feed:
        await feed.after(5)  # time passes on this loop; the first poller would have asked again
    assert fake.asked["acme/orders"] == asked
    assert not [task for task in asyncio.all_tasks() if task.get_name().startswith("live ")]


async def test_the_last_watcher_may_leave_as_the_broker_answers() -> None:
    """Its poller went on for good, and the watcher waited for it: the cancellation came in the turn of the answer, and was lost."""
    asked = asyncio.Event()
    answer = asyncio.get_running_loop().create_future()

    async def poll(asked_for: LiveAsked) -> NamespaceLive:
        asked.set()
        return await answer

    async with asyncio.timeout(60):
        async with LiveHub(poll, interval_s=0.005).watch(ORDERS):
            await asked.wait()
            answer.set_result(ScriptedLive().answer("acme/orders"))


async def test_a_broker_that_goes_away_and_comes_back() -> None:
    fake = ScriptedLive()
    fake.rows["acme/orders"] = [live_row(TOPIC, messages_in=1)]
    hub = live_hub(fake)
    async with hub.watch(ORDERS) as feed:
        good = await feed.after(0)
        assert good.state is not None and not good.away
        fake.away = "the broker does not answer"
        gone = await eventually(lambda: feed.status if feed.status.away else None)
        assert gone is not None
        assert gone.away == "the broker does not answer"
        assert gone.away_since_ms == 42
        assert gone.state is not None and gone.state.rows == good.state.rows  # what was known stays known
        fake.away = ""
        back = await eventually(lambda: feed.status if not feed.status.away else None)
        assert back is not None
        assert back.state is not None and back.away_since_ms == 0


async def test_a_broker_that_hangs_counts_as_away(monkeypatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setattr(hub_module, "ANSWER_S", 0.01)

    async def never(asked_for: LiveAsked) -> NamespaceLive:
        await asyncio.Event().wait()
        raise AssertionError

    async with LiveHub(never, interval_s=0.005).watch(ORDERS) as feed:
        status = await feed.after(0)
        assert "no response" in status.away and status.state is None


async def test_a_fault_of_ours_does_not_end_the_poller() -> None:
    fake = ScriptedLive()
    calls = 0

    async def broken_once(asked_for: LiveAsked) -> NamespaceLive:
        nonlocal calls
        calls += 1
        if calls == 1:
            raise ZeroDivisionError
        return fake.answer(asked_for.namespace)

    async with LiveHub(broken_once, interval_s=0.005).watch(ORDERS) as feed:
        assert (await feed.after(0)).away == "ZeroDivisionError"
        assert await eventually(lambda: feed.status.state)


async def test_the_same_change_is_encoded_once() -> None:
    fake = ScriptedLive()
    hub = live_hub(fake)
    async with hub.watch(ORDERS) as feed:
        first = (await feed.after(0)).state
        second_standing = await feed.after(1)
        second = second_standing.state
        assert first is not None and second is not None
        one = feed.encoded(first, second)
        assert feed.status.version != second_standing.version or feed.encoded(first, second) is one
        assert apply(first, json.loads(one)) == second
        assert json.loads(feed.encoded(None, second))["type"] == "snapshot"
