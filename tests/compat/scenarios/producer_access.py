"""Producers that want a topic for themselves, send things again, or encrypt what they send."""

from __future__ import annotations

import threading
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pulsar
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from tests.compat.scenarios.values import attempt, rest, take, texts
from tests.compat.scenarios.world import Outcome, World, send_together, topic_path

MODES = pulsar.ProducerAccessMode
ACTIONS = pulsar.ConsumerCryptoFailureAction


def an_exclusive_producer_is_alone(w: World) -> Outcome:
    topic = w.topic()
    owner = w.producer(topic, access_mode=MODES.Exclusive)
    found = [attempt(w.producer, topic, access_mode=mode) for mode in (MODES.Shared, MODES.Exclusive)]
    owner.close()
    return [found, attempt(w.producer, topic), attempt(w.producer, topic, access_mode=MODES.Exclusive)]


def a_shared_topic_is_not_given_away(w: World) -> Outcome:
    topic = w.topic()
    shares = w.producer(topic)
    found = attempt(w.producer, topic, access_mode=MODES.Exclusive)
    return [found, attempt(lambda: shares.send(b"x")), attempt(w.producer, topic)]


def the_name_of_an_exclusive_producer(w: World) -> Outcome:
    topic = w.topic()
    w.producer(topic, producer_name="p", access_mode=MODES.Exclusive)
    return [
        attempt(w.producer, topic, producer_name="p", access_mode=mode, client=w.new_client())
        for mode in (MODES.Shared, MODES.Exclusive)
    ]


def a_fencing_producer_takes_over(w: World) -> Outcome:
    topic = w.topic()
    consumer = w.consumer(topic)
    old = w.producer(topic, access_mode=MODES.Exclusive)
    old.send(b"old")
    new = w.producer(topic, access_mode=MODES.ExclusiveWithFencing, client=w.new_client())
    late = attempt(lambda: old.send(b"late"))
    new.send(b"new")
    return [late, texts(consumer, 2), rest(consumer), attempt(lambda: old.send(b"later"))]


def producers_that_shared_are_fenced_too(w: World) -> Outcome:
    topic = w.topic()
    shares = w.producer(topic, send_timeout_millis=4_000)
    shares.send(b"a")
    fencing = w.producer(topic, access_mode=MODES.ExclusiveWithFencing, client=w.new_client())
    late = attempt(lambda: shares.send(b"late"))
    fencing.close()
    return [late, attempt(w.producer, topic)]


def fencing_a_fencing_producer(w: World) -> Outcome:
    topic = w.topic()
    producers = [w.producer(topic, access_mode=MODES.ExclusiveWithFencing, client=w.new_client()) for _ in range(3)]
    return [[attempt(lambda p=producer: p.send(b"x")) for producer in reversed(producers)], _epoch(w, topic)]


def epochs_count_owners(w: World) -> Outcome:
    topic = w.topic()
    w.producer(topic).close()
    found = [_epoch(w, topic)]
    for mode in (MODES.Exclusive, MODES.Exclusive, MODES.ExclusiveWithFencing, MODES.WaitForExclusive):
        producer = w.producer(topic, access_mode=mode)
        found.append(_epoch(w, topic))
        producer.close()
    w.producer(topic).close()
    return [*found, _epoch(w, topic)]


def epochs_outlive_an_unload(w: World) -> Outcome:
    topic = w.topic()
    w.producer(topic, access_mode=MODES.Exclusive).close()
    w.producer(topic, access_mode=MODES.Exclusive).close()
    w.admin("PUT", f"{topic_path(topic)}/unload")
    w.producer(topic, access_mode=MODES.Exclusive)
    return _epoch(w, topic)


def an_owner_survives_an_unload(w: World) -> Outcome:
    topic = w.topic()
    consumer = w.consumer(topic)
    owner = w.producer(topic, access_mode=MODES.Exclusive)
    owner.send(b"a")
    w.admin("PUT", f"{topic_path(topic)}/unload")
    return [attempt(lambda: owner.send(b"b")), texts(consumer, 2), _epoch(w, topic)]


def one_that_waits_gets_the_topic_when_its_owner_closes(w: World) -> Outcome:
    topic = w.topic()
    owner = w.producer(topic, access_mode=MODES.Exclusive)
    waiting = _Waiting(w, topic)
    before = [waiting.done, attempt(w.producer, topic), _modes(w, topic)]
    owner.close()
    return [before, waiting.outcome(), attempt(lambda: waiting.producer.send(b"x")), _modes(w, topic), _epoch(w, topic)]


