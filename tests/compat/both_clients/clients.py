"""What a scenario may ask of a client, and Apache's client and ours behind it. Everything blocks."""

from __future__ import annotations

import atexit
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from threading import Lock
from typing import Any, NamedTuple, Protocol

import pulsar
import pulsar.schema
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from messaging.client import blocking as magnetar

RECEIVE_S = 10.0
SILENCE_S = 0.3  # how long nothing may come: a broker that sends something wrong sends it within milliseconds
KINDS = ("exclusive", "shared", "failover", "key_shared")
EARLIEST = "earliest"
SCHEMAS = ("string", "json", "avro")
KEY_PAIRS = ("reader", "stranger")  # of RSA: Apache's client reads no others
_KEYS_LOCK = Lock()
CRYPTO_FAILURES = ("fail", "discard", "consume")


class Seen(NamedTuple):
    """`id`: ledger, entry, index in the batch. `original`: of the client that received it."""

    id: tuple[int, int, int]
    text: str
    key: str
    properties: dict[str, str]
    event_time_ms: int
    redeliveries: int
    original: Any


class Sender(Protocol):
    def send(self, text: str, **more: Any) -> tuple[int, int, int]:
        """`more`: key, properties, event_time_ms."""

    def send_batch(self, texts: Sequence[str]) -> list[tuple[int, int, int]]:
        """As one batch."""

    def close(self) -> None: ...


class Receiver(Protocol):
    def receive(self, timeout_s: float = RECEIVE_S) -> Seen | None:
        """None: nothing came in time."""

    def ack(self, seen: Seen) -> None: ...

    def ack_cumulative(self, seen: Seen) -> None: ...

    def nack(self, seen: Seen) -> None: ...

    def seek(self, target: Seen | str | int) -> None:
        """A message, `EARLIEST`, or milliseconds since 1970."""

    def close(self) -> None: ...


class Client(Protocol):
    """Errors are of each client's own classes: `name_of` has the common name."""

    def producer(self, topic: str, **options: Any) -> Sender:
        """`options`: batch (how many messages fill one; 1: none), compression, chunking, access, schema (of `SCHEMAS`: what is sent
        is the `text` of a record), encryption (of `KEY_PAIRS`)."""

    def consumer(self, topic: str, name: str = "s", kind: str = "exclusive", **options: Any) -> Receiver:
        """`options`: initial, nack_delay_s, dead_after, schema, decryption (of `KEY_PAIRS`), crypto_failure (of
        `CRYPTO_FAILURES`)."""

    def reader(self, topic: str, start: Seen | str = EARLIEST, *, inclusive: bool = False, **options: Any) -> Receiver:
        """`options`: decryption, crypto_failure."""

    def close(self) -> None: ...


class KeyFiles(NamedTuple):
    """Paths of a pair in PEM."""

    public: str
    private: str


def key_files() -> dict[str, KeyFiles]:
    """By the names of `KEY_PAIRS`; made once, and deleted when the process ends."""
    with _KEYS_LOCK:  # scenarios run side by side, and a cache alone lets several make them
        return _made_key_files()


@cache
def _made_key_files() -> dict[str, KeyFiles]:
    folder = Path(mkdtemp(prefix="keys-"))
    atexit.register(rmtree, folder, ignore_errors=True)
    files = {}
    for name in KEY_PAIRS:
        key = rsa.generate_private_key(65_537, 2048)
        files[name] = KeyFiles(str(folder / f"{name}-public.pem"), str(folder / f"{name}-private.pem"))
        public = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
        Path(files[name].public).write_bytes(public)
        Path(files[name].private).write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption()))
    return files


_COMMON_NAMES = {"MessageTooBig": "MessageTooLarge", "TopicNotFound": "NotFound", "Timeout": "TimedOut"}


def attempt(call: Callable[..., Any], *arguments: Any, **options: Any) -> str:
    """How a call ended: "ok", or the common name of its error."""
    try:
        call(*arguments, **options)
    except (pulsar.PulsarException, magnetar.errors.MagnetarError) as error:
        name = type(error).__name__
        return _COMMON_NAMES.get(name, name)
    return "ok"


