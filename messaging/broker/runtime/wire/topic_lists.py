"""Lists of the topics of a namespace, and watches of them, for clients that subscribe by pattern."""

from __future__ import annotations

from itertools import islice
from typing import NamedTuple

from messaging.broker.core.topics.discovery import LOOKS_BYTES, ClientKey, Found
from messaging.broker.core.topics.pattern import TopicPattern, matching
from messaging.broker.runtime.broker import Broker
from messaging.broker.runtime.topic_watches import Watch
from messaging.broker.runtime.topics.topic import Topic
from messaging.broker.runtime.wire.connection import Connection
from messaging.fairness.in_thread import in_thread
from messaging.permissions.model import Resource
from messaging.protocol import frames
from messaging.protocol import pulsar_pb2 as pb
from messaging.protocol.system_topics import without_system_topics

ALIKE_MAX, CONSUMERS_MAX = 100, 10_000  # connections, and consumers of each, that are looked at


class Listing(NamedTuple):
    names: list[str]
    filtered: bool  # by the pattern of the client
    topics_hash: str


async def topics_of_namespace(service: Broker, connection: Connection, body: pb.GetTopicsOfNamespace, resource: Resource) -> None:
    """All topics of the wanted kinds that match the pattern, partitions one by one; an empty pattern matches none. A pattern that
    the broker does not evaluate is left to the client: `filtered` is false then. A namespace that does not exist has no topics."""
    listings, looked_ms = service.peers.listings, service.now_ms()
    async with listings.room(service.memory_limiter.egress, connection.out, resource.namespace):
        names: list[str] = []
        if body.mode != pb.GetTopicsOfNamespace.NON_PERSISTENT:
            names = await service.topic_names(resource.namespace)
        if body.mode != pb.GetTopicsOfNamespace.PERSISTENT:
            names += service.topics.unstored_names(resource.namespace)
        listings.took(resource.namespace, names)
        # Matching, sorting and encoding 100,000 names takes a third of a second.
        answer = await in_thread(_listing, body, names)
        connection.send(answer)
        connection.out.flush()  # from here on, the bytes that the peer has not read are charged
    if not connection.closed and service.discovery.listed(
        connection.endpoints, client_key(connection, resource.namespace), looked_ms
    ):
        connection.memory_charge.change(LOOKS_BYTES)


def _listed(names: list[str], pattern: str | None) -> Listing:
    names = without_system_topics(names)
    matches = None if pattern is None else matching(pattern, names)
    shown = names if matches is None else matches
    return Listing(shown, matches is not None, frames.topics_hash(shown))


def _listing(body: pb.GetTopicsOfNamespace, names: list[str]) -> bytes:
    listing = _listed(names, body.topics_pattern if body.HasField("topics_pattern") else None)
    answer = pb.GetTopicsOfNamespaceResponse(request_id=body.request_id, filtered=listing.filtered, topics_hash=listing.topics_hash)
    answer.changed = not body.topics_hash or body.topics_hash != listing.topics_hash
    if answer.changed:
        answer.topics.extend(listing.names)
    return frames.command(pb.Command.GET_TOPICS_OF_NAMESPACE_RESPONSE, get_topics_of_namespace_response=answer)


def client_key(connection: Connection, namespace: str) -> ClientKey:
    assert connection.principal is not None
    return ClientKey(connection.principal.role, connection.address, namespace)


def found_by_looking(service: Broker, connection: Connection, topic: Topic, subscription: str) -> bool:
    """Whether this client subscribes by pattern and came upon a topic that was created since it began to look. If it looks on
    another connection than this one, it must have consumers of the subscription on topics that are older."""
    namespace, created_ms, own = topic.name.namespace, topic.ledger.record.created_ms, connection.endpoints
    known = client_key(connection, str(namespace))
    answer = service.discovery.found(own, known, created_ms)
    if answer is not Found.ALIKE:
        return answer is Found.ITSELF
    for endpoints in (own, *islice(service.discovery.alike(own, known), ALIKE_MAX)):
        for other, subscribed, consumer in islice(endpoints.consumers.values(), CONSUMERS_MAX):
            if subscribed.name == subscription and consumer.connected_ms <= created_ms and other.name.namespace == namespace:
                return True
    return False


async def watch_topics(service: Broker, connection: Connection, body: pb.WatchTopicList, resource: Resource) -> None:
    """Answers with the list as it is, and from then on with each change. Raises `NotAllowed` for a pattern that is not
    evaluated."""
    await service.require_namespace(resource.namespace)
    await in_thread(TopicPattern, body.topics_pattern)
    assert connection.principal is not None
    watches, listings, looked_ms = service.topic_watches, service.peers.listings, service.now_ms()
    if connection.closed:
        return
    watch = Watch(connection, body.watcher_id, connection.principal, resource, body.topics_pattern)
    watches.open(watch)
    try:
        async with listings.room(service.memory_limiter.egress, connection.out, resource.namespace):
            names = await service.topic_names(resource.namespace)
            listings.took(resource.namespace, names)
            connection.send(await in_thread(_watched, body, names))
            connection.out.flush()
    except BaseException:
        watches.close(connection, body.watcher_id)
        raise
    watches.begin(watch)
    if not connection.closed and service.discovery.watches(
        connection.endpoints, client_key(connection, resource.namespace), looked_ms
    ):
        connection.memory_charge.change(LOOKS_BYTES)


def _watched(body: pb.WatchTopicList, names: list[str]) -> bytes:
    listing = _listed(names, body.topics_pattern)
    answer = pb.WatchTopicListSuccess(request_id=body.request_id, watcher_id=body.watcher_id, topics_hash=listing.topics_hash)
    if listing.topics_hash != body.topics_hash:
        answer.topic.extend(listing.names)
    return frames.command(pb.Command.WATCH_TOPIC_LIST_SUCCESS, watch_topic_list_success=answer)


def close_watch(service: Broker, connection: Connection, body: pb.WatchTopicListClose, resource: Resource) -> None:
    """Always answers SUCCESS."""
    service.topic_watches.close(connection, body.watcher_id)
    connection.send(frames.success(body.request_id))
