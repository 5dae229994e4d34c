"""What a broker tells the others reaches them whatever a tenant does, and whoever of them does not answer."""

from __future__ import annotations

import asyncio
import inspect
import uuid
from collections.abc import AsyncIterator, Callable
from types import SimpleNamespace
from typing import Any

import pytest

from messaging.adminrpc.client import AdminRpc
from messaging.adminrpc.methods import NEWS_TELL, USE_TELL
from messaging.adminrpc.news import NewsTold
from messaging.background import BackgroundLoops
from messaging.broker.core.limits.limit_counts import ConnectedCounts
from messaging.broker.core.limits.rate_shares import RateDemand
from messaging.broker.runtime.admin.maintenance import RUN_S, SLOW_S
from messaging.broker.runtime.admin.routing import MAINTENANCE_S
from messaging.broker.runtime.ownership import news as fleet_news
from messaging.broker.runtime.ownership.news import FleetNews
from messaging.broker.runtime.ownership.other_brokers import TIMEOUT_S
from messaging.broker.runtime.ownership.shared_limits import TOLD_MAX, FleetLimits
from messaging.errors import NotReady
from messaging.limits.structs import check
from messaging.protocol.names import TopicName, parse_topic
from tests.support.waiting import eventually
from workers.environment import RPC_TIMEOUT_S

STOPPED, RUNNING = "http://127.0.0.1:1", "http://127.0.0.1:2"


class Others:
    """Two brokers, one of which does not answer until it `goes_on`. What is told is checked as the receiver does."""

    def __init__(self) -> None:
        self.told: list[tuple[str, Any]] = []
        self.goes_on = asyncio.Event()

    async def call(self, rpc_url: str, method: Any, request: Any, tenant: str) -> Any:
        check(request)
        if rpc_url == STOPPED:
            await self.goes_on.wait()
        self.told.append((rpc_url, request))

    def others(self, kind: str) -> list[str]:
        return [STOPPED, RUNNING]

    def of(self, rpc_url: str) -> list[Any]:
        return [request for told, request in self.told if told == rpc_url]


@pytest.fixture
async def background() -> AsyncIterator[BackgroundLoops]:
    loops = BackgroundLoops()
    yield loops
    loops.cancel()


def limits_of(others: Others, background: BackgroundLoops, demands: Callable[[float], dict[str, RateDemand]]) -> FleetLimits:
    rates = SimpleNamespace(demands=demands, divide=lambda parts: None)
    peers: Any = SimpleNamespace(shares=SimpleNamespace(by_tenant={}))
    limits: Any = SimpleNamespace(
        producers=ConnectedCounts(),
        consumers=ConnectedCounts(),
        rate_limits=SimpleNamespace(publish=rates, dispatch=rates),
        stored_bytes=SimpleNamespace(appended=dict),
    )
    anything: Any = others
    now_s = asyncio.get_running_loop().time
    return FleetLimits("broker-1", anything, anything, anything, background, peers, limits, now_s)


async def test_a_broker_that_does_not_answer_keeps_no_other_from_hearing_what_is_used(background: BackgroundLoops) -> None:
    others = Others()
    limits = limits_of(others, background, lambda passed_s: {})
    for _ in range(3):
        before = len(others.of(RUNNING))
        async with asyncio.timeout(30):
            await limits.tell(wait_s=0.01)
        await eventually(lambda before=before: len(others.of(RUNNING)) == before + 1)  # type: ignore[misc]
    others.goes_on.set()
    await eventually(lambda: len(others.of(STOPPED)) == 1)


async def test_more_rates_than_are_told_leave_out_those_that_are_not_used(background: BackgroundLoops) -> None:
    others = Others()
    demands = {f"namespace acme/n{number}": RateDemand(0.0, False) for number in range(TOLD_MAX + 1)}
    demands["namespace acme/waits"] = RateDemand(0.1, True)
    limits = limits_of(others, background, lambda passed_s: demands)
    await limits.tell(wait_s=0.01)
    await eventually(lambda: bool(others.of(RUNNING)))
    told = others.of(RUNNING)[0]
    assert told.published["namespace acme/waits"] == (0.1, True)
    assert len(told.published) == len(told.dispatched) == TOLD_MAX


