"""A client that writes frames as they are: it may say anything, in any order, and sees everything that comes back."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any, NamedTuple

from messaging.protocol import frames
from messaging.protocol import pulsar_pb2 as pb

TIMEOUT_S = 10.0
Kind = pb.Command.Type


class Received(NamedTuple):
    command: pb.Command
    payload: bytes  # what follows the command: checksum, metadata and the message itself

    @property
    def name(self) -> str:
        return pb.Command.Type.Name(self.command.type)

    @property
    def body(self) -> Any:
        return getattr(self.command, self.name.lower())

    @property
    def text(self) -> bytes:
        """The message itself, without its metadata."""
        return frames.parse_stored(self.payload).payload


class Closed(Exception):
    """The broker ended the connection."""


class RawClient:
    """Answers PING by itself. Everything else that comes is kept until it is asked for."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.writer = writer
        self.inbox: deque[Received] = deque()
        self.ended = False
        self._reader = reader
        self._news = asyncio.Event()
        self._requests = 100
        self._task = asyncio.get_running_loop().create_task(self._read())

    @classmethod
    async def open(cls, port: int) -> RawClient:
        return cls(*await asyncio.open_connection("127.0.0.1", port))

    async def _read(self) -> None:
        try:
            while True:
                total = int.from_bytes(await self._reader.readexactly(4), "big")
                frame = await self._reader.readexactly(total)
                size = int.from_bytes(frame[:4], "big")
                received = Received(pb.Command.FromString(frame[4 : 4 + size]), frame[4 + size :])
                if received.name == "PING":
                    self.answer_ping()
                    continue
                self.inbox.append(received)
                self._news.set()
        except (OSError, asyncio.IncompleteReadError):
            self.ended = True
            self._news.set()

    def answer_ping(self) -> None:
        self.writer.write(frames.PONG)

    def stop_reading(self) -> None:
        """From here on it reads nothing, though it stays connected."""
        self._task.cancel()

    async def close(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        self.writer.close()
        try:
            await self.writer.wait_closed()
        except OSError:
            pass

    # --- saying

    def write(self, *data: bytes) -> None:
        """In one write, so that the broker reads it at once."""
        self.writer.write(b"".join(data))

    def say(self, kind: Kind, **fields: Any) -> int:
        """One command whose body has these fields; a request id is filled in where one is needed and missing. Returns it."""
        frame, request_id = self.frame(kind, **fields)
        self.write(frame)
        return request_id

    def frame(self, kind: Kind, **fields: Any) -> tuple[bytes, int]:
        name = pb.Command.Type.Name(kind).lower()
        body_type = pb.Command.DESCRIPTOR.fields_by_name[name].message_type
        assert body_type is not None
        if "request_id" in body_type.fields_by_name and "request_id" not in fields and kind != pb.Command.ACK:
            self._requests += 1
            fields["request_id"] = self._requests
        command = pb.Command(type=kind)
        getattr(command, name).MergeFrom(getattr(pb, body_type.name)(**fields))
        getattr(command, name).SetInParent()
        return frames.encode(command), fields.get("request_id", 0)

    # --- hearing

    async def next(self, timeout_s: float = TIMEOUT_S) -> Received:
        """The next command, whatever it is. `Closed` where none comes any more."""
        try:
            async with asyncio.timeout(timeout_s):
                while not self.inbox:
                    if self.ended:
                        raise Closed
                    self._news.clear()
                    await self._news.wait()
        except TimeoutError:
            raise AssertionError(f"nothing came within {timeout_s:g} s") from None
        return self.inbox.popleft()

    async def expect(self, name: str) -> Any:
        """The body of the next command, which must be of this type."""
        answer = await self.next()
        assert answer.name == name, f"{name} was expected, and {answer.command} came"
        return answer.body

    async def messages(self, count: int) -> list[Received]:
        messages = [await self.next() for _ in range(count)]
        assert [message.name for message in messages] == ["MESSAGE"] * count
        return messages

    async def quiet(self) -> list[str]:
        """What is left after the broker has answered a PING: everything it had to say to what came before is there by then."""
        self.write(frames.PING)
        names = []
        while (answer := await self.next()).name != "PONG":
            names.append(answer.name)
        return names

    async def gone(self) -> list[Received]:
        """Waits until the broker ends the connection; what it said before."""
        left = []
        try:
            while True:
                left.append(await self.next())
        except Closed:
            return left

    # --- the usual beginnings

    async def connect(self, token: str | None = None, *, version: str = "raw") -> Any:
        method = {"auth_method_name": "token", "auth_data": token.encode()} if token is not None else {}
        self.say(pb.Command.CONNECT, client_version=version, protocol_version=20, **method)
        return await self.expect("CONNECTED")

    async def producer(self, topic: str, producer_id: int = 1, **fields: Any) -> Any:
        self.say(pb.Command.PRODUCER, topic=topic, producer_id=producer_id, **fields)
        return await self.expect("PRODUCER_SUCCESS")

    async def subscribe(self, topic: str, name: str = "s", consumer_id: int = 1, permits: int = 0, **fields: Any) -> None:
        fields.setdefault("sub_type", pb.Subscribe.Shared)
        fields.setdefault("initial_position", pb.Subscribe.Earliest)
        request_id = self.say(pb.Command.SUBSCRIBE, topic=topic, subscription=name, consumer_id=consumer_id, **fields)
        assert (await self.expect("SUCCESS")).request_id == request_id
        if permits:
            self.say(pb.Command.FLOW, consumer_id=consumer_id, message_permits=permits)


def send_frame(sequence_id: int, payload: bytes, producer_id: int = 1, count: int = 1, key: str | None = None) -> bytes:
    metadata = pb.Metadata(producer_name="raw", sequence_id=sequence_id, publish_time=1_000 + sequence_id, partition_key=key)
    return frames.build_send(producer_id, sequence_id, metadata, payload, count)


def delayed_frame(
    sequence_id: int, payload: bytes, deliver_at_ms: int, producer_id: int = 1, count: int = 1, key: str | None = None
) -> bytes:
    metadata = pb.Metadata(producer_name="raw", sequence_id=sequence_id, publish_time=1_000, deliver_at_time=deliver_at_ms)
    if key is not None:
        metadata.partition_key = key
    if count > 1:
        metadata.num_messages_in_batch = count
    return frames.build_send(producer_id, sequence_id, metadata, payload, count)


def encrypted_frame(sequence_id: int, payload: bytes, producer_id: int = 1, count: int = 1) -> bytes:
    """`payload` is what encrypting gave: bytes of no meaning to a broker. With a `count` it is a batch, packed before."""
    metadata = pb.Metadata(
        producer_name="raw",
        sequence_id=sequence_id,
        publish_time=1_000 + sequence_id,
        encryption_keys=[pb.EncryptionKey(key="app", value=b"\x00key\xff", metadata=[pb.KeyValue(key="version", value="1")])],
        encryption_algo="",
        encryption_param=b"nonce",
        compression=pb.LZ4,
        uncompressed_size=10 * len(payload),
    )
    if count > 1:
        metadata.num_messages_in_batch = count
    return frames.build_send(producer_id, sequence_id, metadata, payload, count)


def batch_frame(sequence_id: int, payloads: list[bytes], producer_id: int = 1, key: str | None = None) -> bytes:
    heads = [pb.SingleMetadata(payload_size=len(payload)).SerializeToString() for payload in payloads]
    body = b"".join(len(head).to_bytes(4, "big") + head + payload for head, payload in zip(heads, payloads, strict=True))
    metadata = pb.Metadata(
        producer_name="raw",
        sequence_id=sequence_id,
        publish_time=1_000 + sequence_id,
        num_messages_in_batch=len(payloads),
        partition_key=key,
    )
    return frames.build_send(producer_id, sequence_id, metadata, body, len(payloads))
