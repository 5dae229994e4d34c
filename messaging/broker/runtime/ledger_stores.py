"""The ledger store that the settings of a broker name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeAlias

from messaging.background import BackgroundLoops
from messaging.bookkeeper_url import BookkeeperUrl, is_bookkeeper
from messaging.settings import ConfigError, Settings
from messaging.storage.ledger_store import LedgerStore, StoreError
from messaging.storage.local import LocalConfig, LocalLedgerStore
from messaging.storage.local.config import METADATA_BYTES_MAX
from messaging.storage.managed.generations import NamedLog


class Ledgers(LedgerStore, NamedLog, Protocol):
    """What a broker may keep its messages in. `on_failed` is told once why nothing is taken any more."""

    on_failed: Callable[[StoreError], None] | None


class RemoteLedgers(Ledgers, Protocol):
    """On servers: `what` they are, and `ask` returns once they have answered, or raises `StoreError`."""

    what: str

    async def ask(self) -> None: ...


AnyLedgers: TypeAlias = LocalLedgerStore | RemoteLedgers


def ledger_store_of(settings: Settings, background: BackgroundLoops) -> AnyLedgers:
    """Libraries are loaded only where they are used. Raises `ConfigError`."""
    local = LocalConfig.from_settings(settings)
    if not settings.ledger_url:
        return LocalLedgerStore(settings.broker_path / "log", local)
    health = background.register("ledger_store")
    if is_bookkeeper(settings.ledger_url):
        from messaging.storage.bookkeeper.store import BookkeeperLedgerStore

        try:
            bookies = BookkeeperLedgerStore(BookkeeperUrl.parse(settings.ledger_url), health)
        except ValueError as error:
            raise ConfigError(f"ledger_url: {error}") from None
        _check_size(settings, bookies.entry_bytes_max, bookies.url.frame_bytes_max)
        return bookies
    from messaging.storage.postgresql.ledgers.store import PostgresqlLedgerStore

    return PostgresqlLedgerStore(settings.ledger_url, health, entry_bytes_max=local.entry_bytes_max)


def _check_size(settings: Settings, entry_bytes_max: int, frame_bytes_max: int) -> None:
    fits = entry_bytes_max - METADATA_BYTES_MAX
    if settings.message_bytes_max > fits:
        raise ConfigError(
            f"a message of message_bytes_max = {settings.message_bytes_max} may not fit into one add of the bookies of ledger_url: "
            f"set message_bytes_max = {fits} or less, or raise nettyMaxFrameSizeBytes of all bookies, and say so in ledger_url "
            f"(?frame_bytes_max=..., which is {frame_bytes_max})"
        )
