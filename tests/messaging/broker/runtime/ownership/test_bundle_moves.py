"""What becomes of bundles whose moves fail half-way, and of brokers that are taken for gone or come back."""

from __future__ import annotations

import asyncio
import socket
import time
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from messaging.background import BackgroundLoops
from messaging.broker.core.ownership.owner_map import OwnerMap
from messaging.broker.runtime import main
from messaging.broker.runtime.ownership import bundle_moves
from messaging.broker.runtime.ownership.bundle_moves import BundleMoves
from messaging.broker.runtime.ownership.gone_brokers import listens
from messaging.broker.runtime.ownership.instance import FILE, machine
from messaging.broker.runtime.ownership.joining import join_shared
from messaging.broker.runtime.ownership.shared_member import SharedMember
from messaging.client import connect
from messaging.errors import NotReady
from messaging.protocol import pulsar_pb2 as pb
from messaging.protocol.bundles import position_of
from messaging.storage.ledger_store import Unavailable
from messaging.storage.managed.cursor_log import CursorLog
from messaging.storage.ownership import INSTANCE, MACHINE, BrokerSession, NamespaceBundle, OwnershipRow, OwnershipStore
from messaging.storage.sql.meta_store import SqlMetaStore
from tests.support.brokers.fleet import shared_broker, shared_fleet
from tests.support.brokers.running_broker import RunningBroker
from tests.support.clients.raw_client import RawClient
from tests.support.waiting import eventually

TOPICS = [f"persistent://acme/orders/t{number}" for number in range(12)]


class Faulty:
    """The calls of a broker's store. `unanswered`: of how many hand-overs the answer is lost before anything changed."""

    def __init__(self, broker: RunningBroker) -> None:
        meta = broker.service.storage.meta
        assert isinstance(meta, SqlMetaStore)
        self._store = meta.ownership
        self.unanswered = 0
        self.drains = asyncio.Event()
        self.drains.set()
        self.asked_to_hand_over = asyncio.Event()
        self.hands_over = asyncio.Event()
        self.hands_over.set()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def drain_bundle(self, row: OwnershipRow) -> OwnershipRow:
        await self.drains.wait()
        return await self._store.drain_bundle(row)

    async def hand_over_bundle(self, row: OwnershipRow, broker_id: str) -> OwnershipRow:
        self.asked_to_hand_over.set()
        await self.hands_over.wait()
        if self.unanswered:
            self.unanswered -= 1
            raise Unavailable("the database does not answer")
        return await self._store.hand_over_bundle(row, broker_id)


@pytest.fixture(autouse=True)
def takes_nothing_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """The broker's own `BundleMoves` know nothing of those that tests make, and would take back what these give."""
    monkeypatch.setattr(main, "FOLLOW_S", 3600.0)


def member_of(broker: RunningBroker) -> SharedMember:
    assert isinstance(broker.service.owners, SharedMember)
    return broker.service.owners


def moves_of(broker: RunningBroker, store: Faulty) -> BundleMoves:
    return BundleMoves(member_of(broker), cast(OwnershipStore, store), broker.service.topics, broker.service.cursors)


def bundle_of_first(broker: RunningBroker) -> NamespaceBundle:
    """Its bundle with the first topic."""
    owners, broker_id = member_of(broker).owners, member_of(broker).broker_id
    (row,) = [row for row in owners.owned_by(broker_id) if owners.fence_of(TOPICS[0], broker_id) == row.fence]
    return row.bundle


async def test_a_bundle_that_can_neither_be_given_away_nor_taken_back_at_once_is_served_again(
    tmp_path: Path, metadata_url: str
) -> None:
    async with (
        shared_fleet(tmp_path, metadata_url, 2) as fleet,
        connect(fleet[0].service.addresses.broker_url, fleet[0].token("owner")) as client,
        client.producer(TOPICS[0]) as producer,
        client.consumer(TOPICS[0], "reading", initial="earliest") as consumer,
    ):
        await producer.send(b"0")
        giver, taker = fleet if TOPICS[0] in fleet[0].service.topics.loaded else reversed(fleet)
        store = Faulty(giver)
        moves, store.unanswered = moves_of(giver, store), 2
        with pytest.raises(NotReady, match="does not answer"):
            await moves.give(bundle_of_first(giver), member_of(taker).broker_id)
        await moves.take_back()
        await asyncio.wait_for(producer.send(b"1"), 20)
        assert [(await consumer.receive(timeout_s=20)).payload for _ in range(2)] == [b"0", b"1"]


