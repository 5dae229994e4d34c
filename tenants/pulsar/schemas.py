"""Schemas of topics, as Pulsar's admin API has them. The broker keeps them."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse

from messaging.adminrpc.methods import SCHEMAS_ADD, SCHEMAS_CHECK, SCHEMAS_DELETE, SCHEMAS_FIND, SCHEMAS_GET, SCHEMAS_LIST
from messaging.adminrpc.schemas import SchemaDelete, SchemaGet, SchemaGiven, SchemaStored
from messaging.adminrpc.topics import TopicRef
from messaging.errors import NotAcceptable, NotFound
from messaging.protocol.names import TopicName
from tenants import broker
from tenants.http.views import actor, body, flag, json, number, route, value_or_nothing
from tenants.pulsar.bodies import SchemaPayload
from tenants.pulsar.topics import existing
from tenants.schema_text import schema_data, schema_text


def _topic(parts: dict[str, str]) -> TopicName:
    """Schemas are addressed without a domain."""
    return existing({"domain": "persistent", **parts})


def _given(request: HttpRequest, topic: TopicName) -> SchemaGiven:
    payload = body(request, SchemaPayload)
    if payload is None:
        raise NotAcceptable("the request body has no schema: send an object with type, schema and properties")
    data, role = schema_data(payload.type, payload.schema), actor(request).principal.role
    return SchemaGiven(topic=str(topic), type=payload.type, data=data, properties=payload.properties or {}, role=role)


def _answer(stored: SchemaStored) -> dict[str, Any]:
    return {
        "version": stored.version,
        "type": stored.type,
        "timestamp": stored.created_ms,
        "data": schema_text(stored),
        "properties": stored.properties,
    }


def _get(request: HttpRequest, version: str | None = None, **parts: str) -> dict[str, Any]:
    wanted = None if version is None else number(version, "version", least=-(2**63))
    if wanted is not None and wanted < 0:
        raise NotFound("Schema not found")
    asked = SchemaGet(topic=str(_topic(parts)), version=wanted)
    return _answer(broker.rpc().call(SCHEMAS_GET, asked).versions[0])


def _list(request: HttpRequest, **parts: str) -> dict[str, Any]:
    versions = broker.rpc().call(SCHEMAS_LIST, TopicRef(topic=str(_topic(parts)))).versions
    return {"getSchemaResponses": [_answer(version) for version in versions]}


def _metadata(request: HttpRequest, **parts: str) -> HttpResponse:
    """Which versions there are. Where they are stored is not told: in the ledger -1."""
    versions = broker.rpc().call(SCHEMAS_LIST, TopicRef(topic=str(_topic(parts)))).versions
    index = [{"version": version.version, "ledgerId": -1, "entryId": 0} for version in versions]
    return value_or_nothing({"info": index[-1], "index": index} if index else None)


def _post(request: HttpRequest, **parts: str) -> dict[str, Any]:
    topic = _topic(parts)
    given = _given(request, topic)
    version = broker.rpc().call(SCHEMAS_ADD, given).version
    actor(request).trail.after = {"type": given.type, "version": version}
    return {"version": {"version": version}}


def _delete(request: HttpRequest, **parts: str) -> dict[str, Any]:
    force = flag(request, "force")
    deletion = SchemaDelete(topic=str(_topic(parts)), force=force, role=actor(request).principal.role)
    version = broker.rpc().call(SCHEMAS_DELETE, deletion).version
    actor(request).trail.after = {"force": force, "version": version}
    return {"version": version}


def _check(request: HttpRequest, **parts: str) -> HttpResponse:
    """Pulsar answers 500 for an incompatible schema; here the field says so."""
    verdict = broker.rpc().call(SCHEMAS_CHECK, _given(request, _topic(parts)))
    answer: dict[str, Any] = {"schemaCompatibilityStrategy": verdict.strategy, "compatibility": not verdict.why_not}
    return json(answer | ({"reason": verdict.why_not} if verdict.why_not else {}), 202)


def _find(request: HttpRequest, **parts: str) -> dict[str, Any]:
    return {"version": broker.rpc().call(SCHEMAS_FIND, _given(request, _topic(parts))).version}


schema_view = route(GET=_get, POST=_post, DELETE=_delete)
version_view = route(GET=_get)
versions_view = route(GET=_list)
metadata_view = route(GET=_metadata)
compatibility_view = route(POST=_check)
find_view = route(POST=_find)
