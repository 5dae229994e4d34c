"""Key_Shared subscriptions: which consumer gets which key, and the order of each key."""

from __future__ import annotations

from typing import Any

import pulsar

from tests.compat.scenarios.values import attempt, in_turns, rest, take, text
from tests.compat.scenarios.world import Outcome, World, send_together

_AUTO, _STICKY = pulsar.KeySharedMode.AutoSplit, pulsar.KeySharedMode.Sticky
_KEYS = [f"key-{number}" for number in range(24)]


def _join(w: World, topic: str, name: str, policy: pulsar.ConsumerKeySharedPolicy | None = None, **options: Any) -> pulsar.Consumer:
    client = w.new_client()
    return w.consumer(topic, kind="KeyShared", consumer_name=name, key_shared_policy=policy, client=client, **options)


def _sticky(*ranges: tuple[int, int]) -> pulsar.ConsumerKeySharedPolicy:
    return pulsar.ConsumerKeySharedPolicy(key_shared_mode=_STICKY, sticky_ranges=list(ranges))


def _send_keys(w: World, topic: str, keys: list[str], rounds: int = 1, **options: Any) -> None:
    producer = w.producer(topic, **options)
    for number in range(rounds):
        for key in keys:
            producer.send(f"{key}:{number}".encode(), partition_key=key)


def _owners(by_consumer: dict[str, list[str]]) -> dict[str, str]:
    """Who got which key."""
    return dict(sorted({(payload.partition(":")[0], name) for name, payloads in by_consumer.items() for payload in payloads}))


def _in_order(by_consumer: dict[str, list[str]]) -> bool:
    for payloads in by_consumer.values():
        for key in {payload.partition(":")[0] for payload in payloads}:
            numbers = [int(payload.partition(":")[2]) for payload in payloads if payload.partition(":")[0] == key]
            if numbers != sorted(numbers):
                return False
    return True


def one_consumer_gets_everything_in_order(w: World) -> Outcome:
    topic = w.topic()
    consumer = _join(w, topic, "c1")
    _send_keys(w, topic, _KEYS[:3], 3)
    return rest(consumer)


def keys_of_two_consumers(w: World) -> Outcome:
    topic = w.topic()
    consumers = {name: _join(w, topic, name) for name in ("c1", "c2")}
    _send_keys(w, topic, _KEYS)
    return _owners(in_turns(consumers, len(_KEYS)))


def keys_of_three_consumers(w: World) -> Outcome:
    topic = w.topic()
    consumers = {name: _join(w, topic, name) for name in ("c1", "c2", "c3")}
    _send_keys(w, topic, _KEYS)
    return _owners(in_turns(consumers, len(_KEYS)))


def keys_do_not_depend_on_who_came_first(w: World) -> Outcome:
    topic = w.topic()
    consumers = {name: _join(w, topic, name) for name in ("c3", "c1", "c2")}
    _send_keys(w, topic, _KEYS)
    return _owners(in_turns(consumers, len(_KEYS)))


def keys_of_consumers_with_one_name(w: World) -> Outcome:
    topic = w.topic()
    consumers = {f"twin{number}": _join(w, topic, "twin") for number in range(2)}
    _send_keys(w, topic, _KEYS)
    return _owners(in_turns(consumers, len(_KEYS)))


def a_key_stays_with_its_consumer(w: World) -> Outcome:
    topic = w.topic()
    consumers = {name: _join(w, topic, name) for name in ("c1", "c2")}
    _send_keys(w, topic, _KEYS[:8], 5)
    by_consumer = in_turns(consumers, 40)
    split = {payload.partition(":")[0] for payload in by_consumer["c1"]} & {
        payload.partition(":")[0] for payload in by_consumer["c2"]
    }
    return [sum(map(len, by_consumer.values())), sorted(split), _in_order(by_consumer)]


def the_ordering_key_counts_first(w: World) -> Outcome:
    topic = w.topic()
    consumers = {name: _join(w, topic, name) for name in ("c1", "c2")}
    producer = w.producer(topic)
    for key in _KEYS[:8]:
        producer.send(f"{key}:0".encode(), partition_key="the same", ordering_key=key)
    return _owners(in_turns(consumers, 8))


def messages_without_a_key(w: World) -> Outcome:
    topic = w.topic()
    consumers = {name: _join(w, topic, name) for name in ("c1", "c2")}
    producer = w.producer(topic, producer_name="keyless")
    for number in range(12):
        producer.send(f"m{number:02}:0".encode())
    return _owners(in_turns(consumers, 12))


def keys_that_are_no_ascii(w: World) -> Outcome:
    topic = w.topic()
    consumers = {name: _join(w, topic, name) for name in ("c1", "c2", "c3")}
    _send_keys(w, topic, ["é", "キー", "Grüße", "a b", "\U0001f600"])
    return _owners(in_turns(consumers, 5))


def batches_by_key(w: World) -> Outcome:
    topic = w.topic()
    consumers = {name: _join(w, topic, name) for name in ("c1", "c2")}
    producer = w.batching(topic, 16, batching_type=pulsar.BatchingType.KeyBased)
    for number in range(2):
        for key in _KEYS[:8]:
            producer.send_async(f"{key}:{number}".encode(), lambda *_: None, partition_key=key)
    producer.flush()
    by_consumer = in_turns(consumers, 16)
    return [_owners(by_consumer), _in_order(by_consumer)]


def a_plain_batch_goes_by_its_first_key(w: World) -> Outcome:
    topic = w.topic()
    consumers = {name: _join(w, topic, name) for name in ("c1", "c2")}
    producer = w.batching(topic, 4)
    for key in _KEYS[:4]:
        producer.send_async(f"{key}:0".encode(), lambda *_: None, partition_key=key)
    producer.flush()
    return _owners(in_turns(consumers, 4))