async def test_what_is_acknowledged_while_its_bundle_moves_is_acknowledged_at_the_new_owner(
    tmp_path: Path, metadata_url: str
) -> None:
    """However long the hand-over takes: cursors are saved before it."""
    async with (
        shared_fleet(tmp_path, metadata_url, 2) as fleet,
        connect(fleet[0].service.addresses.broker_url, fleet[0].token("owner")) as client,
        client.producer(TOPICS[0]) as producer,
    ):
        async with client.consumer(TOPICS[0], "reading", initial="earliest", ack_receipts=True) as consumer:
            for payload in (b"0", b"1"):
                await producer.send(payload)
            message = await consumer.receive(timeout_s=20)
            giver, taker = fleet if TOPICS[0] in fleet[0].service.topics.loaded else reversed(fleet)
            store = Faulty(giver)
            store.hands_over.clear()
            giving = asyncio.create_task(moves_of(giver, store).give(bundle_of_first(giver), member_of(taker).broker_id))
            await store.asked_to_hand_over.wait()
            acknowledging = asyncio.create_task(consumer.ack(message))
            done, _ = await asyncio.wait([acknowledging], timeout=0.5)
            store.hands_over.set()
            await giving
            assert not done, "the one that gives the bundle away cannot answer for it any more"
            assert await asyncio.wait_for(acknowledging, 20)
        async with client.consumer(TOPICS[0], "reading", initial="earliest") as consumer:
            assert (await consumer.receive(timeout_s=20)).payload == b"1"


async def test_whoever_subscribes_while_a_bundle_moves_is_to_look_it_up_again(tmp_path: Path, metadata_url: str) -> None:
    """As Pulsar says it."""
    async with shared_fleet(tmp_path, metadata_url, 2) as fleet:
        url, token = fleet[0].service.addresses.broker_url, fleet[0].token("owner")
        async with connect(url, token) as client, client.producer(TOPICS[0]) as producer:
            await producer.send(b"0")
        giver, taker = fleet if TOPICS[0] in fleet[0].service.topics.loaded else reversed(fleet)
        store = Faulty(giver)
        store.hands_over.clear()
        raw = await RawClient.open(giver.port)
        await raw.connect(giver.token("owner"))
        giving = asyncio.create_task(moves_of(giver, store).give(bundle_of_first(giver), member_of(taker).broker_id))
        await asyncio.wait_for(store.asked_to_hand_over.wait(), 5)
        for _ in range(2):
            raw.say(pb.Command.SUBSCRIBE, topic=TOPICS[0], subscription="new", sub_type=pb.Subscribe.Shared, consumer_id=1)
            assert (await raw.expect("ERROR")).error == pb.ServiceNotReady
            store.hands_over.set()
            await giving
        await raw.close()


