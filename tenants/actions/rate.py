"""How fast one tenant may change the control plane: each change takes the lock that all share, and leaves a record for good."""

from __future__ import annotations

import threading
from collections import OrderedDict

from messaging.errors import QuotaExceeded
from messaging.token_bucket import TokenBucket

CHANGES_PER_SECOND = 5
CHANGES_BURST = 2_000  # a script that sets up a whole tenant
BUCKETS_MAX = 10_000


class ChangeRates:
    """Thread-safe. `who`: a tenant, or the role of somebody who belongs to none. Pure but for its lock: it receives the time as an
    argument."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._buckets: OrderedDict[str, TokenBucket] = OrderedDict()

    def __len__(self) -> int:
        return len(self._buckets)

    def take(self, who: str, now_ms: int) -> None:
        """Raises `QuotaExceeded`."""
        with self._lock:
            bucket = self._buckets.get(who) or TokenBucket(CHANGES_PER_SECOND / 1000, CHANGES_BURST, now_ms)
            self._buckets[who] = bucket
            self._buckets.move_to_end(who)
            if len(self._buckets) > BUCKETS_MAX:
                self._buckets.popitem(last=False)
            wait_ms = bucket.take(now_ms)
        if wait_ms:
            raise QuotaExceeded(
                f"{who} makes more than {CHANGES_PER_SECOND} changes a second after a burst of {CHANGES_BURST:,}: "
                f"try again in {max(1, round(wait_ms))} ms"
            )


rates = ChangeRates()
