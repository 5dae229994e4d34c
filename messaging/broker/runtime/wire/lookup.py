"""Lookups: where a topic is served, how many partitions it has, which topics a namespace has, which schema a topic has."""

from __future__ import annotations

import asyncio

from messaging.broker.runtime.broker import Broker
from messaging.broker.runtime.wire.connection import Connection
from messaging.errors import NotReady, TopicNotFound
from messaging.permissions.model import Resource
from messaging.protocol import frames
from messaging.protocol import pulsar_pb2 as pb
from messaging.protocol.names import NON_PERSISTENT, parse_topic


async def partitioned_metadata(service: Broker, connection: Connection, body: pb.PartitionedMetadata, resource: Resource) -> None:
    name = parse_topic(resource.topic)
    count = await service.partition_count(name, auto_create=body.metadata_auto_creation_enabled)
    answer = pb.PartitionedMetadataResponse(
        request_id=body.request_id, response=pb.PartitionedMetadataResponse.Success, partitions=count
    )
    connection.send(frames.command(pb.Command.PARTITIONED_METADATA_RESPONSE, partitioned_metadata_response=answer))


async def lookup(service: Broker, connection: Connection, body: pb.Lookup, resource: Resource) -> None:
    """Also answers for topics that do not exist: a lookup never creates one."""
    if body.advertised_listener_name:
        # With this wording the C++ client does not close its connection.
        raise NotReady(f"the broker do not have {body.advertised_listener_name} listener: leave the listener name out")
    await service.require_namespace(resource.namespace)
    answer = pb.LookupResponse(
        request_id=body.request_id,
        response=pb.LookupResponse.Connect,
        authoritative=True,
        broker_service_url=service.addresses.broker_url,
        broker_service_url_tls=service.addresses.broker_url_tls,
    )
    connection.send(frames.command(pb.Command.LOOKUP_RESPONSE, lookup_response=answer))


async def topics_of_namespace(service: Broker, connection: Connection, body: pb.GetTopicsOfNamespace, resource: Resource) -> None:
    """All persistent topics, partitions one by one; filtering by pattern is left to the client (`filtered` stays false)."""
    await service.require_namespace(resource.namespace)
    listings = service.peers.listings
    async with listings.room(service.memory_limiter.egress, connection.out, resource.namespace):
        names: list[str] = []
        if body.mode != pb.GetTopicsOfNamespace.NON_PERSISTENT:
            names = await service.topic_names(resource.namespace)
        listings.took(resource.namespace, names)
        # Sorting and encoding 100,000 names takes a tenth of a second.
        answer = await asyncio.to_thread(_listing, body.request_id, names, body.topics_hash)
        connection.send(answer)
        connection.out.flush()  # from here on, the bytes that the peer has not read are charged


def _listing(request_id: int, names: list[str], known_hash: str) -> bytes:
    found = frames.topics_hash(names)
    answer = pb.GetTopicsOfNamespaceResponse(request_id=request_id, filtered=False, topics_hash=found)
    answer.changed = not known_hash or known_hash != found
    if answer.changed:
        answer.topics.extend(name for name in names if not name.startswith(NON_PERSISTENT))
    return frames.command(pb.Command.GET_TOPICS_OF_NAMESPACE_RESPONSE, get_topics_of_namespace_response=answer)


async def get_schema(service: Broker, connection: Connection, body: pb.GetSchema, resource: Resource) -> None:
    raise TopicNotFound(f"topic {resource.topic} has no schema")


async def get_or_create_schema(service: Broker, connection: Connection, body: pb.GetOrCreateSchema, resource: Resource) -> None:
    """Schemas are not supported yet: any is accepted, none is stored, and the version in the response is empty."""
    answer = pb.GetOrCreateSchemaResponse(request_id=body.request_id, schema_version=b"")
    connection.send(frames.command(pb.Command.GET_OR_CREATE_SCHEMA_RESPONSE, get_or_create_schema_response=answer))
