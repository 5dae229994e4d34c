"""Lists of topics by pattern, watches of them, and subscriptions that start where a new topic was found."""

from __future__ import annotations

from typing import Any

import pytest

from messaging.broker.runtime import topic_watches
from messaging.broker.runtime.topic_watches import WATCHES_MAX
from messaging.protocol import frames
from messaging.protocol import pulsar_pb2 as pb
from messaging.protocol.names import parse_topic
from messaging.storage.ledger_store import Unavailable
from tests.support.clients.consuming import texts
from tests.support.clients.raw_client import RawClient, send_frame
from tests.support.waiting import eventually
from tests.support.worlds.broker_world import BrokerWorld

C = pb.Command
NAMESPACE = "acme/orders"
FOUND = "GET_TOPICS_OF_NAMESPACE_RESPONSE"


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topic_watches, "FLUSH_S", 0.001)
    monkeypatch.setattr(topic_watches, "RETRY_S", 0.001)


def full(local: str) -> str:
    return f"persistent://{NAMESPACE}/{local}"


async def create(world: BrokerWorld, *locals_: str) -> None:
    for local in locals_:
        await world.service.topics.create(parse_topic(full(local)), {})


async def listed(client: RawClient, **fields: Any) -> Any:
    client.say(C.GET_TOPICS_OF_NAMESPACE, namespace=NAMESPACE, **fields)
    return await client.expect(FOUND)


async def watching(client: RawClient, pattern: str = "l-.*", **fields: Any) -> Any:
    client.say(C.WATCH_TOPIC_LIST, watcher_id=7, namespace=NAMESPACE, topics_pattern=full(pattern), **fields)
    return await client.expect("WATCH_TOPIC_LIST_SUCCESS")


async def test_a_list_by_pattern_has_its_own_hash(world: BrokerWorld) -> None:
    await create(world, "l-1", "m-1", "l-2")
    await world.service.topics.partitioned.create(parse_topic(full("l-p")), 2, {})
    client = await world.connected("reader")
    answer = await listed(client, topics_pattern=full("l-.*"))
    expected = [full(local) for local in ("l-1", "l-2", "l-p-partition-0", "l-p-partition-1")]
    assert (list(answer.topics), answer.filtered, answer.changed) == (expected, True, True)
    assert answer.topics_hash == frames.topics_hash(expected)
    again = await listed(client, topics_pattern=full("l-.*"), topics_hash=answer.topics_hash)
    assert (list(again.topics), again.filtered, again.changed) == ([], True, False)
    nothing = await listed(client, topics_pattern=full("none"))
    assert (list(nothing.topics), nothing.filtered, nothing.topics_hash) == ([], True, "00000000")
    await create(world, "m-2")
    assert not (await listed(client, topics_pattern=full("l-.*"), topics_hash=answer.topics_hash)).changed


@pytest.mark.parametrize("pattern", ["l-(?=1).*", "(l", "(a?){999}" * 3])
async def test_what_the_broker_does_not_evaluate_the_client_does(world: BrokerWorld, pattern: str) -> None:
    await create(world, "l-1", "m-1")
    answer = await listed(await world.connected("reader"), topics_pattern=full(pattern))
    assert (list(answer.topics), answer.filtered) == ([full("l-1"), full("m-1")], False)


async def test_watches_are_announced(world: BrokerWorld) -> None:
    client = await world.client()
    assert (await client.connect(world.token("reader"))).feature_flags.supports_topic_watchers


async def test_an_empty_pattern_matches_nothing(world: BrokerWorld) -> None:
    await create(world, "l-1")
    client = await world.connected("reader")
    answer = await listed(client, topics_pattern="")
    assert (list(answer.topics), answer.filtered, answer.topics_hash) == ([], True, "00000000")
    client.say(C.WATCH_TOPIC_LIST, watcher_id=1, namespace=NAMESPACE, topics_pattern="")
    begun = await client.expect("WATCH_TOPIC_LIST_SUCCESS")
    assert (list(begun.topic), begun.topics_hash) == ([], "00000000")
    await watching(client)
    await create(world, "l-2")
    assert (await client.expect("WATCH_TOPIC_UPDATE")).watcher_id == 7
    assert await client.quiet() == []


