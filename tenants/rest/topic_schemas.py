"""Schemas of topics, as our API has them. A topic need not exist to have one."""

from __future__ import annotations

from rest_framework.request import Request
from rest_framework.response import Response

from messaging.adminrpc.methods import SCHEMAS_ADD, SCHEMAS_CHECK, SCHEMAS_DELETE, SCHEMAS_GET, SCHEMAS_LIST
from messaging.adminrpc.schemas import SchemaDelete, SchemaGet, SchemaGiven
from messaging.adminrpc.topics import TopicRef
from messaging.errors import InvalidValue, NotFound
from messaging.limits.sizes import INT64_MAX
from messaging.protocol.names import TopicName
from tenants import broker
from tenants.names import topic_of
from tenants.rest import message_shapes as shapes
from tenants.rest.base import View, existing_namespace, limit_of
from tenants.rest.outcome import Outcome
from tenants.rest.schema import FORCE, PAGE, describe, page_of
from tenants.schema_text import schema_data


def _topic(parts: dict[str, str]) -> TopicName:
    topic = topic_of(parts)
    existing_namespace(topic.tenant, topic.namespace_local)
    return topic


class _Given(View):
    def given(self, topic: TopicName) -> SchemaGiven:
        body = self.read(shapes.NewSchema)
        role = self.actor().principal.role
        data = schema_data(body.type, body.schema)
        return SchemaGiven(topic=str(topic), type=body.type, data=data, properties=body.properties, role=role)


class Schemas(_Given):
    @describe("Versions of the schema of a topic, oldest first", page_of(shapes.SchemaShape), parameters=PAGE)
    def get(self, request: Request, **parts: str) -> Response:
        limit, after = limit_of(request), self.query_number("after", 0, 0, INT64_MAX) if "after" in request.query_params else -1
        versions = broker.rpc().call(SCHEMAS_LIST, TopicRef(topic=str(_topic(parts)))).versions
        following = [version for version in versions if version.version > after]
        shown = [shapes.show_schema(version) for version in following[:limit]]
        return Response({"items": shown, "next": str(shown[-1].version) if len(following) > limit else None})

    @describe("Add a version; the same schema again is the version that it has", shapes.SchemaVersionShape, shapes.NewSchema, 201)
    def post(self, request: Request, **parts: str) -> Response:
        given = self.given(_topic(parts))
        version = broker.rpc().call(SCHEMAS_ADD, given).version
        self.actor().trail.after = {"type": given.type, "version": version}
        return Response(shapes.SchemaVersionShape(version=version), status=201)

    @describe("Delete the schema of a topic; force: with all its versions", None, status=204, parameters=[FORCE], dry_run=True)
    def delete(self, request: Request, **parts: str) -> Response:
        dry_run, force = self.dry_run(), self.query_flag("force")
        topic = _topic(parts)
        if dry_run:
            versions = broker.rpc().call(SCHEMAS_LIST, TopicRef(topic=str(topic))).versions
            if not versions:
                raise NotFound(f"topic {topic} has no schema")
            affected = {"schema_versions": len(versions)}
            return Response(Outcome(dry_run=True, action="schema.delete", resource=str(topic), affected=affected))
        deletion = SchemaDelete(topic=str(topic), force=force, role=self.actor().principal.role)
        version = broker.rpc().call(SCHEMAS_DELETE, deletion).version
        self.actor().trail.after = {"force": force, "version": version}
        return Response(status=204)


class SchemaOne(View):
    @describe("A version of the schema of a topic: its number, or latest", shapes.SchemaShape)
    def get(self, request: Request, version: str, **parts: str) -> Response:
        asked = SchemaGet(topic=str(_topic(parts)), version=None if version == "latest" else _number(version))
        return Response(shapes.show_schema(broker.rpc().call(SCHEMAS_GET, asked).versions[0]))


class SchemaCheck(_Given):
    @describe("Whether a schema could become the next version; nothing is changed", shapes.SchemaVerdict, shapes.NewSchema)
    def post(self, request: Request, **parts: str) -> Response:
        verdict = broker.rpc().call(SCHEMAS_CHECK, self.given(_topic(parts)))
        return Response(shapes.SchemaVerdict(compatible=not verdict.why_not, strategy=verdict.strategy, reason=verdict.why_not))


def _number(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) < 20 and int(text) <= INT64_MAX):
        raise InvalidValue(f"version {text[:40]!r} is not valid: give a number, or latest")
    return int(text)
