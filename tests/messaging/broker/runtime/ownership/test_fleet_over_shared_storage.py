"""Several brokers that all store in one database: any of them serves any topic, and takes it over from one that is gone."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

from messaging.broker.runtime.metering.setup import MeteredBundles
from messaging.broker.runtime.ownership.balancer import Balancer
from messaging.broker.runtime.ownership.shared_member import SharedMember
from messaging.broker.usage.record import TopicTotals
from messaging.client import Client, connect
from messaging.protocol.bundles import Bundle, equal_bundles, position_of
from messaging.protocol.names import parse_topic
from messaging.storage.ownership import OwnershipRow
from tests.support.brokers.fleet import shared_broker, shared_fleet
from tests.support.brokers.running_broker import RunningBroker
from tests.support.waiting import eventually

TOPICS = [f"persistent://acme/orders/t{number}" for number in range(12)]


def served(broker: RunningBroker) -> set[str]:
    return {text for text in broker.service.topics.loaded if "://acme/" in text}


def client_of(broker: RunningBroker) -> Client:
    return connect(broker.service.addresses.broker_url, broker.token("owner"))


async def publish(client: Client, topics: list[str], text: str) -> None:
    for topic in topics:
        async with client.producer(topic) as producer:
            await producer.send(f"{text} {topic}".encode())


async def read(client: Client, topic: str, count: int) -> list[str]:
    async with client.consumer(topic, "reading", initial="earliest", ack_receipts=True) as consumer:
        received = []
        for _ in range(count):
            message = await consumer.receive()
            received.append(message.payload.decode())
            await consumer.ack(message)
    return received


async def test_topics_are_divided_and_found_whichever_broker_is_asked(tmp_path: Path, metadata_url: str) -> None:
    async with shared_fleet(tmp_path, metadata_url, 2) as fleet:
        for number, broker in enumerate(fleet):
            async with client_of(broker) as client:
                await publish(client, TOPICS, str(number))
        assert all(served(broker) for broker in fleet)
        assert not served(fleet[0]) & served(fleet[1])
        async with client_of(fleet[0]) as client:
            for topic in TOPICS:
                assert await read(client, topic, 2) == [f"{number} {topic}" for number in range(2)]


async def test_a_broker_that_has_just_started_is_given_nothing_before_it_knows_the_tenants(
    tmp_path: Path, metadata_url: str
) -> None:
    async with (
        shared_broker(tmp_path, metadata_url, 1) as first,
        shared_broker(tmp_path, metadata_url, 2, told=False) as second,
        client_of(first) as client,
    ):
        owners = first.service.owners
        assert isinstance(owners, SharedMember)
        await owners.look()
        assert owners.owners.sessions["machine-2"].untold
        await publish(client, TOPICS[:6], "0")
        assert served(first) == set(TOPICS[:6])
        await second.tell()

        async def told() -> bool:
            await owners.look()
            return owners.owners.sessions["machine-2"].takes

        await eventually(told)


async def test_another_broker_goes_on_where_one_was_stopped(tmp_path: Path, metadata_url: str) -> None:
    async with shared_broker(tmp_path, metadata_url, 1) as second:
        async with shared_broker(tmp_path, metadata_url, 2) as first, client_of(first) as client:
            await publish(client, TOPICS, "a")
            await publish(client, TOPICS, "b")
            for topic in TOPICS:
                assert await read(client, topic, 1) == [f"a {topic}"]
        async with client_of(second) as client:
            for topic in TOPICS:
                assert await read(client, topic, 1) == [f"b {topic}"], "what was acknowledged does not come again"


async def test_a_broker_that_was_taken_for_gone_acknowledges_nothing_more(tmp_path: Path, metadata_url: str) -> None:
    async with shared_fleet(tmp_path, metadata_url, 2) as fleet:
        first, second = fleet
        async with client_of(first) as client:
            await publish(client, TOPICS, "a")
            await publish(client, TOPICS, "b")
            for topic in TOPICS:
                assert await read(client, topic, 1) == [f"a {topic}"]
        gone, taker = first.service.owners, second.service.owners
        assert isinstance(gone, SharedMember) and isinstance(taker, SharedMember)
        await taker.end_session("machine-1", gone.session, gone=True)
        async with client_of(second) as client:
            for each in TOPICS:
                await publish(client, [each], "c")
                assert await read(client, each, 2) == [f"b {each}", f"c {each}"]
        assert served(second) == set(TOPICS)
        stored = asyncio.get_running_loop().create_future()
        first.service.cursors.append(1, b"\x02" + bytes(16), stored.set_result)
        assert "does not own" in str(await stored)
        await asyncio.wait_for(gone.lost.wait(), 20)


async def test_a_bundle_moves_while_clients_use_it(tmp_path: Path, metadata_url: str) -> None:
    async with shared_fleet(tmp_path, metadata_url, 2) as fleet:
        first, second = fleet
        async with client_of(first) as client:
            await publish(client, TOPICS[:1], "0")
        giver = first if served(first) else second
        taker = second if giver is first else first
        member = giver.service.owners
        assert isinstance(member, SharedMember) and giver.service.bundle_moves is not None
        row = next(row for row in member.owners.owned_by(member.broker_id) if TOPICS[0] in served(giver) and holds(row, TOPICS[0]))
        async with (
            client_of(first) as client,
            client.producer(TOPICS[0]) as producer,
            client.consumer(TOPICS[0], "reading", initial="earliest", ack_receipts=True) as consumer,
        ):
            received = []
            for number in range(1, 100):
                await producer.send(f"{number} {TOPICS[0]}".encode())
                message = await consumer.receive()
                received.append(message.payload.decode())
                await consumer.ack(message)
                if number == 50:
                    await giver.service.bundle_moves.give(row.bundle, taker.service.settings.broker_id)
        assert received == [f"{number} {TOPICS[0]}" for number in range(99)]
        assert served(taker) >= {TOPICS[0]} and not served(giver)


async def test_a_broker_that_stops_gives_its_bundles_away_first(tmp_path: Path, metadata_url: str) -> None:
    async with shared_broker(tmp_path, metadata_url, 1) as staying:
        async with shared_broker(tmp_path, metadata_url, 2) as leaving:
            async with client_of(leaving) as client:
                await publish(client, TOPICS, "a")
            had = served(leaving)
            assert had
        owners = staying.service.owners
        assert isinstance(owners, SharedMember)
        await owners.look()
        rows = owners.owners.owned_by("machine-2")
        assert not rows, "nobody has to recover anything"
        assert {row.broker_id for row in owners.owners.owned_by("machine-1")} == {"machine-1"}


async def test_bundles_are_cut_while_their_topics_are_served(tmp_path: Path, metadata_url: str) -> None:
    async with shared_broker(tmp_path, metadata_url, 1) as broker, client_of(broker) as client:
        await publish(client, TOPICS, "a")
        moves, member = broker.service.bundle_moves, broker.service.owners
        assert isinstance(member, SharedMember) and moves is not None
        before = dict(broker.service.topics.loaded)
        await moves.follow_boundaries(lambda namespace: equal_bundles(16))
        assert {row.bundle.upper - row.bundle.lower for row in member.owners.owned_by("machine-1")} <= {2**28, 2**28 - 1}
        await publish(client, TOPICS, "b")
        assert broker.service.topics.loaded == before, "none was loaded again"
        for topic in TOPICS:
            assert await read(client, topic, 2) == [f"a {topic}", f"b {topic}"]


async def test_the_first_broker_moves_what_is_too_much_for_one(tmp_path: Path, metadata_url: str) -> None:
    async with shared_broker(tmp_path, metadata_url, 1) as first, client_of(first) as client:
        await publish(client, TOPICS, "a")
        async with shared_broker(tmp_path, metadata_url, 2) as second:
            member = first.service.owners
            assert isinstance(member, SharedMember)
            await member.look()
            balancer = Balancer(member, lambda method, request: first.admin.methods[method.name](request), lambda: 0)
            await balancer.look()
            assert served(first) < set(TOPICS)
            for topic in TOPICS:
                assert await read(client, topic, 1) == [f"a {topic}"]
            assert served(first) and served(second)


async def test_what_quiet_topics_hold_is_metered_by_their_owner_alone(tmp_path: Path, metadata_url: str) -> None:
    async with shared_fleet(tmp_path, metadata_url, 2) as fleet:
        async with client_of(fleet[0]) as client:
            await publish(client, TOPICS, "a")
        for broker in fleet:
            for topic in served(broker):
                await broker.service.topics.unload(parse_topic(topic))
        giver, taker = fleet if rows_of(fleet[0]) else reversed(fleet)
        usage, recording = UsageOfQuietTopics(), taker.service.metering.usage
        taker.service.metering.usage = usage  # type: ignore[assignment]  # the part of it that is asked
        passed_s = iter(range(0, 10_000, 100))  # each time long after the last
        metered = MeteredBundles(taker.service, lambda: next(passed_s))
        await metered.follow(rows_of(taker))
        before = set(usage.resting)
        assert before == {topic for topic in TOPICS if any(holds(row, topic) for row in rows_of(taker))}
        moves, moved = giver.service.bundle_moves, rows_of(giver)
        assert moves is not None
        for row in moved:
            await moves.give(row.bundle, taker.service.settings.broker_id)
        assert isinstance(taker.service.owners, SharedMember)
        await taker.service.owners.look()
        await metered.follow(rows_of(taker))
        assert set(usage.resting) == set(TOPICS) and min(usage.resting.values()) > 0
        back = taker.service.bundle_moves
        assert back is not None
        for row in [row for row in rows_of(taker) if row.bundle in {each.bundle for each in moved}]:
            await back.give(row.bundle, giver.service.settings.broker_id)
        await metered.follow(rows_of(taker))
        assert set(usage.resting) == before
        taker.service.metering.usage = recording


async def test_what_waits_in_a_bundle_that_moved_is_told_by_its_owner_alone(tmp_path: Path, metadata_url: str) -> None:
    """Whoever had the bundle went on to say that no consumer was connected, and offered to delete the subscription: its consumers
    were at the other broker."""
    async with shared_fleet(tmp_path, metadata_url, 2) as fleet:
        async with client_of(fleet[0]) as client:
            for topic in TOPICS:
                async with client.consumer(topic, "reading"):
                    await publish(client, [topic], "a")
        giver, taker = fleet if rows_of(fleet[0]) else reversed(fleet)
        passed_s = iter(range(0, 10_000, 100))
        await eventually(lambda: all(broker.service.stored_problems.done for broker in fleet))
        of_giver, of_taker = (MeteredBundles(broker.service, lambda: next(passed_s)) for broker in (giver, taker))
        for broker, metered in ((giver, of_giver), (taker, of_taker)):
            for topic in served(broker):
                await broker.service.topics.unload(parse_topic(topic))
            await metered.follow(rows_of(broker))
        assert waiting(giver) and waiting(giver) | waiting(taker) == set(TOPICS) and not waiting(giver) & waiting(taker)
        moves = giver.service.bundle_moves
        assert moves is not None and isinstance(taker.service.owners, SharedMember)
        for row in rows_of(giver):
            await moves.give(row.bundle, taker.service.settings.broker_id)
        await taker.service.owners.look()
        await of_giver.follow(rows_of(giver))
        await of_taker.follow(rows_of(taker))
        assert not waiting(giver) and waiting(taker) == set(TOPICS)


def waiting(broker: RunningBroker) -> set[str]:
    """Topics of which it says that no consumer is connected."""
    return {problem.topic for problem in broker.service.problems.of("acme") if problem.kind == "no_consumer"}


class UsageOfQuietTopics:
    def __init__(self) -> None:
        self.resting: dict[str, int] = {}

    def rest(self, totals: TopicTotals) -> None:
        self.resting[totals.topic] = totals.stored_bytes

    def keep(self, has: Callable[[str], bool]) -> None:
        self.resting = {topic: size for topic, size in self.resting.items() if has(topic)}

    def retire(self, totals: TopicTotals) -> None: ...


def rows_of(broker: RunningBroker) -> list[OwnershipRow]:
    member = broker.service.owners
    assert isinstance(member, SharedMember)
    return member.owners.owned_by(member.broker_id)


def holds(row: OwnershipRow, topic: str) -> bool:
    return Bundle(*row.bundle[1:]).holds(position_of(topic))
