"""Counts in a memory account what the broker keeps for one peer or one record. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from messaging.broker.core.memory.memory_limiter import MemoryAccount

PAIR_BYTES = 128  # overhead of a key and its value
LITTLE_SHARE = 16  # 1/16 of an account
LITTLE_BYTES = 64 << 10  # of a small account
ENTRY_BYTES = 64  # overhead of a producer or consumer
NAMELESS = "address "  # prefix of the owner while the tenant is unknown


class Charge:
    """What one owner holds of an account, for one tenant."""

    __slots__ = ("_account", "held_bytes", "tenant")

    def __init__(self, account: MemoryAccount, tenant: str) -> None:
        self._account = account
        self.tenant = tenant
        self.held_bytes = 0

    def allows(self, size: int) -> bool:
        return self._account.allows(self.tenant, size)

    @property
    def holds_little(self) -> bool:
        """Whether the tenant holds so little of the account that it may keep that, however full the account is."""
        return self._account.tenants.get(self.tenant, 0) <= max(LITTLE_BYTES, self._account.limit_bytes // LITTLE_SHARE)

    def change(self, more: int) -> None:
        """Holds so many bytes more, or less where it is negative."""
        self.held_bytes += more
        if more > 0:
            self._account.take(self.tenant, more)
        elif more < 0:
            self._account.give(self.tenant, -more)

    def end(self) -> None:
        """Idempotent."""
        self.change(-self.held_bytes)


class MemoryCharge(Charge):
    """`tenant` is the peer's address until its tenant is known."""

    __slots__ = ()

    def __init__(self, account: MemoryAccount, address: str) -> None:
        super().__init__(account, NAMELESS + address)

    def belongs_to(self, tenant: str) -> None:
        """From now on it counts for `tenant`. The first word counts."""
        if self.tenant.startswith(NAMELESS):
            charged_bytes = self.held_bytes
            self.change(-charged_bytes)
            self.tenant = tenant
            self.change(charged_bytes)


def memory_bytes(texts: Iterable[str], pairs: Mapping[str, str]) -> int:
    """What is charged for one producer or consumer with these names and this metadata, as long as it is open."""
    return ENTRY_BYTES + sum(len(text.encode()) for text in texts) + pairs_bytes(pairs)


def pairs_bytes(pairs: Mapping[str, str]) -> int:
    return sum(PAIR_BYTES + len(key.encode()) + len(value.encode()) for key, value in pairs.items())
