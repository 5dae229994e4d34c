"""Frames of the binary protocol that nobody should send, made from the command schema and the limits table. Pure, seeded.

Three kinds: *commands* with any field at its limit, over it or at an edge of its type; *messages* whose numbers, checksums and
sizes do not agree; *damage*: lengths that lie, bytes that are changed. Most leave their connection open, so that many of them reach
the broker in one connection; those that end it come last.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any, NamedTuple, cast

from crc32c import crc32c
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from messaging.protocol import frames
from messaging.protocol import pulsar_pb2 as pb
from tests.support.clients.commands import NUMBERS, at_and_over, client_bodies, empty, kind_of, limit_of, sized

TOPICS = [f"persistent://public/default/hostile-{number}" for number in range(8)]
NAMES = [*TOPICS, *TOPICS, *TOPICS, "", "t", "a/b", "persistent://public/default/", "non-persistent://public/default/h"]
NAMES += ["persistent://public/default/hostile-0-partition-1", "persistent://other/things/t", "persistent://public/default/%2e%2e"]
NAMES += [
    "persistent://public/default/a\x00b",
    "persistent://public/default/\u202ex",
    "://",
    "/" * 50,
    "persistent://a/b/c/d",
    "é" * 255,
]
SUBSCRIPTIONS = ["s", "s", "s", "other", "pulsar.dedup", "pulsar.repl.x", "", "a/b", "\n"]
EDGES = [0, 1, 2, 3, 127, 128, 255, 65_535, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**53, 2**63 - 1, 2**63, 2**64 - 1]
LARGE_SHARE = 0.01  # of fields that are put at a limit which is large
MADE_MAX = 2_000
NO_TEXT = "<no text>"  # becomes bytes that are not UTF-8
ENDING = frozenset({"connect", "auth_response", "send", "new_txn"})  # as commands made from the schema
RANGES = {
    FieldDescriptor.TYPE_INT32: (-(2**31), 2**31 - 1),
    FieldDescriptor.TYPE_INT64: (-(2**63), 2**63 - 1),
    FieldDescriptor.TYPE_UINT32: (0, 2**32 - 1),
    FieldDescriptor.TYPE_UINT64: (0, 2**64 - 1),
}


class Conversation(NamedTuple):
    """What one connection sends. `opening`: CONNECT and producers, whose answers are waited for. `ends`: the last frame breaks the
    protocol, so that no answer to a PING after it is due."""

    opening: list[bytes]
    frames: list[bytes]
    ends: bool


class BinaryFrames:
    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self._made: list[bytes] = []
        self._bodies = [body for body in client_bodies() if body.name not in ENDING]
        self._weights = [4 if body.name in ("ack", "subscribe", "producer", "flow", "seek") else 1 for body in self._bodies]

    def conversation(self, count: int) -> Conversation:
        """About `count` frames: an opening as clients begin, then anything, then perhaps what ends it."""
        chance = self.chance
        greeted = chance.random() < 0.97
        topics = [chance.choice(TOPICS) for _ in range(3)]
        opening = [self.connect(), *self._producers(topics)] if greeted else []
        talk = self._consumers(topics) if greeted else []
        talk += [self.frame() for _ in range(count)]
        ends = not greeted or chance.random() < 0.3
        if ends:
            talk.append(self.damaged(chance.choice(talk)))
        return Conversation(opening, talk, ends)

    def connect(self) -> bytes:
        return frames.command(pb.Command.CONNECT, connect=pb.Connect(client_version="hostile", protocol_version=20))

    def _producers(self, topics: list[str]) -> list[bytes]:
        made = [pb.Producer(topic=topic, producer_id=number, request_id=number) for number, topic in enumerate(topics)]
        return [frames.command(pb.Command.PRODUCER, producer=producer) for producer in made]

    def _consumers(self, topics: list[str]) -> list[bytes]:
        chance, commands = self.chance, []
        for number, topic in enumerate(topics):
            kind = chance.choice([pb.Subscribe.Exclusive, pb.Subscribe.Shared, pb.Subscribe.Shared, pb.Subscribe.Failover])
            subscribe = pb.Subscribe(
                topic=topic, subscription=chance.choice("stuv"), sub_type=kind, consumer_id=number, request_id=10 + number
            )
            commands.append(frames.command(pb.Command.SUBSCRIBE, subscribe=subscribe))
            commands.append(frames.command(pb.Command.FLOW, flow=pb.Flow(consumer_id=number, message_permits=20)))
        return commands

    def frame(self) -> bytes:
        """Mostly one that was sent before: in another order, to another state, it is another attack, and costs nothing to make."""
        chance, made = self.chance, self._made
        if len(made) == MADE_MAX and chance.random() < 0.7:
            return chance.choice(made)
        frame = self.message() if chance.random() < 0.4 else self.command()
        if len(made) < MADE_MAX:
            made.append(frame)
        else:
            made[chance.randrange(MADE_MAX)] = frame
        return frame

    # --- commands

    def command(self) -> bytes:
        body = self.chance.choices(self._bodies, self._weights)[0]
        command = empty(body)
        self._scramble(getattr(command, body.name), 0)
        return _without_text(frames.encode(command))

    def any_command(self) -> bytes:
        """Also those that end a connection, and a body that is not of the type."""
        chance = self.chance
        command = empty(chance.choice(client_bodies()))
        if chance.random() < 0.3:
            command.type = kind_of(chance.choice(client_bodies()))  # type: ignore[assignment]
        for field, inner in command.ListFields():
            if field.message_type is not None:
                self._scramble(inner, 0)
        return frames.encode(command)

    def _scramble(self, message: Message, depth: int) -> None:
        chance = self.chance
        for field in cast(Sequence[FieldDescriptor], message.DESCRIPTOR.fields):
            if not field.is_required and chance.random() < 0.6:
                continue
            if field.is_repeated:
                self._fill_list(message, field, depth)
            elif field.message_type is not None:
                if depth < 3:
                    inner = getattr(message, field.name)
                    inner.SetInParent()
                    self._scramble(inner, depth + 1)
            else:
                setattr(message, field.name, self._value(field))

    def _fill_list(self, message: Message, field: FieldDescriptor, depth: int) -> None:
        chance, values, limit = self.chance, getattr(message, field.name), limit_of(field)
        if limit is not None and chance.random() < LARGE_SHARE:
            _, at, over = chance.choice(list(at_and_over(field, limit)))
            values.extend(chance.choice([at, over]))
            return
        for _ in range(chance.choice([0, 1, 1, 2, 5])):
            if field.message_type is None:
                values.append(self._value(field))
            elif depth < 3:
                self._scramble(values.add(), depth + 1)

    def _value(self, field: FieldDescriptor) -> Any:
        chance, name = self.chance, field.name
        if field.enum_type is not None:
            return chance.choice(field.enum_type.values).number
        if field.type == FieldDescriptor.TYPE_BOOL:
            return chance.random() < 0.5
        if field.type in NUMBERS:
            return self._number(field)
        limit = limit_of(field)
        share = 0.2 if limit is not None and limit.bytes_max is not None and limit.bytes_max < 2000 else 0.2 * LARGE_SHARE
        if limit is not None and limit.bytes_max is not None and chance.random() < share:
            return sized(field, limit.bytes_max + chance.choice([-1, 0, 1]))
        if field.type == FieldDescriptor.TYPE_BYTES:
            return chance.randbytes(chance.choice([0, 1, 8, 40]))
        if name == "topic":
            return chance.choice(NAMES) if chance.random() < 0.98 else NO_TEXT
        if name == "subscription":
            return chance.choice(SUBSCRIPTIONS)
        return chance.choice(["", "x", NO_TEXT, "public/default", "\x00", "\r\n", "\u202e", "é" * 100, "%00", "{}"])

    def _number(self, field: FieldDescriptor) -> int:
        chance = self.chance
        if field.name in ("producer_id", "consumer_id") and chance.random() < 0.9:
            return chance.randrange(3)
        if field.name == "message_permits" and chance.random() < 0.97:
            return chance.randrange(30)
        low, high = RANGES[field.type]
        value = chance.choice(EDGES) if chance.random() < 0.4 else chance.randrange(60)
        return min(max(-value if low < 0 and chance.random() < 0.3 else value, low), high)

    # --- messages

    def message(self) -> bytes:
        """A SEND for a producer that is open (or was), mostly one that a client could send."""
        chance = self.chance
        send = pb.Send(producer_id=chance.randrange(3), sequence_id=chance.randrange(100_000))
        metadata = pb.Metadata(producer_name="h", sequence_id=send.sequence_id, publish_time=chance.choice(EDGES))
        payload = chance.randbytes(chance.choice([0, 1, 5, 20, 200]))
        if chance.random() < 0.4:
            count = chance.choice([0, 1, 2, 3, 10, 1000, 131_072, 131_073, 2**31 - 1, -1])
            send.num_messages = count
            metadata.num_messages_in_batch = count if chance.random() < 0.7 else chance.choice([0, -1, 5, 2**31 - 1])
        if chance.random() < 0.2:
            self._scramble(metadata, 1)
        if chance.random() < 0.1:
            field = chance.choice(cast(Sequence[FieldDescriptor], pb.Send.DESCRIPTOR.fields))
            if field.message_type is None and field.name != "producer_id":
                setattr(send, field.name, self._value(field))
        return self._send(send, _without_text(metadata.SerializePartialToString()), payload)

    def _send(self, send: pb.Send, metadata: bytes, payload: bytes) -> bytes:
        chance = self.chance
        size = len(metadata)
        covered = size.to_bytes(4, "big") + metadata + payload
        checksum = crc32c(covered) ^ (chance.random() < 0.02)
        head = pb.Command(type=pb.Command.SEND, send=send).SerializePartialToString()
        rest = len(head).to_bytes(4, "big") + head + b"\x0e\x01" + checksum.to_bytes(4, "big") + covered
        return len(rest).to_bytes(4, "big") + rest

    # --- damage

    def damaged(self, frame: bytes) -> bytes:
        chance = self.chance
        kind = chance.randrange(7)
        data = bytearray(frame[: 64 << 10])
        if kind == 0:  # cut short
            return bytes(data[: chance.randrange(len(data))])
        if kind == 1:  # the size of the frame lies
            data[:4] = chance.choice(EDGES[:12]).to_bytes(8, "big")[4:]
        elif kind == 2 and len(data) >= 8:  # the size of the command lies
            data[4:8] = chance.choice(EDGES[:12]).to_bytes(8, "big")[4:]
        elif kind == 3:
            for _ in range(chance.randint(1, 8)):
                data[chance.randrange(len(data))] = chance.randrange(256)
        elif kind == 4:
            return chance.randbytes(chance.randint(1, 300))
        elif kind == 5:
            return self.any_command()
        else:
            body = chance.randbytes(chance.randint(1, 60))
            return (len(body) + 4).to_bytes(4, "big") + len(body).to_bytes(4, "big") + body
        return bytes(data)


def _without_text(data: bytes) -> bytes:
    return data.replace(NO_TEXT.encode(), b"<\xff\xfe text>")
