"""Upkeep over topics, loaded or not: what retention lets go of is gone after it, and nothing is loaded in vain."""

from __future__ import annotations

import asyncio

import pytest

from messaging.adminrpc.maintenance import MaintenanceResult, MaintenanceRun, MaintenanceTopics
from messaging.adminrpc.subscriptions import SubscriptionDelete, SubscriptionReset, SubscriptionSkip
from messaging.broker.runtime.admin import maintenance
from messaging.broker.runtime.topics.backlog.stored_entries import StoredEntries
from messaging.broker.runtime.topics.persistent import persistent
from messaging.broker.runtime.topics.topic import Topic
from messaging.clock import BELIEVED_AFTER_MS
from messaging.protocol import pulsar_pb2 as pb
from messaging.protocol.names import TopicName, parse_topic
from messaging.storage.ledger_store import EARLIEST, Position
from messaging.storage.managed.retention import LedgerLimits
from tests.support.clients.raw_client import send_frame
from tests.support.clock import Clock, give
from tests.support.waiting import eventually
from tests.support.worlds.broker_world import BrokerWorld, MakeWorld

TOPIC = "persistent://acme/orders/t"
NAME = parse_topic(TOPIC)
MINUTE_MS = 60_000
AN_HOUR = {"message_ttl_s": 3600, "retention_time_min": 60, "retention_size_mb": -1}


@pytest.fixture
def clock(world: BrokerWorld) -> Clock:
    return clock_of(world)


def clock_of(world: BrokerWorld, clock: Clock | None = None) -> Clock:
    """Gives it a manual clock, and limits by age."""
    clock = clock or Clock()
    give(world.service, clock)
    world.service.storage.limits = LedgerLimits(age_max_ms=240 * MINUTE_MS, consumed_age_max_ms=10 * MINUTE_MS)
    return clock


async def upkeep(world: BrokerWorld) -> MaintenanceResult:
    result = await world.admin.maintenance.run(MaintenanceRun(task_id="1", topics=[TOPIC]))
    assert result.failed == {}
    return result


async def with_three_messages(world: BrokerWorld, *, consumed: bool) -> Topic:
    client = await world.connected("owner")
    await client.producer(TOPIC)
    topic = await world.service.topics.get(NAME, create=False)
    if "s" not in topic.subscriptions.table:
        await topic.subscriptions.create("s", EARLIEST)
    for index in range(3):
        client.write(send_frame(index, b"%d" % index))
        await client.expect("SEND_RECEIPT")
    if consumed:
        await world.admin.subscriptions.skip(SubscriptionSkip(topic=TOPIC, subscription="s"))
    await client.close()
    return topic


async def data_ledgers(world: BrokerWorld) -> list[int]:
    return [info.entries for info in await world.ledgers.ledgers() if "reserved" not in info.properties and info.entries]


async def test_an_idle_topic_that_is_loaded_gives_its_space_back(world: BrokerWorld, clock: Clock) -> None:
    topic = await with_three_messages(world, consumed=True)
    clock.pass_(10 * MINUTE_MS - 1)
    assert (await upkeep(world)).trimmed_ledgers == 0
    clock.pass_(1)
    await upkeep(world)  # ends the ledger
    clock.pass_(1)
    await upkeep(world)
    assert await data_ledgers(world) == []
    assert world.service.topics.loaded[TOPIC] is topic
    for _ in range(3):
        clock.pass_(300 * MINUTE_MS)
        assert (await upkeep(world)).trimmed_ledgers == 0


async def test_without_durable_subscriptions_nothing_is_kept(world: BrokerWorld, clock: Clock) -> None:
    await with_three_messages(world, consumed=False)
    clock.pass_(10 * MINUTE_MS)
    await upkeep(world)
    assert await data_ledgers(world) == [3]
    await world.admin.subscriptions.delete(SubscriptionDelete(topic=TOPIC, subscription="s"))
    await upkeep(world)  # ends the ledger
    clock.pass_(1)
    await upkeep(world)
    assert await data_ledgers(world) == []


