"""TopicStats of a partitioned topic from those of its partitions."""

from __future__ import annotations

from typing import Any

from messaging.broker.runtime.admin.stats.partitioned_stats import PartitionedStats

Stats = dict[str, Any]


def consumer(name: str = "c", address: str = "1:1", **fields: Any) -> Stats:
    return {
        "consumerName": name,
        "address": address,
        "msgRateOut": 2.0,
        "unackedMessages": 3,
        "blockedConsumerOnUnackedMsgs": False,
        "connectedSince": "2026-01-02T00:00:00.000Z",
        "lastAckedTimestamp": 10,
        "metadata": {},
    } | fields


def publisher(name: str = "p", **fields: Any) -> Stats:
    made = {
        "producerName": name,
        "address": "1:1",
        "producerId": 7,
        "msgRateIn": 1.0,
        "msgThroughputIn": 100.0,
        "averageMsgSize": 40.0,
    }
    return made | {"accessMode": "Shared", "connectedSince": "2026-01-02T00:00:00.000Z"} | fields


def subscription(*consumers: Stats, **fields: Any) -> Stats:
    made = {
        "type": "Shared" if consumers else "",
        "msgBacklog": 5,
        "backlogGrows": False,
        "blockedSubscriptionOnUnackedMsgs": False,
    }
    return made | {"oldestBacklogMessageAgeSeconds": 9, "lastConsumedTimestamp": 0, "consumers": list(consumers)} | fields


def part(**fields: Any) -> Stats:
    made = {
        "msgRateIn": 1.5,
        "msgInCounter": 2,
        "bytesInCounter": 200,
        "averageMsgSize": 100.0,
        "publishers": [],
        "compaction": {},
        "subscriptions": {},
    }
    made |= {"topicCreationTimeStamp": 50, "lastPublishTimeStamp": 60, "oldestBacklogMessageAgeSeconds": -1, "ownerBroker": "b"}
    return made | {"oldestBacklogMessageSubscriptionName": "", "earliestMsgPublishTimeInBacklogs": 0, "subscriptions": {}} | fields


def total(*parts: Stats) -> Stats:
    stats = PartitionedStats()
    for one in parts:
        stats.add(one)
    return stats.total({f"t-partition-{index}": one for index, one in enumerate(parts)})


def test_numbers_add_up_and_the_partitions_are_below() -> None:
    parts = part(), part(msgInCounter=8, bytesInCounter=800, topicCreationTimeStamp=40, lastPublishTimeStamp=90)
    found = total(*parts)
    assert (found["msgRateIn"], found["msgInCounter"], found["averageMsgSize"]) == (3.0, 10, 100.0)
    assert (found["topicCreationTimeStamp"], found["lastPublishTimeStamp"], found["ownerBroker"]) == (40, 90, "b")
    assert found["metadata"] == {"partitions": 2, "deleted": False}
    assert found["partitions"] == {"t-partition-0": parts[0], "t-partition-1": parts[1]}


def test_a_partitioned_client_is_one_producer_and_one_consumer() -> None:
    """The console said "nobody reads" beside 34 messages a second: consumers were left out."""
    first = part(publishers=[publisher()], subscriptions={"s": subscription(consumer(), consumer("other"))})
    second = part(
        publishers=[publisher(producerId=3, msgRateIn=3.0), publisher("q")],
        subscriptions={"s": subscription(consumer(blockedConsumerOnUnackedMsgs=True, lastAckedTimestamp=20), msgBacklog=2)},
    )
    found = total(first, second)
    assert [(one["producerName"], one["msgRateIn"], one["producerId"]) for one in found["publishers"]] == [
        ("p", 4.0, 3),
        ("q", 1.0, 7),
    ]
    assert found["publishers"][0]["averageMsgSize"] == 50.0
    (held,) = found["subscriptions"].values()
    assert (held["type"], held["msgBacklog"]) == ("Shared", 7)
    both, other = held["consumers"]
    assert (both["consumerName"], both["msgRateOut"], both["unackedMessages"], both["lastAckedTimestamp"]) == ("c", 4.0, 6, 20)
    assert (both["blockedConsumerOnUnackedMsgs"], other["blockedConsumerOnUnackedMsgs"]) == (True, False)


def test_clients_of_one_name_and_different_addresses_are_two() -> None:
    found = total(part(subscriptions={"s": subscription(consumer(), consumer(address="2:2"))}))
    assert len(found["subscriptions"]["s"]["consumers"]) == 2


def test_the_oldest_is_the_oldest_of_all() -> None:
    first = part(oldestBacklogMessageAgeSeconds=3, oldestBacklogMessageSubscriptionName="a", earliestMsgPublishTimeInBacklogs=900)
    second = part(oldestBacklogMessageAgeSeconds=8, oldestBacklogMessageSubscriptionName="b", earliestMsgPublishTimeInBacklogs=400)
    found = total(first, part(), second)
    assert found["oldestBacklogMessageAgeSeconds"] == 8 and found["oldestBacklogMessageSubscriptionName"] == "b"
    assert found["earliestMsgPublishTimeInBacklogs"] == 400
    assert total(part(), part())["oldestBacklogMessageAgeSeconds"] == -1


def test_a_state_of_one_partition_is_a_state_of_the_topic() -> None:
    quiet = part(subscriptions={"s": subscription(type="")})
    backlog = part(subscriptions={"s": subscription(consumer(), backlogGrows=True, blockedSubscriptionOnUnackedMsgs=True)})
    held = total(quiet, backlog)["subscriptions"]["s"]
    assert (held["type"], held["backlogGrows"], held["blockedSubscriptionOnUnackedMsgs"]) == ("Shared", True, True)


def test_what_comes_in_is_not_changed() -> None:
    one = part(publishers=[publisher()], subscriptions={"s": subscription(consumer())})
    total(one, one, one)
    assert one == part(publishers=[publisher()], subscriptions={"s": subscription(consumer())})


def test_epochs_are_of_each_partition() -> None:
    """A partition without an exclusive producer has none, and adding up failed."""
    found = total(part(topicEpoch=None, waitingPublishers=0), part(topicEpoch=3, waitingPublishers=2))
    assert "topicEpoch" not in found and found["waitingPublishers"] == 2


def test_a_client_whose_producers_were_named_one_by_one_has_one_producer() -> None:
    first = part(publishers=[publisher("b-1"), publisher("named"), publisher("other", address="2:2")])
    second = part(publishers=[publisher("named"), publisher("b-2")])
    found = total(first, second, part(publishers=[publisher("b-3")]))["publishers"]
    assert [(one.get("producerName"), one["address"], one["msgRateIn"]) for one in found] == [
        (None, "1:1", 3.0),
        ("named", "1:1", 2.0),
        ("other", "2:2", 1.0),
    ]
