"""The cursor log over stores in memory: what was durable is given back after any end, and nothing is kept longer than needed."""

from __future__ import annotations

import asyncio

from hypothesis import given, settings
from hypothesis import strategies as st

from messaging.storage.ledger_store import (
    EARLIEST,
    DiskFull,
    StoreError,
)
from tests.support.examples import examples
from tests.support.storage.cursor_world import World
from tests.support.storage.memory_ledgers import MemoryLedgerStore
from tests.support.waiting import eventually


async def test_deltas_of_one_turn_share_one_block() -> None:
    world = await World().start()
    first_id, second_id = await world.subscriptions(2)
    order: list[str] = []
    for index in range(50):
        subscription_id = first_id if index % 2 else second_id
        world.log.append(subscription_id, b"%d" % index, lambda error, index=index: order.append(f"{index} {error}"))  # type: ignore[misc]
    assert order == []
    await eventually(lambda: len(order) == 50)
    assert order == [f"{index} None" for index in range(50)]
    (ledger,) = await world.ledgers()
    reader = await world.memory.open(ledger)
    (block,) = await reader.read(0, entries_max=100, bytes_max=1 << 20)
    assert block.count == 50


async def test_done_comes_after_the_block_is_durable() -> None:
    world = await World().start()
    (subscription_id,) = await world.subscriptions(1)
    world.store.hold()
    storing = asyncio.ensure_future(world.store_delta(subscription_id, b"a"))
    await eventually(lambda: bool(world.store.held))
    assert not storing.done()
    world.store.release()
    assert await storing is None


async def test_a_change_of_nothing_waits_for_the_change_made_before() -> None:
    """The same acknowledgement a second time was answered while the first was on its way to the disk."""
    world = await World().start()
    (subscription_id,) = await world.subscriptions(1)
    order: list[str] = []
    world.log.when_durable(subscription_id, lambda error: order.append(f"nothing before {error}"))
    assert order == ["nothing before None"]
    world.store.hold()
    world.log.append(subscription_id, b"a", lambda error: order.append("first"))
    world.log.when_durable(subscription_id, lambda error: order.append("in the same turn"))
    await eventually(lambda: bool(world.store.held))
    world.log.when_durable(subscription_id, lambda error: order.append("under way"))
    assert len(order) == 1
    world.store.release()
    await eventually(lambda: len(order) == 4)
    assert order[1:] == ["first", "in the same turn", "under way"]
    world.store.fail_appends(DiskFull("full"))
    assert await world.store_delta(subscription_id, b"b") is not None
    refused: list[StoreError | None] = []
    world.log.when_durable(subscription_id, refused.append)
    assert isinstance(refused[0], DiskFull)


async def test_a_crash_gives_every_delta_back_in_order() -> None:
    world = await World().start()
    first_id, second_id = await world.subscriptions(2)
    for index in range(5):
        await world.store_delta(first_id, b"a%d" % index)
    await world.store_delta(second_id, b"b")
    after = await world.crash()
    assert after.log.recovered_deltas(first_id) == [b"a0", b"a1", b"a2", b"a3", b"a4"]
    assert after.log.recovered_deltas(second_id) == [b"b"]
    assert after.log.recovered_deltas(99) == []
    again = await after.crash()  # nothing was loaded in between
    assert again.log.recovered_deltas(first_id) == [b"a0", b"a1", b"a2", b"a3", b"a4"]


async def test_a_clean_stop_leaves_nothing_to_repeat() -> None:
    world = await World().start()
    (subscription_id,) = await world.subscriptions(1)
    await world.store_delta(subscription_id, b"a")
    await world.log.stop()
    assert len(await world.ledgers()) == 1
    after = await world.crash()
    assert after.log.recovered == {}
    await after.load()
    assert after.loaded[subscription_id] == [b"a"]


async def test_a_checkpoint_saves_what_changed_and_drops_the_old_ledger() -> None:
    world = await World(checkpoint_bytes=300).start()
    first_id, second_id = await world.subscriptions(2)
    first = await world.ledgers()
    index = 0
    while await world.ledgers() == first or len(await world.ledgers()) > 1:
        await world.store_delta(first_id, b"a%02d" % index)
        index += 1
        assert index < 1000
    assert await world.named() == await world.ledgers()
    await world.store_delta(second_id, b"b")
    after = await world.crash()
    await after.load()
    assert after.loaded[first_id] == world.loaded[first_id]
    assert after.loaded[second_id] == [b"b"]


