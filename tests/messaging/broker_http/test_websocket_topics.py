"""WebSocket consumers of several topics, and of those that match a pattern."""

from __future__ import annotations

from typing import Any

import pytest
import websockets

from messaging.adminrpc.feed import FeedApply, FeedChange
from messaging.broker.http.websocket.link import POLICY
from messaging.broker.runtime.local import pattern_consumer, topics_consumer
from messaging.broker.runtime.topics.persistent import persistent
from messaging.errors import NotReady
from messaging.message_id import decode_message_id, encode_message_id
from messaging.permissions.model import Principal
from messaging.protocol.names import parse_topic
from tests.messaging.broker_http.addresses import with_token
from tests.support.brokers.http_edge import Edge, changes, receive_json, running_edge, send_json
from tests.support.clients.batches import single, store
from tests.support.clients.websocket_peer import close_of
from tests.support.waiting import eventually

HOME = "persistent://public/default/"
BASE = "/ws/v3/consumer/billing?subscriptionType=Shared&subscriptionInitialPosition=Earliest"


def of(*names: str) -> str:
    return f"{BASE}&topics={','.join(HOME + name for name in names)}"


def matching(expression: str, namespace: str = HOME) -> str:
    return f"{BASE}&topicsPattern={namespace}{expression}"


async def publish(edge: Edge, name: str, *payloads: bytes) -> None:
    for payload in payloads:
        await store(edge.broker, HOME + name, single(payload), 1)


async def receive(consumer: websockets.ClientConnection, count: int) -> dict[str, dict[str, Any]]:
    """Messages by their payloads."""
    messages = [await receive_json(consumer) for _ in range(count)]
    return {message["payload"]: message for message in messages}


async def nothing_comes(consumer: websockets.ClientConnection) -> None:
    await send_json(consumer, type="isEndOfTopic")
    assert await receive_json(consumer) == {"endOfTopic": False}


def backlog(edge: Edge, name: str) -> int:
    return edge.subscription(HOME + name).backlog_entries


def given(edge: Edge, *names: str) -> int:
    """Messages that consumers of the subscription were given and did not acknowledge."""
    return sum(consumer.unacked_messages for name in names for consumer in edge.subscription(HOME + name).consumers)


def consumed(edge: Edge) -> set[str]:
    return {topic.name.local for topic in edge.topics.values() for one in topic.subscriptions.table.values() if one.consumers}


async def test_an_acknowledgement_reaches_the_topic_of_its_message(edge: Edge) -> None:
    await publish(edge, "a", b"1", b"2")
    await publish(edge, "b", b"3")
    async with edge.connect(of("a", "b")) as consumer:
        messages = await receive(consumer, 3)
        await send_json(consumer, messageId=messages["Mw=="]["messageId"])
        await eventually(lambda: (backlog(edge, "a"), backlog(edge, "b")) == (2, 0))
        await send_json(consumer, messageId=messages["MQ=="]["messageId"])
        await eventually(lambda: (backlog(edge, "a"), backlog(edge, "b")) == (1, 0))
        [name] = {one.name for topic in "ab" for one in (edge.subscription(HOME + topic).consumers)} | {""} - {""}
        assert name, "it has one name on all topics"


async def test_an_id_of_none_of_the_topics_acknowledges_nothing(edge: Edge) -> None:
    await publish(edge, "a", b"1")
    await publish(edge, "other", b"1")
    async with edge.connect(of("a")) as consumer:
        at = decode_message_id((await receive_json(consumer))["messageId"])
        elsewhere = edge.topics[HOME + "other"].ledger_list.last_id
        for ledger_id in (elsewhere, 2**62):
            await send_json(consumer, messageId=encode_message_id(ledger_id, at.entry_id))
        await nothing_comes(consumer)
        assert backlog(edge, "a") == 1


