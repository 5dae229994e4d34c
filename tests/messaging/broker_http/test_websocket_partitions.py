"""WebSockets on a partitioned topic: one consumer, reader or producer over all partitions."""

from __future__ import annotations

import pytest

from messaging.adminrpc.feed import FeedApply, FeedChange
from messaging.adminrpc.subscriptions import DeadLetterPolicySet
from messaging.broker.http.websocket import producer as producer_module
from messaging.broker.runtime.admin.handlers import AdminHandlers
from messaging.broker.runtime.detach import DetachWorker
from messaging.broker.runtime.local import topic_consumer
from messaging.broker.runtime.local.sessions import LocalSessions
from messaging.broker.runtime.topics.partitions.partition_topics import PartitionTopics
from messaging.errors import NotReady
from messaging.message_id import decode_message_id
from messaging.permissions.model import Principal
from messaging.protocol.names import parse_topic
from tests.messaging.broker_http.addresses import CONSUMER, PRODUCER, READER, TOPIC
from tests.support.brokers.http_edge import ROLES, Edge, changes, receive_json, running_edge, send_json
from tests.support.clients.batches import single, store
from tests.support.clients.websocket_peer import close_of
from tests.support.waiting import eventually

NAME = parse_topic(TOPIC)
SHARED = CONSUMER + "?subscriptionType=Shared"


async def partitioned(edge: Edge, partitions: int) -> None:
    await edge.broker.topics.partitioned.create(NAME, partitions, {})


async def publish_on(edge: Edge, partition: int, count: int) -> None:
    """`count` messages of one entry each."""
    for _ in range(count):
        await store(edge.broker, str(NAME.of_partition(partition)), single(b"x"), 1)


def partition_of(message: dict[str, str]) -> int:
    return decode_message_id(message["messageId"]).partition


def consumers(edge: Edge) -> int:
    return sum(len(one.consumers) for topic in edge.topics.values() for one in topic.subscriptions.table.values())


def held(edge: Edge, partitions: int) -> int:
    """Messages that consumers of the subscription have been given and did not acknowledge."""
    return sum(
        consumer.unacked_messages
        for number in range(partitions)
        for consumer in edge.subscription(str(NAME.of_partition(number))).consumers
    )


def backlogs(edge: Edge, partitions: int) -> list[int]:
    return [edge.subscription(str(NAME.of_partition(number))).backlog_entries for number in range(partitions)]


async def test_a_window_is_one_of_all_partitions(edge: Edge) -> None:
    """Twenty partitions have a backlog: the consumers behind a window of three hold three messages, not one or more each."""
    await partitioned(edge, 20)
    for number in range(20):
        await publish_on(edge, number, 2)
    seen: dict[int, int] = {}
    async with edge.connect(SHARED + "&receiverQueueSize=3&subscriptionInitialPosition=Earliest") as consumer:
        for _ in range(40):
            message = await receive_json(consumer)
            seen[partition_of(message)] = seen.get(partition_of(message), 0) + 1
            assert held(edge, 20) <= 4  # one of them is being acknowledged
            await send_json(consumer, messageId=message["messageId"])
        await eventually(lambda: not any(backlogs(edge, 20)))
    assert seen == dict.fromkeys(range(20), 2)


async def test_permits_in_pull_mode_are_for_all_partitions(edge: Edge) -> None:
    await partitioned(edge, 4)
    async with edge.connect(SHARED + "&pullMode=true") as consumer:
        for number in range(4):
            await publish_on(edge, number, 2)
        assert held(edge, 4) == 0
        for permits in (1, 5, 2):
            before = held(edge, 4)
            await send_json(consumer, type="permit", permitMessages=permits)
            for _ in range(permits):
                await receive_json(consumer)
            await send_json(consumer, type="isEndOfTopic")
            assert await receive_json(consumer) == {"endOfTopic": False}  # and no message before it
            assert held(edge, 4) == before + permits


async def test_a_partition_with_much_does_not_keep_the_others_back(edge: Edge) -> None:
    await partitioned(edge, 3)
    await publish_on(edge, 0, 500)
    seen = []
    async with edge.connect(SHARED + "&receiverQueueSize=30&subscriptionInitialPosition=Earliest") as consumer:
        for number in range(60):
            if number == 10:
                await publish_on(edge, 1, 1)
                await publish_on(edge, 2, 1)
            message = await receive_json(consumer)
            seen.append(partition_of(message))
            await send_json(consumer, messageId=message["messageId"])
    assert {0, 1, 2} <= set(seen[:50])


