"""Payloads encrypted by clients pass through, whatever else is done with them."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from functools import cache
from pathlib import Path

"""Messages that clients encrypt."""
from functools import partial
from tempfile import TemporaryDirectory
from typing import Any

import pulsar
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from tests.compat.scenarios.values import attempt, rest, take
from tests.compat.scenarios.world import Outcome, World, send_together

_ACTION = pulsar.ConsumerCryptoFailureAction


@cache
def _keys() -> tuple[str, str]:
    """The paths of a public and a private key, which lie there as long as the process lives."""
    folder = tempfile.mkdtemp(prefix="scenario-keys-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    key = rsa.generate_private_key(public_exponent=65_537, key_size=2048)
    public, private = Path(folder) / "public.pem", Path(folder) / "private.pem"
    public.write_bytes(key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo))
    private.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption())
    )
    return str(public), str(private)


def _reader() -> pulsar.CryptoKeyReader:
    return pulsar.CryptoKeyReader(*_keys())


def _encrypting(w: World, topic: str, **options: Any) -> pulsar.Producer:
    return w.producer(topic, encryption_key="key", crypto_key_reader=_reader(), **options)


def single_messages(w: World) -> Outcome:
    topic = w.topic()
    consumer = w.consumer(topic, crypto_key_reader=_reader())
    _encrypting(w, topic).send(b"secret", properties={"open": "yes"}, partition_key="k")
    return [[message.data().decode(), message.properties(), message.partition_key()] for message in take(consumer, 1)]


def batches(w: World) -> Outcome:
    topic = w.topic()
    consumer = w.consumer(topic, crypto_key_reader=_reader())
    options = {"batching_enabled": True, "batching_max_messages": 3, "batching_max_publish_delay_ms": 2000}
    send_together(_encrypting(w, topic, **options), "a", "b", "c")
    return [[message.data().decode(), message.message_id().batch_index()] for message in take(consumer, 3)]


def compressed_batches(w: World) -> Outcome:
    topic = w.topic()
    consumer = w.consumer(topic, crypto_key_reader=_reader())
    options = {"batching_enabled": True, "batching_max_messages": 3, "batching_max_publish_delay_ms": 2000}
    send_together(_encrypting(w, topic, compression_type=pulsar.CompressionType.ZSTD, **options), "a" * 99, "b", "c")
    return [len(message.data()) for message in take(consumer, 3)]


def in_chunks(w: World) -> Outcome:
    topic = w.topic()
    consumer = w.consumer(topic, crypto_key_reader=_reader())
    _encrypting(w, topic, chunking_enabled=True).send(b"x" * 6_000_000)
    return [len(message.data()) for message in take(consumer, 1)]


def without_the_key_nothing_comes(w: World) -> Outcome:
    topic = w.topic()
    consumer = w.consumer(topic)
    _encrypting(w, topic).send(b"secret")
    return [rest(consumer), w.backlog(topic)]


def without_the_key_it_may_be_skipped(w: World) -> Outcome:
    topic = w.topic()
    consumer = w.consumer(topic, crypto_failure_action=_ACTION.DISCARD)
    _encrypting(w, topic).send(b"secret")
    w.send(topic, "open")
    return rest(consumer)


def without_the_key_it_may_be_read_as_it_is(w: World) -> Outcome:
    topic = w.topic()
    consumer = w.consumer(topic, crypto_failure_action=_ACTION.CONSUME)
    _encrypting(w, topic).send(b"secret")
    message = take(consumer, 1)[0]
    context = message.encryption_context()
    assert context is not None
    keys = context.keys()
    return [message.data() != b"secret", [key.key for key in keys]]


def a_batch_read_as_it_is(w: World) -> Outcome:
    topic = w.topic()
    consumer = w.consumer(topic, crypto_failure_action=_ACTION.CONSUME)
    options = {"batching_enabled": True, "batching_max_messages": 3, "batching_max_publish_delay_ms": 2000}
    send_together(_encrypting(w, topic, **options), "a", "b", "c")
    found = take(consumer, 1)
    for message in found:
        consumer.acknowledge(message)
    return [len(found), rest(consumer) == [], w.settled(lambda: w.backlog(topic), 0)]


def on_key_shared_with_batches_by_key(w: World) -> Outcome:
    topic = w.topic()
    consumer = w.consumer(topic, kind="KeyShared", crypto_key_reader=_reader())
    options = {"batching_enabled": True, "batching_max_messages": 4, "batching_max_publish_delay_ms": 2000}
    producer = _encrypting(w, topic, batching_type=pulsar.BatchingType.KeyBased, **options)
    for number in range(4):
        producer.send_async(str(number).encode(), lambda *_: None, partition_key=f"k{number % 2}")
    producer.flush()
    return sorted([message.partition_key(), message.data().decode()] for message in take(consumer, 4))


def by_namespaces_that_demand_it(w: World) -> Outcome:
    topic = f"{w.namespace(encryptionRequired=True)}t"
    client = w.new_client(operation_timeout_seconds=3)
    return [attempt(client.create_producer, topic), attempt(_encrypting, w, topic)]


from tests.compat.scenarios.values import texts

ACTIONS = pulsar.ConsumerCryptoFailureAction


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
    consumer = w.consumer(f"{prefix}t", crypto_key_reader=keys.reader)
    plain = attempt(lambda: w.producer(f"{prefix}t", client=client))
    w.producer(f"{prefix}t", **keys.producing).send(b"secret")
    return [plain, texts(consumer, 1)]


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