async def test_a_topic_that_is_not_loaded_is_loaded_only_to_drop_something(world: BrokerWorld, clock: Clock) -> None:
    await with_three_messages(world, consumed=False)
    await world.service.topics.unload(NAME)
    clock.pass_(600 * MINUTE_MS)
    world.ledgers.calls.clear()
    assert (await upkeep(world)).trimmed_ledgers == 0
    assert world.ledgers.calls == [], "what is not acknowledged stays, and that was known without loading the topic"
    await world.admin.subscriptions.skip(SubscriptionSkip(topic=TOPIC, subscription="s"))
    await world.service.topics.unload(NAME)
    result = await upkeep(world)
    assert (result.trimmed_ledgers, result.freed_bytes > 0) == (1, True)
    assert await data_ledgers(world) == []
    assert TOPIC not in world.service.topics.loaded
    world.ledgers.calls.clear()
    await upkeep(world)
    assert world.ledgers.calls == []
    assert (await with_three_messages(world, consumed=False)).ledger_list.entries == 3


async def test_after_a_crash_what_was_acknowledged_in_the_last_moment_counts(make_world: MakeWorld) -> None:
    crashed = await make_world()
    clock = clock_of(crashed)
    await with_three_messages(crashed, consumed=True)
    record = await crashed.meta.get_topic(TOPIC)
    assert record is not None and record.ledgers[0].last_entry is None
    world = await make_world(after=crashed)  # on what it left: the acknowledgements are in the cursor log alone
    clock_of(world, clock)
    clock.pass_(240 * MINUTE_MS - 1)
    assert (await upkeep(world)).trimmed_ledgers == 0
    assert world.service.topics.loaded == {}
    clock.pass_(1)
    await upkeep(world)  # loads it, which settles where its ledger ended
    clock.pass_(1)
    await upkeep(world)
    assert await data_ledgers(world) == []


async def test_a_reader_does_not_hold_ledgers_back(world: BrokerWorld, clock: Clock) -> None:
    """Only durable subscriptions keep messages. The reader goes on with what is there."""
    client = await world.connected("owner")
    await client.subscribe(TOPIC, "behind", 9, durable=False, sub_type=pb.Subscribe.Exclusive)
    await with_three_messages(world, consumed=True)
    for _ in range(3):
        clock.pass_(10 * MINUTE_MS)
        await upkeep(world)
    assert await data_ledgers(world) == []
    await client.producer(TOPIC, 9, producer_name="late")
    client.write(send_frame(0, b"new", 9))
    await client.expect("SEND_RECEIPT")
    client.say(pb.Command.FLOW, consumer_id=9, message_permits=10)
    assert [one.text for one in await client.messages(1)] == [b"new"]


async def test_deduplication_does_not_hold_ledgers_back(world: BrokerWorld, clock: Clock) -> None:
    """Its snapshot was taken every 10,000 entries alone, and retention never passed it."""
    await world.feed(("namespace", "acme/orders", {"policies": {"deduplication": True}}))
    topic = await with_three_messages(world, consumed=True)
    assert persistent(topic).deduplication.state is not None
    for _ in range(3):
        clock.pass_(10 * MINUTE_MS)
        await upkeep(world)
    assert await data_ledgers(world) == []


@pytest.mark.parametrize("jump_ms", [10 * 365 * 24 * 60 * MINUTE_MS, 61 * MINUTE_MS])
async def test_a_clock_that_jumps_ahead_and_back_deletes_nothing(world: BrokerWorld, clock: Clock, jump_ms: int) -> None:
    await world.feed(("namespace", "acme/orders", {"policies": AN_HOUR}))
    topic = await with_three_messages(world, consumed=False)
    clock.pass_(MINUTE_MS)
    clock.now_ms += jump_ms
    assert (await upkeep(world)).expired_entries == 0
    clock.pass_(MINUTE_MS)
    assert (await upkeep(world)).expired_entries == 0
    clock.now_ms -= jump_ms
    clock.pass_(59 * MINUTE_MS)
    await upkeep(world)
    assert (topic.ledger_list.entries, topic.subscriptions.table["s"].backlog_entries) == (3, 0), (
        "their hour is over, by the time that passed"
    )


