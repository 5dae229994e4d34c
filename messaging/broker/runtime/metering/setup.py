"""What a broker meters from its start on."""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path

from messaging.broker.runtime.broker import Broker
from messaging.broker.runtime.metering.stored import open_bytes
from messaging.broker.runtime.metering.totals import TenantTotals, totals_at_rest
from messaging.broker.usage.collector import UsageCollector
from messaging.broker.usage.recorder import UsageRecorder
from messaging.storage.meta_store import TopicRecord, namespace_of

PAGE_TOPICS = 200


def meter_usage(service: Broker, raw_directory: Path) -> None:
    """Gives the broker what it records its usage with. Does not touch the disk."""
    metering = service.metering
    metering.usage = UsageCollector(
        UsageRecorder(service.settings.broker_id, service.boot_epoch, service.now_ms()),
        raw_directory,
        partial(metering.usage_totals, service.topics),
        service.now_ms,
    )
    metering.tenants = TenantTotals(service.peers.shares.by_tenant_and_key, partial(_tenant_uid, service))
    service.topics.on_deleted.append(metering.deleted)
    service.topics.recycle_bin.on_gone.append(metering.deleted)
    service.topics.recycle_bin.on_stored.append(partial(_rests, service))


async def meter_stored_topics(service: Broker) -> None:
    """Once after the start: what topics hold that nobody uses is recorded from here on. Loads none of them. Raises `StoreError`."""
    meta, after = service.storage.meta, ""
    while True:
        names = await meta.list_all_topics(after=after, limit=PAGE_TOPICS)
        for name in names:
            record = await meta.get_topic(name) if name not in service.topics.loaded else None
            if record is not None and record.ledgers:
                unsealed_bytes = await open_bytes(service.storage, record)
                if record.ledgers[-1].last_entry is None and await meta.get_topic(name) is None:  # deleted meanwhile
                    continue
                if name not in service.topics.loaded:
                    _rests(service, record, unsealed_bytes)
        if len(names) < PAGE_TOPICS:
            break
        after = names[-1]
        await asyncio.sleep(0)
    await _meter_recycled_topics(service)


async def _meter_recycled_topics(service: Broker) -> None:
    """What lies in the recycle bin is stored, too."""
    meta, after = service.storage.meta, ""
    while places := await meta.recycled_places(after=after, limit=PAGE_TOPICS):
        for place in places:
            record = await meta.get_topic(place)
            if record is not None:
                _rests(service, record)
        after = places[-1]
        await asyncio.sleep(0)


def _rests(service: Broker, record: TopicRecord, unsealed_bytes: int = 0) -> None:
    if service.metering.usage is not None:
        tenant_uid = service.access.view.payer_uid(namespace_of(record.name))
        service.metering.usage.rest(totals_at_rest(record, unsealed_bytes, tenant_uid))


def _tenant_uid(service: Broker, tenant: str) -> str | None:
    view = service.access.view
    return view.tenant_uid(tenant) if tenant in view.tenants else None
