"""The recycle bin of a namespace, as our API has it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

import msgspec
from msgspec import Meta
from rest_framework.request import Request
from rest_framework.response import Response

from messaging.adminrpc.recycle_bin import Recycled
from messaging.bodies import Time
from messaging.errors import InvalidValue
from tenants.actions import recycle_bin as actions
from tenants.names import namespace_of
from tenants.rest.base import View, existing_namespace, limit_of
from tenants.rest.outcome import Outcome
from tenants.rest.schema import PAGE, describe, page_of


class RecycledTopicShape(msgspec.Struct, kw_only=True):
    recycle_id: Annotated[str, Meta(description="Rises with the time of deletion.")]
    topic: Annotated[str, Meta(description="The full name that it had, and gets back.")]
    partitions: Annotated[int, Meta(description="0: it is not partitioned.")]
    storage_bytes: Annotated[int, Meta(description="Of its messages.")]
    deleted_at: Time
    expires_at: Annotated[Time, Meta(description="From then on it cannot be restored.")]
    deleted_by: Annotated[str, Meta(description="The role of whoever deleted it.")]


def show_recycled(recycled: Recycled) -> RecycledTopicShape:
    return RecycledTopicShape(
        recycle_id=recycled.recycle_id,
        topic=recycled.topic,
        partitions=recycled.partitions,
        storage_bytes=recycled.stored_bytes,
        deleted_at=_time(recycled.deleted_ms),
        expires_at=_time(recycled.expires_ms),
        deleted_by=recycled.deleted_by,
    )


def _time(ms: int) -> datetime:
    return datetime.fromtimestamp(ms / 1000, UTC)


def _counts(recycled: Recycled) -> dict[str, int]:
    return {"partitions": recycled.partitions, "storage_bytes": recycled.stored_bytes}


class RecycleBin(View):
    @describe("Deleted topics that can be restored, by time of deletion", page_of(RecycledTopicShape), parameters=PAGE)
    def get(self, request: Request, tenant: str, namespace: str) -> Response:
        name, after = existing_namespace(tenant, namespace).name, request.query_params.get("after", "")
        if len(after) > actions.ID_LENGTH_MAX or not after.isascii():
            raise InvalidValue("`after` is invalid: use the value of `next` from the previous page")
        answer = actions.recycled_topics(self.actor(), name, after=after, limit=limit_of(request))
        return Response({"items": [show_recycled(each) for each in answer.items], "next": answer.next_after or None})


class RecycledOne(View):
    @describe("A deleted topic", RecycledTopicShape)
    def get(self, request: Request, tenant: str, namespace: str, recycle_id: str) -> Response:
        name = existing_namespace(tenant, namespace).name
        return Response(show_recycled(actions.recycled_topic(self.actor(), name, recycle_id)))

    @describe("Delete a topic for good that is in the recycle bin", None, status=204, dry_run=True)
    def delete(self, request: Request, tenant: str, namespace: str, recycle_id: str) -> Response:
        name = str(namespace_of(tenant, namespace))
        if self.dry_run():
            kept = actions.check_change(self.actor(), name, recycle_id).recycled
            return Response(Outcome(dry_run=True, action="topic.purge", resource=kept.topic, affected=_counts(kept)))
        actions.purge_topic(self.actor(), name, recycle_id)
        return Response(status=204)


class RecycledRestore(View):
    @describe("Restore a deleted topic with its messages, subscriptions, schema and policies", Outcome, dry_run=True)
    def post(self, request: Request, tenant: str, namespace: str, recycle_id: str) -> Response:
        name = str(namespace_of(tenant, namespace))
        dry_run = self.dry_run()
        if dry_run:
            kept = actions.check_change(self.actor(), name, recycle_id)
            actions.check_name_is_free(kept)
            restored = kept.recycled
        else:
            restored = actions.restore_topic(self.actor(), name, recycle_id)
        return Response(Outcome(dry_run=dry_run, action="topic.restore", resource=restored.topic, affected=_counts(restored)))
