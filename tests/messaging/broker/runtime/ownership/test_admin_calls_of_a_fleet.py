"""Admin calls in a fleet: whichever broker is asked, the one that serves the topic answers, or all that serve its partitions."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from messaging.adminrpc.audit import AuditTake
from messaging.adminrpc.base import Answer, Method, Request
from messaging.adminrpc.brokers import BrokerAsked
from messaging.adminrpc.callers import OF_BROKERS
from messaging.adminrpc.clients import ClientsDisconnect, ClientsDisconnected, ClientsList
from messaging.adminrpc.compaction import CompactionBegin, CompactionEnd, CompactionRead, CompactionsDue
from messaging.adminrpc.feed import FeedApply, FeedChange
from messaging.adminrpc.maintenance import MaintenanceRun
from messaging.adminrpc.messages import MessageGiven, MessagesPublish
from messaging.adminrpc.methods import (
    AUDIT_TAKE,
    BROKERS_LIST,
    CLIENTS_DISCONNECT,
    CLIENTS_LIST,
    COMPACTION_ABORT,
    COMPACTION_BEGIN,
    COMPACTION_DUE,
    COMPACTION_READ,
    FEED_APPLY,
    HEALTH,
    MAINTENANCE_RUN,
    MESSAGES_LIST,
    MESSAGES_PUBLISH,
    METHODS,
    NAMESPACES_LIVE,
    NAMESPACES_PURGE,
    PROBLEMS_LIST,
    RECYCLE_BIN_PURGE,
    RECYCLE_BIN_RESTORE,
    STATUS,
    SUBSCRIPTIONS_CREATE,
    SUBSCRIPTIONS_DEAD_LETTER_POLICY,
    SUBSCRIPTIONS_DELETE,
    SUBSCRIPTIONS_LIST,
    SUBSCRIPTIONS_PROPERTIES,
    SUBSCRIPTIONS_REMOVE_DEAD_LETTER_POLICY,
    SUBSCRIPTIONS_SET_DEAD_LETTER_POLICY,
    SUBSCRIPTIONS_SKIP,
    TOPICS_COMPACTION_STATUS,
    TOPICS_CREATE,
    TOPICS_DELETE,
    TOPICS_FIGURES,
    TOPICS_INTERNAL_INFO,
    TOPICS_LAST_MESSAGE_ID,
    TOPICS_LIST,
    TOPICS_LOOKUP,
    TOPICS_MEMBERS,
    TOPICS_PAGE,
    TOPICS_PARTITIONED_INTERNAL_STATS,
    TOPICS_PARTITIONED_STATS,
    TOPICS_PARTITIONS,
    TOPICS_STATS,
    TOPICS_TERMINATE_PARTITIONS,
    TOPICS_TRUNCATE,
    TOPICS_UNLOAD,
    TOPICS_UPDATE_PARTITIONS,
    USAGE_FLUSH,
)
from messaging.adminrpc.problems import ProblemsList
from messaging.adminrpc.recycle_bin import RecycledRef
from messaging.adminrpc.subscriptions import (
    DeadLetterPolicySet,
    SubscriptionCreate,
    SubscriptionDelete,
    SubscriptionRef,
    SubscriptionSkip,
)
from messaging.adminrpc.topics import (
    LiveAsked,
    PartitionsGet,
    PartitionsUpdate,
    StatsAsked,
    TopicCreate,
    TopicDelete,
    TopicLookup,
    TopicMembersAsked,
    TopicRef,
    TopicsList,
    TopicsPageAsked,
)
from messaging.adminrpc.usage import UsageFlush
from messaging.broker.runtime.admin.merging import MERGES, OF_EVERY_BROKER
from messaging.client import connect
from messaging.errors import Conflict, NotReady, PreconditionFailed, SubscriptionNotFound, TopicNotFound
from messaging.protocol.names import parse_topic
from tests.support.brokers.fleet import fleet_broker, running_fleet
from tests.support.brokers.running_broker import GRANTS, RunningBroker
from tests.support.waiting import eventually

EVERYTHING = ProblemsList(of_tenants=[], of_namespaces=[], everywhere=True, problems_max=1)
PLAIN = [f"persistent://acme/orders/t{number}" for number in range(8)]
PARTITIONED = "persistent://acme/orders/parts"
PARTITIONS = [f"{PARTITIONED}-partition-{index}" for index in range(8)]
COUNT = len(PARTITIONS)


@pytest.fixture
async def fleet(tmp_path: Path) -> AsyncIterator[list[RunningBroker]]:
    """Two brokers with the topics of `PLAIN`, and one message in each partition of `PARTITIONED`."""
    # Tokens of services are cached by their folder, and the name of `tmp_path` may be that of a test before.
    async with running_fleet(tmp_path / uuid.uuid4().hex, 2) as brokers:
        for broker in brokers:
            await broker.service.owners.look()  # type: ignore[attr-defined]
        await ask(brokers[0], TOPICS_CREATE, TopicCreate(topic=PARTITIONED, partitions=COUNT))
        async with connect(brokers[1].service.addresses.service_url, brokers[1].token("owner")) as client:
            for topic in [*PLAIN, *PARTITIONS]:
                async with client.producer(topic) as producer:
                    await producer.send(topic.encode())
        yield brokers


async def ask(broker: RunningBroker, method: Method[Any, Any], request: Request) -> Any:
    answer = await broker.admin.methods[method.name](request)
    assert isinstance(answer, Answer)
    return answer


def serving(fleet: list[RunningBroker], topics: list[str]) -> list[set[str]]:
    return [{topic for topic in topics if topic in broker.service.topics.loaded} for broker in fleet]


async def test_a_plain_topic_is_answered_for_by_its_owner(fleet: list[RunningBroker]) -> None:
    assert all(serving(fleet, PLAIN)), "each serves some"
    for broker in fleet:
        for topic in PLAIN:
            stats = (await ask(broker, TOPICS_STATS, StatsAsked(topic=topic))).stats
            assert stats["msgInCounter"] == 1
            assert (await ask(broker, TOPICS_LAST_MESSAGE_ID, TopicRef(topic=topic))).entry_id == 0
    with pytest.raises(TopicNotFound):
        await ask(fleet[0], TOPICS_STATS, StatsAsked(topic="persistent://acme/orders/none"))


async def test_a_lookup_names_the_owner(fleet: list[RunningBroker]) -> None:
    owners = serving(fleet, PLAIN)
    for topic in PLAIN:
        owner = next(broker for broker, served in zip(fleet, owners, strict=True) if topic in served)
        for broker in fleet:
            assert (await ask(broker, TOPICS_LOOKUP, TopicLookup(topic=topic))).broker_url == owner.service.addresses.broker_url


async def test_topics_are_created_and_deleted_where_they_are(fleet: list[RunningBroker]) -> None:
    for broker, topics in zip(fleet, (PLAIN[:4], PLAIN[4:]), strict=True):
        for topic in topics:
            await ask(broker, TOPICS_DELETE, TopicDelete(topic=topic, force=True))
            with pytest.raises(TopicNotFound):
                await ask(fleet[0], TOPICS_STATS, StatsAsked(topic=topic))
            await ask(broker, TOPICS_CREATE, TopicCreate(topic=topic))
            with pytest.raises(Conflict):
                await ask(fleet[1], TOPICS_CREATE, TopicCreate(topic=topic))


async def test_stats_of_a_partitioned_topic_are_of_all_partitions(fleet: list[RunningBroker]) -> None:
    assert all(serving(fleet, PARTITIONS)), "each serves some"
    for broker in fleet:
        stats = (await ask(broker, TOPICS_PARTITIONED_STATS, StatsAsked(topic=PARTITIONED))).stats
        assert stats["msgInCounter"] == COUNT
        assert list(stats["partitions"]) == PARTITIONS
        assert stats["metadata"]["partitions"] == COUNT
        for method in (TOPICS_PARTITIONED_INTERNAL_STATS, TOPICS_INTERNAL_INFO):
            stats = (await ask(broker, method, TopicRef(topic=PARTITIONED))).stats
            assert list(stats["partitions"]) == PARTITIONS
            assert stats.get("metadata", {"partitions": COUNT})["partitions"] == COUNT
        figures = (await ask(broker, TOPICS_FIGURES, TopicRef(topic=PARTITIONED))).stats["partitions"]
        assert list(figures) == [str(index) for index in range(COUNT)]


async def test_what_lists_of_a_topic_are_ordered_by_is_of_all_partitions(fleet: list[RunningBroker]) -> None:
    created = SubscriptionCreate(topic=PARTITIONED, subscription="s", ledger_id=-1, entry_id=-1)
    await ask(fleet[1], SUBSCRIPTIONS_CREATE, created)
    asked = TopicMembersAsked(topic=PARTITIONED, figures=["backlog", "behind", "consumers"])
    for broker in fleet:
        members = await ask(broker, TOPICS_MEMBERS, asked)
        assert (members.partitions, members.subscriptions) == (COUNT, ["s"])
        assert members.figures == {"backlog": [COUNT], "behind": [1], "consumers": [0]}
        assert members.backlogs == dict.fromkeys(PARTITIONS, 1)
        plain = [(await ask(broker, TOPICS_MEMBERS, TopicMembersAsked(topic=topic))).backlogs for topic in PLAIN]
        assert plain == [{topic: 0} for topic in PLAIN], "the owner answers"


async def test_subscriptions_of_a_partitioned_topic(fleet: list[RunningBroker]) -> None:
    made = await ask(
        fleet[1],
        SUBSCRIPTIONS_CREATE,
        SubscriptionCreate(topic=PARTITIONED, subscription="s", ledger_id=-1, entry_id=-1, properties={"a": "b"}),
    )
    assert list(made.moved) == PARTITIONS and made.refused is None
    with pytest.raises(Conflict, match="already exists"):
        await ask(fleet[0], SUBSCRIPTIONS_CREATE, SubscriptionCreate(topic=PARTITIONED, subscription="s"))
    reference = SubscriptionRef(topic=PARTITIONED, subscription="s")
    assert (await ask(fleet[0], SUBSCRIPTIONS_PROPERTIES, reference)).properties == {"a": "b"}
    assert (await ask(fleet[0], SUBSCRIPTIONS_LIST, TopicRef(topic=PARTITIONED))).subscriptions == ["s"]
    skipped = await ask(fleet[0], SUBSCRIPTIONS_SKIP, SubscriptionSkip(topic=PARTITIONED, subscription="s"))
    assert (list(skipped.moved), skipped.backlog_entries, skipped.skipped_entries) == (PARTITIONS, COUNT, COUNT)
    policy = DeadLetterPolicySet(topic=PARTITIONED, subscription="s", max_redeliver_count=3, owner="owner@acme")
    await ask(fleet[1], SUBSCRIPTIONS_SET_DEAD_LETTER_POLICY, policy)
    assert (await ask(fleet[0], SUBSCRIPTIONS_DEAD_LETTER_POLICY, reference)).max_redeliver_count == 3
    await ask(fleet[0], SUBSCRIPTIONS_REMOVE_DEAD_LETTER_POLICY, reference)
    assert (await ask(fleet[1], SUBSCRIPTIONS_DEAD_LETTER_POLICY, reference)).target == ""
    await ask(fleet[0], SUBSCRIPTIONS_DELETE, SubscriptionDelete(topic=PARTITIONED, subscription="s"))
    with pytest.raises(SubscriptionNotFound):
        await ask(fleet[1], SUBSCRIPTIONS_PROPERTIES, reference)


async def test_clients_of_a_partitioned_topic_are_disconnected_at_every_broker(fleet: list[RunningBroker]) -> None:
    asked = ClientsDisconnect(topic=PARTITIONED, dry_run=True)
    async with connect(fleet[1].service.addresses.service_url, fleet[1].token("owner")) as client, client.producer(PARTITIONED):
        assert all(serving(fleet, PARTITIONS)), "each serves some"
        for broker in fleet:
            assert await ask(broker, CLIENTS_DISCONNECT, asked) == ClientsDisconnected(producers=COUNT)
        assert (await ask(fleet[0], CLIENTS_DISCONNECT, ClientsDisconnect(topic=PARTITIONED))).producers == COUNT


async def test_changes_of_all_partitions(fleet: list[RunningBroker]) -> None:
    last = await ask(fleet[1], TOPICS_TERMINATE_PARTITIONS, TopicRef(topic=PARTITIONED))
    assert [position.entry_id for position in last.last] == [0] * COUNT and last.partitions == list(range(COUNT))
    await ask(fleet[0], TOPICS_TRUNCATE, TopicRef(topic=PARTITIONED))
    await ask(fleet[0], TOPICS_UNLOAD, TopicRef(topic=PARTITIONED))
    assert serving(fleet, PARTITIONS) == [set(), set()]


async def test_messages_are_published_to_each_partition_where_it_is(fleet: list[RunningBroker]) -> None:
    """It was refused for every partition that the owner of the partitioned topic does not serve."""
    asked = MessagesPublish(topic=PARTITIONED, messages=[MessageGiven(payload=b"x")] * COUNT)
    assert all(serving(fleet, PARTITIONS))
    for broker in fleet:
        chosen = [one.partition for one in (await ask(broker, MESSAGES_PUBLISH, asked)).ids]
        assert chosen == [(chosen[0] + index) % COUNT for index in range(COUNT)]


async def test_what_all_brokers_answer_together(fleet: list[RunningBroker]) -> None:
    for broker in fleet:
        await ask(broker, HEALTH, Request())
        rows = (await ask(broker, NAMESPACES_LIVE, LiveAsked(namespace="acme/orders"))).topics
        assert [row.topic for row in rows if row.loaded] == sorted([*PLAIN, *PARTITIONS])
        assert (await ask(broker, TOPICS_LIST, TopicsList(namespace="acme/orders"))).topics == sorted([*PLAIN, *PARTITIONS])
        assert (await ask(broker, COMPACTION_DUE, CompactionsDue())).topics == []
        assert (await ask(broker, USAGE_FLUSH, UsageFlush(task_id="t"))).rows >= 0
        done = await ask(broker, MAINTENANCE_RUN, MaintenanceRun(task_id="t", topics=[*PLAIN, *PARTITIONS]))
        assert (done.failed, done.passed_over) == ({}, 0)


async def test_a_change_of_the_control_plane_reaches_every_broker_or_the_one_that_it_did_not_is_named(
    fleet: list[RunningBroker], monkeypatch: pytest.MonkeyPatch
) -> None:
    def revoked(broker: RunningBroker, key: str) -> bool | None:
        return broker.service.access.view.key_revoked(key)

    async def revoke(key: str) -> int:
        version = fleet[0].service.access.view.version
        state = {"role": "x@acme", "tenant": "acme", "revoked": True}
        changes = [FeedChange(version=version + 1, kind="key", key=key, state=state)]
        return int(
            (await ask(fleet[0], FEED_APPLY, FeedApply(from_version=version, to_version=version + 1, changes=changes))).version
        )

    assert await revoke("writer") == fleet[0].service.access.view.version
    assert [revoked(broker, "writer") for broker in fleet] == [True, True]
    monkeypatch.setattr(fleet[0].service.owners, "others", lambda kind: ["http://127.0.0.1:1"])
    with pytest.raises(NotReady, match=r"^another broker is not responding"):
        await revoke("reader")
    assert [revoked(broker, "reader") for broker in fleet] == [True, False]


def unreachable(broker: RunningBroker, other: str) -> None:
    """So `broker` finds the other one."""
    sessions = broker.service.owners.owners.sessions  # type: ignore[attr-defined]
    sessions[other] = sessions[other]._replace(addresses=sessions[other].addresses | {"rpc_url": "http://127.0.0.1:1"})


@pytest.mark.parametrize("asked", [0, 1])
async def test_a_partitioned_topic_is_deleted_with_all_its_partitions(fleet: list[RunningBroker], asked: int) -> None:
    async with connect(fleet[0].service.addresses.service_url, fleet[0].token("owner")) as client:
        for served in serving(fleet, PARTITIONS):
            async with client.producer(sorted(served)[0]):
                with pytest.raises(PreconditionFailed):
                    await ask(fleet[asked], TOPICS_DELETE, TopicDelete(topic=PARTITIONED, partitioned=True))
    assert (await ask(fleet[0], TOPICS_PARTITIONS, PartitionsGet(topic=PARTITIONED))).partitions == COUNT, "nothing is deleted"
    before = [await ledgers(broker) for broker in fleet]
    await ask(fleet[asked], TOPICS_DELETE, TopicDelete(topic=PARTITIONED, partitioned=True))
    assert serving(fleet, PARTITIONS) == [set(), set()]
    after = [await ledgers(broker) for broker in fleet]
    assert sum(before) - sum(after) == COUNT and all(now < then for now, then in zip(after, before, strict=True))
    for broker in fleet:
        for partition in PARTITIONS:  # nor does a client that comes back make it a plain topic
            with pytest.raises((TopicNotFound, NotReady)):
                await broker.service.topics.get(parse_topic(partition), create=True)
    assert (await ask(fleet[0], TOPICS_LIST, TopicsList(namespace="acme/orders"))).topics == sorted(PLAIN)


async def ledgers(broker: RunningBroker) -> int:
    """How many are in its log."""
    storage = broker.service.storage
    return len(await storage.ledgers.ledger_ids(storage.owned.name))


async def test_a_growing_topic_gives_its_new_partitions_the_subscriptions_of_the_others(fleet: list[RunningBroker]) -> None:
    created = SubscriptionCreate(topic=PARTITIONED, subscription="s", ledger_id=-1, entry_id=-1)
    await ask(fleet[1], SUBSCRIPTIONS_CREATE, created)
    await ask(fleet[0], TOPICS_UPDATE_PARTITIONS, PartitionsUpdate(topic=PARTITIONED, partitions=2 * COUNT))
    stats = (await ask(fleet[1], TOPICS_PARTITIONED_STATS, StatsAsked(topic=PARTITIONED))).stats
    assert len(stats["partitions"]) == 2 * COUNT
    assert all(list(figures["subscriptions"]) == ["s"] for figures in stats["partitions"].values())


async def test_a_partitioned_topic_goes_to_the_bin_and_comes_back_or_goes_for_good(fleet: list[RunningBroker]) -> None:
    policies = {"recycle_bin_retention_hours": 24}
    for broker in fleet:
        await broker.say(("namespace", "acme/orders", {"grants": GRANTS, "policies": policies}))
    before = [await ledgers(broker) for broker in fleet]

    async def recycled(asked: RunningBroker) -> RecycledRef:
        deletion = TopicDelete(topic=PARTITIONED, partitioned=True, force=True, recycle=True)
        return RecycledRef(namespace="acme/orders", recycle_id=(await ask(asked, TOPICS_DELETE, deletion)).recycle_id)

    await ask(fleet[1], RECYCLE_BIN_RESTORE, await recycled(fleet[0]))
    assert [await ledgers(broker) for broker in fleet] == before
    stats = (await ask(fleet[0], TOPICS_PARTITIONED_STATS, StatsAsked(topic=PARTITIONED))).stats
    assert [figures["storageSize"] > 0 for figures in stats["partitions"].values()] == [True] * COUNT
    await ask(fleet[0], RECYCLE_BIN_PURGE, await recycled(fleet[1]))
    after = [await ledgers(broker) for broker in fleet]
    assert sum(before) - sum(after) >= COUNT and all(now < then for now, then in zip(after, before, strict=True))


async def test_what_is_left_of_a_namespace_that_is_gone_goes_at_every_broker(fleet: list[RunningBroker]) -> None:
    for broker in fleet:
        await broker.say(("namespace", "acme/orders", None))
    await ask(fleet[0], NAMESPACES_PURGE, TopicsList(namespace="acme/orders"))
    assert await fleet[0].service.storage.meta.list_all_topics() == []


async def test_pages_of_topics_are_of_all_brokers(fleet: list[RunningBroker]) -> None:
    named, after = list[str](), ""
    while True:
        page = await ask(fleet[0], TOPICS_PAGE, TopicsPageAsked(namespace="acme/orders", after=after, limit=3))
        named += [topic.topic for topic in page.topics]
        after = page.next
        if not after:
            break
    assert named == sorted([*PLAIN, PARTITIONED])


def test_every_call_that_names_no_topic_is_of_all_brokers_of_one_of_them_or_about_what_they_share() -> None:
    about_metadata = {
        "backup.hold",  # asked of each broker by itself
        "backup.keep",
        "backup.ledgers",
        "bookies.delete_rack",  # racks are in the metadata of the bookies
        "bookies.list",
        "bookies.set_rack",
        "brokers.forget",
        "brokers.list",
        "brokers.recover",
        "bundles.owners",
        "changes.outcome",  # of a change that the broker that was asked began
        "compaction.abort",
        "feed.version",
        "maintenance.run",  # divided
        "maintenance.topics",
        "names.search",
        "recycle_bin.expire",
        "recycle_bin.get",
        "recycle_bin.list",
        "recycle_bin.purge",
        "recycle_bin.restore",
        "redrive.prepare",
        "topics.times",
        "policies.append_events",
    } | OF_BROKERS
    unnamed = {name for name, method in METHODS.items() if "topic" not in method.request.__struct_fields__}
    of_one = {name for name in unnamed if issubclass(METHODS[name].request, BrokerAsked)}
    assert unnamed - of_one - OF_EVERY_BROKER.keys() <= about_metadata


async def test_a_topic_is_compacted_where_it_is(fleet: list[RunningBroker]) -> None:
    for broker, topics in zip(fleet, reversed(serving(fleet, PLAIN)), strict=True):
        topic = min(topics)  # of the other one
        session = (await ask(broker, COMPACTION_BEGIN, CompactionBegin(topic=topic, task_id="t"))).session
        page = await ask(broker, COMPACTION_READ, CompactionRead(topic=topic, session=session, ledger_id=-1, entry_id=0))
        assert page.done and len(page.blocks) == 1
        await ask(broker, COMPACTION_ABORT, CompactionEnd(topic=topic, session=session, error="tried"))
        assert (await ask(broker, TOPICS_COMPACTION_STATUS, TopicRef(topic=topic))).last_error == "tried"


async def test_watches_of_topic_lists_are_told_of_the_topics_of_all_brokers(
    fleet: list[RunningBroker], monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[dict[str, bool]] = [{}, {}]
    topics = [f"persistent://acme/orders/new-{number}" for number in range(6)]

    def note(changes: dict[str, bool], namespace: str, text: str, exists: bool) -> None:
        if text in topics:  # what was made before may be told late
            changes[text] = exists

    for broker, changes in zip(fleet, told, strict=True):
        monkeypatch.setattr(broker.service.topic_watches, "changed", partial(note, changes))
    for topic in topics:
        await ask(fleet[0], TOPICS_CREATE, TopicCreate(topic=topic))
    await eventually(lambda: told == [dict.fromkeys(topics, True)] * 2)
    for topic in topics:
        await ask(fleet[1], TOPICS_DELETE, TopicDelete(topic=topic))
    await eventually(lambda: told == [dict.fromkeys(topics, False)] * 2)


async def test_ceilings_hold_over_all_brokers(fleet: list[RunningBroker], monkeypatch: pytest.MonkeyPatch) -> None:
    there = len(PLAIN) + COUNT
    await fleet[0].say(("tenant", "acme", {"admin_roles": [], "policies": {"max_topics_per_tenant": there + 3}}))
    await fleet[1].say(("tenant", "acme", {"admin_roles": [], "policies": {"max_topics_per_tenant": there + 3}}))
    heard, made, refused = set[tuple[str, str]](), set[str](), 0

    def note(broker_id: str, namespace: str, text: str, exists: bool) -> None:
        heard.add((broker_id, text))

    for broker in fleet:
        monkeypatch.setattr(broker.service.topic_watches, "changed", partial(note, broker.service.settings.broker_id))
    for number in range(12):
        topic = f"persistent://acme/orders/more-{number}"
        try:
            await ask(fleet[number % 2], TOPICS_CREATE, TopicCreate(topic=topic))
            made.add(topic)
        except PreconditionFailed:
            refused += 1
        await eventually(lambda: all((broker.service.settings.broker_id, topic) in heard for broker in fleet for topic in made))
    assert (len(made), refused) == (3, 9)


async def test_one_of_the_brokers_is_asked_by_its_id(fleet: list[RunningBroker]) -> None:
    seen = (await ask(fleet[1], BROKERS_LIST, Request())).brokers
    assert [(each.broker_id, each.live) for each in seen] == [("broker-1", True), ("broker-2", True)]
    assert [each.broker_url for each in seen] == [broker.service.addresses.broker_url for broker in fleet]
    for broker in fleet:
        for each in seen:
            asked = BrokerAsked(broker_id=each.broker_id)
            assert (await ask(broker, STATUS, asked)).broker_id == each.broker_id
            assert (await ask(broker, AUDIT_TAKE, AuditTake(broker_id=each.broker_id))).broker_id == each.broker_id
    with pytest.raises(NotReady, match="broker broker-9 is not running"):
        await ask(fleet[0], STATUS, BrokerAsked(broker_id="broker-9"))
    sessions = fleet[0].service.owners.owners.sessions  # type: ignore[attr-defined]
    sessions["broker-2"] = sessions["broker-2"]._replace(addresses={})  # one that starts
    with pytest.raises(NotReady, match="broker broker-2 is starting: try again"):
        await ask(fleet[0], STATUS, BrokerAsked(broker_id="broker-2"))


async def test_an_owner_that_does_not_answer_is_named(fleet: list[RunningBroker]) -> None:
    of_second = sorted(serving(fleet, PLAIN)[1])[0]
    await fleet[0].service.owners.look()  # type: ignore[attr-defined]
    unreachable(fleet[0], "broker-2")  # which the next look mends
    with pytest.raises(NotReady, match=r"^broker broker-2 is not responding \(Connection refused\)"):
        await ask(fleet[0], TOPICS_STATS, StatsAsked(topic=of_second))


async def test_figures_of_a_broker_that_is_away_are_named_as_missing_where_something_of_it_is_asked_for(
    fleet: list[RunningBroker], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its topics were said to be at rest, with no rates and no clients, and its clients not to be there."""
    first, second = (sorted(each)[0] for each in serving(fleet, PLAIN))
    owners = fleet[0].service.owners.owners  # type: ignore[attr-defined]
    await eventually(lambda: owners.owned_by("broker-2"))  # by the next look
    monkeypatch.setattr(owners, "apply", lambda changes: None)  # the one after would find it live
    monkeypatch.setitem(owners.sessions, "broker-2", owners.sessions["broker-2"]._replace(live=False))

    async def missing(*names: str) -> list[str]:
        asked = LiveAsked(namespace="acme/orders", names=list(names), rows_max=None if names else 100)
        return list((await ask(fleet[0], NAMESPACES_LIVE, asked)).unreachable)

    assert await missing() == ["broker-2"]
    assert await missing(first, second) == ["broker-2"]
    assert await missing(PARTITIONED) == ["broker-2"]
    assert await missing(second) == ["broker-2"] and await missing(first) == []
    assert (await ask(fleet[0], CLIENTS_LIST, ClientsList())).unreached == 1
    assert (await ask(fleet[0], PROBLEMS_LIST, EVERYTHING)).unreachable == ["broker-2"]


def test_every_merge_is_of_a_method_that_names_a_topic() -> None:
    assert all("topic" in METHODS[name].request.__struct_fields__ for name in MERGES)
    assert MESSAGES_LIST.name not in MERGES, "a partitioned topic has no messages of its own"


async def test_a_change_of_the_feed_reaches_a_broker_that_has_just_started(tmp_path: Path) -> None:
    """Seen: a namespace was confirmed as made, and a broker whose session nobody had looked at yet refused its topics."""
    folder = tmp_path / uuid.uuid4().hex
    async with fleet_broker(folder, 1, 2) as first, fleet_broker(folder, 2, 2) as second:
        version = first.service.access.view.version
        change = FeedChange(version=version + 1, kind="namespace", key="acme/new", state={"grants": GRANTS})
        await ask(second, FEED_APPLY, FeedApply(from_version=version - 1, to_version=version, changes=[]))
        await ask(first, FEED_APPLY, FeedApply(from_version=version, to_version=version + 1, changes=[change]))
        assert second.service.access.view.version == version + 1
