"""What administrators are told of a backlog, of what lies behind a position, and of what is stored."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from messaging.adminrpc.backlog import BacklogAfter, BacklogAnalysis, BacklogAnalyze
from messaging.adminrpc.topics import StatsAsked, TopicCreate, TopicRef
from messaging.broker.runtime.admin import backlog
from messaging.broker.runtime.admin.backlog import BacklogHandlers, ScanLimits
from messaging.broker.runtime.topics.persistent import persistent
from messaging.errors import NotAllowed, NotReady, SubscriptionNotFound, TopicNotFound
from messaging.fairness.turns import FairTurns
from messaging.protocol import pulsar_pb2 as pb
from messaging.protocol.names import parse_topic
from messaging.storage.ledger_store import EARLIEST, Block, Position
from messaging.storage.managed.ledger import ManagedLedger
from tests.support.clients.raw_client import RawClient, batch_frame, send_frame
from tests.support.waiting import eventually
from tests.support.worlds.broker_world import BrokerWorld

TOPIC = "persistent://acme/orders/t"


async def filled(world: BrokerWorld, singles: int = 4, batch: int = 10) -> RawClient:
    """So many messages one by one, and a batch; a subscription `s` that has acknowledged nothing."""
    client = await world.connected("owner")
    await client.producer(TOPIC)
    topic = await world.service.topics.get(parse_topic(TOPIC), create=False)
    await topic.subscriptions.create("s", EARLIEST)
    for index in range(singles):
        client.write(send_frame(index, b"x"))
        await client.expect("SEND_RECEIPT")
    client.write(batch_frame(singles, [b"x"] * batch))
    await client.expect("SEND_RECEIPT")
    return client


async def acknowledged(world: BrokerWorld, client: RawClient, *entries: int) -> None:
    await client.subscribe(TOPIC, permits=100, sub_type=pb.Subscribe.Shared)
    found = await client.messages(5)
    ids = [one.body.message_id for one in found if one.body.message_id.entry_id in entries]
    client.say(pb.Command.ACK, consumer_id=1, ack_type=pb.Ack.Individual, message_id=ids)
    held = world.service.topics.loaded[TOPIC].subscriptions.table["s"]
    await eventually(lambda: held.backlog_entries == 5 - len(entries))


async def analyzed(world: BrokerWorld, start: int | None = None, **limits: int) -> BacklogAnalysis:
    ledger_id = world.service.topics.loaded[TOPIC].ledger_list.last_id
    handlers = BacklogHandlers(world.service, FairTurns(1), ScanLimits(**limits))
    asked = BacklogAnalyze(topic=TOPIC, subscription="s")
    if start is not None:
        asked.ledger_id, asked.entry_id = ledger_id, start
    found = await handlers.analyze(asked)
    found.first, found.last = (text.removeprefix(f"{ledger_id}:") for text in (found.first, found.last))
    return found


async def test_messages_of_batches_are_counted_and_what_is_acknowledged_is_not(world: BrokerWorld) -> None:
    client = await filled(world)
    assert await analyzed(world) == BacklogAnalysis(entries=5, messages=14, first="0", last="4")
    await acknowledged(world, client, 0, 2)
    assert await analyzed(world) == BacklogAnalysis(entries=3, messages=12, first="1", last="4")
    assert await analyzed(world, 2) == BacklogAnalysis(entries=2, messages=11, first="3", last="4")
    assert await analyzed(world, 5) == BacklogAnalysis(entries=0, messages=0)


async def test_only_so_much_is_read(world: BrokerWorld) -> None:
    await filled(world)
    assert await analyzed(world, entries=2) == BacklogAnalysis(entries=2, messages=2, first="0", last="1", aborted=True)
    assert not (await analyzed(world, entries=5)).aborted


async def test_a_backlog_in_many_ledgers_is_read_through(world: BrokerWorld) -> None:
    client = await filled(world)
    topic = world.service.topics.loaded[TOPIC]
    for index in range(5, 8):
        await topic.ledger.roll()
        client.write(send_frame(index, b"x"))
        await client.expect("SEND_RECEIPT")
    found = await analyzed(world)
    assert (found.entries, found.messages, found.aborted) == (8, 17, False)
    found = await analyzed(world, bytes=1)
    assert (found.entries, found.aborted) == (5, True), "no read goes on after that many bytes"


async def test_others_have_their_turn_while_a_backlog_of_many_blocks_is_read(
    world: BrokerWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    await filled(world, singles=20, batch=1)
    monkeypatch.setattr(backlog, "READ_ENTRIES", 2)
    real, reads = ManagedLedger.read, []

    async def read(ledger: ManagedLedger, position: Position, **limits: int) -> list[Block]:
        found = await real(ledger, position, **limits)
        reads.append(len(found))
        return found

    monkeypatch.setattr(ManagedLedger, "read", read)
    asked, turns = asyncio.ensure_future(analyzed(world)), 0
    while not asked.done():
        await asyncio.sleep(0)
        turns += 1
    assert (await asked).entries == 21 and max(reads) <= 2 and turns >= len(reads) >= 11


async def test_it_is_read_with_memory_of_the_tenant(world: BrokerWorld) -> None:
    await filled(world)
    account = world.service.memory_limiter.egress
    account.take("acme", account.limit_bytes)
    with pytest.raises(NotReady):
        await analyzed(world)
    account.give("acme", account.limit_bytes)
    await analyzed(world)
    assert account.used_bytes == 0


async def test_what_has_no_backlog_is_told(world: BrokerWorld) -> None:
    await filled(world)
    await world.admin.topics.create(TopicCreate(topic="persistent://acme/orders/p", partitions=1))
    ask = world.admin.backlog.analyze
    with pytest.raises(SubscriptionNotFound):
        await ask(BacklogAnalyze(topic=TOPIC, subscription="absent"))
    with pytest.raises(TopicNotFound):
        await ask(BacklogAnalyze(topic="persistent://acme/orders/absent", subscription="s"))
    with pytest.raises(NotAllowed):
        await ask(BacklogAnalyze(topic="persistent://acme/orders/p", subscription="s"))
    with pytest.raises(NotAllowed):
        await world.admin.backlog.size(BacklogAfter(topic="non-persistent://acme/orders/n", ledger_id=0, entry_id=0))


async def test_the_size_of_what_follows_a_message(world: BrokerWorld) -> None:
    await filled(world)
    topic = world.service.topics.loaded[TOPIC]
    ledger_id = topic.ledger_list.last_id

    async def size(ledger: int, entry: int) -> int:
        return (await world.admin.backlog.size(BacklogAfter(topic=TOPIC, ledger_id=ledger, entry_id=entry))).size_bytes

    assert await size(-1, -1) == await size(ledger_id, -1) == topic.ledger.stored_bytes
    sizes = [await size(ledger_id, entry) for entry in range(5)]
    assert sizes == [topic.ledger.stored_bytes * left // 5 for left in (4, 3, 2, 1, 0)]
    assert await size(ledger_id + 1, 0) == 0


async def internal(world: BrokerWorld) -> dict[str, Any]:
    return (await world.admin.topic_stats.internal_stats(TopicRef(topic=TOPIC))).stats


async def test_a_cursor_tells_where_it_is(world: BrokerWorld) -> None:
    client = await filled(world)
    ledger_id = world.service.topics.loaded[TOPIC].ledger_list.last_id
    cursor = (await internal(world))["cursors"]["s"]
    assert (cursor["markDeletePosition"], cursor["readPosition"]) == (f"{ledger_id}:-1", f"{ledger_id}:0")
    assert (cursor["waitingReadOp"], cursor["messagesConsumedCounter"]) == (False, 0)
    await acknowledged(world, client, 0, 2)
    found = await internal(world)
    cursor = found["cursors"]["s"]
    assert (cursor["markDeletePosition"], cursor["readPosition"]) == (f"{ledger_id}:0", f"{ledger_id}:5")
    assert cursor["individuallyDeletedMessages"] == f"[({ledger_id}:1..{ledger_id}:2]]"
    assert (cursor["numberOfEntriesSinceFirstNotAckedMessage"], cursor["messagesConsumedCounter"]) == (5, 2)
    assert cursor["waitingReadOp"] and cursor["subscriptionHavePendingRead"] and found["waitingCursorsCount"] == 1
    assert Position(cursor["cursorLedger"], cursor["cursorLedgerLastEntry"]) == world.service.cursors.last > EARLIEST


async def test_the_last_ledger_is_listed_without_the_figures_of_the_current_one(world: BrokerWorld) -> None:
    """Who adds up the list and the current ledger gets the size of the topic."""
    client = await filled(world)
    topic = world.service.topics.loaded[TOPIC]
    await topic.ledger.roll()
    client.write(send_frame(5, b"x"))
    await client.expect("SEND_RECEIPT")
    for _ in range(2):
        found = await internal(world)
        listed = found["ledgers"]
        assert [one["entries"] for one in listed] == [5, 0] and found["currentLedgerEntries"] == 1
        assert sum(one["size"] for one in listed) + found["currentLedgerSize"] == found["totalSize"] == topic.ledger.stored_bytes
        await world.service.topics.unload(parse_topic(TOPIC))
        topic = await world.service.topics.get(parse_topic(TOPIC), create=False)


async def test_what_is_stored_of_a_topic(world: BrokerWorld) -> None:
    client = await filled(world)
    await acknowledged(world, client, 0, 2)
    topic = world.service.topics.loaded[TOPIC]
    await topic.ledger.roll()
    await persistent(topic).terminate()
    found = (await world.admin.topic_stats.internal_info(TopicRef(topic=TOPIC))).stats
    (first, *_), ledger_id = found["ledgers"], topic.ledger.record.ledgers[0].ledger_id
    assert (first["ledgerId"], first["entries"], first["size"] > 0) == (ledger_id, 5, True)
    assert found["terminatedPosition"] == {"ledgerId": ledger_id, "entryId": 4}
    cursor = found["cursors"]["s"]
    assert cursor["markDelete"] == {"ledgerId": ledger_id, "entryId": 0}
    assert cursor["individualDeletedMessages"] == [
        {"lowerEndpoint": {"ledgerId": ledger_id, "entryId": 1}, "upperEndpoint": {"ledgerId": ledger_id, "entryId": 2}}
    ]


async def test_partitions_are_told_one_by_one(world: BrokerWorld) -> None:
    base = TopicRef(topic="persistent://acme/orders/p")
    await world.admin.topics.create(TopicCreate(topic=base.topic, partitions=3))
    names = [f"{base.topic}-partition-{index}" for index in range(3)]
    found = (await world.admin.topic_stats.partitioned_internal_stats(base)).stats
    assert (found["metadata"], list(found["partitions"])) == ({"partitions": 3, "deleted": False}, names)
    found = (await world.admin.topic_stats.internal_info(base)).stats
    assert (found["version"], list(found["partitions"])) == (0, names)
    with pytest.raises(TopicNotFound):
        await world.admin.topic_stats.partitioned_internal_stats(TopicRef(topic="persistent://acme/orders/absent"))


async def test_when_mark_delete_last_advanced_and_expiry_last_ran(world: BrokerWorld) -> None:
    client = await filled(world)
    held = world.service.topics.loaded[TOPIC].subscriptions.table["s"]
    await acknowledged(world, client, 2)
    assert (held.last_advanced_ms, held.last_expired_ms) == (0, 0), "something else is not acknowledged yet"
    topic = world.service.topics.loaded[TOPIC]
    assert await persistent(topic).acknowledgements.expire_up_to(held, EARLIEST) == 0
    assert (held.last_advanced_ms, held.last_expired_ms > 0) == (0, True)
    found = (await world.admin.topic_stats.stats(StatsAsked(topic=TOPIC))).stats["subscriptions"]["s"]
    assert (found["msgInReplay"], found["consumers"][0]["lastConsumedTimestamp"] > 0) == (0, True)
    ledger_id = topic.ledger_list.last_id
    ids = [pb.MessageId(ledger_id=ledger_id, entry_id=entry) for entry in (0, 1)]
    client.say(pb.Command.ACK, consumer_id=1, ack_type=pb.Ack.Individual, message_id=ids)
    await eventually(lambda: held.last_advanced_ms > 0)
    other = await topic.subscriptions.create("other", EARLIEST)
    await client.subscribe(TOPIC, "other", 2, sub_type=pb.Subscribe.Exclusive)
    client.say(pb.Command.ACK, consumer_id=2, ack_type=pb.Ack.Cumulative, message_id=ids[:1])
    await eventually(lambda: other.last_advanced_ms > 0)


async def test_what_cannot_be_taken_apart_is_passed_over(world: BrokerWorld) -> None:
    await filled(world)
    world.ledgers.garble(world.service.topics.loaded[TOPIC].ledger_list.last_id, 1)
    assert await analyzed(world) == BacklogAnalysis(entries=4, messages=13, first="0", last="4")


async def test_a_cursor_of_an_empty_topic_reads_from_its_first_entry(world: BrokerWorld) -> None:
    client = await world.connected("owner")
    await client.subscribe(TOPIC, initial_position=pb.Subscribe.Earliest)
    client.say(pb.Command.CLOSE_CONSUMER, consumer_id=1)
    await client.expect("SUCCESS")
    await client.producer(TOPIC)
    client.write(send_frame(0, b"x"))
    await client.expect("SEND_RECEIPT")
    ledger_id = world.service.topics.loaded[TOPIC].ledger_list.last_id
    cursor = (await internal(world))["cursors"]["s"]
    assert (cursor["markDeletePosition"], cursor["readPosition"]) == (f"{ledger_id}:-1", f"{ledger_id}:0")
