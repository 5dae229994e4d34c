"""Exclusive producers over the wire: who gets the topic, when it is told, and what outlives a crash."""

from __future__ import annotations

import pytest

from messaging.adminrpc.topics import StatsAsked, TopicRef
from messaging.broker.runtime.local.messages import OutgoingMessage
from messaging.errors import ProducerBusy
from messaging.permissions.model import Principal
from messaging.protocol import pulsar_pb2 as pb
from messaging.storage.ledger_store import Unavailable
from messaging.storage.meta_store import TopicRecord
from tests.support.clients.producer_sink import ProducerWatch
from tests.support.clients.publishing import TOPIC, producing, receipts
from tests.support.clients.raw_client import RawClient, send_frame
from tests.support.waiting import eventually
from tests.support.worlds.broker_world import BrokerWorld, MakeWorld

C = pb.Command


async def opened(client: RawClient, mode: str, producer_id: int = 1, **fields: object) -> pb.ProducerSuccess:
    answer = await client.producer(TOPIC, producer_id, producer_access_mode=mode, **fields)
    assert isinstance(answer, pb.ProducerSuccess)
    return answer


async def refused(client: RawClient, mode: str, producer_id: int = 1, **fields: object) -> int:
    client.say(C.PRODUCER, topic=TOPIC, producer_id=producer_id, producer_access_mode=mode, **fields)
    return int((await client.expect("ERROR")).error)


def names(world: BrokerWorld) -> list[str]:
    return [one.name for one in world.service.topics.loaded[TOPIC].producers]


@pytest.mark.parametrize("mode", ["Exclusive", "WaitForExclusive", "ExclusiveWithFencing"])
async def test_a_free_topic_is_owned_at_once_and_by_nobody_else(world: BrokerWorld, mode: str) -> None:
    client, other = await world.connected("owner"), await world.connected("owner")
    answer = await opened(client, mode)
    assert (answer.producer_ready, answer.topic_epoch, answer.last_sequence_id) == (True, 0, -1)
    client.write(send_frame(0, b"x"))
    assert await receipts(client, 1) == [(1, 0)]
    assert await refused(other, "Shared") == pb.ProducerBusy
    assert await refused(other, "Exclusive") == pb.ProducerFenced
    await client.close()
    await eventually(lambda: not names(world))
    assert (await opened(other, "Exclusive")).topic_epoch == 1


async def test_a_shared_topic_is_not_given_away(world: BrokerWorld) -> None:
    await producing(world, producer_name="shares")
    other = await world.connected("owner")
    assert await refused(other, "Exclusive") == pb.ProducerFenced
    answer = await opened(other, "WaitForExclusive")
    assert not answer.producer_ready and not answer.HasField("topic_epoch")
    third = await world.connected("owner")
    assert await refused(third, "Shared") == pb.ProducerBusy


async def test_one_that_waits_is_told_at_once_and_again_when_it_has_the_topic(world: BrokerWorld) -> None:
    owner = await world.connected("owner")
    await opened(owner, "Exclusive", producer_name="first")
    waits = await world.connected("owner")
    first = await opened(waits, "WaitForExclusive", producer_name="second")
    assert (first.producer_ready, first.producer_name) == (False, "second")
    assert await waits.quiet() == []
    stats = (await world.admin.topic_stats.stats(StatsAsked(topic=TOPIC))).stats
    assert (stats["topicEpoch"], stats["waitingPublishers"]) == (0, 1)
    assert [(one["accessMode"], one["producerName"]) for one in stats["publishers"]] == [("Exclusive", "first")]
    owner.say(C.CLOSE_PRODUCER, producer_id=1)
    await owner.expect("SUCCESS")
    second = await waits.expect("PRODUCER_SUCCESS")
    assert (second.request_id, second.producer_ready, second.topic_epoch) == (first.request_id, True, 1)
    waits.write(send_frame(0, b"mine"))
    assert await receipts(waits, 1) == [(1, 0)]
    assert world.service.topics.loaded[TOPIC].ledger.record.topic_epoch == 1


async def test_one_that_waits_may_not_publish(world: BrokerWorld) -> None:
    await opened(await world.connected("owner"), "Exclusive")
    waits = await world.connected("owner")
    await opened(waits, "WaitForExclusive")
    waits.write(send_frame(0, b"too early"))
    await waits.gone()
    assert world.service.topics.loaded[TOPIC].ledger_list.entries == 0
    await eventually(lambda: not world.service.topics.loaded[TOPIC].producers.table.waiting)


