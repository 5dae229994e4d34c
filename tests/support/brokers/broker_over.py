"""A broker over any stores, as `messaging.broker.runtime.main.start` puts it together, without its files and listeners."""

from __future__ import annotations

from collections.abc import Callable

from messaging.background import BackgroundLoops
from messaging.broker.runtime.access import Access
from messaging.broker.runtime.broker import Broker
from messaging.broker.runtime.feed.follower import Fetch
from messaging.clock import ExpiryClock, wall_ms
from messaging.settings import Settings
from messaging.storage.ledger_store import LedgerStore
from messaging.storage.managed.cursor_log import CHECKPOINT_BYTES, CursorLog
from messaging.storage.managed.ledger import Storage
from messaging.storage.managed.retention import LedgerLimits
from messaging.storage.meta_store import MetaStore
from tests.support.storage.owning import owned


async def broker_over(
    settings: Settings,
    ledgers: LedgerStore,
    meta: MetaStore,
    *,
    limits: LedgerLimits | None = None,
    now_ms: Callable[[], int] = wall_ms,
    fetch: Fetch | None = None,
    cursor_retry_s: float = 0.01,
    cursor_checkpoint_bytes: int = CHECKPOINT_BYTES,
    expiry_clock: ExpiryClock | None = None,
) -> Broker:
    """Starts `ledgers`; `meta` is started already. The secrets of `settings` exist. The broker says that it is ready and knows no
    tenant yet. Stop it with `stop()`, or leave it as a crash would."""
    background = BackgroundLoops()
    access = Access(settings, now_ms, background, fetch=fetch)
    owned_range = await owned(ledgers, meta)
    storage = Storage(
        ledgers, meta, owned_range, now_ms, limits or LedgerLimits(), expiry_clock=expiry_clock, background=background
    )
    cursors = CursorLog(storage, retry_s=cursor_retry_s, checkpoint_bytes=cursor_checkpoint_bytes)
    await cursors.start()
    service = Broker(settings, storage, cursors, access, storage.fence.epoch)
    service.why_not_ready = ""
    return service
