"""Bytes that are kept in memory, which count in an account of the memory budget once there is one."""

from __future__ import annotations

from messaging.storage.caching_store import CacheAccount


class AccountBytes:
    def __init__(self) -> None:
        self.total = 0
        self._account: CacheAccount | None = None

    def count_in(self, account: CacheAccount) -> None:
        """What is there already as well."""
        self._account = account
        account.take("", self.total)

    def change(self, by: int) -> None:
        """More of them may have some evicted before this returns, those that are counted here among them."""
        self.total += by
        if self._account is not None and by > 0:
            self._account.take("", by)
        elif self._account is not None:
            self._account.give("", -by)