async def test_a_connection_that_leaves_does_not_pass_the_topic_on_to_itself(world: BrokerWorld) -> None:
    client = await world.connected("owner")
    await opened(client, "Exclusive")
    for producer_id in range(2, 5):
        await opened(client, "WaitForExclusive", producer_id)
    await client.close()
    await eventually(lambda: len(world.service.topics.loaded[TOPIC].producers) == 0)
    assert (await opened(await world.connected("owner"), "Exclusive")).topic_epoch == 1


@pytest.mark.parametrize("leaves", ["disconnects", "closes", "asks again"])
async def test_one_that_leaves_the_queue_gets_nothing(world: BrokerWorld, leaves: str) -> None:
    owner, waits, last = [await world.connected("owner") for _ in range(3)]
    await opened(owner, "Exclusive")
    await opened(waits, "WaitForExclusive", producer_name="waits")
    await opened(last, "WaitForExclusive", producer_name="last")
    if leaves == "disconnects":
        await waits.close()
        await eventually(lambda: world.service.topics.loaded[TOPIC].producers.table.waiting == 1)
    elif leaves == "closes":
        waits.say(C.CLOSE_PRODUCER, producer_id=1)
        await waits.expect("SUCCESS")
    else:
        assert await refused(waits, "WaitForExclusive", producer_name="waits") == pb.ServiceNotReady
        await opened(waits, "WaitForExclusive", producer_name="waits", epoch=1)  # behind the other
    await owner.close()
    assert (await last.expect("PRODUCER_SUCCESS")).producer_ready
    assert names(world) == ["last"]


async def test_a_fencing_producer_is_confirmed_after_what_was_published_before(world: BrokerWorld) -> None:
    owner, waits, fencing = [await world.connected("owner") for _ in range(3)]
    await opened(owner, "Exclusive", producer_name="old")
    first = await opened(waits, "WaitForExclusive")
    world.ledgers.hold()
    owner.write(send_frame(0, b"a"), send_frame(1, b"b"))
    await eventually(lambda: world.ledgers.kept_back == 1)
    fencing.say(C.PRODUCER, topic=TOPIC, producer_id=1, producer_name="new", producer_access_mode="ExclusiveWithFencing")
    error = await waits.expect("ERROR")
    assert (error.request_id, error.error) == (first.request_id, pb.ProducerFenced)
    owner.write(send_frame(2, b"too late"), send_frame(3, b"too late"))
    assert await fencing.quiet() == [] and await owner.quiet() == []
    world.ledgers.release()
    answer = await fencing.expect("PRODUCER_SUCCESS")
    assert (answer.producer_ready, answer.topic_epoch) == (True, 1)
    assert await receipts(owner, 2) == [(1, 0), (1, 1)]
    for number in (2, 3):
        refusal = await owner.expect("SEND_ERROR")
        assert (refusal.sequence_id, refusal.error) == (number, pb.PersistenceError)
    owner.write(send_frame(4, b"too late"))
    assert (await owner.expect("SEND_ERROR")).sequence_id == 4
    assert await refused(owner, "Exclusive", producer_name="old", epoch=1, topic_epoch=0) == pb.ProducerFenced
    fencing.write(send_frame(0, b"c"))
    assert await receipts(fencing, 1) == [(1, 0)]
    reader = await world.connected("owner")
    await reader.subscribe(TOPIC, permits=10)
    assert [one.text for one in await reader.messages(3)] == [b"a", b"b", b"c"]


async def test_producers_that_shared_the_topic_are_fenced_too_and_may_come_back(world: BrokerWorld) -> None:
    shares, fencing = await producing(world, producer_name="shares"), await world.connected("owner")
    assert (await opened(fencing, "ExclusiveWithFencing")).topic_epoch == 0
    shares.write(send_frame(0, b"x"))
    assert (await shares.expect("SEND_ERROR")).error == pb.PersistenceError
    assert await refused(shares, "Shared", producer_name="shares", epoch=1) == pb.ProducerBusy
    fencing.say(C.CLOSE_PRODUCER, producer_id=1)
    await fencing.expect("SUCCESS")
    assert (await shares.producer(TOPIC, producer_name="shares", epoch=2)).producer_ready
    shares.write(send_frame(0, b"x"))
    assert await receipts(shares, 1) == [(1, 0)]


async def test_an_exclusive_producer_on_a_later_try_replaces_itself(world: BrokerWorld) -> None:
    client, waits = await world.connected("owner"), await world.connected("owner")
    await opened(client, "Exclusive", producer_name="p")
    await opened(waits, "WaitForExclusive")
    again = await opened(client, "Exclusive", producer_name="p", epoch=1, topic_epoch=0)
    assert again.topic_epoch == 0
    client.write(send_frame(0, b"x"))
    assert await receipts(client, 1) == [(1, 0)] and await waits.quiet() == []


