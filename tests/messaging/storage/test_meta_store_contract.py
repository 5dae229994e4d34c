"""What every MetaStore promises, run on each implementation."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from messaging.protocol.names import parse_topic
from messaging.storage.ledger_store import EARLIEST, Position
from messaging.storage.meta_store import LedgerRecord, MetaConflict, MetaStore, PartitionedRecord, TopicRecord
from tests.support.storage.owning import FENCE

TOPIC = "persistent://acme/orders/in"


async def test_topic_round_trip_survives_restart(store: MetaStore) -> None:
    ledgers = (LedgerRecord(7, 41, 1000, 5, 6), LedgerRecord(9))
    record = TopicRecord(TOPIC, 0, 123, ledgers, Position(9, 3), {"a": "ä"}, topic_epoch=7)
    stored = await store.cas_topic(FENCE, record)
    assert stored.version == 1
    await store.stop()
    await store.start()
    assert await store.get_topic(TOPIC) == stored
    assert await store.get_topic(TOPIC + "x") is None


async def test_compare_and_set_refuses_a_stale_version(store: MetaStore) -> None:
    first = await store.cas_topic(FENCE, TopicRecord(TOPIC))
    second = await store.cas_topic(FENCE, first.with_ledgers((LedgerRecord(1),)))
    with pytest.raises(MetaConflict):
        await store.cas_topic(FENCE, first)
    with pytest.raises(MetaConflict):
        await store.cas_topic(FENCE, TopicRecord(TOPIC))
    with pytest.raises(MetaConflict):
        await store.cas_topic(FENCE, TopicRecord(TOPIC + "-gone", version=3))
    assert await store.get_topic(TOPIC) == second


async def test_calls_commit_in_call_order_and_a_conflict_fails_alone(store: MetaStore) -> None:
    results = await asyncio.gather(
        store.cas_topic(FENCE, TopicRecord(TOPIC)),
        store.cas_topic(FENCE, TopicRecord(TOPIC)),
        store.cas_topic(FENCE, TopicRecord(TOPIC, version=1, created_ms=8)),
        store.get_topic(TOPIC),
        return_exceptions=True,
    )
    assert isinstance(results[1], MetaConflict)
    assert isinstance(results[2], TopicRecord) and results[2].version == 2
    assert results[3] == results[2]


async def test_many_topics_are_listed_in_pages(store: MetaStore) -> None:
    names = sorted(f"persistent://acme/orders/t-{number}" for number in range(2500))
    others = [f"persistent://acme/orders2/t-{number}" for number in range(10)]
    await asyncio.gather(*(store.cas_topic(FENCE, TopicRecord(name)) for name in names + others))
    listed: list[str] = []
    while page := await store.list_topics("acme/orders", after=listed[-1] if listed else "", limit=1000):
        assert len(page) <= 1000
        listed += page
    assert listed == names
    everything: list[str] = []
    while page := await store.list_all_topics(after=everything[-1] if everything else "", limit=999):
        everything += page
    assert everything == sorted(names + others)


async def test_the_ledgers_that_topics_name_are_listed_in_pages_of_topics(store: MetaStore) -> None:
    assert await store.referenced_ledgers() == ([], None)
    names = sorted(f"persistent://acme/orders/t-{number}" for number in range(25))
    ledgers_of = {name: tuple(LedgerRecord(10 * at + number, 7, 9) for number in range(at % 3)) for at, name in enumerate(names)}
    await asyncio.gather(
        *(store.cas_topic(FENCE, TopicRecord(name, ledgers=ledgers_of[name], properties={"a": "b"})) for name in names)
    )
    ids, after = await store.referenced_ledgers(limit=10)
    assert (sorted(ids), after) == (sorted(ledger.ledger_id for name in names[:10] for ledger in ledgers_of[name]), names[9])
    pages = 1
    while after is not None:
        more, after = await store.referenced_ledgers(after=after, limit=5)
        ids += more
        pages += 1
    assert sorted(ids) == sorted(ledger.ledger_id for ledgers in ledgers_of.values() for ledger in ledgers)
    assert pages <= 5
    await store.delete_topic(FENCE, names[1])
    assert await store.referenced_ledgers(limit=100) == ([ledger_id for ledger_id in ids if ledger_id // 10 != 1], None)


async def test_delete_topic_takes_its_subscriptions_and_is_idempotent(store: MetaStore) -> None:
    await store.cas_topic(FENCE, TopicRecord(TOPIC))
    await store.create_subscription(FENCE, TOPIC, "s", created_ms=1, mark_delete=EARLIEST, properties={})
    await store.delete_topic(FENCE, TOPIC)
    await store.delete_topic(FENCE, TOPIC)
    assert await store.get_topic(TOPIC) is None
    assert await store.subscriptions(TOPIC) == []


async def test_subscription_ids_are_never_used_again(store: MetaStore) -> None:
    first = await store.create_subscription(FENCE, TOPIC, "s", created_ms=1, mark_delete=Position(3, 4), properties={"k": "v"})
    assert (first.mark_delete, first.state, first.properties) == (Position(3, 4), b"", {"k": "v"})
    with pytest.raises(MetaConflict):
        await store.create_subscription(FENCE, TOPIC, "s", created_ms=2, mark_delete=EARLIEST, properties={})
    await store.delete_subscription(FENCE, TOPIC, "s")
    await store.delete_subscription(FENCE, TOPIC, "s")
    two = await store.create_subscription(FENCE, TOPIC, "s", created_ms=2, mark_delete=EARLIEST, properties={})
    assert two.subscription_id > first.subscription_id


async def test_a_partitioned_topic_counts_as_one_on_a_page(store: MetaStore) -> None:
    at = "persistent://acme/orders/"
    for name in ("p", "p-partition-1-partition-1", "a/b"):
        await store.cas_partitioned(FENCE, PartitionedRecord(f"{at}{name}", 12))
    await store.cas_partitioned(FENCE, PartitionedRecord("non-persistent://acme/orders/n", 2))
    partitions = [f"p-partition-{index}" for index in range(12)] + ["p-partition-1-partition-1-partition-3"]
    plain = [
        "lone-partition-3",
        "lone-partition-10",
        "lone-partition-3-partition-4",
        "lone-partition-03",
        "o",
        "p-partition-07",
        "p-p",
    ]
    plain += ["p-partition-1x", "p-partition-", "-partition-1", "q", "p-partition-2-partition-8", "ä-partition-1", "ä"]
    for name in (*partitions, *plain):
        await store.cas_topic(FENCE, TopicRecord(f"{at}{name}"))
    await store.cas_topic(FENCE, TopicRecord("persistent://acme/orders2/other"))
    await store.cas_topic(FENCE, TopicRecord("non-persistent://acme/orders/stored"))
    expected = [(f"{at}{name}", 0) for name in plain] + [("non-persistent://acme/orders/n", 2)]
    expected = sorted([*expected, (f"{at}p", 12), (f"{at}p-partition-1-partition-1", 12), (f"{at}a/b", 12)])
    for limit in (1, 2, 3, 7, 100):
        listed: list[tuple[str, int]] = []
        while page := await store.page_of_topics("acme/orders", after=listed[-1][0] if listed else "", limit=limit):
            assert len(page) == min(limit, len(expected) - len(listed))
            listed += page
        assert listed == expected
    for name in (*partitions, "p-partition-5x", "lone", "zz"):
        rest = await store.page_of_topics("acme/orders", after=f"{at}{name}")
        assert rest == [row for row in expected if row[0] > f"{at}{name}"], name
    for words in ("p", "partition-1", "one", "a/b", "orders", "%", "_", "Ä".lower(), "n"):
        matching = [row for row in expected if words in row[0].split("/", 4)[4]]
        assert await store.page_of_topics("acme/orders", words=words) == matching, words
        assert (
            await store.page_of_topics("acme/orders", words=words, limit=2, after=at)
            == [row for row in matching if row[0] > at][:2]
        )
    assert await store.count_in_pages("acme/orders") == (len(expected), len(partitions) + len(plain))
    assert await store.count_in_pages("acme/none") == (0, 0)


async def test_save_cursors_passes_over_unknown_ids(store: MetaStore) -> None:
    first = await store.create_subscription(FENCE, TOPIC, "a", created_ms=1, mark_delete=EARLIEST, properties={})
    two = await store.create_subscription(FENCE, TOPIC, "b", created_ms=1, mark_delete=EARLIEST, properties={})
    await store.save_cursors(
        FENCE,
        [(first.subscription_id, Position(1, 2), b"x"), (999, Position(1, 1), b"?"), (two.subscription_id, Position(5, 6), b"")],
    )
    subscriptions = await store.subscriptions(TOPIC)
    assert [(s.name, s.mark_delete, s.state) for s in subscriptions] == [("a", Position(1, 2), b"x"), ("b", Position(5, 6), b"")]


async def test_partitioned_records(store: MetaStore) -> None:
    with pytest.raises(MetaConflict):
        await store.cas_partitioned(FENCE, PartitionedRecord(TOPIC, 4, version=1))
    first = await store.cas_partitioned(FENCE, PartitionedRecord(TOPIC, 4, 9, {"p": "q"}))
    assert first == PartitionedRecord(TOPIC, 4, 9, {"p": "q"}, version=1)
    with pytest.raises(MetaConflict):
        await store.cas_partitioned(FENCE, PartitionedRecord(TOPIC, 4))
    more = await store.cas_partitioned(FENCE, replace(first, partitions=8))
    with pytest.raises(MetaConflict):
        await store.cas_partitioned(FENCE, replace(first, partitions=6))  # it grew meanwhile
    assert await store.get_partitioned(TOPIC) == more
    assert await store.list_partitioned("acme/orders") == [more]
    assert await store.list_partitioned("acme/other") == []
    await store.delete_partitioned(FENCE, TOPIC)
    await store.delete_partitioned(FENCE, TOPIC)
    assert await store.get_partitioned(TOPIC) is None


async def test_a_name_is_of_one_topic_partitioned_or_not(store: MetaStore) -> None:
    await store.cas_topic(FENCE, TopicRecord(TOPIC))
    with pytest.raises(MetaConflict, match="without partitions"):
        await store.cas_partitioned(FENCE, PartitionedRecord(TOPIC, 1))
    await store.delete_topic(FENCE, TOPIC)
    both = await asyncio.gather(
        store.cas_topic(FENCE, TopicRecord(TOPIC)),
        store.cas_partitioned(FENCE, PartitionedRecord(TOPIC, 1)),
        return_exceptions=True,
    )
    assert [isinstance(outcome, MetaConflict) for outcome in both] == [False, True]


async def test_a_plain_topic_may_be_called_like_a_partition(store: MetaStore) -> None:
    """Then no partitioned topic can have the partition's name without it."""
    await store.cas_topic(FENCE, TopicRecord(f"{TOPIC}-partition-7"))
    for other in ("-partition-07", "-partition-", "-partition-1-partition-2", "x-partition-0"):
        await store.cas_topic(FENCE, TopicRecord(f"{TOPIC}{other}"))
    with pytest.raises(MetaConflict, match="-partition-7 exists, a plain topic"):
        await store.cas_partitioned(FENCE, PartitionedRecord(TOPIC, 1))
    await store.delete_topic(FENCE, f"{TOPIC}-partition-7")
    await store.cas_partitioned(FENCE, PartitionedRecord(TOPIC, 1))