async def test_what_was_received_before_is_acknowledged_over_a_new_connection(edge: Edge) -> None:
    for name in "ab":
        async with edge.connect(f"/ws/v2/producer/persistent/public/default/{name}") as producer:
            await send_json(producer, payload="MQ==" if name == "a" else "Mg==")
            await receive_json(producer)
    async with edge.connect(of("a", "b")) as consumer:
        before = await receive(consumer, 2)
    async with edge.connect(of("a", "b") + "&pullMode=true") as consumer:
        for message in before.values():
            await send_json(consumer, messageId=message["messageId"])
        await eventually(lambda: (backlog(edge, "a"), backlog(edge, "b")) == (0, 0))


async def test_a_negative_acknowledgement_brings_the_message_of_its_topic(edge: Edge) -> None:
    await publish(edge, "a", b"1")
    await publish(edge, "b", b"2")
    async with edge.connect(of("a", "b") + "&negativeAckRedeliveryDelay=10") as consumer:
        messages = await receive(consumer, 2)
        await send_json(consumer, type="negativeAcknowledge", messageId=messages["Mg=="]["messageId"])
        again = await receive_json(consumer)
        assert (again["messageId"], again["redeliveryCount"]) == (messages["Mg=="]["messageId"], 1)


async def test_a_window_is_one_of_all_topics(edge: Edge) -> None:
    names = [f"t{number}" for number in range(6)]
    for name in names:
        await publish(edge, name, b"x", b"y")
    async with edge.connect(of(*names) + "&receiverQueueSize=3") as consumer:
        for _ in range(12):
            message = await receive_json(consumer)
            assert given(edge, *names) <= 4, "one of them is being acknowledged"
            await send_json(consumer, messageId=message["messageId"])
        await eventually(lambda: not any(backlog(edge, name) for name in names))
    assert edge.broker.memory_limiter.egress.used_bytes == 0


async def test_permits_in_pull_mode_are_for_all_topics(edge: Edge) -> None:
    for name in "abc":
        await publish(edge, name, b"x", b"y")
    async with edge.connect(of(*"abc") + "&pullMode=true") as consumer:
        await nothing_comes(consumer)
        for permits in (1, 3, 2):
            before = given(edge, *"abc")
            await send_json(consumer, type="permit", permitMessages=permits)
            await receive(consumer, 1)
            for _ in range(permits - 1):
                await receive_json(consumer)
            await nothing_comes(consumer)
            assert given(edge, *"abc") == before + permits


async def test_partitioned_and_non_persistent_topics_are_among_them(edge: Edge) -> None:
    await edge.broker.topics.partitioned.create(parse_topic(HOME + "parts"), 2, {})
    unstored = "non-persistent://public/default/now"
    async with edge.connect(f"{of('plain', 'parts')},{unstored}") as consumer:
        await publish(edge, "plain", b"1")
        for number in range(2):
            await publish(edge, f"parts-partition-{number}", b"%d" % (number + 2))
        messages = await receive(consumer, 3)
        assert [decode_message_id(messages[text]["messageId"]).partition for text in ("MQ==", "Mg==", "Mw==")] == [-1, 0, 1]
        await send_json(consumer, messageId=messages["Mw=="]["messageId"])
        await eventually(lambda: [backlog(edge, f"parts-partition-{number}") for number in range(2)] == [1, 0])
        await edge.broker.topics.partitioned.grow(parse_topic(HOME + "parts"), 3)
        await publish(edge, "parts-partition-2", b"4")
        assert (await receive_json(consumer))["payload"] == "NA=="
        assert unstored in edge.topics


async def test_a_topic_that_is_unloaded_is_consumed_again(edge: Edge) -> None:
    await publish(edge, "a", b"1", b"2")
    await publish(edge, "b", b"3", b"4")
    async with edge.connect(of("a", "b") + "&receiverQueueSize=1") as consumer:
        message = await receive_json(consumer)
        seen = {message["payload"]}
        await edge.broker.topics.unload(parse_topic(HOME + "a"))
        while len(seen) < 4:
            await send_json(consumer, messageId=message["messageId"])
            message = await receive_json(consumer)
            seen.add(message["payload"])
        await send_json(consumer, messageId=message["messageId"])
        await eventually(lambda: (backlog(edge, "a"), backlog(edge, "b")) == (0, 0))


