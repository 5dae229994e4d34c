"""What is done to a whole topic, as our API has it: from unloading it and disconnecting its clients to more partitions."""

from __future__ import annotations

from msgspec import UNSET
from rest_framework.request import Request
from rest_framework.response import Response

from messaging.adminrpc.methods import (
    TOPICS_CHANGE_PROPERTIES,
    TOPICS_COMPACTION_STATUS,
    TOPICS_CREATE_MISSING_PARTITIONS,
    TOPICS_INTERNAL_STATS,
    TOPICS_PARTITIONED_INTERNAL_STATS,
    TOPICS_PROPERTIES,
    TOPICS_UPDATE_PARTITIONS,
)
from messaging.adminrpc.topics import PartitionsUpdate, TopicPropertiesChange, TopicRef
from messaging.errors import InvalidValue
from messaging.protocol.names import TopicName
from tenants import actions, broker
from tenants.access import Actor
from tenants.actions.clients import DISCONNECTED, disconnect_clients
from tenants.actions.effects import topic_counts
from tenants.rest import message_shapes as shapes
from tenants.rest.base import View
from tenants.rest.namespaces import found_topic
from tenants.rest.outcome import Outcome
from tenants.rest.schema import describe
from tenants.rest.shapes import TopicStats


class _Operation(View):
    """`action` is its name in the audit log."""

    action = ""

    def outcome(self, parts: dict[str, str]) -> Response:
        dry_run = self.dry_run()
        topic, partitions = found_topic(parts)
        affected = topic_counts(topic, partitions)
        if not dry_run:
            self.perform(self.actor(), topic, partitions)
        return Response(Outcome(dry_run=dry_run, action=self.action, resource=str(topic), affected=affected))

    def perform(self, actor: Actor, topic: TopicName, partitions: int) -> None:
        raise NotImplementedError


class Unload(_Operation):
    action = "topic.unload"

    @describe("Unload a topic: its clients connect again", Outcome, dry_run=True)
    def post(self, request: Request, **parts: str) -> Response:
        return self.outcome(parts)

    def perform(self, actor: Actor, topic: TopicName, partitions: int) -> None:
        actions.unload_topic(actor, topic)


class Terminate(_Operation):
    action = "topic.terminate"

    @describe("Terminate a topic: nothing can be published to it any more. This cannot be undone", Outcome, dry_run=True)
    def post(self, request: Request, **parts: str) -> Response:
        return self.outcome(parts)

    def perform(self, actor: Actor, topic: TopicName, partitions: int) -> None:
        actions.terminate_topic(actor, topic)


class Truncate(_Operation):
    action = "topic.truncate"

    @describe("Drop every message of a topic, acknowledged or not", Outcome, dry_run=True)
    def post(self, request: Request, **parts: str) -> Response:
        return self.outcome(parts)

    def perform(self, actor: Actor, topic: TopicName, partitions: int) -> None:
        actions.truncate_topic(actor, topic)


class Disconnect(View):
    @describe("Disconnect clients: those that are built to connect again do so at once", Outcome, shapes.Disconnect, dry_run=True)
    def post(self, request: Request, **parts: str) -> Response:
        given, dry_run = self.read(shapes.Disconnect), self.dry_run()
        topic, _ = found_topic(parts)
        answer = disconnect_clients(
            self.actor(),
            topic,
            kind="" if given.kind is UNSET else given.kind,
            name=given.name,
            subscription=given.subscription,
            address=given.address,
            dry_run=dry_run,
        )
        counts = {"producers": answer.producers, "consumers": answer.consumers}
        return Response(Outcome(dry_run=dry_run, action=DISCONNECTED, resource=str(topic), affected=counts))


class Trim(View):
    @describe("Delete what retention does not hold, at once rather than at the next sweep", None, status=204)
    def post(self, request: Request, **parts: str) -> Response:
        topic, _ = found_topic(parts)
        actions.trim_topic(self.actor(), topic)
        return Response(status=204)


class MissingPartitions(View):
    @describe("Create the partitions of a topic that are missing", None, status=204)
    def post(self, request: Request, **parts: str) -> Response:
        topic, _ = found_topic(parts)
        broker.rpc().call(TOPICS_CREATE_MISSING_PARTITIONS, TopicRef(topic=str(topic)))
        return Response(status=204)


class Compaction(View):
    @describe("How the last compaction of a topic went", shapes.CompactionShape)
    def get(self, request: Request, **parts: str) -> Response:
        topic, _ = found_topic(parts)
        status = broker.rpc().call(TOPICS_COMPACTION_STATUS, TopicRef(topic=str(topic)))
        return Response(shapes.CompactionShape(status=status.status, last_error=status.last_error))

    @describe("Compact a topic: a worker begins; ask for the status how it goes on", None, status=202)
    def post(self, request: Request, **parts: str) -> Response:
        topic, _ = found_topic(parts)
        actions.compact_topic(self.actor(), topic)
        return Response(status=202)


class InternalStats(View):
    @describe("What is stored of a topic: ledgers, cursors, positions", TopicStats)
    def get(self, request: Request, **parts: str) -> Response:
        topic, partitions = found_topic(parts)
        method = TOPICS_PARTITIONED_INTERNAL_STATS if partitions else TOPICS_INTERNAL_STATS
        return Response(TopicStats(stats=broker.rpc().call(method, TopicRef(topic=str(topic))).stats))


class Properties(View):
    @describe("Properties of a topic", shapes.TopicProperties)
    def get(self, request: Request, **parts: str) -> Response:
        topic, partitions = found_topic(parts)
        return Response(_properties(topic, partitions))

    @describe("Give a topic more partitions, or change its properties", shapes.TopicProperties, shapes.TopicChange)
    def patch(self, request: Request, **parts: str) -> Response:
        given = self.read(shapes.TopicChange)
        topic, partitions = found_topic(parts)
        trail, rpc = self.actor().trail, broker.rpc()
        before = _properties(topic, partitions)
        trail.before = {"partitions": partitions, "properties": before.properties}
        if given.partitions is not UNSET and given.partitions != partitions:
            if not partitions:
                raise InvalidValue(f"topic {topic} is not partitioned: create another one with partitions")
            rpc.call(TOPICS_UPDATE_PARTITIONS, PartitionsUpdate(topic=str(topic), partitions=given.partitions))
        if given.properties is not UNSET or given.removed_property is not UNSET:
            change = TopicPropertiesChange(topic=str(topic))
            if given.properties is not UNSET:
                change.properties = given.properties
            if given.removed_property is not UNSET:
                change.removed = given.removed_property
            rpc.call(TOPICS_CHANGE_PROPERTIES, change)
        after = _properties(*found_topic(parts))
        trail.after = {"partitions": after.partitions, "properties": after.properties}
        return Response(after)


def _properties(topic: TopicName, partitions: int) -> shapes.TopicProperties:
    properties = broker.rpc().call(TOPICS_PROPERTIES, TopicRef(topic=str(topic))).properties
    return shapes.TopicProperties(topic=str(topic), partitions=partitions, properties=properties)