async def test_a_large_batch_comes_whole_through_a_window_of_one(edge: Edge) -> None:
    """It is more than was asked for, of all partitions together: nothing else is sent until it is used up, and then the rest is."""
    await partitioned(edge, 3)
    await store(edge.broker, str(NAME.of_partition(1)), b"".join(map(single, [b"b"] * 50)), 50)
    for number in range(3):
        await publish_on(edge, number, 3)
    async with edge.connect(SHARED + "&receiverQueueSize=1&subscriptionInitialPosition=Earliest") as consumer:
        for _ in range(59):
            await send_json(consumer, messageId=(await receive_json(consumer))["messageId"])
        await eventually(lambda: not any(backlogs(edge, 3)))


async def test_messages_that_are_too_many_for_a_slow_peer_wait_in_their_partitions(edge: Edge) -> None:
    """Ten partitions, and a peer that has not taken its first message: the queue is bounded for all of them together."""
    await partitioned(edge, 10)
    for number in range(10):
        for _ in range(20):
            await store(edge.broker, str(NAME.of_partition(number)), single(bytes(128 << 10)), 1)
    egress = edge.broker.memory_limiter.egress
    async with edge.connect(SHARED + "&subscriptionInitialPosition=Earliest", max_queue=1, max_size=None) as consumer:
        for _ in range(200):
            message = await receive_json(consumer)
            assert egress.used_bytes < 12 << 20
            await send_json(consumer, messageId=message["messageId"])
    await eventually(lambda: not egress.used_bytes)


async def test_partitions_that_are_added_are_consumed(edge: Edge) -> None:
    await partitioned(edge, 1)
    async with edge.connect(SHARED) as consumer, edge.connect(READER) as reader:
        await edge.broker.topics.partitioned.grow(NAME, 3)
        for number in range(3):
            await publish_on(edge, number, 1)
        assert sorted([partition_of(await receive_json(consumer)) for _ in range(3)]) == [0, 1, 2]
        assert sorted([partition_of(await receive_json(reader)) for _ in range(3)]) == [0, 1, 2]
    await edge.broker.topics.partitioned.grow(NAME, 4)  # nobody follows it any more
    assert not edge.broker.topics.loaded.get(str(NAME.of_partition(3)))