async def test_a_jump_that_stands_is_believed(world: BrokerWorld, clock: Clock) -> None:
    """As with Pulsar, whoever sets the clock ahead by hours makes messages older by hours; but not at once."""
    await world.feed(("namespace", "acme/orders", {"policies": {"message_ttl_s": 3600}}))
    await with_three_messages(world, consumed=False)
    clock.now_ms += 24 * 60 * MINUTE_MS
    assert (await upkeep(world)).expired_entries == 0
    clock.pass_(BELIEVED_AFTER_MS)
    assert (await upkeep(world)).expired_entries == 3


async def test_messages_stored_while_the_clock_stood_at_1970_are_not_old(world: BrokerWorld, clock: Clock) -> None:
    await world.feed(("namespace", "acme/orders", {"policies": AN_HOUR}))
    topic = await with_three_messages(world, consumed=False)
    right_ms = clock.now_ms
    clock.now_ms = 0
    await world.service.topics.unload(NAME)  # it remembers its time over this
    again = await with_three_messages(world, consumed=False)
    assert again is not topic
    assert (await upkeep(world)).expired_entries == 0
    clock.now_ms = right_ms
    clock.pass_(59 * MINUTE_MS)
    assert (await upkeep(world)).expired_entries == 0
    for stored_ms in [again.ledger.stamped_ms, *(one.created_ms for one in again.ledger.record.ledgers)]:
        assert right_ms <= stored_ms <= right_ms + MINUTE_MS
    clock.pass_(2 * MINUTE_MS)
    assert (await upkeep(world)).expired_entries == 6


async def test_seeking_by_time_ends_whatever_the_clocks_said(world: BrokerWorld, clock: Clock) -> None:
    """By publish times, which are the producers' clocks: 1,000 and on here, and a message from the future between them."""
    topic = await with_three_messages(world, consumed=True)
    client = await world.connected("owner")
    await client.producer(TOPIC)
    for sequence_id in (10**9, 3, 4, 0, 5):
        client.write(send_frame(sequence_id, b"x"))
        await client.expect("SEND_RECEIPT")
    for at_ms, most in ((0, 8), (1_001, 8), (1_004, 8), (10**8, 5), (10**12, 0)):
        await world.admin.subscriptions.reset(SubscriptionReset(topic=TOPIC, subscription="s", timestamp_ms=at_ms))
        backlog = topic.subscriptions.table["s"].backlog_entries
        assert (backlog == 8) if at_ms == 0 else (0 <= backlog <= most)