# --- Apache's ----------------------------------------------------------------------------------------------------------------

_CODECS = {
    "none": pulsar.CompressionType.NONE,
    "lz4": pulsar.CompressionType.LZ4,
    "zlib": pulsar.CompressionType.ZLib,
    "zstd": pulsar.CompressionType.ZSTD,
    "snappy": pulsar.CompressionType.SNAPPY,
}
_TYPES = {
    "exclusive": pulsar.ConsumerType.Exclusive,
    "shared": pulsar.ConsumerType.Shared,
    "failover": pulsar.ConsumerType.Failover,
    "key_shared": pulsar.ConsumerType.KeyShared,
}
_ACCESS = {"shared": pulsar.ProducerAccessMode.Shared, "exclusive": pulsar.ProducerAccessMode.Exclusive}


class _TheirRecord(pulsar.schema.Record):  # type: ignore[misc]
    _avro_name = "Line"
    text = pulsar.schema.String(required=True)
    length = pulsar.schema.Long(required=True)


_THEIR_SCHEMAS: dict[str | None, pulsar.schema.Schema] = {
    None: pulsar.schema.BytesSchema(),
    "string": pulsar.schema.StringSchema(),
    "json": pulsar.schema.JsonSchema(_TheirRecord),
    "avro": pulsar.schema.AvroSchema(_TheirRecord),
}


def _text_of(value: Any) -> str:
    if isinstance(value, bytes):
        return value.decode(errors="replace")  # what is still encrypted is no text
    return value if isinstance(value, str) else f"{value.text} ({value.length})"


def _their_keys(name: str | None) -> pulsar.CryptoKeyReader | None:
    return None if name is None else pulsar.CryptoKeyReader(*key_files()[name])


def _their_decryption(options: dict[str, Any]) -> dict[str, Any]:
    action = getattr(pulsar.ConsumerCryptoFailureAction, options.get("crypto_failure", "fail").upper())
    return {"crypto_key_reader": _their_keys(options.get("decryption")), "crypto_failure_action": action}


def _id(message_id: Any) -> tuple[int, int, int]:
    return message_id.ledger_id(), message_id.entry_id(), message_id.batch_index()


class _StockSender:
    def __init__(self, producer: pulsar.Producer, schema: str | None) -> None:
        self._producer = producer
        self._schema = schema

    def _value(self, text: str) -> Any:
        if self._schema is None:
            return text.encode()
        return text if self._schema == "string" else _TheirRecord(text=text, length=len(text))

    def send(self, text: str, **more: Any) -> tuple[int, int, int]:
        return _id(
            self._producer.send(
                self._value(text),
                properties=more.get("properties"),
                partition_key=more.get("key"),
                event_timestamp=more.get("event_time_ms"),
            )
        )

    def send_batch(self, texts: Sequence[str]) -> list[tuple[int, int, int]]:
        ids: list[Any] = []
        for text in texts:
            self._producer.send_async(self._value(text), lambda _, message_id: ids.append(_id(message_id)))
        self._producer.flush()
        return ids

    def close(self) -> None:
        self._producer.close()


class _StockReceiver:
    def __init__(self, receiver: Any) -> None:
        self._receiver = receiver

    def receive(self, timeout_s: float = RECEIVE_S) -> Seen | None:
        receive = self._receiver.read_next if isinstance(self._receiver, pulsar.Reader) else self._receiver.receive
        try:
            message = receive(int(timeout_s * 1000))
        except pulsar.Timeout:
            return None
        return Seen(
            _id(message.message_id()),
            _text_of(message.value()),
            message.partition_key(),
            message.properties(),
            message.event_timestamp(),
            message.redelivery_count(),
            message,
        )

    def ack(self, seen: Seen) -> None:
        self._receiver.acknowledge(seen.original)

    def ack_cumulative(self, seen: Seen) -> None:
        self._receiver.acknowledge_cumulative(seen.original)

    def nack(self, seen: Seen) -> None:
        self._receiver.negative_acknowledge(seen.original)

    def seek(self, target: Seen | str | int) -> None:
        if isinstance(target, Seen):
            self._receiver.seek(target.original.message_id())
        else:
            self._receiver.seek(pulsar.MessageId.earliest if target == EARLIEST else target)

    def close(self) -> None:
        self._receiver.close()