async def test_a_partition_of_a_partitioned_topic_is_one_of_its_number(store: MetaStore) -> None:
    parent = await store.cas_partitioned(FENCE, PartitionedRecord(TOPIC, 1))
    await store.cas_topic(FENCE, TopicRecord(f"{TOPIC}-partition-0"))
    with pytest.raises(MetaConflict, match="has 1 partitions"):
        await store.cas_topic(FENCE, TopicRecord(f"{TOPIC}-partition-1"))
    parent = await store.cas_partitioned(FENCE, replace(parent, growing_to=2))
    await store.cas_topic(FENCE, TopicRecord(f"{TOPIC}-partition-1"))
    await store.delete_topic(FENCE, f"{TOPIC}-partition-1")
    await store.cas_partitioned(FENCE, replace(parent, deleting=True))
    with pytest.raises(MetaConflict, match="being deleted"):
        await store.cas_topic(FENCE, TopicRecord(f"{TOPIC}-partition-1"))


@pytest.mark.parametrize(
    "local", ["t", "t-partition-0", "t-partition-12", "t-partition-07", "t-partition-", "-partition-1", "t-partition-1-partition-2"]
)
async def test_the_name_of_a_partition_is_one_rule(store: MetaStore, local: str) -> None:
    """Names are parsed by the protocol; the store, which knows nothing of that, has the rule again."""
    name = parse_topic(f"acme/orders/{local}")
    await store.cas_partitioned(FENCE, PartitionedRecord(str(name.base), 1))
    try:
        await store.cas_topic(FENCE, TopicRecord(str(name)))
        made = True
    except MetaConflict:
        made = False
    assert made == (name.partition == 0)


