"""A connection of the binary protocol without a socket: commands are handed to it directly, and what the broker says is kept."""

from __future__ import annotations

import asyncio
from typing import Any

from messaging.broker.runtime.topics.topic import Topic
from messaging.broker.runtime.wire import consumers, producers
from messaging.broker.runtime.wire.commands import Commands, resource_of
from messaging.broker.runtime.wire.connection import Connection
from messaging.permissions.model import Principal
from messaging.protocol import frames
from messaging.protocol import pulsar_pb2 as pb
from messaging.protocol.session import State
from tests.support.worlds.broker_world import BrokerWorld


class _Transport(asyncio.Transport):
    def __init__(self) -> None:
        super().__init__({"peername": ("127.0.0.1", 1), "sockname": ("127.0.0.1", 2)})
        self.written = bytearray()

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written += data

    def is_closing(self) -> bool:
        return False

    def close(self) -> None:
        pass

    def abort(self) -> None:
        pass

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def get_write_buffer_size(self) -> int:
        return 0


class DirectConnection(Connection):
    """Signed in as `principal`. Its handlers are called as `Commands` calls them, in the task of the caller."""

    def __init__(self, world: BrokerWorld, principal: Principal | None = None) -> None:
        super().__init__(world.service, Commands(world.service), tls=False)
        self.fake = _Transport()
        self.connection_made(self.fake)
        self.client_version = "direct"
        self.receiver.inbound.state = State.AUTHENTICATING
        self.signed_in(principal or Principal("admin"))

    async def open_producer(self, topic: str, **fields: Any) -> None:
        body = pb.Producer(topic=topic, producer_id=1, request_id=1, **fields)
        await producers.open_producer(self.service, self, body, resource_of(pb.Command.PRODUCER, body))

    async def subscribe(self, topic: str, **fields: Any) -> None:
        usual: dict[str, Any] = {"subscription": "s", "sub_type": pb.Subscribe.Shared, "initial_position": pb.Subscribe.Earliest}
        body = pb.Subscribe(topic=topic, consumer_id=1, request_id=2, **usual | fields)
        await consumers.subscribe(self.service, self, body, resource_of(pb.Command.SUBSCRIBE, body))

    def publish_message(self, payload: bytes, sequence_id: int = 0) -> None:
        """One message of the open producer; passed over where the broker has closed it."""
        metadata = pb.Metadata(producer_name="direct", sequence_id=sequence_id, publish_time=1)
        self.data_received(frames.build_send(1, sequence_id, metadata, payload))

    def topics(self) -> list[Topic]:
        """Those on which something of this connection is open."""
        producers, consumers = self.endpoints.producers.values(), self.endpoints.consumers.values()
        return [producer[0] for producer in producers] + [consumer[0] for consumer in consumers]

    def said(self) -> list[pb.Command]:
        """Every command the broker has sent so far."""
        self.out.flush()
        commands, at, data = [], 0, bytes(self.fake.written)
        while at + 8 <= len(data):
            total, size = (int.from_bytes(data[at + place : at + place + 4], "big") for place in (0, 4))
            commands.append(pb.Command.FromString(data[at + 8 : at + 8 + size]))
            at += 4 + total
        return commands
