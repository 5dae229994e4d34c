"""What a subscription knew of ledgers that were deleted. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from pyroaring import BitMap

from messaging.broker.core.maintenance.reclaim import forget_gone
from messaging.broker.core.subscription import Subscription
from messaging.storage.meta_store import LedgerRecord


def forget(subscription: Subscription, gone: Iterable[LedgerRecord]) -> bool:
    """They are not in the ledger list any more. A durable subscription has acknowledged everything in them; another loses it.
    Returns whether its cursor takes less memory than before."""
    less = forget_gone(subscription.cursor, subscription.ledger_list)
    state = subscription.state
    for ledger in gone:
        ledger_id, last = ledger.ledger_id, ledger.last_entry
        if last is None or last < 0:
            continue
        if not subscription.durable:
            subscription.strategy.acknowledged(None, ledger_id, BitMap(range(last + 1)))
        if state.delays is not None and state.delayed is not None:
            state.delayed.advance(ledger_id, 0, last + 1)
            state.delays.forget_ledger(ledger_id)
    return less
