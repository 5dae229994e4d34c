"""What a topic holds, entry by entry."""

from __future__ import annotations

from messaging.protocol import pulsar_pb2 as pb
from messaging.protocol.names import parse_topic
from tests.support.brokers.memory_broker import MemoryBroker


def stored_events(broker: MemoryBroker, topic: str) -> list[tuple[pb.Metadata, bytes]]:
    """The metadata and the payload of each entry; none of a topic that does not exist."""
    return broker.run(_stored(broker, topic)) if topic in broker.topics else []


async def _stored(broker: MemoryBroker, topic: str) -> list[tuple[pb.Metadata, bytes]]:
    loaded = await broker.service.topics.get(parse_topic(topic), create=False)
    entries = [await loaded.entries.entry_at(loaded.ledger_list.at_index(index)) for index in range(loaded.ledger_list.entries)]
    return [(entry.metadata, entry.payload) for entry in entries if entry is not None]