def one_that_waits_gets_the_topic_when_its_owner_disconnects(w: World) -> Outcome:
    topic, client = w.topic(), w.new_client()
    w.producer(topic, access_mode=MODES.ExclusiveWithFencing, client=client)
    waiting = _Waiting(w, topic)
    client.close()
    return [waiting.outcome(), _modes(w, topic)]


def one_that_waits_for_those_that_share(w: World) -> Outcome:
    topic = w.topic()
    shares = [w.producer(topic) for _ in range(2)]
    waiting = _Waiting(w, topic)
    refused = [attempt(w.producer, topic), attempt(w.producer, topic, access_mode=MODES.Exclusive)]
    shares[0].close()
    still = waiting.done
    shares[1].close()
    return [refused, still, waiting.outcome(), _modes(w, topic)]


def those_that_wait_come_in_order(w: World) -> Outcome:
    topic = w.topic()
    owner = w.producer(topic, access_mode=MODES.Exclusive)
    first = _Waiting(w, topic)
    second = _Waiting(w, topic)
    owner.close()
    found = [first.outcome(), second.done]
    first.producer.close()
    return [*found, second.outcome(), _epoch(w, topic)]


def one_that_leaves_the_queue_gets_nothing(w: World) -> Outcome:
    topic = w.topic()
    owner = w.producer(topic, access_mode=MODES.Exclusive)
    leaves = _Waiting(w, topic)
    stays = _Waiting(w, topic)
    leaves.client.close()
    owner.close()
    return [stays.outcome(), _modes(w, topic)]


def fencing_ends_the_waiting(w: World) -> Outcome:
    topic = w.topic()
    w.producer(topic, access_mode=MODES.Exclusive)
    waiting = _Waiting(w, topic)
    w.producer(topic, access_mode=MODES.ExclusiveWithFencing, client=w.new_client())
    return [waiting.outcome(), _modes(w, topic)]


def exclusive_on_partitions(w: World) -> Outcome:
    topic = w.partitioned(3)
    w.producer(topic, access_mode=MODES.Exclusive)
    return [attempt(w.producer, topic), attempt(w.producer, f"{topic}-partition-1")]


# --- what is sent again


def what_is_sent_again_is_stored_once(w: World) -> Outcome:
    topic = f"{w.namespace(deduplication=True)}t"
    consumer = w.consumer(topic)
    found = []
    for numbers in ([1, 2, 3], [2, 3, 4], [1], [4, 5]):
        producer = w.producer(topic, producer_name="p")
        before = producer.last_sequence_id()
        for number in numbers:
            producer.send(b"%d" % number, sequence_id=number)
        found.append([before, producer.last_sequence_id()])
        producer.close()
    return [found, texts(consumer, 5), rest(consumer)]


def batches_that_are_sent_again(w: World) -> Outcome:
    topic = f"{w.namespace(deduplication=True)}t"
    consumer = w.consumer(topic)
    found = []
    for _ in range(2):
        producer = w.batching(topic, 3, producer_name="p")
        found.append(producer.last_sequence_id())
        for number in (1, 2, 3):
            producer.send_async(b"%d" % number, lambda *_: None, sequence_id=number)
        producer.flush()
        producer.close()
    return [found, texts(consumer, 3), rest(consumer)]


def chunks_that_are_sent_again(w: World) -> Outcome:
    topic = f"{w.namespace(deduplication=True)}t"
    consumer = w.consumer(topic)
    payload = bytes(12 << 20)
    found = []
    for _ in range(2):
        producer = w.producer(topic, producer_name="p", chunking_enabled=True)
        found.append(producer.last_sequence_id())
        producer.send(payload, sequence_id=5)
        producer.send(b"last", sequence_id=6)
        producer.close()
    return [found, [len(message.data()) for message in take(consumer, 3)]]


def other_producers_are_not_duplicates(w: World) -> Outcome:
    topic = f"{w.namespace(deduplication=True)}t"
    consumer = w.consumer(topic)
    for name in "ab":
        producer = w.producer(topic, producer_name=name)
        producer.send(name.encode(), sequence_id=1)
    return [texts(consumer, 2), rest(consumer)]