async def test_deltas_of_topics_that_are_not_loaded_are_carried_over() -> None:
    world = await World().start()
    first_id, second_id = await world.subscriptions(2)
    await world.store_delta(first_id, b"a")
    await world.store_delta(second_id, b"b")
    after = await world.crash()
    after.claim(second_id, [b"b"])
    for _ in range(3):
        await after.log.checkpoint()
        assert len(await after.ledgers()) == 1
    again = await after.crash()
    assert again.log.recovered_deltas(first_id) == [b"a"]
    assert again.log.recovered_deltas(second_id) == []
    await again.load()
    assert again.loaded == {first_id: [b"a"], second_id: [b"b"]}


async def test_carried_deltas_do_not_cause_checkpoint_after_checkpoint() -> None:
    world = await World().start()
    (subscription_id,) = await world.subscriptions(1)
    await world.store_delta(subscription_id, b"x" * 1000)
    after = World(MemoryLedgerStore(world.memory), world.meta, checkpoint_bytes=200)
    await after.start()
    await after.log.checkpoint()
    ledgers = await after.ledgers()
    (second_id,) = [
        (
            await after.meta.create_subscription(
                after.log.storage.fence, "persistent://a/b/u", "s", created_ms=0, mark_delete=EARLIEST, properties={}
            )
        )
    ]
    after.claim(second_id.subscription_id)
    await after.store_delta(second_id.subscription_id, b"y")
    assert await after.ledgers() == ledgers
    assert after.log.checkpointing is None


async def test_deltas_of_deleted_subscriptions_are_not_carried_for_ever() -> None:
    world = await World().start()
    first_id, second_id = await world.subscriptions(2)
    await world.store_delta(first_id, b"a")
    await world.store_delta(second_id, b"b")
    after = await world.crash()
    await after.meta.delete_subscription(after.log.storage.fence, "persistent://a/b/t", "s0")
    await after.log.checkpoint()
    assert after.log.recovered == {second_id: [b"b"]}
    again = await after.crash()
    assert again.log.recovered == {second_id: [b"b"]}


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("delta"), st.integers(0, 2)),
        st.tuples(st.sampled_from(["checkpoint", "crash", "stop", "load", "outage"]), st.just(0)),
    ),
    max_size=25,
)


@settings(deadline=None, max_examples=examples(150))
@given(STEPS)
def test_no_end_loses_what_was_durable(steps: list[tuple[str, int]]) -> None:
    async def run() -> None:
        world = await World(checkpoint_bytes=120).start()
        ids = await world.subscriptions(3)
        durable: dict[int, list[bytes]] = {subscription_id: [] for subscription_id in ids}
        crashes = 1 + sum(what in ("crash", "stop") for what, _ in steps)
        for number, (what, which) in enumerate(steps):
            if what == "delta" and ids[which] in world.loaded:
                delta = b"%d" % number
                assert await world.store_delta(ids[which], delta) is None
                durable[ids[which]].append(delta)
            elif what == "checkpoint" and world.log.checkpointing is None:
                await world.log.checkpoint()
            elif what == "crash":
                world = await world.crash()
            elif what == "stop":
                await world.log.stop()
                world = await world.crash()
            elif what == "load":
                await world.load()
            elif what == "outage" and world.loaded:
                world.store.fail_appends(DiskFull("full"))
                for key in world.loaded:
                    delta = b"%d-%d" % (number, key)
                    assert await world.store_delta(key, delta) is not None
                    durable[key].append(delta)
                world.store.heal()
                await eventually(lambda: len(world.repaired) == len(world.failures))  # noqa: B023
        world = await world.crash()
        await world.load()
        assert world.loaded == durable
        await world.log.stop()
        assert len(await world.named()) == 1
        assert len(await world.ledgers()) <= 1 + crashes, "a crash may leave one that was made and not named, nothing else does"

    asyncio.run(run())