def sticky_ranges_decide(w: World) -> Outcome:
    topic = w.topic()
    ranges = {"low": (0, 16_383), "middle": (16_384, 49_151), "high": (49_152, 65_535)}
    consumers = {name: _join(w, topic, name, _sticky(pair)) for name, pair in ranges.items()}
    _send_keys(w, topic, _KEYS)
    return _owners(in_turns(consumers, len(_KEYS)))


def several_sticky_ranges_of_one(w: World) -> Outcome:
    topic = w.topic()
    consumers = {
        "ends": _join(w, topic, "ends", _sticky((0, 9_999), (50_000, 65_535))),
        "middle": _join(w, topic, "middle", _sticky((10_000, 49_999))),
    }
    _send_keys(w, topic, _KEYS)
    return _owners(in_turns(consumers, len(_KEYS)))


def sticky_ranges_that_overlap(w: World) -> Outcome:
    topic = w.topic()
    _join(w, topic, "one", _sticky((0, 30_000)))
    return [attempt(_join, w, topic, "two", _sticky(pair)) for pair in ((30_000, 65_535), (10, 20), (30_001, 65_535))]


def a_range_that_nobody_has_waits(w: World) -> Outcome:
    topic = w.topic()
    low = _join(w, topic, "low", _sticky((0, 32_767)))
    _send_keys(w, topic, _KEYS)
    first = rest(low)
    high = _join(w, topic, "high", _sticky((32_768, 65_535)))
    return [first, rest(high)]


def the_modes_do_not_mix(w: World) -> Outcome:
    topic = w.topic()
    _join(w, topic, "c1")
    return attempt(lambda: _join(w, topic, "c2", _sticky((0, 65_535))))


def order_is_asked_for_by_all_or_none(w: World) -> Outcome:
    topic = w.topic()
    _join(w, topic, "c1")
    policy = pulsar.ConsumerKeySharedPolicy(key_shared_mode=_AUTO, allow_out_of_order_delivery=True)
    return attempt(lambda: _join(w, topic, "c2", policy))


def a_key_in_work_stays_where_it_is(w: World) -> Outcome:
    """A consumer joins; keys that the first one still works on do not move, whoever will own them."""
    topic = w.topic()
    first = _join(w, topic, "c1")
    _send_keys(w, topic, _KEYS)
    messages = take(first, len(_KEYS))
    second = _join(w, topic, "c2")
    _send_keys(w, topic, _KEYS)
    before = rest(second)
    for message in messages:
        first.acknowledge(message)
    by_consumer = in_turns({"c1": first, "c2": second}, len(_KEYS))
    return [before, _owners(by_consumer)]


def a_key_of_one_that_left_goes_on_in_order(w: World) -> Outcome:
    topic = w.topic()
    consumers = {name: _join(w, topic, name) for name in ("c1", "c2")}
    _send_keys(w, topic, _KEYS[:8], 3)
    w.settled(lambda: w.backlog(topic), 24)
    take(consumers["c1"], 2)
    consumers.pop("c1").close()
    by_consumer = {"c2": rest(consumers["c2"], 500)}
    return [sorted(by_consumer["c2"]), _in_order(by_consumer)]


def a_slow_key_does_not_block_the_others(w: World) -> Outcome:
    topic = w.topic()
    slow = _join(w, topic, "c1", receiver_queue_size=1)
    others = {"c2": _join(w, topic, "c2")}
    _send_keys(w, topic, _KEYS, 2)
    take(slow, 1)
    by_consumer = in_turns(others, 2 * len(_KEYS), rounds=8)
    return [_owners(by_consumer), _in_order(by_consumer)]


def cumulative_acknowledgements_are_refused(w: World) -> Outcome:
    topic = w.topic()
    consumer = _join(w, topic, "c1")
    _send_keys(w, topic, _KEYS[:2])
    messages = take(consumer, 2)
    return [attempt(lambda: consumer.acknowledge_cumulative(messages[1])), w.backlog(topic)]


def what_comes_again_comes_in_order(w: World) -> Outcome:
    topic = w.topic()
    consumer = _join(w, topic, "c1", negative_ack_redelivery_delay_ms=100)
    _send_keys(w, topic, ["k"], 4)
    for message in take(consumer, 4):
        consumer.negative_acknowledge(message)
    return [[text(message), message.redelivery_count()] for message in take(consumer, 4, acknowledge=True)]


def partitions_and_keys(w: World) -> Outcome:
    topic = w.partitioned(2)
    consumers = {name: _join(w, topic, name) for name in ("c1", "c2")}
    _send_keys(w, topic, _KEYS[:10], 2)
    by_consumer = in_turns(consumers, 20)
    return [_owners(by_consumer), _in_order(by_consumer)]


def out_of_order_where_allowed(w: World) -> Outcome:
    topic = w.topic()
    policy = pulsar.ConsumerKeySharedPolicy(key_shared_mode=_AUTO, allow_out_of_order_delivery=True)
    consumers = {name: _join(w, topic, name, policy) for name in ("c1", "c2")}
    _send_keys(w, topic, _KEYS[:12])
    return _owners(in_turns(consumers, 12))


def null_values_have_keys_too(w: World) -> Outcome:
    topic = w.topic()
    consumer = _join(w, topic, "c1")
    producer = w.producer(topic)
    send_together(producer, "a", partition_key="k")
    producer.send(None, partition_key="k")
    return [[message.partition_key(), message.has_null_value()] for message in take(consumer, 2)]