async def test_the_end_is_the_end_of_all(edge: Edge) -> None:
    async with edge.connect(of("a", "b")) as consumer:
        await nothing_comes(consumer)
        await persistent(edge.topics[HOME + "a"]).terminate()
        await nothing_comes(consumer)
        await persistent(edge.topics[HOME + "b"]).terminate()

        async def ended() -> bool:
            await send_json(consumer, type="isEndOfTopic")
            return bool((await receive_json(consumer))["endOfTopic"])

        await eventually(ended)


async def test_unsubscribing_takes_all_topics_or_none(edge: Edge) -> None:
    path = of("a", "b")
    async with (
        edge.connect(path) as consumer,
        edge.connect("/ws/v2/consumer/persistent/public/default/b/billing?subscriptionType=Shared"),
    ):
        await send_json(consumer, type="unsubscribe")
        assert (await close_of(consumer))[0] == 1011
        assert edge.subscription(HOME + "a") and edge.subscription(HOME + "b")
    async with edge.connect(path) as consumer:
        await send_json(consumer, type="unsubscribe")
        await eventually(lambda: not any(edge.topics[HOME + name].subscriptions.table for name in "ab"))


async def test_a_topic_that_is_deleted_ends_the_consumer_that_named_it(edge: Edge) -> None:
    async with edge.connect(of("a", "b")) as consumer:
        await edge.broker.topics.delete(parse_topic(HOME + "b"), force=True)
        assert (await close_of(consumer))[0] == POLICY
    await eventually(lambda: not consumed(edge))


async def test_a_message_that_came_too_often_says_which_topic_it_was_of(edge: Edge) -> None:
    dead = f"{HOME}dead"
    path = of("a", "b") + f"&negativeAckRedeliveryDelay=10&maxRedeliverCount=1&deadLetterTopic={dead}"
    await publish(edge, "b", b"poison")
    async with edge.connect(path) as consumer:
        for _ in range(2):
            message = await receive_json(consumer)
            await send_json(consumer, type="negativeAcknowledge", messageId=message["messageId"])
        await eventually(lambda: backlog(edge, "b") == 0)
        [letter] = await edge.stored(dead)
        assert letter.properties["REAL_TOPIC"] == HOME + "b"


async def test_messages_for_the_dead_come_to_a_topic_named_after_the_first(edge: Edge) -> None:
    await publish(edge, "b", b"poison")
    async with edge.connect(of("a", "b") + "&negativeAckRedeliveryDelay=10&maxRedeliverCount=1") as consumer:
        for _ in range(2):
            message = await receive_json(consumer)
            await send_json(consumer, type="negativeAcknowledge", messageId=message["messageId"])
        await eventually(lambda: backlog(edge, "b") == 0)
    assert len(await edge.stored(f"{HOME}a-billing-DLQ")) == 1