def a_lower_sequence_id_is_a_duplicate(w: World) -> Outcome:
    topic = f"{w.namespace(deduplication=True)}t"
    consumer = w.consumer(topic)
    producer = w.producer(topic)
    for number in (10, 5, 11):
        producer.send(b"%d" % number, sequence_id=number)
    return [texts(consumer, 2), rest(consumer)]


# --- encryption


def encrypted_messages_arrive(w: World) -> Outcome:
    topic, keys = w.topic(), _Keys()
    consumer = w.consumer(topic, crypto_key_reader=keys.reader)
    w.producer(topic, **keys.producing).send(b"plain", properties={"a": "1"}, partition_key="k")
    packed = w.batching(topic, 3, compression_type=pulsar.CompressionType.LZ4, **keys.producing)
    send_together(packed, "a", "b", "c")
    w.producer(topic, chunking_enabled=True, **keys.producing).send(bytes(6 << 20))
    messages = take(consumer, 5, acknowledge=True)
    return [
        [message.data().decode() if len(message.data()) < 10 else len(message.data()) for message in messages],
        messages[0].properties(),
        messages[0].partition_key(),
        w.settled(lambda: w.backlog(topic), 0),
    ]


def encrypted_messages_for_one_without_keys(w: World) -> Outcome:
    topic, keys = w.topic(), _Keys()
    found: dict[str, Any] = {}
    actions = (ACTIONS.DISCARD, ACTIONS.CONSUME)
    consumers = {one.name: w.consumer(topic, one.name, crypto_failure_action=one) for one in actions}
    w.producer(topic, **keys.producing).send(b"secret")
    w.send(topic, "plain")
    for name, consumer in consumers.items():
        messages = take(consumer, 2 if name == "CONSUME" else 1, acknowledge=True)
        found[name] = [[message.data() == b"secret", message.data() == b"plain"] for message in messages]
        found[f"backlog of {name}"] = w.settled(partial(w.backlog, topic, name), 0)
    return found


def encryption_required(w: World) -> Outcome:
    prefix, keys = w.namespace(encryptionRequired=True), _Keys()
    client = w.new_client(operation_timeout_seconds=3)
    consumer = w.consumer(f"{prefix}t", crypto_key_reader=keys.reader)
    plain = attempt(lambda: w.producer(f"{prefix}t", client=client))
    w.producer(f"{prefix}t", **keys.producing).send(b"secret")
    return [plain, texts(consumer, 1)]


# --- helpers


class _Waiting:
    """A producer that waits for a topic; made once the broker says that it does."""

    def __init__(self, w: World, topic: str) -> None:
        self.client = w.new_client(operation_timeout_seconds=4)
        self.producer: Any = None
        self._ended = ""
        before = w.stats(topic)["waitingPublishers"]
        self._thread = threading.Thread(target=self._wait, args=(w, topic), daemon=True)
        self._thread.start()
        w.settled(lambda: w.stats(topic)["waitingPublishers"], before + 1)

    def _wait(self, w: World, topic: str) -> None:
        try:
            self.producer = w.producer(topic, access_mode=MODES.WaitForExclusive, client=self.client)
            self._ended = "ok"
        except pulsar.PulsarException as error:
            self._ended = type(error).__name__

    @property
    def done(self) -> bool:
        return bool(self._ended)

    def outcome(self) -> str:
        self._thread.join(10)
        return self._ended


class _Keys:
    """A pair of RSA keys in files that go with it."""

    def __init__(self) -> None:
        self._folder = TemporaryDirectory(prefix="keys-")
        key = rsa.generate_private_key(65537, 2048)
        private, public = Path(self._folder.name, "private.pem"), Path(self._folder.name, "public.pem")
        encoding = serialization.Encoding.PEM
        private.write_bytes(
            key.private_bytes(encoding, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption())
        )
        public.write_bytes(key.public_key().public_bytes(encoding, serialization.PublicFormat.SubjectPublicKeyInfo))
        self.reader = pulsar.CryptoKeyReader(str(public), str(private))
        self.producing = {"encryption_key": "app", "crypto_key_reader": self.reader}


def _epoch(w: World, topic: str) -> Any:
    return w.stats(topic).get("topicEpoch")


def _modes(w: World, topic: str) -> list[str]:
    return [one["accessMode"] for one in w.stats(topic)["publishers"]]
