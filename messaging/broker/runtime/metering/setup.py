"""What a broker meters from its start on."""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path

from messaging.broker.runtime.broker import Broker
from messaging.broker.runtime.metering.stored import open_bytes
from messaging.broker.runtime.metering.totals import TenantTotals, totals_at_rest
from messaging.broker.runtime.ownership.owners import OwnedNamespaces
from messaging.broker.usage.collector import UsageCollector
from messaging.broker.usage.recorder import UsageRecorder
from messaging.storage.meta_store import TopicRecord, namespace_of
from messaging.storage.ownership import NamespaceBundle
from messaging.storage.recycled_topic import PREFIX

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
    owned, after = service.owners.owned_namespaces(), ""
    while names := await service.storage.meta.list_all_topics(after=after, limit=PAGE_TOPICS):
        await _meter_at_rest(service, owned, names)
        after = names[-1]
        await asyncio.sleep(0)
    await _meter_recycled_topics(service, owned, PREFIX)


class MeteredBundles:
    """What quiet topics hold is recorded by the owner of their bundle, and by nobody else: bundles come and go."""

    def __init__(self, service: Broker) -> None:
        self._service = service
        self._known: set[NamespaceBundle] = set()

    async def follow(self, bundles: set[NamespaceBundle]) -> None:
        """`bundles`: all that this broker owns now. Raises `StoreError`; what was not done is done next time."""
        come = {bundle.namespace for bundle in bundles - self._known}
        gone = self._known - bundles
        usage = self._service.metering.usage
        owned = self._service.owners.owned_namespaces()
        if gone and usage is not None:
            usage.keep(owned.has)
        self._known -= gone
        for namespace in sorted(come):
            after = ""
            while names := await self._service.storage.meta.list_topics(namespace, after=after, limit=PAGE_TOPICS):
                await _meter_at_rest(self._service, owned, names)
                after = names[-1]
            await _meter_recycled_topics(self._service, owned, f"{PREFIX}{namespace}/")
            self._known |= {bundle for bundle in bundles if bundle.namespace == namespace}


async def _meter_at_rest(service: Broker, owned: OwnedNamespaces, names: list[str]) -> None:
    """Those of them that are this broker's and not loaded."""
    meta = service.storage.meta
    for name in names:
        if name in service.topics.loaded or not owned.has(name):
            continue
        record = await meta.get_topic(name)
        if record is not None and record.ledgers:
            unsealed_bytes = await open_bytes(service.storage, record)
            if record.ledgers[-1].last_entry is None and await meta.get_topic(name) is None:  # deleted meanwhile
                continue
            if name not in service.topics.loaded:
                _rests(service, record, unsealed_bytes)


async def _meter_recycled_topics(service: Broker, owned: OwnedNamespaces, within: str) -> None:
    """What lies in the recycle bin is stored, too."""
    meta, after = service.storage.meta, ""
    while places := await meta.recycled_places(within=within, after=after, limit=PAGE_TOPICS):
        for place in places:
            record = await meta.get_topic(place) if owned.has(place) else None
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
