"""The JSON WebSocket API at one broker of several: what its clients name may be at any of them."""

from __future__ import annotations

import base64
import json
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from unittest.mock import patch

import pytest
import websockets

from messaging.broker.http.websocket.link import POLICY
from messaging.broker.runtime.remote import links as remote_links
from messaging.client import connect
from messaging.protocol.names import TopicName, parse_topic
from tests.support.brokers.fleet import fleet_broker, running_fleet
from tests.support.brokers.http_edge import receive_json, send_json
from tests.support.brokers.running_broker import RunningBroker
from tests.support.clients.websocket_peer import close_of
from tests.support.waiting import eventually

PREFIX = "persistent://acme/orders/"


@pytest.fixture
async def fleet(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[list[RunningBroker]]:
    folder = tmp_path / request.node.name  # that no other test had: service tokens are kept by folder
    folder.mkdir()
    async with running_fleet(folder, 2) as brokers:
        yield brokers


@asynccontextmanager
async def opened(broker: RunningBroker, path: str, key: str = "owner") -> AsyncIterator[websockets.ClientConnection]:
    headers = {"Authorization": f"Bearer {broker.token(key)}"}
    async with websockets.connect(broker.ws_url + path, proxy=None, additional_headers=headers) as connection:
        yield connection


async def refused(broker: RunningBroker, path: str, key: str = "owner") -> tuple[int, str]:
    with pytest.raises(websockets.InvalidStatus) as caught:
        async with opened(broker, path, key):
            pass
    return caught.value.response.status_code, json.loads(caught.value.response.body or b"{}")["reason"]


def producer_of(topic: TopicName, query: str = "") -> str:
    return f"/ws/v2/producer/persistent/acme/orders/{topic.local}?{query}"


def consumer_of(topic: TopicName, query: str = "") -> str:
    return f"/ws/v2/consumer/persistent/acme/orders/{topic.local}/s?subscriptionInitialPosition=Earliest&{query}"


def reader_of(topic: TopicName, query: str = "messageId=earliest") -> str:
    return f"/ws/v2/reader/persistent/acme/orders/{topic.local}?{query}"


async def name_at(broker: RunningBroker, start: str = "t") -> TopicName:
    """Of a topic that does not exist yet, and that this broker will serve."""
    for number in range(100):
        name = parse_topic(f"{PREFIX}{start}{number}")
        if await broker.service.owners.where(name) is None:
            return name
    raise AssertionError("all topics are at one broker")


async def publish(broker: RunningBroker, topic: TopicName, texts: list[str]) -> list[str]:
    """Message ids."""
    async with opened(broker, producer_of(topic)) as producer:
        for text in texts:
            await send_json(producer, payload=base64.b64encode(text.encode()).decode(), context=text)
        answers = [await receive_json(producer) for _ in texts]
    assert [(answer["result"], answer["context"]) for answer in answers] == [("ok", text) for text in texts]
    return [answer["messageId"] for answer in answers]


async def read(consumer: websockets.ClientConnection, count: int, *, ack: bool = True) -> list[str]:
    texts = []
    for _ in range(count):
        message = await receive_json(consumer)
        texts.append(base64.b64decode(message["payload"]).decode())
        if ack:
            await send_json(consumer, messageId=message["messageId"])
    return texts


def backlog(broker: RunningBroker, topic: TopicName) -> int:
    subscriptions = broker.service.topics.loaded[str(topic)].subscriptions.table.values()
    return sum(subscription.backlog_entries for subscription in subscriptions if subscription.durable)


def links(broker: RunningBroker) -> int:
    """Connections that stand for clients of other brokers."""
    return len(broker.service.peers.connections)


async def test_a_topic_of_another_broker_is_as_one_that_is_here(fleet: list[RunningBroker]) -> None:
    first, second = fleet
    name = await name_at(second)
    texts = [f"{number}" for number in range(300)]
    ids = await publish(first, name, texts)
    assert len(set(ids)) == 300
    async with opened(first, consumer_of(name, "receiverQueueSize=7")) as consumer:
        assert await read(consumer, 150) == texts[:150]
    await eventually(lambda: backlog(second, name) == 150)
    async with opened(first, consumer_of(name)) as consumer:
        assert await read(consumer, 150) == texts[150:]
        await eventually(lambda: backlog(second, name) == 0)
        status, reason = await refused(first, consumer_of(name))
        assert status == 409 and "Exclusive" in reason
    async with opened(first, reader_of(name, f"messageId={ids[99]}")) as reader:
        assert await read(reader, 200) == texts[100:]
    assert str(name) not in first.service.topics.loaded
    await eventually(lambda: not links(second))
    assert first.service.memory_limiter.egress.used_bytes == 0


async def test_a_link_takes_no_place_among_the_connections_of_a_tenant(fleet: list[RunningBroker]) -> None:
    first, second = fleet
    name = await name_at(second)
    async with opened(first, consumer_of(name)), opened(first, producer_of(name)):
        async with opened(first, consumer_of(name, "subscriptionType=Shared").replace("/s?", "/other?")):
            assert links(second) == 2 == first.service.outgoing.total, "one for its consumers, one for its producers of a topic"
        assert second.service.peers.shares.by_tenant["acme"] == 0
        assert second.service.peers.shares.delegated["acme"] == 2
        await eventually(lambda: first.service.peers.shares.by_tenant["acme"] == 2)
    await eventually(lambda: not second.service.peers.shares.delegated["acme"])
    assert not first.service.outgoing.total


async def test_there_are_no_more_connections_to_others_than_files_for_them(
    fleet: list[RunningBroker], monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = fleet
    name = await name_at(second)
    monkeypatch.setattr(first.service.outgoing, "total", first.service.settings.connections_max)
    status, reason = await refused(first, consumer_of(name))
    assert status == 503 and "connections_max" in reason


async def test_partitions_at_several_brokers(fleet: list[RunningBroker]) -> None:
    first, second = fleet
    name = parse_topic(f"{PREFIX}parts")
    await first.service.topics.partitioned.create(name, 8, {})
    own = [number for number in range(8) if await first.service.owners.where(name.of_partition(number)) is None]
    assert 0 < len(own) < 8
    texts = [f"{number}" for number in range(80)]
    async with opened(first, consumer_of(name, "subscriptionType=Shared&receiverQueueSize=5")) as consumer:
        async with opened(first, producer_of(name, "messageRoutingMode=RoundRobinPartition")) as producer:
            for text in texts:
                await send_json(producer, payload=base64.b64encode(text.encode()).decode())
            assert {(await receive_json(producer))["result"] for _ in texts} == {"ok"}
        assert Counter(await read(consumer, 80)) == Counter(texts)
        await eventually(
            lambda: not any(backlog(first if number in own else second, name.of_partition(number)) for number in range(8))
        )
        await send_json(consumer, type="unsubscribe")
        parts = [(first if number in own else second).service.topics.loaded[str(name.of_partition(number))] for number in range(8)]
        await eventually(lambda: not any(part.subscriptions.table for part in parts))


async def test_a_subscription_that_others_use_is_deleted_of_no_partition(fleet: list[RunningBroker]) -> None:
    first, second = fleet
    name = parse_topic(f"{PREFIX}parts")
    await first.service.topics.partitioned.create(name, 8, {})
    async with opened(first, consumer_of(name, "subscriptionType=Shared")) as consumer:
        async with opened(first, consumer_of(name, "subscriptionType=Shared")) as other:
            await send_json(other, type="unsubscribe")
            _, reason = await close_of(other)
            assert "other consumers" in reason
        parts = [part for each in fleet for text, part in each.service.topics.loaded.items() if text.startswith(str(name))]
        assert len(parts) == 8 and all("s" in [sub.name for sub in part.subscriptions.table.values()] for part in parts)
        await publish(second, name, ["x"])
        assert await read(consumer, 1) == ["x"]


async def test_several_topics_and_those_that_match_a_pattern(fleet: list[RunningBroker]) -> None:
    first, second = fleet
    here, there = await name_at(first, "n"), await name_at(second, "n")
    await publish(first, here, ["here"])
    await publish(first, there, ["there"])
    path = f"/ws/v3/consumer/s?subscriptionInitialPosition=Earliest&topics={here},{there}"
    async with opened(first, path) as consumer:
        assert set(await read(consumer, 2)) == {"here", "there"}
        await eventually(lambda: backlog(first, here) == 0 == backlog(second, there))
    later = await name_at(second, "nn")
    pattern = f"/ws/v3/consumer/other?subscriptionInitialPosition=Earliest&topicsPattern={PREFIX}n.*"
    async with opened(first, pattern) as consumer:
        assert set(await read(consumer, 2)) == {"here", "there"}
        await publish(first, later, ["later"])
        assert await read(consumer, 1) == ["later"]


async def test_the_rest_of_a_batch_comes_again(fleet: list[RunningBroker]) -> None:
    first, second = fleet
    name = await name_at(second)
    async with (
        connect(first.service.addresses.service_url, first.token("owner")) as client,
        client.producer(str(name), compression="lz4", batch_delay_ms=200) as producer,
    ):
        for number in range(20):
            producer.send_nowait(b"%d" % number)
        await producer.flush()
    async with opened(first, consumer_of(name)) as consumer:
        assert await read(consumer, 10) == [str(number) for number in range(10)]
        rest = [base64.b64decode((await receive_json(consumer))["payload"]) for _ in range(10)]
        assert rest == [b"%d" % number for number in range(10, 20)]
    async with opened(first, consumer_of(name)) as consumer:
        assert await read(consumer, 10) == [str(number) for number in range(10, 20)]
        await eventually(lambda: backlog(second, name) == 0)


async def test_a_dead_letter_of_another_brokers_topic(fleet: list[RunningBroker]) -> None:
    first, second = fleet
    name, dead = await name_at(second), await name_at(second, "dead")
    query = f"subscriptionType=Shared&negativeAckRedeliveryDelay=10&maxRedeliverCount=1&deadLetterTopic={dead}"
    await publish(first, name, ["poison"])
    async with opened(first, consumer_of(name, query)) as consumer:
        for count in range(2):
            message = await receive_json(consumer)
            assert message["redeliveryCount"] == count
            await send_json(consumer, type="negativeAcknowledge", messageId=message["messageId"])
        async with opened(first, reader_of(dead)) as reader:
            assert await read(reader, 1) == ["poison"]
        await eventually(lambda: backlog(second, name) == 0)


async def test_who_may_do_what_is_decided_as_at_one_broker(fleet: list[RunningBroker]) -> None:
    first, second = fleet
    name = await name_at(second)
    assert (await refused(first, consumer_of(name), "writer"))[0] == 403
    assert (await refused(first, producer_of(name), "reader"))[0] == 403
    assert (await refused(first, reader_of(name), "writer"))[0] == 403
    assert not links(second)


@pytest.mark.parametrize("told", [0, 1])
async def test_a_key_that_is_revoked_ends_what_it_has(fleet: list[RunningBroker], told: int) -> None:
    """Whichever of the two brokers hears of it first."""
    first, second = fleet
    name = await name_at(second)
    await publish(first, name, ["x"])
    async with opened(first, consumer_of(name)) as consumer:
        assert await read(consumer, 1) == ["x"]
        await fleet[told].revoke("owner")
        code, reason = await close_of(consumer)
        assert code == POLICY and "revoked" in reason
    await eventually(lambda: not links(second))


async def test_a_permission_that_is_withdrawn_ends_what_it_opened(fleet: list[RunningBroker]) -> None:
    first, second = fleet
    name = await name_at(second)
    async with opened(first, producer_of(name)) as producer, opened(first, consumer_of(name)) as consumer:
        await first.say(("namespace", "acme/orders", {"grants": {"owner@acme": ["produce"]}}))
        assert (await close_of(consumer))[0] == POLICY
        await send_json(producer, payload="")
        assert (await receive_json(producer))["result"] == "ok"


async def test_a_topic_that_is_deleted_or_ends_says_so(fleet: list[RunningBroker]) -> None:
    first, second = fleet
    name = await name_at(second)
    await publish(first, name, ["last"])
    async with opened(first, producer_of(name)) as producer, opened(first, consumer_of(name)) as consumer:
        await second.service.topics.loaded[str(name)].terminate()  # type: ignore[attr-defined]
        assert await read(consumer, 1) == ["last"]

        async def ended() -> bool:
            await send_json(consumer, type="isEndOfTopic")
            return bool((await receive_json(consumer))["endOfTopic"])

        await eventually(ended)

        async def terminated() -> bool:
            """One that was on its way when its producer was closed is only told that."""
            await send_json(producer, payload="")
            return "terminated" in (await receive_json(producer))["errorMsg"]

        await eventually(terminated)
        await second.service.topics.delete(name, force=True)
        code, reason = await close_of(consumer)
        assert code == POLICY and "was deleted" in reason


async def test_an_owner_that_comes_back_is_reached_again(tmp_path: Path) -> None:
    """Nothing is lost or comes twice to a reader; a consumer gets what it did not acknowledge."""
    async with AsyncExitStack() as stack:
        first = await stack.enter_async_context(fleet_broker(tmp_path, 1, 2))
        async with fleet_broker(tmp_path, 2, 2) as before:
            name = await name_at(before)
            await publish(first, name, ["a", "b"])
            producer = await stack.enter_async_context(opened(first, producer_of(name)))
            consumer = await stack.enter_async_context(opened(first, consumer_of(name)))
            reader = await stack.enter_async_context(opened(first, reader_of(name)))
            latest = await stack.enter_async_context(opened(first, reader_of(name, "messageId=latest")))
            assert await read(reader, 2) == ["a", "b"]
            assert await read(consumer, 1) == ["a"]
            await eventually(lambda: backlog(before, name) == 1)
        for connection in list(before.service.peers.connections):  # its process is gone
            connection.transport.abort()  # type: ignore[attr-defined]
        await send_json(producer, payload="")
        assert (await receive_json(producer))["result"] != "ok"
        async with fleet_broker(tmp_path, 2, 2) as second:

            async def published() -> bool:
                await send_json(producer, payload=base64.b64encode(b"c").decode())
                return bool((await receive_json(producer))["result"] == "ok")

            await eventually(published)
            assert await read(reader, 1) == ["c"]
            assert await read(latest, 1) == ["c"]
            received: list[str] = []
            while not received or received[-1] != "c":
                received += await read(consumer, 1)
            assert set(received) == {"b", "c"}, "b was sent before, and not acknowledged"
            await eventually(lambda: backlog(second, name) == 0)


async def test_a_link_that_breaks_is_made_again(fleet: list[RunningBroker]) -> None:
    first, second = fleet
    name = await name_at(second)
    texts = [f"{number}" for number in range(40)]
    async with opened(first, consumer_of(name, "receiverQueueSize=1")) as consumer, opened(first, reader_of(name)) as reader:
        received, seen = [], []
        for start in range(0, 40, 10):
            await publish(first, name, texts[start : start + 10])
            received += await read(consumer, 10)
            seen += await read(reader, 10)
            await eventually(lambda: backlog(second, name) == 0)
            for connection in list(second.service.peers.connections):
                connection.transport.abort()  # type: ignore[attr-defined]
        assert received == seen == texts


async def test_a_broker_that_does_not_answer_any_more_is_given_up(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        first, second = [await stack.enter_async_context(fleet_broker(tmp_path, number, 2, keep_alive_ms=200)) for number in (1, 2)]
        name = await name_at(second)
        async with opened(first, producer_of(name)) as producer:
            (stopped,) = second.service.peers.connections
            stopped.transport.pause_reading()  # type: ignore[attr-defined]
            await eventually(lambda: stopped not in second.service.peers.connections)
            await send_json(producer, payload="")
            assert (await receive_json(producer))["result"] == "ok", "over another link"


async def test_clients_on_topics_of_a_broker_that_is_out_of_reach_are_turned_away_to_find_another_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others may reach it. Seen: a WebSocket hung for as long as two brokers were cut from each other."""
    monkeypatch.setattr(remote_links, "SILENT_S", 0.2)
    async with AsyncExitStack() as stack:
        first, second = [await stack.enter_async_context(fleet_broker(tmp_path, number, 2)) for number in (1, 2)]
        name = await name_at(second)
        others = first.service.other_brokers
        assert others is not None
        async with opened(first, producer_of(name)) as producer:
            (stopped,) = second.service.peers.connections
            stopped.transport.pause_reading()  # type: ignore[attr-defined]
            with patch.object(others.silence, "answered"):
                await send_json(producer, payload="")
                assert (await receive_json(producer))["errorMsg"] == remote_links.UNREACHABLE
                assert await refused(first, producer_of(name)) == (503, remote_links.UNREACHABLE)
            others.silence.answered(second.service.addresses.rpc_url)
            await send_json(producer, payload="")
            assert (await receive_json(producer))["result"] == "ok", "it is back"