class StockClient:
    def __init__(self, url: str, token: str | None, log_file: Path) -> None:
        logger = pulsar.FileLogger(pulsar.LoggerLevel.Warn, str(log_file))
        authentication = None if token is None else pulsar.AuthenticationToken(token)
        self._client = pulsar.Client(url, authentication, logger=logger, operation_timeout_seconds=10)

    def producer(self, topic: str, **options: Any) -> Sender:
        batch = options.get("batch", 1)
        return _StockSender(
            self._client.create_producer(
                topic,
                batching_enabled=batch > 1,
                batching_max_messages=max(2, batch),
                batching_max_publish_delay_ms=5_000,
                compression_type=_CODECS[options.get("compression", "none")],
                chunking_enabled=options.get("chunking", False),
                access_mode=_ACCESS[options.get("access", "shared")],
                message_routing_mode=pulsar.PartitionsRoutingMode.RoundRobinDistribution,
                schema=_THEIR_SCHEMAS[options.get("schema")],
                encryption_key=options.get("encryption"),
                crypto_key_reader=_their_keys(options.get("encryption")),
            ),
            options.get("schema"),
        )

    def consumer(self, topic: str, name: str = "s", kind: str = "exclusive", **options: Any) -> Receiver:
        dead_after = options.get("dead_after")
        policy = None if dead_after is None else pulsar.ConsumerDeadLetterPolicy(dead_after, initial_subscription_name="kept")
        return _StockReceiver(
            self._client.subscribe(
                topic,
                name,
                _TYPES[kind],
                initial_position=getattr(pulsar.InitialPosition, options.get("initial", "latest").capitalize()),
                negative_ack_redelivery_delay_ms=int(1000 * options.get("nack_delay_s", 60)),
                dead_letter_policy=policy,
                batch_index_ack_enabled=True,
                schema=_THEIR_SCHEMAS[options.get("schema")],
                **_their_decryption(options),
            )
        )

    def reader(self, topic: str, start: Seen | str = EARLIEST, *, inclusive: bool = False, **options: Any) -> Receiver:
        position = start.original.message_id() if isinstance(start, Seen) else pulsar.MessageId.earliest
        more = _their_decryption(options)
        return _StockReceiver(self._client.create_reader(topic, position, start_message_id_inclusive=inclusive, **more))

    def close(self) -> None:
        try:
            self._client.close()
        except pulsar.PulsarException:
            pass  # a producer of it was refused


# --- ours --------------------------------------------------------------------------------------------------------------------


@dataclass
class Line:
    text: str
    length: int


_OUR_SCHEMAS: dict[str | None, magnetar.Schema[Any]] = {
    None: magnetar.BYTES,
    "string": magnetar.STRING,
    "json": magnetar.Json(Line),
    "avro": magnetar.Avro(Line),
}


def _our_decryption(options: dict[str, Any]) -> dict[str, Any]:
    arguments: dict[str, Any] = {"crypto_failure": options.get("crypto_failure", "fail")}
    if "decryption" in options:
        name = options["decryption"]
        # As Apache's in Python: the key is asked for by whatever name it has in the message.
        arguments["decryption"] = magnetar.Decryptor(lambda _: Path(key_files()[name].private).read_bytes())
    return arguments