async def test_a_watch_tells_what_is_created_and_deleted(world: BrokerWorld) -> None:
    await create(world, "l-1", "m-1")
    client = await world.connected("reader")
    answer = await watching(client)
    assert (answer.watcher_id, list(answer.topic)) == (7, [full("l-1")])
    assert answer.topics_hash == frames.topics_hash([full("l-1")])
    await create(world, "m-2", "l-2")
    update = await client.expect("WATCH_TOPIC_UPDATE")
    assert (update.watcher_id, list(update.new_topics), list(update.deleted_topics)) == (7, [full("l-2")], [])
    assert update.topics_hash == frames.topics_hash([full("l-1"), full("l-2")])
    await world.service.topics.delete(parse_topic(full("l-1")), force=True)
    update = await client.expect("WATCH_TOPIC_UPDATE")
    assert (list(update.new_topics), list(update.deleted_topics)) == ([], [full("l-1")])
    producer = await world.connected("owner")
    await producer.producer(full("l-by-use"))
    assert list((await client.expect("WATCH_TOPIC_UPDATE")).new_topics) == [full("l-by-use")]
    await world.service.topics.partitioned.create(parse_topic(full("l-p")), 2, {})
    told: list[str] = []
    while len(told) < 2:
        told += (await client.expect("WATCH_TOPIC_UPDATE")).new_topics
    assert sorted(told) == [full("l-p-partition-0"), full("l-p-partition-1")]


async def test_a_watch_that_comes_back_with_the_hash_gets_no_list(world: BrokerWorld) -> None:
    await create(world, "l-1")
    client = await world.connected("reader")
    answer = await watching(client)
    again = await watching(client, topics_hash=answer.topics_hash)
    assert (list(again.topic), again.topics_hash) == ([], answer.topics_hash)
    await create(world, "l-2")
    assert list((await client.expect("WATCH_TOPIC_UPDATE")).new_topics) == [full("l-2")]
    assert await client.quiet() == [], "the watch with this id was replaced"


async def test_nobody_is_told_who_did_not_ask_or_stopped(world: BrokerWorld) -> None:
    silent, client, other = [await world.connected("reader") for _ in range(3)]
    await watching(client), await watching(other)
    client.say(C.WATCH_TOPIC_LIST_CLOSE, watcher_id=7)
    await client.expect("SUCCESS")
    client.say(C.WATCH_TOPIC_LIST_CLOSE, watcher_id=8)
    await client.expect("SUCCESS")
    await create(world, "l-1")
    await other.expect("WATCH_TOPIC_UPDATE")
    assert (await client.quiet(), await silent.quiet()) == ([], [])


async def test_who_may_not_list_may_not_watch(world: BrokerWorld) -> None:
    stranger = await world.connected("stranger")
    stranger.say(C.WATCH_TOPIC_LIST, watcher_id=1, namespace=NAMESPACE, topics_pattern=full(".*"))
    assert (await stranger.expect("ERROR")).error == pb.AuthorizationError
    await create(world, "l-1")
    assert await stranger.quiet() == []


async def test_a_withdrawn_permission_ends_a_watch_before_the_next_name(world: BrokerWorld) -> None:
    client = await world.connected("reader")
    await watching(client)
    await world.feed(("namespace", NAMESPACE, {"grants": {"writer@acme": ["produce"]}}))
    await create(world, "l-1")
    assert await client.gone() == []


@pytest.mark.parametrize("pattern", ["l-(?=1).*", "(l", "(a?){999}" * 3])
async def test_a_pattern_that_is_not_evaluated_cannot_be_watched(world: BrokerWorld, pattern: str) -> None:
    client = await world.connected("reader")
    client.say(C.WATCH_TOPIC_LIST, watcher_id=1, namespace=NAMESPACE, topics_pattern=full(pattern))
    assert (await client.expect("ERROR")).error == pb.NotAllowedError


async def test_watches_are_limited_and_charged(world: BrokerWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topic_watches, "WATCHES_MAX", 2)
    assert WATCHES_MAX > 2
    client, account = await world.connected("reader"), world.service.memory_limiter.sessions
    before = account.tenants.get("acme", 0)
    fields = {"namespace": NAMESPACE, "topics_pattern": full(".*")}
    for watcher_id in (1, 2):
        client.say(C.WATCH_TOPIC_LIST, watcher_id=watcher_id, **fields)
        await client.expect("WATCH_TOPIC_LIST_SUCCESS")
    client.say(C.WATCH_TOPIC_LIST, watcher_id=3, **fields)
    assert (await client.expect("ERROR")).error == pb.NotAllowedError
    await eventually(lambda: account.tenants["acme"] > before + 2 * topic_watches.WATCH_BYTES)
    await client.close()
    await eventually(lambda: "acme" not in account.tenants)