@pytest.mark.parametrize(
    ("query", "status", "why"),
    [
        ("", 400, "either topics"),
        ("topics=", 400, "either topics"),
        (f"topics={HOME}a&topicsPattern={HOME}a", 400, "either topics"),
        (f"topics={HOME}a,", 400, "not valid"),
        (f"topics={HOME}a/b/c", 400, "not valid"),
        (f"topics={','.join(f't{number}' for number in range(1001))}", 400, "1,000 at most"),
        (f"topics={'t' * 7000},{'t' * 200}", 400, "topics"),
        (f"topics={HOME}a&maxRedeliverCount=1&subscriptionType=Shared&deadLetterTopic={HOME}a", 400, "one of the topics"),
        (f"topicsPattern={HOME}.*&maxRedeliverCount=1&subscriptionType=Shared", 400, "deadLetterTopic is missing"),
        ("topicsPattern=persistent://public/.*/a", 400, "only the last part"),
        ("topicsPattern=persistent://public/default/", 400, "only the last part"),
        ("topicsPattern=non-persistent://public/default/a.*", 400, "not of persistent topics"),
        (f"topicsPattern={HOME}a[", 400, "syntax of RE2"),
        (f"topicsPattern={HOME}(?=a)a", 400, "syntax of RE2"),
        (f"topicsPattern={HOME}{'a' * 4096}", 400, "topicsPattern"),
        ("topicsPattern=persistent://public/nowhere/a", 404, "does not exist"),
        ("topics=persistent://public/nowhere/a", 404, "does not exist"),
    ],
)
async def test_what_is_no_list_of_topics_is_refused(edge: Edge, query: str, status: int, why: str) -> None:
    token = edge.token("admin")
    path = f"/ws/v3/consumer/billing?token={token}&{query}".replace("(?=", "(%3F%3D")
    found, body = await edge.refused(path)
    assert (found, why in body["reason"]) == (status, True), body
    assert not consumed(edge)


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/ws/v3/consumer", 400),
        ("/ws/v3/consumer/", 400),
        ("/ws/v3/consumer/a/b", 400),
        ("/ws/v3/producer/a", 404),
        ("/ws/v3/reader/a", 404),
    ],
)
async def test_other_paths(edge: Edge, path: str, status: int) -> None:
    assert (await edge.refused(f"{path}?topics={HOME}a"))[0] == status


async def test_a_name_may_have_a_slash_and_a_topic_comes_twice(edge: Edge) -> None:
    async with edge.connect(f"/ws/v3/consumer/a%2Fb?topics={HOME}t,t,%20{HOME}t"):
        assert len(edge.subscription(HOME + "t", "a/b").consumers) == 1


async def test_where_one_topic_is_refused_none_is_open(edge: Edge) -> None:
    async with edge.connect(f"/ws/v3/consumer/billing?topics={HOME}b"):
        status, _ = await edge.refused(f"/ws/v3/consumer/billing?topics={HOME}a,{HOME}b")
        assert status == 409 and consumed(edge) == {"b"}


async def test_each_topic_needs_its_permission(edge: Edge) -> None:
    mine, theirs = "persistent://acme/orders/mine", "persistent://public/default/theirs"
    status, body = await edge.refused(with_token(f"{BASE}&topics={mine},{theirs}", edge.token("reader@acme")))
    assert status == 403 and theirs in body["message"] and edge.topics == {}
    async with edge.connect(with_token(f"{BASE}&topics={mine}", edge.token("reader@acme"))):
        assert consumed(edge) == {"mine"}


# --- patterns


async def make(edge: Edge, *names: str, namespace: str = HOME) -> None:
    for name in names:
        await edge.broker.open_topic(parse_topic(namespace + name))


async def test_topics_that_match_are_consumed_and_others_not(edge: Edge) -> None:
    await make(edge, "orders-1", "orders-2", "bills", "__change_events")
    await edge.broker.topics.partitioned.create(parse_topic(HOME + "orders-parts"), 2, {})
    async with edge.connect(matching("orders-.*")) as consumer:
        assert consumed(edge) == {"orders-1", "orders-2", "orders-parts-partition-0", "orders-parts-partition-1"}
        await publish(edge, "bills", b"0")
        await publish(edge, "orders-2", b"1")
        await publish(edge, "orders-parts-partition-1", b"2")
        assert set(await receive(consumer, 2)) == {"MQ==", "Mg=="}
        await nothing_comes(consumer)


async def test_short_patterns_are_of_the_default_namespace(edge: Edge) -> None:
    await make(edge, "orders-1", "bills")
    async with edge.connect(f"{BASE}&topicsPattern=orders.*"):
        assert consumed(edge) == {"orders-1"}
    await eventually(lambda: not consumed(edge))
    async with edge.connect(f"{BASE}&topicsPattern=public/default/bil.*"):
        assert consumed(edge) == {"bills"}


