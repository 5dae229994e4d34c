"""How a broker becomes one of several, and how it refuses to be the only one where it is not."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import structlog

from messaging.broker.core.ownership.owner_map import OwnerMap
from messaging.broker.core.ownership.placement import EVERYWHERE, PlacementRules
from messaging.broker.runtime.ownership.gone_brokers import listens
from messaging.broker.runtime.ownership.instance import Instance
from messaging.broker.runtime.ownership.log_recovery import SharedStorage, recover_own, recover_sole
from messaging.broker.runtime.ownership.owners import Owners, SoleOwner
from messaging.broker.runtime.ownership.pinned_member import PinnedMember
from messaging.broker.runtime.ownership.shared_member import SharedMember
from messaging.protocol.bundles import Boundaries
from messaging.settings import ConfigError, Settings
from messaging.storage.managed.cursor_log import CursorLog
from messaging.storage.managed.owned_range import OwnedRange
from messaging.storage.managed.storage import Storage
from messaging.storage.ownership import LEASE_MS, SessionConflict, scope_of_broker
from messaging.storage.sql.meta_store import SqlMetaStore

log = structlog.get_logger("broker.ownership")

PATIENCE_S = 3.0  # beyond a lease
CLAIMED = "fleet/claimed"  # the first broker owns whatever was stored before there were others
_PAGE_TOPICS = 1_000


async def open_shared_session(settings: Settings, meta: SqlMetaStore, instance: Instance) -> int:
    """Before anything is taken over: a broker that is alive under this id must not be fenced. Waits for the lease of one of which
    it is not known whether it is. Raises `ConfigError`, `StoreError`."""
    ends_s = time.monotonic() + LEASE_MS / 1000 + PATIENCE_S
    gone = False
    while True:
        try:
            return await meta.ownership.open_session(settings.broker_id, instance.addresses, replace=gone)
        except SessionConflict as error:
            changes = await meta.ownership.ownership_changes(0, 1)
            other = next((each for each in changes.sessions if each.broker_id == settings.broker_id), None)
            there = None if other is None else await listens(other)
            if there or time.monotonic() > ends_s:
                raise ConfigError(str(error)) from error
            gone = there is False
            if not gone:
                log.info("session.waits_for_lease", broker_id=settings.broker_id)
                await asyncio.sleep(1.0)


async def join_shared(
    storage: Storage,
    meta: SqlMetaStore,
    cursors: CursorLog,
    session: int,
    owners: OwnerMap,
    boundaries_of: Callable[[str], Boundaries],
    rules: PlacementRules = EVERYWHERE,
    knows_tenants: Callable[[], bool] = lambda: True,
) -> SharedMember:
    """Keeps the session, and recovers what earlier ones of this broker left, whose cursor log is open; nobody is sent here before
    `SharedMember.serve`. Raises `StoreError`."""
    broker_id = storage.owned.name.removeprefix(scope_of_broker(""))
    ends = SharedStorage(storage, meta.ownership)
    member = SharedMember(meta.ownership, broker_id, boundaries_of, ends, owners=owners, rules=rules, knows_tenants=knows_tenants)
    await member.resume(session)
    member.keep(storage.background)  # recovering may take longer than a lease
    await recover_sole(storage)
    await recover_own(storage, cursors, lambda topic: owners.fence_of(topic, broker_id) is not None)
    return member


async def join(
    settings: Settings,
    meta: SqlMetaStore,
    owned: OwnedRange,
    owners: OwnerMap,
    boundaries_of: Callable[[str], Boundaries],
    addresses: dict[str, str],
    rules: PlacementRules = EVERYWHERE,
) -> Owners:
    """`addresses`: where others send clients. The log is open, and what other brokers have in theirs is respected. Raises
    `ConfigError`, `StoreError`."""
    if settings.brokers == 1 and settings.broker_number == 1:
        await _require_no_others(settings, meta)
        if await meta.get_value(CLAIMED) is not None:
            await meta.delete_value(owned.fence, CLAIMED)
        return SoleOwner()
    member = PinnedMember(meta.ownership, settings.broker_id, boundaries_of, settings.brokers, owners=owners, rules=rules)
    if settings.broker_number > 1 and await meta.get_value(CLAIMED) is None:
        raise ConfigError(
            f"broker_number = {settings.broker_number}: the first broker has not started with brokers = {settings.brokers} yet, so "
            "what it has stored could be taken for new; start that one first, as `magnetar standalone --brokers` does"
        )
    await member.start(addresses)
    if settings.broker_number == 1:
        await _claim_stored(member, meta)
        await meta.put_value(owned.fence, CLAIMED, b"1")
    return member


async def _claim_stored(member: PinnedMember, meta: SqlMetaStore) -> None:
    after = ""
    while names := await meta.list_all_topics(after=after, limit=_PAGE_TOPICS):
        await member.claim(names)
        after = names[-1]
        await asyncio.sleep(0)


async def _require_no_others(settings: Settings, meta: SqlMetaStore) -> None:
    """Raises `ConfigError` where topics are in logs of other brokers, which nobody would serve."""
    others: set[str] = set()
    after, more = 0, True
    while more:
        changes = await meta.ownership.ownership_changes(after)
        others |= {row.broker_id for row in changes.rows if row.pinned and row.broker_id not in ("", settings.broker_id)}
        after, more = changes.change, changes.more
    if others:
        raise ConfigError(
            f"brokers = 1, but there are topics in the logs of {', '.join(sorted(others)[:8])}: start with as many brokers as "
            f"before (`magnetar standalone --brokers {len(others) + 1}`)"
        )