async def test_whoever_looked_a_topic_up_before_its_bundle_moves_may_still_open_it(
    tmp_path: Path, metadata_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Go's first consumer and producer end where they are refused. So they are let in, and sent on with all others."""
    monkeypatch.setattr(bundle_moves, "MOVES_MAX", 1)
    async with shared_fleet(tmp_path, metadata_url, 2) as fleet:
        async with connect(fleet[0].service.addresses.broker_url, fleet[0].token("owner")) as client:
            for topic in TOPICS:
                async with client.producer(topic) as producer:
                    await producer.send(b"0")
        giver, taker = sorted(fleet, key=lambda broker: -len(member_of(broker).owners.owned_by(member_of(broker).broker_id)))
        store, owners, to = Faulty(giver), member_of(giver).owners, member_of(taker).broker_id
        moves = moves_of(giver, store)
        first, second, *_ = (row.bundle for row in moves.rows() if row.bundle.namespace == "acme/orders")
        (topic, *_) = [
            topic for topic in TOPICS if owners.row_at("acme/orders", position_of(topic)) == owners.overlapping(second)[0]
        ]
        raw = await RawClient.open(giver.port)
        await raw.connect(giver.token("owner"))
        store.hands_over.clear()
        giving = [asyncio.create_task(moves.give(first, to))]
        await asyncio.wait_for(store.asked_to_hand_over.wait(), 20)
        giving.append(asyncio.create_task(moves.give(second, to)))  # it is announced, and waits for the other one
        await eventually(lambda: owners.overlapping(second)[0].state == "draining")
        raw.say(pb.Command.SUBSCRIBE, topic=topic, subscription="new", sub_type=pb.Subscribe.Shared, consumer_id=1)
        await raw.expect("SUCCESS")
        raw.say(pb.Command.PRODUCER, topic=topic, producer_id=1)
        await raw.expect("PRODUCER_SUCCESS")
        raw.say(pb.Command.LOOKUP, topic=topic)
        store.hands_over.set()
        await asyncio.gather(*giving)
        url = taker.service.addresses.broker_url
        assert (await raw.expect("CLOSE_PRODUCER")).assigned_broker_service_url == url
        assert (await raw.expect("CLOSE_CONSUMER")).assigned_broker_service_url == url
        found = await raw.expect("LOOKUP_RESPONSE")
        assert (found.response, found.broker_service_url) == (pb.LookupResponse.Connect, url), "it waited for the new owner"
        await raw.close()


async def test_draining_ends_when_it_has_to(tmp_path: Path, metadata_url: str) -> None:
    async with shared_fleet(tmp_path, metadata_url, 2) as fleet:
        async with connect(fleet[0].service.addresses.broker_url, fleet[0].token("owner")) as client:
            for topic in TOPICS:
                async with client.producer(topic) as producer:
                    await producer.send(b"a")
        store = Faulty(fleet[0])
        store.drains.clear()
        rows = member_of(fleet[0]).owners.owned_by("machine-1")
        assert rows
        moves = moves_of(fleet[0], store)
        assert await asyncio.wait_for(moves.drain(time.monotonic() + 0.1), 20) == len(rows)
        assert member_of(fleet[0]).drains
        store.drains.set()
        await moves.end_drain()
        assert not member_of(fleet[0]).drains, "it takes bundles again"
        await member_of(fleet[1]).look()
        assert all(session.takes for session in member_of(fleet[1]).owners.sessions.values())


async def test_what_a_dead_broker_owned_is_adopted_once_its_log_is_recovered(tmp_path: Path, metadata_url: str) -> None:
    async with shared_fleet(tmp_path, metadata_url, 2) as fleet:
        async with connect(fleet[0].service.addresses.broker_url, fleet[0].token("owner")) as client:
            for topic in TOPICS:
                async with client.producer(topic) as producer:
                    await producer.send(b"a")
        gone, taker = map(member_of, fleet)
        await taker.look()
        assert taker.owners.owned_by("machine-1")
        await Faulty(fleet[0]).close_session("machine-1", gone.session)
        await taker.look()
        for _ in range(2):  # the first time its log is recovered
            await taker.adopt()
        assert not taker.owners.owned_by("machine-1")


async def test_a_broker_that_was_killed_while_it_served_may_start_again_at_once(tmp_path: Path, metadata_url: str) -> None:
    async with shared_broker(tmp_path, metadata_url, 1) as broker:
        name = (broker.service.settings.broker_path / FILE).read_text()
        session = await Faulty(broker).open_session("machine-1", {INSTANCE: name})
        assert session == member_of(broker).session + 1


async def test_a_refused_loopback_address_says_nothing_of_another_machine() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    addresses = {"rpc_url": f"http://127.0.0.1:{port}"}
    assert await listens(BrokerSession("b", 1, addresses | {MACHINE: machine()}, True)) is False
    assert await listens(BrokerSession("b", 1, addresses | {MACHINE: "another"}, True)) is None
    assert await listens(BrokerSession("b", 1, addresses, True)) is None


async def test_a_session_is_renewed_while_the_log_of_the_last_one_is_recovered(tmp_path: Path, metadata_url: str) -> None:
    async with shared_broker(tmp_path, metadata_url, 1) as broker:
        service, background = broker.service, BackgroundLoops()
        meta = service.storage.meta
        assert isinstance(meta, SqlMetaStore)
        renewed: list[bool] = []

        class LongLog:
            async def save_recovered(self, restored: object) -> None:
                renewed.append("renew_session" in background.loops)

        storage, session = replace(service.storage, background=background), member_of(broker).session
        await join_shared(storage, meta, cast(CursorLog, LongLog()), session, OwnerMap(), service.access.view.boundaries_of)
        background.cancel()
        assert renewed == [True]