async def test_a_store_that_fails_for_a_while_loses_no_update(world: BrokerWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    client = await world.connected("reader")
    await watching(client)
    failures = 2

    async def fail(namespace: str, **fields: Any) -> list[str]:
        nonlocal failures
        failures -= 1
        if failures >= 0:
            raise Unavailable("busy")
        return await real(namespace, **fields)

    real = world.meta.list_topics
    monkeypatch.setattr(world.meta, "list_topics", fail)
    await create(world, "l-1")
    assert list((await client.expect("WATCH_TOPIC_UPDATE")).new_topics) == [full("l-1")]
    assert failures < 0


async def publish(world: BrokerWorld, local: str) -> None:
    producer = await world.connected("owner")
    await producer.producer(full(local))
    producer.write(send_frame(0, b"first"))
    await producer.expect("SEND_RECEIPT")
    made_ms = world.service.topics.loaded[full(local)].ledger.record.created_ms
    await eventually(lambda: world.service.now_ms() > made_ms)  # who looks in the same millisecond may have looked before


async def subscribed(client: RawClient, local: str, consumer_id: int, name: str = "s") -> None:
    position = pb.Subscribe.Latest
    await client.subscribe(full(local), name, consumer_id, permits=10, initial_position=position)


async def test_a_client_that_polls_misses_nothing_of_a_new_topic(world: BrokerWorld) -> None:
    await publish(world, "old")
    client = await world.connected("reader")
    await listed(client)
    await subscribed(client, "old", 1)
    await publish(world, "new")
    await listed(client)
    await subscribed(client, "new", 2)
    assert texts(await client.messages(1)) == [b"first"]
    assert await client.quiet() == [], "what was there before it looked is not its"


async def test_a_client_that_watches_misses_nothing_of_a_new_topic(world: BrokerWorld) -> None:
    client = await world.connected("reader")
    await watching(client, ".*")
    await publish(world, "new")
    assert list((await client.expect("WATCH_TOPIC_UPDATE")).new_topics) == [full("new")]
    await subscribed(client, "new", 1)
    assert texts(await client.messages(1)) == [b"first"]


async def test_who_subscribes_without_looking_starts_at_the_latest_message(world: BrokerWorld) -> None:
    looking, client = await world.connected("reader"), await world.connected("reader")
    await listed(looking)
    await publish(world, "new")
    await listed(looking)
    await subscribed(client, "new", 1)
    assert await client.quiet() == []


async def test_a_client_may_look_on_another_connection_than_it_consumes_on(world: BrokerWorld) -> None:
    """As it does where it was given another address than the broker announces."""
    await publish(world, "old")
    looking, client = await world.connected("reader"), await world.connected("reader")
    await listed(looking)
    await subscribed(client, "old", 1)
    await publish(world, "new")
    await listed(looking)
    await subscribed(client, "new", 2)
    assert texts(await client.messages(1)) == [b"first"]
    await subscribed(client, "new", 3, "another")
    assert await client.quiet() == [], "another subscription was not looking"


async def test_system_topics_are_in_no_list_of_a_client(world: BrokerWorld) -> None:
    for local in ("t", "__change_events", "__mine"):
        await world.service.topics.create(parse_topic(full(local)), {})
    client = await world.connected("reader")
    for pattern in ({}, {"topics_pattern": "persistent://acme/orders/.*"}):
        client.say(pb.Command.GET_TOPICS_OF_NAMESPACE, namespace="acme/orders", **pattern)
        answer = await client.expect("GET_TOPICS_OF_NAMESPACE_RESPONSE")
        assert list(answer.topics) == [full("__mine"), full("t")]
        assert answer.topics_hash == frames.topics_hash([full("__mine"), full("t")])


async def test_names_that_belong_to_the_broker_are_refused(world: BrokerWorld) -> None:
    client = await world.connected("owner")
    client.say(pb.Command.PRODUCER, topic=full("t__transaction_pending_ack"), producer_id=1)
    assert (await client.expect("ERROR")).error == pb.NotAllowedError