async def test_topics_that_are_created_are_consumed_from_their_beginning(edge: Edge) -> None:
    path = f"/ws/v3/consumer/billing?subscriptionType=Shared&topicsPattern={HOME}orders-.*"
    async with edge.connect(path) as consumer:
        await send_json(consumer, type="isEndOfTopic")
        assert await receive_json(consumer) == {"endOfTopic": True}, "all of none have ended"
        await publish(edge, "orders-1", b"1")
        await publish(edge, "bills", b"0")
        await edge.broker.topics.partitioned.create(parse_topic(HOME + "orders-parts"), 1, {})
        await publish(edge, "orders-parts-partition-0", b"2")
        messages = await receive(consumer, 2)
        assert set(messages) == {"MQ==", "Mg=="}
        for message in messages.values():
            await send_json(consumer, messageId=message["messageId"])
        await eventually(lambda: backlog(edge, "orders-1") == backlog(edge, "orders-parts-partition-0") == 0)
        await nothing_comes(consumer)
        assert consumed(edge) == {"orders-1", "orders-parts-partition-0"}


async def test_topics_that_go_leave_the_others(edge: Edge) -> None:
    """What waits for the client of a topic that has gone does not come, nor takes the place of what does."""
    await publish(edge, "orders-1", b"gone", b"gone")
    async with edge.connect(matching("orders-.*") + "&receiverQueueSize=1") as consumer:
        first = await receive_json(consumer)
        await edge.broker.topics.delete(parse_topic(HOME + "orders-1"), force=True)
        await make(edge, "orders-2")
        await publish(edge, "orders-2", b"2", b"3")
        await send_json(consumer, messageId=first["messageId"])
        for payload in ("Mg==", "Mw=="):
            message = await receive_json(consumer)
            assert message["payload"] == payload
            await send_json(consumer, messageId=message["messageId"])
        await publish(edge, "orders-1", b"4")  # it is made again
        assert (await receive_json(consumer))["payload"] == "NA=="
    assert edge.broker.memory_limiter.egress.used_bytes == 0


async def test_a_topic_that_cannot_be_opened_yet_is_tried_again(edge: Edge) -> None:
    path = f"/ws/v3/consumer/billing?topicsPattern={HOME}orders-.*"
    async with edge.connect(path) as consumer:
        failures = [NotReady("it is being moved")]
        open_consumer = edge.sessions.sessions.open_consumer  # type: ignore[attr-defined]

        async def failing(principal: Principal, topic: str, *arguments: Any, **options: Any) -> Any:
            if failures:
                raise failures.pop()
            return await open_consumer(principal, topic, *arguments, **options)

        edge.sessions.sessions.open_consumer = failing  # type: ignore[attr-defined]
        await publish(edge, "orders-1", b"1")
        assert (await receive_json(consumer))["payload"] == "MQ==" and not failures


async def test_the_dead_letter_topic_does_not_match(edge: Edge) -> None:
    dead = f"{HOME}orders-dead"
    await publish(edge, "orders-1", b"poison")
    await make(edge, "orders-dead")
    path = matching("orders-.*") + f"&negativeAckRedeliveryDelay=10&maxRedeliverCount=1&deadLetterTopic={dead}"
    async with edge.connect(path) as consumer:
        for _ in range(2):
            message = await receive_json(consumer)
            await send_json(consumer, type="negativeAcknowledge", messageId=message["messageId"])
        await eventually(lambda: backlog(edge, "orders-1") == 0)
        assert consumed(edge) == {"orders-1"}
    assert [letter.properties["REAL_TOPIC"] for letter in await edge.stored(dead)] == [HOME + "orders-1"]


