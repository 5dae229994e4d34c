"""Namespaces, their policies, permissions and topics, as our API has them."""

from __future__ import annotations

from rest_framework.request import Request
from rest_framework.response import Response

from messaging.adminrpc.methods import TOPICS_PAGE, TOPICS_PARTITIONED_STATS, TOPICS_PARTITIONS, TOPICS_STATS
from messaging.adminrpc.topics import PartitionsGet, StatsAsked, TopicsPageAsked
from messaging.policies.registry import POLICIES
from messaging.policies.validation import JsonPolicies, split
from messaging.protocol.names import NON_PERSISTENT, PERSISTENT, TopicName
from tenants import actions, broker
from tenants.actions import effects
from tenants.models import Grant
from tenants.names import namespace_of, topic_of
from tenants.rest import shapes
from tenants.rest.base import View, after_of, existing_namespace, limit_of, page, readable_namespaces
from tenants.rest.outcome import Outcome
from tenants.rest.schema import FORCE, PAGE, describe, page_of
from tenants.rest.tenants import existing
from tenants.scoping import tenant_scope


class Namespaces(View):
    @describe("Namespaces of a tenant", page_of(shapes.NamespaceShape), parameters=PAGE)
    def get(self, request: Request, tenant: str) -> Response:
        existing(tenant)
        with tenant_scope(tenant):
            return page(request, readable_namespaces(self.actor(), tenant), "name", shapes.show_namespace)

    @describe("Create a namespace", shapes.NamespaceShape, shapes.NewNamespace, 201)
    def post(self, request: Request, tenant: str) -> Response:
        given = self.read(shapes.NewNamespace)
        name = str(namespace_of(tenant, given.name))
        return Response(shapes.show_namespace(actions.create_namespace(self.actor(), name, given.policies or None)), status=201)


class NamespaceOne(View):
    @describe("A namespace", shapes.NamespaceShape)
    def get(self, request: Request, tenant: str, namespace: str) -> Response:
        return Response(shapes.show_namespace(existing_namespace(tenant, namespace)))

    @describe("Delete a namespace", None, status=204, parameters=[FORCE], dry_run=True)
    def delete(self, request: Request, tenant: str, namespace: str) -> Response:
        name, force = str(namespace_of(tenant, namespace)), self.query_flag("force")
        if self.dry_run():
            affected = effects.deleted_namespace(self.actor(), name, force=force)
            return Response(Outcome(dry_run=True, action="namespace.delete", resource=name, affected=affected))
        actions.delete_namespace(self.actor(), name, force=force)
        return Response(status=204)


class Policies(View):
    @describe("Policies set on a namespace", shapes.POLICIES)
    def get(self, request: Request, tenant: str, namespace: str) -> Response:
        return Response(split(existing_namespace(tenant, namespace).policies).enforced)

    @describe("Replace all policies; missing ones are inherited", shapes.POLICIES, shapes.POLICIES_GIVEN)
    def put(self, request: Request, tenant: str, namespace: str) -> Response:
        given = self._given()
        present = existing_namespace(tenant, namespace).policies
        return self._set(tenant, namespace, {**dict.fromkeys([*POLICIES, *present]), **given})

    @describe("Set some policies; null removes one, so that it is inherited", shapes.POLICIES, shapes.POLICIES_GIVEN)
    def patch(self, request: Request, tenant: str, namespace: str) -> Response:
        return self._set(tenant, namespace, self._given())

    def _given(self) -> JsonPolicies:
        return self.object_of("policies")

    def _set(self, tenant: str, namespace: str, changes: JsonPolicies) -> Response:
        namespace_row = actions.set_policies(self.actor(), str(namespace_of(tenant, namespace)), changes)
        return Response(split(namespace_row.policies).enforced)


class NamespacePermissions(View):
    @describe("Permissions on a namespace", shapes.Permissions)
    def get(self, request: Request, tenant: str, namespace: str) -> Response:
        row = existing_namespace(tenant, namespace)
        with tenant_scope(tenant):
            return Response(shapes.show_grants(Grant.objects.filter(namespace=row, topic="")))


class NamespacePermission(View):
    @describe("Set the actions that a role may perform", shapes.PermissionActions, shapes.PermissionActions)
    def put(self, request: Request, tenant: str, namespace: str, role: str) -> Response:
        given = self.read(shapes.PermissionActions)
        actions.grant_permission(self.actor(), str(namespace_of(tenant, namespace)), role, given.actions, "", given.expires_at)
        return Response(given)

    @describe("Revoke all permissions of a role", None, status=204, dry_run=True)
    def delete(self, request: Request, tenant: str, namespace: str, role: str) -> Response:
        name = str(namespace_of(tenant, namespace))
        if self.dry_run():
            affected = effects.revoked_permission(self.actor(), name, role)
            return Response(Outcome(dry_run=True, action="permission.revoke", resource=name, affected=affected))
        actions.revoke_permission(self.actor(), name, role)
        return Response(status=204)


