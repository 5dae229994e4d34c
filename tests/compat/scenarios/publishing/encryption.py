"""Payloads encrypted by clients pass through, whatever else is done with them."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from functools import cache
from pathlib import Path
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
    messages = take(consumer, 1)
    for message in messages:
        consumer.acknowledge(message)
    return [len(messages), rest(consumer) == [], w.settled(lambda: w.backlog(topic), 0)]


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