async def test_too_many_topics_are_refused_and_one_too_many_ends_the_consumer(edge: Edge, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pattern_consumer, "TOPICS_MAX", 2)
    await make(edge, "orders-1", "orders-2")
    async with edge.connect(matching("orders-.*")) as consumer:
        await make(edge, "orders-3")
        code, reason = await close_of(consumer)
        assert code == POLICY and "more than 2 topics match" in reason
    status, body = await edge.refused(matching("orders-.*"))
    assert status == 400 and "make it narrower" in body["message"]
    await eventually(lambda: not consumed(edge))


async def test_memory_is_charged_for_topics_and_given_back(edge: Edge, monkeypatch: pytest.MonkeyPatch) -> None:
    sessions = edge.broker.memory_limiter.sessions
    before = sessions.used_bytes
    await make(edge, "a", "b")
    async with edge.connect(matching("[ab]")):
        assert sessions.used_bytes >= before + 2 * topics_consumer.TOPIC_BYTES
    await eventually(lambda: sessions.used_bytes == before)
    monkeypatch.setattr(topics_consumer, "TOPIC_BYTES", 1 << 50)
    assert (await edge.refused(matching("[ab]")))[0] == 503
    await eventually(lambda: sessions.used_bytes == before and not consumed(edge))


async def grant(edge: Edge, version: int, **topics: list[str]) -> None:
    """`app@acme` may consume these topics of acme/orders and nothing else there."""
    state = {
        "policies": {},
        "grants": {},
        "topic_grants": {f"persistent://acme/orders/{name}": {"app@acme": actions} for name, actions in topics.items()},
    }
    change = FeedChange(version=version, kind="namespace", key="acme/orders", state=state)
    await edge.broker.access.feed.apply(FeedApply(from_version=version - 1, to_version=version, full=False, changes=[change]))


async def test_a_pattern_matches_only_what_its_caller_may_consume(edge: Edge) -> None:
    acme = "persistent://acme/orders/"
    await make(edge, "t1", "t2", "t3", namespace=acme)
    await grant(edge, 2, t1=["consume"], t2=["produce"])
    path = with_token(matching("t.*", acme), edge.token("app@acme"))
    async with edge.connect(path) as consumer:
        assert consumed(edge) == {"t1"}
        await make(edge, "t4", namespace=acme)
        await grant(edge, 3, t1=["consume"], t5=["consume"])
        await store(edge.broker, acme + "t4", single(b"4"), 1)
        await store(edge.broker, acme + "t5", single(b"5"), 1)
        assert (await receive_json(consumer))["payload"] == "NQ=="
        assert consumed(edge) == {"t1", "t5"}
        await grant(edge, 4, t5=["consume"])
        await eventually(lambda: consumed(edge) == {"t5"})
        await nothing_comes(consumer)
        await grant(edge, 5)
        assert (await close_of(consumer))[0] == POLICY, "nothing is left, and nothing else may come"
    status, body = await edge.refused(path)
    assert status == 403 and "acme/orders" in body["message"] and "t1" not in body["message"]


async def test_a_key_that_is_revoked_ends_a_consumer_without_topics(edge: Edge) -> None:
    path = with_token(matching("none.*", "persistent://acme/orders/"), edge.token("reader@acme"))
    async with edge.connect(path) as consumer:
        [key] = [one for one in changes() if one.key == "reader@acme"]
        state = {**(key.state or {}), "revoked": True}
        change = FeedChange(version=2, kind="key", key=key.key, state=state)
        await edge.broker.access.feed.apply(FeedApply(from_version=1, to_version=2, full=False, changes=[change]))
        assert (await close_of(consumer))[0] == POLICY
    assert not edge.broker.topic_followers.namespaces


async def test_nobody_follows_the_topics_of_a_namespace_after_a_refusal() -> None:
    async with running_edge() as edge:
        await make(edge, "a")
        async with edge.connect(f"/ws/v3/consumer/billing?topics={HOME}a"):
            assert (await edge.refused(f"/ws/v3/consumer/billing?topicsPattern={HOME}a"))[0] == 409
        assert not edge.broker.topic_followers.namespaces
