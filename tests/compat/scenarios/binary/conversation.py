"""Answers of the binary protocol field by field: which are present, with which values, as one client after the other asks.

An answer is ``[command, {field: value}]`` with the fields that are on the wire, also those whose value is empty or the default, and
those that our schema does not know (by number). Texts and figures that differ from run to run are there as classes.

Two fields are not compared, because each message would cost more bytes for nothing: the partition -1 in the id of a message of a
topic that is none, which is the default; and `highest_sequence_id` of receipts, which of Pulsar is whatever was there before.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import urlsplit

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message
from google.protobuf.unknown_fields import UnknownFieldSet

from messaging.protocol import pulsar_pb2 as pb
from tests.compat.scenarios.world import Outcome, World
from tests.support.clients.raw_client import Kind, RawClient, Received

_TEXTS = frozenset(
    {
        "address",
        "broker_service_url",
        "broker_service_url_tls",
        "connected_since",
        "consumer_name",
        "producer_name",
        "server_version",
        "topics_hash",
    }
)
_REASONS = frozenset({"error_message", "message"})  # that they are there counts; Pulsar's may be empty
_ORDERED = frozenset({"topics", "topic", "new_topics", "deleted_topics"})  # lists without an order
_NO_ID = (1 << 64) - 1


class Conversation:
    """What clients say, and every answer in the order in which it came."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.answers: list[list[Any]] = []
        self._clients: list[RawClient] = []

    async def client(self, *, version: str = "raw", **fields: Any) -> RawClient:
        """A connection of its own that is signed in; `fields`: of its CONNECT, of which the answer is recorded then."""
        platform = self.world.platform
        client = await RawClient.open(urlsplit(platform.broker_url).port or 6650)
        self._clients.append(client)
        if not fields:
            await client.connect(platform.token, version=version)
            return client
        if platform.token is not None:
            fields |= {"auth_method_name": "token", "auth_data": platform.token.encode()}
        client.say(pb.Command.CONNECT, client_version=version, **fields)
        await self.hear(client)
        return client

    async def ask(self, client: RawClient, kind: Kind, **fields: Any) -> Received:
        """Says one command and records the next answer."""
        client.say(kind, **fields)
        return await self.hear(client)

    async def hear(self, client: RawClient, count: int = 1) -> Received:
        """Records the next `count` answers; the last of them."""
        for _ in range(count):
            received = await client.next()
            self.answers.append([received.name, self._fields(received.body)])
        return received

    async def serve(self, client: RawClient, *topics: str) -> None:
        """Looks them up, which makes a broker of Pulsar serve them."""
        for topic in topics:
            client.say(pb.Command.LOOKUP, topic=topic)
            await client.expect("LOOKUP_RESPONSE")

    async def admin(self, method: str, path: str, body: Any = None) -> None:
        answer = await asyncio.to_thread(self.world.admin, method, path, body)
        assert answer.status < 300, answer

    async def close(self) -> None:
        for client in self._clients:
            await client.close()

    # --- answers as JSON values

    def _fields(self, message: Message) -> dict[str, Any]:
        fields = {descriptor.name: self._value(descriptor, value) for descriptor, value in message.ListFields()}
        if isinstance(message, pb.MessageId):
            if fields["entry_id"] == "none":  # before the first message, of whichever ledger
                fields["ledger_id"] = "none"
            fields = {name: value for name, value in fields.items() if (name, value) != ("partition", -1)}
        if isinstance(message, pb.SendReceipt):
            fields.pop("highest_sequence_id", None)
        others = UnknownFieldSet(message)
        return fields | {f"number {others[index].field_number}": "unknown" for index in range(len(others))}

    def _value(self, descriptor: FieldDescriptor, value: Any) -> Any:
        if descriptor.is_repeated:
            values = [self._single(descriptor, item) for item in value]
            return sorted(values) if descriptor.name in _ORDERED else values
        return self._single(descriptor, value)

    def _single(self, descriptor: FieldDescriptor, value: Any) -> Any:
        name = descriptor.name
        if isinstance(value, Message):
            return self._fields(value)
        if descriptor.enum_type is not None:
            return descriptor.enum_type.values_by_number[value].name
        if isinstance(value, bytes):
            return value.hex()
        if name in _REASONS:
            return "<reason>"
        if name in _TEXTS:
            return "<text>" if value else ""
        if isinstance(value, str):
            return self.world.plain(value)
        if name.endswith("ledger_id"):
            return "none" if value == _NO_ID else "<ledger>"
        if name == "entry_id" and value == _NO_ID:
            return "none"
        return "<number>" if isinstance(value, float) else value


def converse(world: World, script: Callable[[Conversation], Awaitable[None]]) -> Outcome:
    """The answers that `script` heard."""

    async def run() -> list[list[Any]]:
        conversation = Conversation(world)
        try:
            async with asyncio.timeout(30):
                await script(conversation)
        finally:
            await conversation.close()
        return conversation.answers

    return asyncio.run(run())
