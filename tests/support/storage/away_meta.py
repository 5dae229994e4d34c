"""A metadata store that fails on demand, with changes that were made all the same."""

from __future__ import annotations

import asyncio

from messaging.storage.ledger_store import Fence, Unavailable
from messaging.storage.meta_store import TopicRecord
from tests.support.storage.memory_ledgers import MemoryMetaStore


class AwayMetaStore(MemoryMetaStore):
    """`away`: changes and reads of topics fail. `after_doing`: changes are made all the same. `stuck`: changes wait for it."""

    away = after_doing = False
    waiting = False
    stuck: asyncio.Event | None = None

    async def cas_topic(self, fence: Fence, record: TopicRecord) -> TopicRecord:
        if self.stuck is not None:
            self.waiting = True
            await self.stuck.wait()
        if self.away and self.after_doing:
            await super().cas_topic(fence, record)
        if self.away:
            raise Unavailable("away")
        return await super().cas_topic(fence, record)

    async def get_topic(self, name: str) -> TopicRecord | None:
        if self.away:
            raise Unavailable("away")
        return await super().get_topic(name)