async def test_expiry_looks_once_for_all_subscriptions_of_a_topic(
    world: BrokerWorld, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """10,000 of them took 56 s, and the call ends after 30."""
    topic = await with_three_messages(world, consumed=False)
    searched: list[int] = []

    look_up = StoredEntries.mark_delete_before_broker_time

    async def search(entries: StoredEntries, cutoff_ms: int) -> Position:
        searched.append(cutoff_ms)
        return await look_up(entries, cutoff_ms)

    monkeypatch.setattr(StoredEntries, "mark_delete_before_broker_time", search)
    await world.feed(("namespace", "acme/orders", {"policies": AN_HOUR}))
    for number in range(250):
        await topic.subscriptions.create(f"s{number}", EARLIEST)
    clock.pass_(2 * 60 * MINUTE_MS)
    assert (await upkeep(world)).expired_entries == 3 * 251
    assert len(searched) == 1
    assert not any(one.backlog_entries for one in topic.subscriptions.table.values())


async def test_a_topic_that_takes_long_is_passed_over_and_comes_first_next_time(
    world: BrokerWorld, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(maintenance, "SLOW_S", 0.01)
    handlers = world.admin.maintenance
    names = [f"{TOPIC}-{number}" for number in range(3)]
    for name in names:
        await world.service.topics.get(parse_topic(name), create=True)
    going_on, begun = asyncio.Event(), []
    maintained = handlers.maintain

    async def maintain(name: TopicName, result: MaintenanceResult) -> None:
        begun.append(str(name))
        if str(name) == names[0]:
            await going_on.wait()
            result.expired_entries += 7
        await maintained(name, result)

    monkeypatch.setattr(handlers, "maintain", maintain)
    first = await handlers.run(MaintenanceRun(task_id="1", topics=names))
    assert (first.passed_over, first.failed, begun) == (1, {}, names), "the others were not held up"
    page = await handlers.list_topics(MaintenanceTopics())
    assert page.topics == [names[0], *names]
    again = await handlers.run(MaintenanceRun(task_id="2", topics=page.topics))
    assert (again.passed_over, begun) == (2, [*names, *names[1:]]), "it is not begun twice"
    going_on.set()

    async def done() -> bool:
        return (await handlers.run(MaintenanceRun(task_id="3", topics=names))).expired_entries == 14

    await eventually(done)


async def test_a_tenant_with_slow_topics_holds_up_itself_alone(world: BrokerWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(maintenance, "SLOW_S", 0.01)
    handlers = world.admin.maintenance
    begun: list[str] = []

    async def maintain(name: TopicName, result: MaintenanceResult) -> None:
        begun.append(str(name))
        if name.tenant == "acme":
            await asyncio.Event().wait()

    monkeypatch.setattr(handlers, "maintain", maintain)
    slow = [f"persistent://acme/orders/{number}" for number in range(20)]
    result = await handlers.run(MaintenanceRun(task_id="1", topics=[*slow, "persistent://other/orders/t"]))
    assert result.passed_over == 20
    assert begun == [*slow[: maintenance.SLOW_OF_TENANT_MAX], "persistent://other/orders/t"]


async def test_a_call_ends_in_time_and_passes_over_the_rest(world: BrokerWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(maintenance, "RUN_S", 0.0)
    result = await world.admin.maintenance.run(MaintenanceRun(task_id="1", topics=[TOPIC]))
    assert (result.passed_over, result.failed) == (1, {})
    assert (await world.admin.maintenance.list_topics(MaintenanceTopics())).topics == [TOPIC]


async def test_a_topic_that_takes_long_is_known_as_such_to_every_run(
    world: BrokerWorld, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Runs overlap where a worker asks again: what one knows of a tenant's slow topics the others know, and none begins what
    another is at."""
    monkeypatch.setattr(maintenance, "SLOW_S", 0.05)
    handlers = world.admin.maintenance
    begun: list[str] = []

    async def maintain(name: TopicName, result: MaintenanceResult) -> None:
        begun.append(str(name))
        if str(name) == TOPIC:
            await asyncio.Event().wait()

    monkeypatch.setattr(handlers, "maintain", maintain)
    slow = asyncio.ensure_future(handlers.run(MaintenanceRun(task_id="1", topics=[TOPIC])))
    await eventually(lambda: begun == [TOPIC])
    beside = await handlers.run(MaintenanceRun(task_id="2", topics=[TOPIC, f"{TOPIC}-quick"]))
    assert (beside.passed_over, begun) == (1, [TOPIC, f"{TOPIC}-quick"])
    assert (await slow).passed_over == 1
    after = await handlers.run(MaintenanceRun(task_id="3", topics=[TOPIC]))
    assert (after.passed_over, begun) == (1, [TOPIC, f"{TOPIC}-quick"])


async def test_what_a_run_had_begun_is_not_begun_again_though_its_caller_left(
    world: BrokerWorld, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    handlers, going_on, begun = world.admin.maintenance, asyncio.Event(), 0

    async def maintain(name: TopicName, result: MaintenanceResult) -> None:
        nonlocal begun
        begun += 1
        await going_on.wait()
        result.expired_entries += 7

    monkeypatch.setattr(handlers, "maintain", maintain)
    left = asyncio.ensure_future(handlers.run(MaintenanceRun(task_id="1", topics=[TOPIC])))
    await eventually(lambda: begun == 1)
    left.cancel()
    await asyncio.gather(left, return_exceptions=True)
    assert (await handlers.run(MaintenanceRun(task_id="2", topics=[TOPIC]))).passed_over == 1
    going_on.set()

    async def told() -> bool:
        return (await handlers.run(MaintenanceRun(task_id="3", topics=[]))).expired_entries == 7

    await eventually(told)
    assert begun == 1