class TopicPermissions(View):
    @describe("Permissions on a topic alone; those of its namespace hold beside them", shapes.Permissions)
    def get(self, request: Request, **parts: str) -> Response:
        topic, _ = found_topic(parts)
        with tenant_scope(topic.tenant):
            return Response(shapes.show_grants(Grant.objects.filter(namespace=str(topic.namespace), topic=str(topic))))


class TopicPermission(View):
    @describe("Set the actions that a role may perform on a topic", shapes.PermissionActions, shapes.PermissionActions)
    def put(self, request: Request, role: str, **parts: str) -> Response:
        given = self.read(shapes.PermissionActions)
        topic, _ = found_topic(parts)
        actions.grant_permission(self.actor(), str(topic.namespace), role, given.actions, str(topic), given.expires_at)
        return Response(given)

    @describe("Revoke the permissions of a role on a topic", None, status=204, dry_run=True)
    def delete(self, request: Request, role: str, **parts: str) -> Response:
        topic, _ = found_topic(parts)
        if self.dry_run():
            affected = effects.revoked_permission(self.actor(), str(topic.namespace), role, str(topic))
            return Response(Outcome(dry_run=True, action="permission.revoke", resource=str(topic), affected=affected))
        actions.revoke_permission(self.actor(), str(topic.namespace), role, str(topic))
        return Response(status=204)


class Topics(View):
    @describe("Topics of a namespace; a partitioned topic counts as one", shapes.PageOfTopics, parameters=PAGE)
    def get(self, request: Request, tenant: str, namespace: str) -> Response:
        name = existing_namespace(tenant, namespace).name
        asked = TopicsPageAsked(namespace=name, after=after_of(request), limit=limit_of(request))
        listed = broker.rpc().call(TOPICS_PAGE, asked)
        items = [shapes.TopicShape(topic=row.topic, partitions=row.partitions) for row in listed.topics]
        return Response(shapes.PageOfTopics(items=items, next=listed.next or None, unreachable=listed.unreachable))

    @describe("Create a topic", shapes.TopicShape, shapes.NewTopic, 201)
    def post(self, request: Request, tenant: str, namespace: str) -> Response:
        given = self.read(shapes.NewTopic)
        domain = PERSISTENT if given.persistent else NON_PERSISTENT
        topic = topic_of({"tenant": tenant, "namespace": namespace, "domain": domain, "topic": given.name})
        actions.create_topic(self.actor(), topic, given.partitions or None)
        return Response(shapes.TopicShape(topic=str(topic), partitions=given.partitions), status=201)


def found_topic(parts: dict[str, str]) -> tuple[TopicName, int]:
    """The name and the number of partitions. Raises `NotFound` for namespace and topic."""
    topic = topic_of(parts)
    existing_namespace(topic.tenant, topic.namespace_local)
    return topic, broker.rpc().call(TOPICS_PARTITIONS, PartitionsGet(topic=str(topic))).partitions


class Topic(View):
    @describe("A topic", shapes.TopicShape)
    def get(self, request: Request, **parts: str) -> Response:
        topic, partitions = found_topic(parts)
        return Response(shapes.TopicShape(topic=str(topic), partitions=partitions))

    @describe("Delete a topic and its messages", None, status=204, parameters=[FORCE], dry_run=True)
    def delete(self, request: Request, **parts: str) -> Response:
        topic, partitions = found_topic(parts)
        if self.dry_run():
            affected = effects.deleted_topic(self.actor(), topic, partitions, force=self.query_flag("force"))
            return Response(Outcome(dry_run=True, action="topic.delete", resource=str(topic), affected=affected))
        actions.delete_topic(self.actor(), topic, force=self.query_flag("force"), partitioned=partitions > 0)
        return Response(status=204)


class Stats(View):
    @describe("Statistics of a topic: rates, backlog, subscriptions, clients", shapes.TopicStats)
    def get(self, request: Request, **parts: str) -> Response:
        topic, partitions = found_topic(parts)
        asked = StatsAsked(topic=str(topic))
        answer = broker.rpc().call(TOPICS_PARTITIONED_STATS, asked) if partitions else broker.rpc().call(TOPICS_STATS, asked)
        return Response(shapes.TopicStats(stats=answer.stats))