async def test_news_reaches_those_who_answer_and_the_others_when_they_do(
    background: BackgroundLoops, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fleet_news, "TELL_S", 0.0)
    others: Any = Others()
    news = FleetNews(others, others, background)
    first, second = (parse_topic(f"persistent://acme/orders/{name}") for name in ("first", "second"))
    news.topic_changed(first, True)
    await eventually(lambda: len(others.of(RUNNING)) == 1)
    news.topic_changed(second, True)
    news.made("acme")
    await eventually(lambda: len(others.of(RUNNING)) == 2)
    news.topic_changed(second, False)
    news.topic_grown(first, 4)
    await eventually(lambda: len(others.of(RUNNING)) == 3)
    others.goes_on.set()
    await eventually(lambda: len(others.of(STOPPED)) == 2)
    assert others.of(STOPPED)[0].changed == {str(first): True}
    assert others.of(STOPPED)[1] == NewsTold(changed={str(second): False}, grown={str(first): 4}, made=["acme"])


async def test_news_of_the_longest_name_is_heard_and_so_is_that_of_others(
    background: BackgroundLoops, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fleet_news, "TELL_S", 0.0)
    others: Any = Others()
    others.goes_on.set()
    news = FleetNews(others, others, background)
    longest = TopicName("non-persistent", "t" * 255, "n" * 255, "\N{PILE OF POO}" * 255)
    assert parse_topic(str(longest)) == longest
    neighbour = parse_topic(f"persistent://neighbour/orders/{uuid.uuid4().hex}")
    news.topic_changed(longest, True)
    news.topic_changed(neighbour, True)
    await eventually(lambda: bool(others.of(RUNNING)))
    assert others.of(RUNNING)[0].changed == {str(longest): True, str(neighbour): True}


async def test_news_that_no_request_could_carry_is_cut_and_what_is_kept_is_up_to_date(
    background: BackgroundLoops, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fleet_news, "TELL_S", 0.0)
    monkeypatch.setattr(fleet_news, "KEPT_CHARACTERS_MAX", 100)
    others: Any = Others()
    others.goes_on.set()
    news = FleetNews(others, others, background)
    names = [parse_topic(f"persistent://acme/orders/{number}") for number in range(10)]
    for exists in (True, False):
        for name in names:
            news.topic_changed(name, exists)
    await eventually(lambda: bool(others.of(RUNNING)))
    assert others.of(RUNNING)[0].changed == {str(name): False for name in names[:3]}


async def test_a_broker_that_refuses_is_told_what_follows(background: BackgroundLoops, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fleet_news, "TELL_S", 0.0)
    others: Any = Others()
    call, refused = others.call, list[str]()

    async def refuses_once(rpc_url: str, method: Any, request: Any, tenant: str) -> Any:
        assert method in (NEWS_TELL, USE_TELL)
        if rpc_url == RUNNING and not refused:
            refused.append(rpc_url)
            raise NotReady("not now")
        await call(rpc_url, method, request, tenant)

    monkeypatch.setattr(others, "call", refuses_once)
    news = FleetNews(others, others, background)
    news.made("first")
    await eventually(lambda: bool(refused))
    news.made("second")
    await eventually(lambda: bool(others.of(RUNNING)))
    assert others.of(RUNNING)[0].made == ["second"]


def test_a_broker_waits_less_for_another_than_is_waited_for_it() -> None:
    """Else whoever asked it takes it for the one that does not answer."""
    waits_s = inspect.signature(AdminRpc).parameters["timeout_s"].default
    assert waits_s - 2 >= TIMEOUT_S
    assert RUN_S + SLOW_S < MAINTENANCE_S <= RPC_TIMEOUT_S - 5