async def test_partitions_are_consumed_that_a_second_attempt_added(edge: Edge, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first one stored how many there will be and then failed; the second makes them before it looks at what was asked for."""
    await partitioned(edge, 1)
    async with edge.connect(SHARED) as consumer:
        topics = edge.broker.topics.partitioned

        async def refused(*_: object) -> None:
            raise NotReady("the store is not there")

        with monkeypatch.context() as failing:
            failing.setattr(PartitionTopics, "make", refused)
            with pytest.raises(NotReady):
                await topics.grow(NAME, 2)
        await topics.grow(NAME, 2)
        await publish_on(edge, 1, 1)
        assert partition_of(await receive_json(consumer)) == 1


async def test_partitions_that_are_added_are_published_to(edge: Edge) -> None:
    await partitioned(edge, 1)
    async with edge.connect(PRODUCER + "?messageRoutingMode=RoundRobinPartition") as producer:
        await edge.broker.topics.partitioned.grow(NAME, 3)
        partitions = set()
        for _ in range(3):
            await send_json(producer, payload="AQ==")
            partitions.add(partition_of(await receive_json(producer)))
        assert partitions == {0, 1, 2}


async def test_a_consumer_outlives_an_unload_of_its_topic(edge: Edge) -> None:
    """What it acknowledges while its partitions are closed is acknowledged; what it was not sent comes once."""
    await partitioned(edge, 2)
    async with edge.connect(SHARED + "&receiverQueueSize=4&subscriptionInitialPosition=Earliest") as consumer:
        for number in range(2):
            await publish_on(edge, number, 3)
        messages = [await receive_json(consumer) for _ in range(4)]
        await send_json(consumer, messageId=messages[0]["messageId"])
        for number in range(2):
            await edge.broker.topics.unload(NAME.of_partition(number))
        for message in messages[1:]:
            await send_json(consumer, messageId=message["messageId"])
        seen = {message["messageId"] for message in messages}
        while len(seen) < 6:
            message = await receive_json(consumer)
            seen.add(message["messageId"])
            await send_json(consumer, messageId=message["messageId"])
        await eventually(lambda: backlogs(edge, 2) == [0, 0])
        assert edge.broker.memory_limiter.egress.used_bytes == 0


async def test_what_comes_again_after_an_unload_takes_one_place_of_the_window(edge: Edge) -> None:
    """The client never acknowledges, and the timeout gives back one place for a message, however often it was sent."""
    async with edge.connect(SHARED + "&receiverQueueSize=2&ackTimeoutMillis=600000") as consumer:
        await store(edge.broker, TOPIC, single(b"x"), 1)
        first = await receive_json(consumer)
        for _ in range(3):
            await edge.broker.topics.unload(NAME)
            assert (await receive_json(consumer))["messageId"] == first["messageId"]
        await store(edge.broker, TOPIC, single(b"y"), 1)
        assert (await receive_json(consumer))["payload"] == "eQ=="


async def test_a_consumer_tries_again_until_it_may_be_opened(edge: Edge) -> None:
    """Somebody else has its subscription when its topic is loaded again."""
    async with edge.connect(CONSUMER) as consumer:
        inbox = _Nobody()
        await edge.broker.topics.unload(NAME)
        other = await LocalSessions(edge.broker).open_consumer(
            Principal("admin"), TOPIC, "billing", "Exclusive", "latest", True, None, inbox
        )
        await store(edge.broker, TOPIC, single(b"x"), 1)
        other.close()
        await send_json(consumer, messageId=(await receive_json(consumer))["messageId"])
        await eventually(lambda: edge.acknowledged(TOPIC) == {0})


async def test_a_reader_at_the_end_misses_nothing_over_an_unload(edge: Edge) -> None:
    """It had been sent nothing, so that no message says how far it was."""
    async with edge.connect(READER) as reader:
        await edge.broker.topics.unload(NAME)
        await store(edge.broker, TOPIC, single(b"x"), 1)
        assert (await receive_json(reader))["payload"] == "eA=="


async def test_the_end_of_a_permission_on_one_partition_ends_the_consumer() -> None:
    async with running_edge() as edge:
        topic = parse_topic("persistent://acme/orders/new")
        await edge.broker.topics.partitioned.create(topic, 2, {})
        path = "/ws/v2/consumer/persistent/acme/orders/new/s"
        for role, status in ("writer@acme", 403), ("someone@other", 403), ("nobody@acme", 401):
            headers = {"Authorization": f"Bearer {edge.token(role)}"}
            assert (await edge.refused(path, additional_headers=headers))[0] == status
        assert not edge.topics, "nothing was opened before that was decided"
        headers = {"Authorization": f"Bearer {edge.token('reader@acme')}"}
        async with edge.connect(path, additional_headers=headers) as consumer:
            revoked = [
                FeedChange(version=2, kind=one.kind, key=one.key, state={**one.state, "grants": {}})
                for one in changes()
                if one.key == "acme/orders" and one.state is not None
            ]
            await edge.broker.access.feed.apply(FeedApply(from_version=1, to_version=2, full=False, changes=revoked))
            code, _ = await close_of(consumer)
            assert code == 1008
        await eventually(lambda: not consumers(edge))


async def test_a_producer_of_partitions_asks_for_its_permission() -> None:
    async with running_edge() as edge:
        await edge.broker.topics.partitioned.create(parse_topic("persistent://acme/orders/new"), 2, {})
        for role in ROLES:
            headers = {"Authorization": f"Bearer {edge.token(role)}"}
            path = "/ws/v2/producer/persistent/acme/orders/new"
            if role in ("admin", "writer@acme", "app@acme"):
                async with edge.connect(path, additional_headers=headers):
                    continue
            assert (await edge.refused(path, additional_headers=headers))[0] == 403


async def test_unsubscribing_takes_all_partitions_or_none(edge: Edge) -> None:
    await partitioned(edge, 3)
    part = SHARED.replace("/orders/", "/orders-partition-2/")
    async with edge.connect(SHARED) as consumer, edge.connect(part):
        await send_json(consumer, type="unsubscribe")
        assert (await close_of(consumer))[0] == 1011
        assert all(edge.subscription(str(NAME.of_partition(number))) for number in range(3))
    async with edge.connect(SHARED) as consumer:
        await send_json(consumer, type="unsubscribe")
        await eventually(lambda: not any(edge.topics[str(NAME.of_partition(number))].subscriptions.table for number in range(3)))


async def test_consumers_of_partitions_count_as_memory_of_their_tenant(edge: Edge, monkeypatch: pytest.MonkeyPatch) -> None:
    await partitioned(edge, 8)
    sessions = edge.broker.memory_limiter.sessions
    async with edge.connect(SHARED):
        assert sessions.tenants["public"] >= 8 * topic_consumer.PART_BYTES
    await eventually(lambda: not sessions.used_bytes)
    monkeypatch.setattr(topic_consumer, "PART_BYTES", sessions.limit_bytes)
    monkeypatch.setattr(sessions, "used_bytes", 1)
    status, body = await edge.refused(SHARED)
    assert status == 503 and "name one partition" in body["message"]
    assert not consumers(edge)


async def test_whoever_comes_while_a_client_of_many_partitions_leaves_has_its_place(
    edge: Edge, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is not detached yet holds no subscription and no name."""
    await partitioned(edge, 3)
    detached: list[DetachWorker] = []
    producer = PRODUCER + "?producerName=p&messageRoutingMode=RoundRobinPartition"
    async with edge.connect(CONSUMER), edge.connect(producer) as publishing:
        for _ in range(3):
            await send_json(publishing, payload="AQ==")
            await receive_json(publishing)
        monkeypatch.setattr(DetachWorker, "begin", lambda worker: detached.append(worker))
    await eventually(lambda: len(detached) == 2)
    async with edge.connect(CONSUMER) as consumer, edge.connect(producer) as publishing:
        for _ in range(6):
            await send_json(consumer, messageId=(await receive_json(consumer))["messageId"])
            await send_json(publishing, payload="AQ==")
            assert (await receive_json(publishing))["result"] == "ok"
        while any(worker.work() for worker in detached):
            pass
        assert consumers(edge) == 3


async def test_a_producer_opens_no_more_partitions_than_there_is_memory_for(edge: Edge, monkeypatch: pytest.MonkeyPatch) -> None:
    await partitioned(edge, 8)
    async with edge.connect(PRODUCER + "?messageRoutingMode=RoundRobinPartition") as producer:
        monkeypatch.setattr(producer_module, "PRODUCER_BYTES", edge.broker.memory_limiter.sessions.limit_bytes)
        await send_json(producer, payload="AQ==", context="1")
        answer = await receive_json(producer)
        assert (answer["result"], answer["context"]) == ("send-error:8", "1")
        assert "name one partition" in answer["errorMsg"]
    await eventually(lambda: not edge.broker.memory_limiter.sessions.used_bytes)


async def test_a_producer_opens_the_partitions_that_it_publishes_to(edge: Edge) -> None:
    await partitioned(edge, 100)
    async with edge.connect(PRODUCER) as producer:
        for key in "abcabc":
            await send_json(producer, payload="AQ==", key=key)
            assert partition_of(await receive_json(producer)) == ord(key)
        assert 3 <= len(edge.sessions.producers) <= 4


async def test_a_partition_that_is_refused_at_the_opening_refuses_all(edge: Edge) -> None:
    await partitioned(edge, 3)
    taken = CONSUMER.replace("/orders/", "/orders-partition-1/")
    async with edge.connect(taken):
        assert (await edge.refused(CONSUMER))[0] == 409
    await eventually(lambda: not consumers(edge))


async def test_what_is_rejected_too_often_becomes_a_dead_letter(edge: Edge) -> None:
    await partitioned(edge, 2)
    async with edge.connect(SHARED + "&negativeAckRedeliveryDelay=1") as consumer:
        for number in range(2):
            policy = DeadLetterPolicySet(
                topic=str(NAME.of_partition(number)),
                subscription="billing",
                max_redeliver_count=1,
                owner="admin",
                target=f"{TOPIC}-dead",
            )
            await AdminHandlers(edge.broker).dead_letters.set(policy)
            await publish_on(edge, number, 1)
        for _ in range(4):
            message = await receive_json(consumer)
            await send_json(consumer, type="negativeAcknowledge", messageId=message["messageId"])
        await eventually(lambda: f"{TOPIC}-dead" in edge.topics and edge.entries(f"{TOPIC}-dead") == 2)
        await eventually(lambda: backlogs(edge, 2) == [0, 0])


class _Nobody:
    def deliver(self, messages: object) -> None: ...

    def closed(self, error: object) -> None: ...

    def end_of_topic(self) -> None: ...