async def test_unfinished_partitioned_topics_are_found_after_a_restart(store: MetaStore) -> None:
    growing = await store.cas_partitioned(FENCE, PartitionedRecord(TOPIC, 1, growing_to=2))
    deleting = await store.cas_partitioned(FENCE, PartitionedRecord("persistent://acme/other/in", 1, deleting=True))
    await store.cas_partitioned(FENCE, PartitionedRecord("persistent://acme/other/at-rest", 1))
    await store.stop()
    await store.start()
    assert sorted(await store.unfinished_partitioned(), key=lambda record: record.name) == [growing, deleting]


async def test_ledger_ids_rise_across_restarts(store: MetaStore) -> None:
    ids = list(await asyncio.gather(*(store.next_ledger_id(FENCE) for _ in range(2500))))
    assert len(set(ids)) == 2500 and min(ids) > 0
    await store.stop()
    await store.start()
    assert await store.next_ledger_id(FENCE) > max(ids)


async def test_no_more_ledger_ids_are_taken_than_given_out(store: MetaStore) -> None:
    """So a ledger with a higher id than a backup of the metadata knows is newer than the backup."""
    assert await store.first_free_ledger_id() == 1
    ids = await asyncio.gather(*(store.next_ledger_id(FENCE) for _ in range(5)))
    assert await store.first_free_ledger_id() == max(ids) + 1
    assert await store.next_ledger_id(FENCE, after=100) == 101
    assert await store.next_ledger_id(FENCE) == 102
    assert await store.next_ledger_id(FENCE, after=50) == 103
    assert await store.first_free_ledger_id() == 104


