"""What limits on a whole namespace and a whole tenant do; see `test_policies.py`."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from messaging.adminrpc.policies import PolicyPreview
from messaging.adminrpc.subscriptions import SubscriptionCreate
from messaging.adminrpc.topics import TopicCreate, TopicDelete
from messaging.errors import PreconditionFailed
from messaging.permissions.model import Principal
from messaging.protocol import pulsar_pb2 as pb
from messaging.protocol.names import parse_topic
from messaging.storage.ledger_store import EARLIEST
from tests.support.brokers.storage_broker import Inbox
from tests.support.clients.raw_client import RawClient, send_frame
from tests.support.policies import set_policies
from tests.support.waiting import eventually
from tests.support.worlds.broker_world import BrokerWorld, MakeWorld

HERE, THERE, ELSEWHERE = (f"persistent://{place}" for place in ("acme/orders/t", "acme/orders/u", "acme/others/t"))
C = pb.Command


@pytest.fixture(autouse=True)
async def another_namespace(world: BrokerWorld) -> None:
    await world.feed(("namespace", "acme/others", {}))


async def opened(client: RawClient, topic: str, number: int, name: str = "") -> str:
    """What a producer is told."""
    client.say(C.PRODUCER, topic=topic, producer_id=number, **({"producer_name": name} if name else {}))
    answer = await client.next()
    return answer.name if answer.name == "PRODUCER_SUCCESS" else f"{pb.Error.Name(answer.body.error)}: {answer.body.message}"


async def subscribed(client: RawClient, topic: str, number: int, name: str = "s", **fields: Any) -> str:
    client.say(C.SUBSCRIBE, topic=topic, consumer_id=number, subscription=name, sub_type=pb.Subscribe.Shared, **fields)
    answer = await client.next()
    return answer.name if answer.name == "SUCCESS" else f"{pb.Error.Name(answer.body.error)}: {answer.body.message}"


async def test_policy_max_producers_per_namespace_counts_all_its_topics(world: BrokerWorld) -> None:
    await set_policies(world, max_producers_per_namespace=2)
    client = await world.connected("owner")
    assert await opened(client, HERE, 1, "first") == "PRODUCER_SUCCESS"
    assert await opened(client, THERE, 2) == "PRODUCER_SUCCESS"
    refused = await opened(client, HERE, 3)
    assert refused.startswith("ProducerBusy: namespace acme/orders has 2 producers, which is max_producers_per_namespace = 2")
    assert f"set on the {world.policy_level}: close some, or raise it there" in refused
    assert await opened(client, ELSEWHERE, 4) == "PRODUCER_SUCCESS"
    client.say(C.CLOSE_PRODUCER, producer_id=2)
    await client.expect("SUCCESS")
    assert await opened(client, HERE, 5) == "PRODUCER_SUCCESS"
    await set_policies(world)
    assert await opened(client, HERE, 6) == "PRODUCER_SUCCESS"


async def test_policy_max_producers_per_tenant_counts_all_its_namespaces(world: BrokerWorld) -> None:
    await set_policies(world, max_producers_per_tenant=2)
    client = await world.connected("owner")
    assert await opened(client, HERE, 1) == "PRODUCER_SUCCESS"
    assert await opened(client, ELSEWHERE, 2) == "PRODUCER_SUCCESS"
    assert (await opened(client, THERE, 3)).startswith(
        "ProducerBusy: tenant acme has 2 producers, which is max_producers_per_tenant"
    )
    stranger = await world.connected("stranger")
    assert await opened(stranger, "persistent://other/things/t", 1) == "PRODUCER_SUCCESS"


async def test_policy_max_consumers_per_namespace_counts_readers_too(world: BrokerWorld) -> None:
    await set_policies(world, max_consumers_per_namespace=2)
    client = await world.connected("owner")
    assert await subscribed(client, HERE, 1) == "SUCCESS"
    assert await subscribed(client, THERE, 2, "reader", durable=False) == "SUCCESS"
    refused = "ConsumerBusy: namespace acme/orders has 2 consumers, which is max_consumers_per_namespace = 2"
    assert (await subscribed(client, HERE, 3)).startswith(refused)
    assert (await subscribed(client, HERE, 3, "reader", durable=False)).startswith(refused)
    topic = await world.service.topics.get(parse_topic(HERE), create=False)
    assert len(topic.subscriptions.table) == 1, "a reader that was refused leaves nothing"
    assert await subscribed(client, ELSEWHERE, 4) == "SUCCESS"
    client.say(C.CLOSE_CONSUMER, consumer_id=1)
    await client.expect("SUCCESS")
    assert await subscribed(client, HERE, 3) == "SUCCESS"


async def test_policy_max_consumers_per_tenant_counts_all_its_namespaces(world: BrokerWorld) -> None:
    await set_policies(world, max_consumers_per_tenant=1)
    client = await world.connected("owner")
    assert await subscribed(client, ELSEWHERE, 1) == "SUCCESS"
    assert (await subscribed(client, HERE, 2)).startswith("ConsumerBusy: tenant acme has 1 consumer,")
    with pytest.raises(Exception, match="max_consumers_per_tenant = 1"):
        await world.sessions.open_consumer(Principal("admin"), HERE, "ws", "Shared", "latest", True, None, Inbox())


async def test_policy_max_subscriptions_per_namespace_counts_what_is_stored(world: BrokerWorld) -> None:
    client = await world.connected("owner")
    assert await subscribed(client, HERE, 1, "before") == "SUCCESS"
    await set_policies(world, max_subscriptions_per_namespace=2)
    assert await subscribed(client, THERE, 2, "second") == "SUCCESS"
    await world.service.topics.unload(parse_topic(THERE))
    await client.expect("CLOSE_CONSUMER")
    refused = "NotAllowedError: namespace acme/orders has 2 subscriptions, which is max_subscriptions_per_namespace = 2"
    assert (await subscribed(client, HERE, 3, "third")).startswith(refused)
    with pytest.raises(PreconditionFailed, match="delete unused ones, or raise it there"):
        await world.admin.subscriptions.create(SubscriptionCreate(topic=HERE, subscription="third"))
    assert await subscribed(client, HERE, 4, "before") == "SUCCESS"
    assert await subscribed(client, HERE, 5, "reader", durable=False) == "SUCCESS"
    assert await subscribed(client, ELSEWHERE, 6, "third") == "SUCCESS"
    await world.admin.topics.delete(TopicDelete(topic=THERE, force=True))
    assert await subscribed(client, HERE, 3, "third") == "SUCCESS"
    assert (await subscribed(client, HERE, 7, "fourth")).startswith(refused)


async def test_policy_max_subscriptions_per_tenant_counts_all_its_namespaces(world: BrokerWorld) -> None:
    await set_policies(world, max_subscriptions_per_tenant=2)
    client = await world.connected("owner")
    assert await subscribed(client, HERE, 1) == "SUCCESS"
    assert await subscribed(client, ELSEWHERE, 2) == "SUCCESS"
    assert (await subscribed(client, THERE, 3)).startswith("NotAllowedError: tenant acme has 2 subscriptions")
    topic = await world.service.topics.get(parse_topic(HERE), create=False)
    await topic.subscriptions.delete("s")
    await client.expect("CLOSE_CONSUMER")
    assert await subscribed(client, THERE, 3) == "SUCCESS"


async def test_policy_max_topics_per_tenant_refuses_one_more_by_use_and_by_request(world: BrokerWorld) -> None:
    await set_policies(world, max_topics_per_tenant=2)
    client = await world.connected("owner")
    assert await opened(client, HERE, 1) == "PRODUCER_SUCCESS"
    assert await opened(client, ELSEWHERE, 2) == "PRODUCER_SUCCESS"
    assert (await opened(client, THERE, 3)).startswith(
        "NotAllowedError: tenant acme has 2 topics; 1 more would exceed max_topics_per_tenant = 2"
    )
    with pytest.raises(PreconditionFailed, match="max_topics_per_tenant = 2"):
        await world.admin.topics.create(TopicCreate(topic=THERE))


# --- exactly


async def test_many_at_once_get_as_many_as_there_is_room_for(world: BrokerWorld) -> None:
    await set_policies(world, max_subscriptions_per_namespace=5, max_consumers_per_namespace=7)
    topics = [await world.service.topics.get(parse_topic(name), create=True) for name in (HERE, THERE)]
    made = await asyncio.gather(
        *(topic.subscriptions.create(f"s{number}", EARLIEST) for number in range(10) for topic in topics),
        return_exceptions=True,
    )
    assert sum(not isinstance(one, Exception) for one in made) == 5
    assert sum(len(topic.subscriptions.table) for topic in topics) == 5
    clients = [await world.connected("owner") for _ in range(9)]
    answers = await asyncio.gather(*(subscribed(client, HERE, 1, "reader", durable=False) for client in clients))
    assert sum(answer == "SUCCESS" for answer in answers) == 7
    assert world.service.topics.services.limits.consumers.of("acme/orders") == 7


async def test_what_leaves_in_any_way_is_counted_no_more(world: BrokerWorld) -> None:
    services = world.service.topics.services
    first, second = await world.connected("owner"), await world.connected("owner")
    for number, client in enumerate((first, second)):
        assert await opened(client, HERE, 1, f"p{number}") == "PRODUCER_SUCCESS"
        assert await subscribed(client, HERE, 1) == "SUCCESS"
    assert (services.limits.producers.of("acme"), services.limits.consumers.of("acme")) == (2, 2)
    await first.close()
    await eventually(lambda: (services.limits.producers.of("acme"), services.limits.consumers.of("acme")) == (1, 1))
    await world.service.topics.unload(parse_topic(HERE))
    assert (services.limits.producers.of("acme"), services.limits.consumers.of("acme")) == (0, 0)


async def test_a_producer_that_connects_again_is_counted_once(world: BrokerWorld) -> None:
    await set_policies(world, max_producers_per_namespace=1)
    first = await world.connected("owner")
    assert await opened(first, HERE, 1, "mine") == "PRODUCER_SUCCESS"
    await first.close()
    second = await world.connected("owner")
    assert await opened(second, HERE, 1, "mine") == "PRODUCER_SUCCESS"
    assert world.service.topics.services.limits.producers.of("acme/orders") == 1
    second.write(send_frame(0, b"x"))
    await second.expect("SEND_RECEIPT")


async def test_the_brokers_own_topics_are_not_limited(make_world: MakeWorld) -> None:
    world = await make_world()
    await world.feed(("tenant", "magnetar", {"policies": {"max_producers_per_tenant": 1, "max_consumers_per_tenant": 1}}))
    for _ in range(3):
        await world.sessions.round_trip()


# --- previews


async def previewed(world: BrokerWorld, place: dict[str, str], **policies: int) -> list[tuple[str, int, str]]:
    found = await world.admin.policies.preview(PolicyPreview(policies=policies, **place))
    return [(one.policy, one.affected, one.sentence) for one in found.effects]


async def test_a_preview_says_who_would_be_refused(world: BrokerWorld) -> None:
    client = await world.connected("owner")
    for number, topic in enumerate((HERE, THERE, ELSEWHERE)):
        assert await opened(client, topic, number) == "PRODUCER_SUCCESS"
        assert await subscribed(client, topic, number) == "SUCCESS"
    orders, acme = {"namespace": "acme/orders"}, {"tenant": "acme"}
    assert await previewed(world, orders, max_producers_per_namespace=1, max_consumers_per_namespace=2) == [
        ("max_producers_per_namespace", 1, "1 of 2 producers of namespace acme/orders would be refused when connecting again")
    ]
    assert await previewed(world, acme, max_producers_per_tenant=1, max_subscriptions_per_namespace=1) == [
        (
            "max_subscriptions_per_namespace",
            1,
            "2 subscriptions of namespace acme/orders would stay, and no other could be created",
        ),
        ("max_producers_per_tenant", 2, "2 of 3 producers of tenant acme would be refused when connecting again"),
    ]
    assert await previewed(world, acme, max_topics_per_tenant=2) == [
        ("max_topics_per_tenant", 1, "3 topics of tenant acme would stay, and no other could be created")
    ]
    assert await previewed(world, acme, max_topics_per_tenant=3) == []
    assert [one[1:] for one in await previewed(world, acme, max_namespaces_per_tenant=1)] == [
        (2, "3 namespaces of tenant acme would stay, and no other could be created")
    ]
    assert await previewed(world, acme, max_consumers_per_topic=0, max_producers_per_topic=0) == []
