"""Opens what a broker stores in, and makes it the broker's: the log or the databases, the metadata, and the range that it owns.

Nothing is served before all of it is open, and nothing is changed where it does not belong together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from messaging import logs
from messaging.background import BackgroundLoop, BackgroundLoops
from messaging.bookkeeper_url import is_bookkeeper
from messaging.broker.runtime.ledger_stores import AnyLedgers, ledger_store_of
from messaging.broker.runtime.ownership.instance import Instance
from messaging.broker.runtime.ownership.joining import open_shared_session
from messaging.broker.runtime.ownership.same_platform import note_platform, require_same_platform
from messaging.clock import ExpiryClock, wall_ms
from messaging.settings import ConfigError, Settings
from messaging.storage.disk_reserve import NO_SPACE, DiskReserve, of_broker
from messaging.storage.ledger_store import WHOLE, Fence, StoreError, Unreachable
from messaging.storage.local import LocalLedgerStore
from messaging.storage.local.write.segment_files import NO_DESCRIPTOR
from messaging.storage.managed import generations
from messaging.storage.managed.cursor_log import CursorLog, checkpoint_bytes
from messaging.storage.managed.ledger import Storage
from messaging.storage.managed.owned_range import OwnedRange, take_over
from messaging.storage.managed.retention import LedgerLimits
from messaging.storage.next_commit import NextCommit
from messaging.storage.ownership import scope_of_broker
from messaging.storage.sql.meta_store import SqlMetaStore
from messaging.storage.sqlite.meta_store import SqliteMetaStore

log = logs.get_logger("broker")


class StorageUnreachable(Exception):
    """What `metadata_url` or `ledger_url` names does not answer, or not for this session any more, which may pass by itself."""


@dataclass(frozen=True)
class OpenedStorage:
    """`session` and `addresses`: of the session that was opened before anything was taken over, and what it has among its addresses
    from the first moment on; 0 and none where the broker has a log of its own. `certain`: log and metadata are as their last owner
    left them."""

    settings: Settings
    ledgers: AnyLedgers
    meta: SqlMetaStore
    owned: OwnedRange
    reserve: DiskReserve
    background: BackgroundLoops
    session: int
    addresses: dict[str, str]
    certain: bool

    def storage(self, bundle_fence: Callable[[str], Fence]) -> Storage:
        """`bundle_fence`: see `Storage`; asked where all brokers store in one place."""
        store = self.ledgers
        storage = Storage(
            store,
            self.meta,
            self.owned,
            wall_ms,
            ledger_limits(self.settings),
            expiry_clock=ExpiryClock(),
            background=self.background,
            reserve=self.reserve,
            next_commit=store.next_commit if isinstance(store, LocalLedgerStore) else NextCommit(),
            bundle_fence=bundle_fence if self.settings.shared_storage else None,
        )
        if isinstance(store, LocalLedgerStore):
            storage.damage["segment"] += len(store.damage)
        return storage


async def open_storage(
    settings: Settings, stack: AsyncExitStack, background: BackgroundLoops, reserve: DiskReserve
) -> OpenedStorage:
    """`stack` closes what it opened, in reverse. Raises what `explained` explains."""
    store = ledger_store_of(settings, background)
    await store.start()
    stack.push_async_callback(store.stop)
    meta = _metadata(settings, background.register("metadata_store"), reserve)
    await meta.start()
    stack.push_async_callback(meta.stop)
    scope, shared = _scope(settings), settings.shared_storage
    session, addresses, certain = 0, dict[str, str](), False
    if shared:
        instance = Instance(settings.broker_path)
        stack.callback(instance.close)
        addresses = instance.addresses
        await require_same_platform(settings, meta)
        await generations.match_shared(store, meta)
        session = await open_shared_session(settings, meta, instance)
    else:
        certain = await generations.match(store, meta, scope)
    newest_ledger_id = max(await store.ledger_ids(scope), default=0)
    if store.generation != generations.ACCEPTED:
        _require_same_age(await meta.first_free_ledger_id(), newest_ledger_id)
    owned = await take_over(store, meta, scope, after_ledger_id=newest_ledger_id)
    if shared:
        await note_platform(settings, meta, owned.fence)
    else:
        certain = await _begin_generation(store, meta, owned) and certain
        stack.push_async_callback(_end_generation, store, meta, owned)
    return OpenedStorage(settings, store, meta, owned, reserve, background, session, addresses, certain)


async def open_cursors(storage: Storage, settings: Settings, stack: AsyncExitStack) -> CursorLog:
    """Raises `ConfigError`."""
    cursors = CursorLog(storage, checkpoint_bytes=checkpoint_bytes(settings.reserved_bytes))
    try:
        await cursors.start()
    except StoreError as error:
        raise ConfigError(f"the broker cannot read its cursors: {error}") from error
    stack.push_async_callback(cursors.stop)
    return cursors


@contextmanager
def explained(settings: Settings) -> Iterator[None]:
    """What keeps the storage of a broker from being opened, with what to do: raises `ConfigError`, `StorageUnreachable`."""
    try:
        yield
    except PermissionError as error:
        raise ConfigError(
            f"data_dir {settings.data_dir} is not writable ({error.strerror}): change its owner, or choose another"
        ) from None
    except OSError as error:
        if error.errno in NO_SPACE:
            raise ConfigError(f"the disk under {settings.data_dir} is full: free some space, or choose another data_dir") from error
        if error.errno in NO_DESCRIPTOR:
            raise ConfigError(f"no file can be opened ({error.strerror}): raise the limit of open files (ulimit -n)") from error
        raise
    except generations.GenerationConflict as error:
        raise ConfigError(_of_two_ages(settings, error)) from error
    except StoreError as error:
        failure = StorageUnreachable if isinstance(error, Unreachable) else ConfigError
        raise failure(_for_broker(settings, f"the broker cannot open its storage: {error}")) from error


def _of_two_ages(settings: Settings, error: generations.GenerationConflict) -> str:
    metadata = "the metadata of metadata_url" if settings.metadata_url else str(_metadata_file(settings))
    if is_bookkeeper(settings.ledger_url):
        return (
            f"{metadata} does not belong to the ledgers of ledger_url: {error}. Best restore the metadata of the same age. To "
            f"begin without any message, name another store (?store=NAME in ledger_url) and move {metadata} away"
        )
    if settings.ledger_url:
        return (
            f"{metadata} does not belong to the ledgers of ledger_url: {error}. Best restore both from one backup. To begin "
            f"without any message, drop the schema magnetar_ledgers there and move {metadata} away. To go on with both as they "
            "are, and lose what only one of them knows, run there: update magnetar_ledgers.store set generation = 'accepted'"
        )
    log_folder = settings.broker_path / "log"
    to_move = str(log_folder) if settings.brokers == 1 else f"the logs of all brokers in {settings.data_path}"
    accepting = _for_broker(settings, "`magnetar log repair --accept-metadata`")
    return (
        f"{metadata} does not belong to this log: {error}; that is {log_folder}. Best restore both from one backup. To begin "
        f"without any message, move {to_move} and {metadata} away. To go on with both as they are, and lose what only one of "
        f"them knows, run {accepting}"
    )


def _scope(settings: Settings) -> str:
    """The range that this broker owns as a whole."""
    if settings.shared_storage:
        return scope_of_broker(settings.broker_id)
    return WHOLE if settings.broker_number == 1 else scope_of_broker(str(settings.broker_number))


def _metadata(settings: Settings, health: BackgroundLoop, reserve: DiskReserve) -> SqlMetaStore:
    if not settings.metadata_url:
        return SqliteMetaStore(_metadata_file(settings), health, reserve)
    from messaging.storage.postgresql.meta_store import PostgresqlMetaStore  # its library is loaded only where it is used

    return PostgresqlMetaStore(settings.metadata_url, health)


def _metadata_file(settings: Settings) -> Path:
    """Of all brokers of this machine."""
    return settings.data_path / "broker" / "meta.sqlite3"


def _for_broker(settings: Settings, text: str) -> str:
    """`text` with the commands that are about the log of this broker."""
    number = settings.broker_number
    return text if number == 1 else text.replace("magnetar log repair", f"magnetar log repair --broker {number}")


def _require_same_age(next_ledger_id: int, newest_ledger_id: int) -> None:
    """Metadata that is older than the log must not come to it: what it does not know would be deleted as left behind. Raises
    `GenerationConflict`."""
    if newest_ledger_id >= next_ledger_id:
        raise generations.GenerationConflict(
            f"its next ledger id is {next_ledger_id}, but the log already has ledger {newest_ledger_id}; it was lost or is older"
        )


async def _begin_generation(store: generations.NamedLog, meta: SqlMetaStore, owned: OwnedRange) -> bool:
    """Whether it began. A disk that is full does not keep a broker from starting."""
    try:
        await generations.renew(store, meta, owned.fence)
    except StoreError as error:
        log.warning("generation.not_renewed", error=str(error))
        return False
    return True


async def _end_generation(store: generations.NamedLog, meta: SqlMetaStore, owned: OwnedRange) -> None:
    try:
        await generations.renew(store, meta, owned.fence, stopped=True)
    except StoreError as error:  # as after a crash
        log.warning("generation.not_renewed", error=str(error))


def ledger_limits(settings: Settings) -> LedgerLimits:
    return LedgerLimits(
        entries_max=settings.ledger_entries_max,
        bytes_max=settings.ledger_bytes_max,
        age_max_ms=settings.ledger_age_max_s * 1000,
        consumed_age_max_ms=settings.ledger_consumed_age_max_s * 1000,
    )


def filled_reserve(settings: Settings) -> DiskReserve:
    reserve = of_broker(settings)
    if not reserve.fill():
        log.warning(
            "reserve.missing", why=reserve.why_not_whole(), to_do="free some space: they are taken as soon as there is some"
        )
    return reserve
