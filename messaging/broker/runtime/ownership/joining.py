"""How a broker on this machine becomes one of several, and how it refuses to be the only one where it is not."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from messaging.broker.runtime.ownership.fleet_member import FleetMember
from messaging.broker.runtime.ownership.owners import Owners, SoleOwner
from messaging.protocol.bundles import Boundaries
from messaging.settings import ConfigError, Settings
from messaging.storage.managed.owned_range import OwnedRange
from messaging.storage.sql.meta_store import SqlMetaStore

CLAIMED = "fleet/claimed"  # the first broker owns whatever was stored before there were others
_PAGE_TOPICS = 1_000


async def join(
    settings: Settings, meta: SqlMetaStore, owned: OwnedRange, boundaries_of: Callable[[str], Boundaries], addresses: dict[str, str]
) -> Owners:
    """`addresses`: where others send clients. The log is open, and what other brokers have in theirs is respected. Raises
    `ConfigError`, `StoreError`."""
    if settings.brokers == 1 and settings.broker_number == 1:
        await _require_no_others(settings, meta)
        if await meta.get_value(CLAIMED) is not None:
            await meta.delete_value(owned.fence, CLAIMED)
        return SoleOwner()
    member = FleetMember(meta.ownership, settings.broker_id, boundaries_of, settings.brokers)
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


async def _claim_stored(member: FleetMember, meta: SqlMetaStore) -> None:
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