async def test_an_owner_that_disappeared_is_asked_and_replaced(make_world: MakeWorld) -> None:
    world = await make_world(keep_alive_ms=400)
    dead, client = await world.connected("owner"), await world.connected("owner")
    await opened(dead, "Exclusive", producer_name="p")
    dead.stop_reading()
    assert (await opened(client, "Exclusive", producer_name="p", epoch=1, topic_epoch=0)).topic_epoch == 0


async def test_epochs_outlive_a_crash(make_world: MakeWorld) -> None:
    world = await make_world()
    client = await world.connected("owner")
    for expected in range(3):
        assert (await opened(client, "ExclusiveWithFencing", expected)).topic_epoch == expected
    world = await make_world(after=world)
    late, client = await world.connected("owner"), await world.connected("owner")
    assert await refused(late, "Exclusive", topic_epoch=1) == pb.ProducerFenced
    assert (await opened(client, "Exclusive", topic_epoch=2)).topic_epoch == 2
    world = await make_world(after=world)
    client = await world.connected("owner")
    assert (await opened(client, "Exclusive")).topic_epoch == 3


async def test_an_unload_keeps_the_epoch_and_sends_everybody_back(world: BrokerWorld) -> None:
    owner, waits = await world.connected("owner"), await world.connected("owner")
    await opened(owner, "Exclusive", producer_name="p")
    first = await opened(waits, "WaitForExclusive", producer_name="w")
    await world.admin.topics.unload(TopicRef(topic=TOPIC))
    assert (await owner.expect("CLOSE_PRODUCER")).producer_id == 1
    error = await waits.expect("ERROR")
    assert (error.request_id, error.error) == (first.request_id, pb.ServiceNotReady)
    assert (await opened(owner, "Exclusive", producer_name="p", epoch=1, topic_epoch=0)).topic_epoch == 0
    assert not (await opened(waits, "WaitForExclusive", producer_name="w", epoch=1)).producer_ready


async def test_an_epoch_that_cannot_be_stored_is_not_given_out(world: BrokerWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    client = await producing(world)  # the topic and its ledger are there
    client.say(C.CLOSE_PRODUCER, producer_id=1)
    await client.expect("SUCCESS")
    stored = world.meta.cas_topic

    async def failing(fence: object, record: TopicRecord) -> TopicRecord:
        raise Unavailable("injected")

    monkeypatch.setattr(world.meta, "cas_topic", failing)
    assert await refused(client, "Exclusive") == pb.ServiceNotReady
    assert names(world) == []
    monkeypatch.setattr(world.meta, "cas_topic", stored)
    assert (await opened(client, "Exclusive")).topic_epoch > 0


async def test_one_that_lost_its_permission_waits_no_longer(world: BrokerWorld) -> None:
    owner, waits = await world.connected("owner"), await world.connected("writer")
    await opened(owner, "Exclusive")
    first = await opened(waits, "WaitForExclusive")
    await world.feed(("namespace", "acme/orders", {"grants": {}}))
    assert (await waits.expect("ERROR")).request_id == first.request_id
    assert world.service.topics.loaded[TOPIC].producers.table.waiting == 0
    assert await owner.quiet() == []


async def test_a_producer_on_a_websocket_is_fenced_after_its_receipts(world: BrokerWorld) -> None:
    listener, fencing = ProducerWatch(), await world.connected("owner")
    local = await world.sessions.open_producer(Principal("admin"), TOPIC, None, listener)
    world.ledgers.hold()
    local.publish([OutgoingMessage(b"a")], lambda positions, error: listener.told.append("failed" if error else "stored"))
    await eventually(lambda: world.ledgers.kept_back == 1)
    fencing.say(C.PRODUCER, topic=TOPIC, producer_id=1, producer_access_mode="ExclusiveWithFencing")
    await fencing.quiet()
    local.publish([OutgoingMessage(b"b")], lambda positions, error: listener.told.append("failed" if error else "stored"))
    world.ledgers.release()
    assert (await fencing.expect("PRODUCER_SUCCESS")).topic_epoch == 0
    await eventually(lambda: listener.told)
    assert sorted(listener.told) == ["failed", "producer_fenced", "stored"]
    assert listener.told.index("stored") < listener.told.index("producer_fenced")
    assert world.service.topics.loaded[TOPIC].ledger_list.entries == 1
    with pytest.raises(ProducerBusy):
        await world.sessions.open_producer(Principal("admin"), TOPIC, None, ProducerWatch())