async def test_values(store: MetaStore) -> None:
    assert await store.get_value("k") is None
    await store.put_value(FENCE, "k", b"1")
    await store.put_value(FENCE, "k", b"2")
    assert await store.get_value("k") == b"2"


async def test_which_of_many_subscriptions_exist(store: MetaStore) -> None:
    await store.cas_topic(FENCE, TopicRecord(TOPIC))
    made = [
        await store.create_subscription(FENCE, TOPIC, name, created_ms=0, mark_delete=EARLIEST, properties={})
        for name in ("a", "b", "c")
    ]
    await store.delete_subscription(FENCE, TOPIC, "b")
    ids = [subscription.subscription_id for subscription in made]
    assert await store.existing_subscriptions([*ids, *range(10_000, 60_000)]) == {ids[0], ids[2]}
    assert await store.existing_subscriptions([]) == set()
    await store.delete_topic(FENCE, TOPIC)
    assert await store.existing_subscriptions(ids) == set()


async def test_names_are_searched_within_a_tenant_or_in_all(store: MetaStore) -> None:
    names = [
        "acme/orders/Placed",
        "acme/orders/paid",
        "acme/orders/x-partition-0",
        "acme/orders/x-partition-1",
        "acmeplus/orders/placed",
        "acme/orders/like-partition-7",
    ]
    await store.cas_partitioned(FENCE, PartitionedRecord("persistent://acme/orders/x", 2))
    for name in names:
        await store.cas_topic(FENCE, TopicRecord(f"persistent://{name}"))
        await store.create_subscription(FENCE, f"persistent://{name}", "billing", created_ms=1, mark_delete=EARLIEST, properties={})
    placed = await store.search("acme", "plac", 10)
    assert placed == (["persistent://acme/orders/Placed"], [])
    assert (await store.search("", "orders/plac", 10)).topics == [f"persistent://{names[0]}", f"persistent://{names[4]}"]
    assert (await store.search("acme", "x", 10)).topics == ["persistent://acme/orders/x"]
    assert (await store.search("acme", "bill", 10)).subscriptions == [
        ("persistent://acme/orders/Placed", "billing"),
        ("persistent://acme/orders/like-partition-7", "billing"),
        ("persistent://acme/orders/paid", "billing"),
        ("persistent://acme/orders/x", "billing"),
    ]
    alone = "persistent://acme/orders/like-partition-7"  # a plain topic
    assert await store.search("acme", "like", 10) == ([alone], [])
    assert await store.search("acme", "%", 10) == ([], [])
    assert await store.search("acme", "persistent", 10) == ([], [])
    await store.cas_partitioned(FENCE, PartitionedRecord("non-persistent://acme/orders/Passed", 1))
    await store.cas_topic(FENCE, TopicRecord("non-persistent://acme/orders/Passed-partition-0"))
    assert (await store.search("acme", "passed", 10)).topics == ["non-persistent://acme/orders/Passed"]
    assert (await store.search("", "/pa", 10)).topics == ["non-persistent://acme/orders/Passed", "persistent://acme/orders/paid"]
    first = await store.search("", "", 2)
    assert len(first.topics) == len(first.subscriptions) == 2


