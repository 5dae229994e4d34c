"""Admin RPC: deleted topics in the recycle bin."""

from __future__ import annotations

from typing import Any

import msgspec

from messaging.adminrpc.base import Empty
from messaging.adminrpc.methods import (
    RECYCLE_BIN_EXPIRE,
    RECYCLE_BIN_GET,
    RECYCLE_BIN_LEAVE,
    RECYCLE_BIN_LIST,
    RECYCLE_BIN_PURGE,
    RECYCLE_BIN_RESTORE,
)
from messaging.adminrpc.recycle_bin import (
    PlaceLeft,
    RecycleBinExpire,
    RecycleBinExpired,
    RecycleBinList,
    Recycled,
    RecycledAnswer,
    RecycledPage,
    RecycledRef,
)
from messaging.broker.runtime.admin.binding import answers
from messaging.broker.runtime.broker import Broker
from messaging.protocol.names import parse_namespace, parse_topic
from messaging.storage.recycled_topic import RecycledTopic

PAGE_MAX = 1_000


class RecycleBinHandlers:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._bin = broker.topics.recycle_bin

    async def _namespace(self, text: str) -> str:
        """Raises `InvalidName`, and `NotFound` for one that does not exist: a later one of its name has a bin of its own."""
        namespace = str(parse_namespace(text))
        await self._broker.require_namespace(namespace)
        return namespace

    @answers(RECYCLE_BIN_LIST)
    async def list(self, request: RecycleBinList) -> RecycledPage:
        namespace, limit = await self._namespace(request.namespace), min(request.limit, PAGE_MAX)
        records = await self._broker.storage.meta.list_recycled(namespace, after=request.after_id, limit=limit + 1)
        following = records[limit - 1].recycle_id if len(records) > limit else ""
        return RecycledPage(items=[_shown(record) for record in records[:limit]], next_after=following)

    @answers(RECYCLE_BIN_GET)
    async def get(self, request: RecycledRef) -> RecycledAnswer:
        record = await self._bin.get(await self._namespace(request.namespace), request.recycle_id)
        kept: dict[str, Any] = msgspec.json.decode(record.policies) if record.policies else {}
        return RecycledAnswer(
            recycled=_shown(record),
            created_ms=record.created_ms,
            policies=kept.get("policies", {}),
            subscription_policies=kept.get("subscriptions", {}),
        )

    @answers(RECYCLE_BIN_RESTORE)
    async def restore(self, request: RecycledRef) -> Empty:
        await self._bin.restore(await self._namespace(request.namespace), request.recycle_id)
        return Empty()

    @answers(RECYCLE_BIN_PURGE)
    async def purge(self, request: RecycledRef) -> Empty:
        await self._bin.purge(await self._namespace(request.namespace), request.recycle_id)
        return Empty()

    @answers(RECYCLE_BIN_LEAVE)
    async def leave(self, request: PlaceLeft) -> Empty:
        await self._bin.left_place(parse_topic(request.topic), request.place, request.ledger_ids, restored=request.restored)
        return Empty()

    @answers(RECYCLE_BIN_EXPIRE)
    async def expire(self, request: RecycleBinExpire) -> RecycleBinExpired:
        purged, failed = await self._bin.purge_expired(request.topics_max)
        return RecycleBinExpired(purged=purged, failed=failed)


def _shown(record: RecycledTopic) -> Recycled:
    return Recycled(
        recycle_id=record.recycle_id,
        topic=record.name,
        partitions=record.partitions,
        stored_bytes=record.stored_bytes,
        deleted_ms=record.deleted_ms,
        expires_ms=record.expires_ms,
        deleted_by=record.deleted_by,
    )
