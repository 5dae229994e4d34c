"""Admin RPC: what the worker collects: usage records, points of history, audit events, and when keys were used."""

from __future__ import annotations

import asyncio

from messaging.adminrpc.audit import AuditTake, AuditTaken
from messaging.adminrpc.history import HistoryTake, HistoryTaken
from messaging.adminrpc.key_uses import KeyUsesTake, KeyUsesTaken
from messaging.adminrpc.methods import (
    AUDIT_TAKE,
    HISTORY_TAKE,
    KEYS_TAKE_USES,
    USAGE_FLUSH,
    USAGE_LIST_FILES,
    USAGE_READ_FILE,
)
from messaging.adminrpc.usage import (
    UsageFileList,
    UsageFilePiece,
    UsageFileRead,
    UsageFilesPage,
    UsageFlush,
    UsageFlushed,
)
from messaging.broker.runtime.admin.binding import answers
from messaging.broker.runtime.broker import Broker
from messaging.broker.usage import files


class UsageHandlers:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._raw = broker.settings.data_path / "usage" / "raw"

    @answers(USAGE_FLUSH)
    async def flush(self, request: UsageFlush) -> UsageFlushed:
        collector = self._broker.metering.usage
        if collector is None:
            return UsageFlushed(files=[], rows=0)
        return await collector.collect()

    @answers(USAGE_LIST_FILES)
    async def list_usage_files(self, request: UsageFileList) -> UsageFilesPage:
        return await asyncio.to_thread(files.list_files, self._raw, request)

    @answers(USAGE_READ_FILE)
    async def read_usage_file(self, request: UsageFileRead) -> UsageFilePiece:
        return await asyncio.to_thread(files.read_piece, self._raw, request.usage_folder, request.file_name, request.file_offset)

    @answers(AUDIT_TAKE)
    async def take_audit_events(self, request: AuditTake) -> AuditTaken:
        return self._broker.audit.take(request)

    @answers(KEYS_TAKE_USES)
    async def take_key_uses(self, request: KeyUsesTake) -> KeyUsesTaken:
        taken = self._broker.access.key_uses.take(request.acknowledged_batch)
        return KeyUsesTaken(batch=taken.number, uses=taken.uses, waiting=taken.waiting)

    @answers(HISTORY_TAKE)
    async def take_history(self, request: HistoryTake) -> HistoryTaken:
        buffer = self._broker.metering.history.buffer
        number, points, spans = buffer.take(request.acknowledged_batch)
        return HistoryTaken(
            broker_id=self._broker.settings.broker_id,
            batch=number,
            points=points,
            spans=spans,
            waiting=len(buffer) - len(points),
        )
