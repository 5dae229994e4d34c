"""Publishing to topics that cannot be, and while storage fails or is behind."""

from __future__ import annotations

import pytest

from messaging.broker.runtime.topics.persistent import PersistentTopic
from messaging.broker.runtime.topics.producers.publisher import PendingPublish
from messaging.broker.runtime.topics.topic import Topic
from messaging.protocol import frames
from messaging.protocol import pulsar_pb2 as pb
from messaging.storage.ledger_store import AppendFailed, DiskFull, Unavailable
from tests.support.clients.publishing import TOPIC, producing, receipts
from tests.support.clients.raw_client import send_frame
from tests.support.raising import boom
from tests.support.waiting import eventually
from tests.support.worlds.broker_world import BrokerWorld

C = pb.Command


@pytest.mark.parametrize(
    ("topic", "code"),
    [
        ("persistent://acme/orders/", pb.InvalidTopicName),
        ("persistent://acme/orders/a/b", pb.InvalidTopicName),
        ("nonsense://acme/orders/t", pb.InvalidTopicName),
        ("non-persistent://acme/strict/t", pb.TopicNotFound),
        ("persistent://acme/absent/t", pb.TopicNotFound),
        ("persistent://absent/orders/t", pb.TopicNotFound),
        ("persistent://acme/strict/t", pb.TopicNotFound),  # no auto-creation there
    ],
)
async def test_topics_that_cannot_be(world: BrokerWorld, topic: str, code: int) -> None:
    client = await world.connected("superuser")
    client.say(C.PRODUCER, topic=topic, producer_id=1)
    assert (await client.expect("ERROR")).error == code
    client.say(C.SUBSCRIBE, topic=topic, subscription="s", sub_type=pb.Subscribe.Shared, consumer_id=1)
    assert (await client.expect("ERROR")).error == code
    assert await world.meta.list_all_topics() == []


@pytest.mark.parametrize("failure", [DiskFull("full"), AppendFailed("broken")])
async def test_after_a_failed_store_the_topic_opens_again(world: BrokerWorld, failure: AppendFailed) -> None:
    """No receipt for what may be lost; the producer is closed, comes back, and sends again."""
    client = await producing(world, producer_name="p")
    client.write(send_frame(0, b"kept"))
    await receipts(client, 1)
    world.ledgers.fail_appends(failure)
    client.write(send_frame(1, b"x"), send_frame(2, b"y"))
    closing = await client.expect("CLOSE_PRODUCER")
    assert (closing.producer_id, closing.request_id) == (1, frames.UNSOLICITED)
    client.write(send_frame(3, b"on its way"))  # passed over, not an offence
    assert await client.quiet() == []
    world.ledgers.heal()

    async def back() -> bool:
        client.say(C.PRODUCER, topic=TOPIC, producer_id=1, producer_name="p", epoch=1)
        return (await client.next()).name == "PRODUCER_SUCCESS"

    await eventually(back)
    client.write(*(send_frame(index, b"again") for index in (1, 2, 3)))
    assert await receipts(client, 3) == [(1, 1), (1, 2), (1, 3)]
    await client.subscribe(TOPIC, permits=10)
    assert [one.text for one in await client.messages(4)] == [b"kept", b"again", b"again", b"again"]


async def test_a_store_that_cannot_make_a_ledger(world: BrokerWorld) -> None:
    client = await world.connected("owner")
    await client.subscribe(TOPIC)  # the topic is there, without a ledger
    world.ledgers.fail_next("create", Unavailable("no space"))
    client.say(C.PRODUCER, topic=TOPIC, producer_id=1)
    assert (await client.expect("ERROR")).error == pb.PersistenceError

    async def works() -> bool:
        client.say(C.PRODUCER, topic=TOPIC, producer_id=1)
        return (await client.next()).name == "PRODUCER_SUCCESS"

    await eventually(works)


async def test_reading_from_a_producer_pauses_while_the_disk_is_behind(world: BrokerWorld) -> None:
    client = await producing(world)
    world.ledgers.hold()
    for index in range(24):
        client.write(send_frame(index, bytes(1 << 20)))
    (connection,) = world.service.peers.connections
    await eventually(lambda: connection.throttle.paused)  # type: ignore[attr-defined]
    stored = world.service.topics.loaded[TOPIC].ledger.pending_bytes
    assert stored <= (8 << 20) + 4 * (1 << 20)
    world.ledgers.release()
    assert await receipts(client, 24) == [(1, index) for index in range(24)]


async def test_what_raises_after_a_block_is_stored_holds_up_nothing_that_waits_for_it(
    world: BrokerWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = await producing(world)
    publisher = world.service.topics.loaded[TOPIC].publisher
    stored: list[bool] = []

    def waits_for_it(topic: Topic, pending: PendingPublish) -> None:
        publisher.run_after_pending(boom)
        publisher.run_after_pending(stored.append)
        boom()

    monkeypatch.setattr(PersistentTopic, "stored", waits_for_it)
    client.write(send_frame(0, b"x"))
    await receipts(client, 1)
    assert stored == [True]
    assert await publisher.wait_for_pending()