class _OurSender:
    def __init__(self, producer: magnetar.Producer, schema: str | None) -> None:
        self._producer = producer
        self._schema = schema

    def _value(self, text: str) -> Any:
        if self._schema is None:
            return text.encode()
        return text if self._schema == "string" else Line(text, len(text))

    def send(self, text: str, **more: Any) -> tuple[int, int, int]:
        return tuple(self._producer.send(self._value(text), **more)[:3])  # type: ignore[return-value]

    def send_batch(self, texts: Sequence[str]) -> list[tuple[int, int, int]]:
        futures = [self._producer.send_nowait(self._value(text)) for text in texts]
        self._producer.flush()
        return [tuple(future.result()[:3]) for future in futures]  # type: ignore[misc]

    def close(self) -> None:
        self._producer.close()


class _OurReceiver:
    def __init__(self, receiver: magnetar.Consumer | magnetar.Reader) -> None:
        self._receiver: Any = receiver

    def receive(self, timeout_s: float = RECEIVE_S) -> Seen | None:
        receive = self._receiver.read if isinstance(self._receiver, magnetar.Reader) else self._receiver.receive
        try:
            message = receive(timeout_s)
        except magnetar.errors.ReceiveTimedOut:
            return None
        key = message.key.decode() if isinstance(message.key, bytes) else message.key or ""
        return Seen(
            message.id[:3],
            _text_of(message.value),
            key,
            message.properties,
            message.event_time_ms or 0,
            message.redelivery_count,
            message,
        )

    def ack(self, seen: Seen) -> None:
        self._receiver.ack(seen.original)

    def ack_cumulative(self, seen: Seen) -> None:
        self._receiver.ack_cumulative(seen.original)

    def nack(self, seen: Seen) -> None:
        self._receiver.nack(seen.original)

    def seek(self, target: Seen | str | int) -> None:
        if isinstance(target, Seen):
            self._receiver.seek(target.original.id)
        else:
            self._receiver.seek(magnetar.EARLIEST if target == EARLIEST else target)

    def close(self) -> None:
        self._receiver.close()


class OurClient:
    def __init__(self, url: str, token: str | None) -> None:
        self._client = magnetar.connect(url, key=token)

    def producer(self, topic: str, **options: Any) -> Sender:
        batch = options.get("batch", 1)
        arguments: Any = {"batch_messages_max": batch, "batch_delay_ms": 5_000} if batch > 1 else {"batching": False}
        arguments |= {name: options[name] for name in ("compression", "chunking", "access") if name in options}
        if "encryption" in options:
            name = options["encryption"]
            arguments["encryption"] = magnetar.Encryptor({name: Path(key_files()[name].public).read_bytes()})
        schema = options.get("schema")
        return _OurSender(self._client.producer(topic, schema=_OUR_SCHEMAS[schema], **arguments), schema)

    def consumer(self, topic: str, name: str = "s", kind: str = "exclusive", **options: Any) -> Receiver:
        dead_after = options.get("dead_after")
        policy = None if dead_after is None else magnetar.DeadLetterPolicy(dead_after, initial_subscription="kept")
        arguments: Any = {"kind": kind, "dead_letters": policy, **_our_decryption(options)}
        arguments |= {name: options[name] for name in ("initial", "nack_delay_s") if name in options}
        return _OurReceiver(self._client.consumer(topic, name, schema=_OUR_SCHEMAS[options.get("schema")], **arguments))

    def reader(self, topic: str, start: Seen | str = EARLIEST, *, inclusive: bool = False, **options: Any) -> Receiver:
        position = start.original.id if isinstance(start, Seen) else magnetar.EARLIEST
        return _OurReceiver(self._client.reader(topic, position, inclusive=inclusive, **_our_decryption(options)))

    def close(self) -> None:
        self._client.close()


# --- one writes, the other reads -------------------------------------------------------------------------------------------------


class WritingAndReading:
    """Producers are of `writing`, consumers and readers of `reading`: what either writes, the other has to read."""

    def __init__(self, writing: Client, reading: Client) -> None:
        self._writing = writing
        self._reading = reading
        self.producer = writing.producer
        self.consumer = reading.consumer
        self.reader = reading.reader

    def close(self) -> None:
        self._reading.close()
        self._writing.close()
