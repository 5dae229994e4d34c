"""Appends changes of topic policies to the topic `__change_events` of their namespace, each exactly once and in order.

Every change has a sequence, which the control plane gives out in the order of the changes and which is the sequence id of its
message. The control plane repeats what is not confirmed, and the last message of the topic tells what of it is stored already:
nobody but the platform publishes there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from messaging.adminrpc.policies import PolicyChange
from messaging.broker.core.change_events.avro_schema import SCHEMA
from messaging.broker.core.change_events.record import encoded_event
from messaging.broker.core.schemas.model import encode_version
from messaging.broker.runtime.broker_producer import BrokerProducer
from messaging.broker.runtime.topic_schemas import TopicSchemas
from messaging.broker.runtime.topics.persistent import PersistentTopic
from messaging.errors import NotReady
from messaging.permissions.model import SERVICE_ROLE_PREFIX, Principal
from messaging.protocol import pulsar_pb2 as pb
from messaging.protocol.frames import as_text, build_send
from messaging.protocol.names import PERSISTENT, TopicName, parse_namespace, parse_topic
from messaging.protocol.system_topics import CHANGE_EVENTS

PRODUCER_NAME = "magnetar-topic-policies"
BROKER = Principal(f"{SERVICE_ROLE_PREFIX}broker", service=True)
LOOKED_AT_MAX = 100  # messages of superusers behind the last one of ours


class ChangeEvents:
    """`open_topic` creates a topic on first use. `cluster`: the name of the only one."""

    def __init__(
        self,
        open_topic: Callable[[TopicName], Awaitable[PersistentTopic]],
        schemas: TopicSchemas,
        cluster: str,
        now_ms: Callable[[], int],
    ) -> None:
        self._open_topic = open_topic
        self._schemas = schemas
        self._cluster = cluster
        self._now_ms = now_ms
        self._appending: set[str] = set()  # namespaces

    async def append(self, namespace: str, changes: Sequence[PolicyChange]) -> None:
        """Returns when all of them are durable. Raises a `MagnetarError` or `StoreError` where that is not known."""
        if namespace in self._appending:
            raise NotReady(f"changes of policies in {namespace} are being appended: try again")
        self._appending.add(namespace)
        try:
            tenant, local = parse_namespace(namespace)
            topic = await self._open_topic(TopicName(PERSISTENT, tenant, local, CHANGE_EVENTS))
            await topic.writable()
            await topic.publisher.wait_for_pending()  # what a call that was given up may still be storing
            stored = await _last_sequence(topic)
            missing = [change for change in changes if change.sequence > stored]
            if missing:
                await self._publish(topic, missing)
        finally:
            self._appending.discard(namespace)

    async def _publish(self, topic: PersistentTopic, changes: Sequence[PolicyChange]) -> None:
        version = await self._schemas.register(topic.name, SCHEMA, BROKER.role, by_client=False)
        frames = await asyncio.to_thread(self._frames, changes, encode_version(version.version))
        producer = BrokerProducer(topic, PRODUCER_NAME, BROKER, self._now_ms())
        try:
            await producer.publish_block(frames)
        finally:
            producer.close()

    def _frames(self, changes: Sequence[PolicyChange], schema_version: bytes) -> list[bytes]:
        """A topic on which nothing is set has a message without a value, which compaction takes for its removal."""
        frames = []
        for change in changes:
            metadata = pb.Metadata(
                producer_name=PRODUCER_NAME,
                sequence_id=change.sequence,
                publish_time=self._now_ms(),
                partition_key=change.topic,
                schema_version=schema_version,
            )
            payload = b""
            if change.state is None:
                metadata.null_value = True
            else:
                state = change.state
                payload = encoded_event(parse_topic(change.topic), state.policies, state.subscriptions, self._cluster)
            frames.append(build_send(0, change.sequence, metadata, payload))
        return frames


async def _last_sequence(topic: PersistentTopic) -> int:
    """Of the last change that the topic holds; -1 if there is none. Raises `StorageFailed`."""
    ledger_list = topic.ledger_list
    entries = ledger_list.entries
    for index in range(entries - 1, max(entries - LOOKED_AT_MAX, 0) - 1, -1):
        stored = await topic.entries.entry_at(ledger_list.at_index(index))
        if stored is not None and as_text(stored.metadata.producer_name) == PRODUCER_NAME:
            return stored.metadata.sequence_id
    return -1
