"""A ledger store that keeps blocks in memory, which its user has a budget for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, runtime_checkable


class CacheAccount(Protocol):
    """What caches may take together. `take` and `give` only count, for nobody in particular (`""`)."""

    limit_bytes: int

    def take(self, tenant: str, size: int) -> None: ...
    def give(self, tenant: str, size: int) -> None: ...


@runtime_checkable
class CachingStore(Protocol):
    def cache_in(self, account: CacheAccount) -> Callable[[int], None]:
        """From now on what is kept counts there. Returns what evicts at least so many bytes, as far as there are so many."""
