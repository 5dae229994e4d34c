"""Lookups: where a topic is served, and how many partitions it has."""

from __future__ import annotations

from dataclasses import asdict

from messaging.broker.runtime.broker import Broker
from messaging.broker.runtime.ownership.owners import LookupClient
from messaging.broker.runtime.wire.connection import Connection
from messaging.errors import NotReady
from messaging.permissions.model import Resource
from messaging.protocol import frames
from messaging.protocol import pulsar_pb2 as pb
from messaging.protocol.names import parse_topic


async def partitioned_metadata(service: Broker, connection: Connection, body: pb.PartitionedMetadata, resource: Resource) -> None:
    name = parse_topic(resource.topic)
    count = await service.partition_count(name, auto_create=body.metadata_auto_creation_enabled)
    answer = pb.PartitionedMetadataResponse(
        request_id=body.request_id, response=pb.PartitionedMetadataResponse.Success, partitions=count
    )
    connection.send(frames.command(pb.Command.PARTITIONED_METADATA_RESPONSE, partitioned_metadata_response=answer))


async def lookup(service: Broker, connection: Connection, body: pb.Lookup, resource: Resource, *, size_bytes: int) -> None:
    """Also answers for topics that do not exist: a lookup never creates one. `size_bytes`: what it counts among the requests of its
    connection, until it waits."""
    if body.advertised_listener_name:
        # With this wording the C++ client does not close its connection.
        raise NotReady(f"the broker do not have {body.advertised_listener_name} listener: leave the listener name out")
    await service.require_namespace(resource.namespace)
    name = parse_topic(resource.topic)
    client = LookupClient(wanted=lambda: not connection.closed, place=lambda: connection.requests.place(size_bytes))
    elsewhere = await service.owners.found(name, sent=body.authoritative, client=client)
    addresses = asdict(service.addresses) if elsewhere is None else elsewhere.addresses
    # Over a WebSocket another broker is reached through this one, which acquires the topic when it is opened.
    through_here = connection.over_websocket and elsewhere is not None
    # A broker that is to acquire the topic is asked again, and told by `authoritative` that it is.
    final = elsewhere is None or elsewhere.owner or through_here
    answer = pb.LookupResponse(
        request_id=body.request_id,
        response=pb.LookupResponse.Connect if final else pb.LookupResponse.Redirect,
        authoritative=True,
        broker_service_url=(through_here and addresses.get("broker_url_tls")) or addresses["broker_url"],
        proxy_through_service_url=through_here,
    )
    if addresses.get("broker_url_tls"):  # clients take one that is there for an address, even if it is empty
        answer.broker_service_url_tls = addresses["broker_url_tls"]
    connection.send(frames.command(pb.Command.LOOKUP_RESPONSE, lookup_response=answer))