async def test_a_topic_that_is_called_what_is_looked_for_comes_first(store: MetaStore) -> None:
    """Also where the namespace's name, and with it that of every topic, has the words."""
    names = [f"persistent://acme/web-orders/{name}" for name in ("a", "b", "c", "Orders", "orders-2")]
    for name in names:
        await store.cas_topic(FENCE, TopicRecord(name))
    await store.cas_partitioned(FENCE, PartitionedRecord("persistent://acme/web-orders/z/orders", 1))
    found = (await store.search("acme", "orders", 3)).topics
    assert found == ["persistent://acme/web-orders/Orders", "persistent://acme/web-orders/z/orders", names[0]]
    assert (await store.search("", "orders", 3)).topics == found


async def test_properties_of_a_subscription_are_replaced(store: MetaStore) -> None:
    await store.cas_topic(FENCE, TopicRecord(TOPIC))
    made = await store.create_subscription(FENCE, TOPIC, "s", created_ms=1, mark_delete=EARLIEST, properties={"a": "1"})
    await store.set_subscription_properties(FENCE, TOPIC, "s", {"b": "2"})
    assert await store.subscriptions(TOPIC) == [replace(made, properties={"b": "2"})]
    await store.set_subscription_properties(FENCE, TOPIC, "unknown", {"c": "3"})
    assert len(await store.subscriptions(TOPIC)) == 1


async def test_counts_of_a_tenant_are_by_namespace(store: MetaStore) -> None:
    for tenant, local, partitions, growing_to in (
        ("acme", "a", 3, 0),
        ("acme", "b", 2, 5),
        ("acme0", "c", 7, 0),
        ("acm", "d", 1, 0),
    ):
        record = PartitionedRecord(f"persistent://{tenant}/orders/{local}", partitions, growing_to=growing_to)
        await store.cas_partitioned(FENCE, record)
        await store.add_schema_version(FENCE, record.name, 0, b"first")
        await store.add_schema_version(FENCE, record.name, 1, b"second")
    await store.cas_partitioned(FENCE, PartitionedRecord("non-persistent://acme/others/e", 4))
    assert await store.count_partitions("acme") == {"acme/orders": 3 + 5, "acme/others": 4}
    assert await store.count_schemas("acme") == {"acme/orders": 4}
    assert await store.count_partitions("nobody") == await store.count_schemas("nobody") == {}
    await store.stop()
    await store.start()
    assert await store.count_partitions("acme") == {"acme/orders": 8, "acme/others": 4}


async def test_records_of_a_tenant_come_in_pages(store: MetaStore) -> None:
    names = [f"persistent://{place}" for place in ("acme/a/t", "acme/b/t", "acme/b/u", "acme0/a/t", "acm/a/t")]
    for name in [*names, "non-persistent://acme/a/t"]:
        await store.cas_topic(FENCE, TopicRecord(name, 0, 123, (LedgerRecord(7, 41, 1000, 5, 6),)))
    first = await store.topic_records("acme", limit=2)
    assert [record.name for record in first] == names[:2] and first[0].ledgers[0].length_bytes == 1000
    assert [record.name for record in await store.topic_records("acme", after=names[1], limit=2)] == names[2:3]
    assert await store.topic_records("nobody") == []
