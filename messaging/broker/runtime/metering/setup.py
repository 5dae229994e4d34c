"""What a broker meters from its start on."""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from messaging.broker.core.ownership.ranges import OwnedBundles
from messaging.broker.runtime.broker import Broker
from messaging.broker.runtime.metering.stored import open_bytes
from messaging.broker.runtime.metering.totals import TenantTotals, totals_at_rest
from messaging.broker.runtime.ownership.owners import OwnedNamespaces
from messaging.broker.runtime.topics.services import OWN_TENANT
from messaging.broker.usage.collector import UsageCollector
from messaging.broker.usage.recorder import UsageRecorder
from messaging.storage.meta_store import TopicRecord, namespace_of
from messaging.storage.ownership import NamespaceBundle, OwnershipRow
from messaging.storage.recycled_topic import PREFIX

PAGE_TOPICS = 200
READ_AGAIN_S = 30.0  # after the topics of a namespace were read for bundles that came


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
    """What quiet topics hold is recorded by the owner of their bundle, and by nobody else, and so is told what is wrong there.
    Bundles come and go. Reading the topics of a namespace costs as much for one bundle as for all: those that come one after the
    other are read together."""

    def __init__(self, service: Broker, now_s: Callable[[], float] = time.monotonic) -> None:
        self._service = service
        self._now_s = now_s
        self._known: set[NamespaceBundle] = set()
        self._read_s: dict[str, float] = {}  # when the topics of a namespace were last read; those of long ago are left out

    async def follow(self, rows: Sequence[OwnershipRow]) -> None:
        """`rows`: of all bundles that this broker owns now. Raises `StoreError`; what was not done is done next time."""
        owned = {row.bundle for row in rows}
        gone, usage = self._known - owned, self._service.metering.usage
        if gone:
            left = self._service.owners.owned_namespaces()
            self._service.stored_problems.keep(left)
            if usage is not None:
                usage.keep(left.has)
        self._known -= gone
        come: defaultdict[str, list[OwnershipRow]] = defaultdict(list)
        for row in rows:
            if row.bundle not in self._known:
                come[row.bundle.namespace].append(row)
        self._read_s = {name: read_s for name, read_s in self._read_s.items() if self._now_s() - read_s < READ_AGAIN_S}
        for namespace in sorted(come.keys() - self._read_s.keys()):
            await self._meter(namespace, OwnedBundles(come[namespace], OWN_TENANT))
            self._read_s[namespace] = self._now_s()
            self._known |= {row.bundle for row in come[namespace]}

    @property
    def waits(self) -> bool:
        """Whether topics of some namespace are still to be read."""
        return bool(self._read_s)

    async def _meter(self, namespace: str, come: OwnedBundles) -> None:
        after = ""
        while names := await self._service.storage.meta.list_topics(namespace, after=after, limit=PAGE_TOPICS):
            await _meter_at_rest(self._service, come, names)
            await self._service.stored_problems.look_at(names, come)
            after = names[-1]
        await _meter_recycled_topics(self._service, come, f"{PREFIX}{namespace}/")


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
