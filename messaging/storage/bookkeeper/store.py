"""`LedgerStore` on bookies of Apache BookKeeper: brokers that keep no messages of their own, and take each other's topics over."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from messaging.background import BackgroundLoop
from messaging.bookkeeper.client import BookkeeperClient
from messaging.bookkeeper.config import Config
from messaging.bookkeeper.errors import BookkeeperError, ConditionFailed, NotEnoughBookies
from messaging.bookkeeper.errors import Fenced as LedgerFenced
from messaging.bookkeeper.metadata.store import BookieAddress, MetadataStore
from messaging.bookkeeper.shell.ledger_writer import LedgerWriter
from messaging.bookkeeper_url import BookkeeperUrl
from messaging.storage.bookkeeper.access import bookie_context, zookeeper_options
from messaging.storage.bookkeeper.block_format import HEADER_BYTES_MAX
from messaging.storage.bookkeeper.bookie_racks import BookieRacks
from messaging.storage.bookkeeper.held_ledgers import HeldLedgers
from messaging.storage.bookkeeper.opened_ledgers import DIGEST_TYPE, OpenedLedgers, custom_of
from messaging.storage.bookkeeper.reader import LedgerReading, Source
from messaging.storage.bookkeeper.store_errors import WHAT, told
from messaging.storage.bookkeeper.store_nodes import StoreNodes, fenced_out
from messaging.storage.bookkeeper.writer import BookkeeperLedgerWriter, WriterOwner
from messaging.storage.caching_store import CacheAccount
from messaging.storage.fence_table import FenceTable, scope_of, with_scope
from messaging.storage.ledger_store import (
    AppendFailed,
    Block,
    DiskFull,
    Fence,
    Fenced,
    LedgerClosed,
    LedgerExists,
    LedgerInfo,
    NoSuchLedger,
    StoreError,
    StoreStatistics,
    Unavailable,
    Unreachable,
)

RECOVERIES_AT_ONCE = 64
RECOVERY_ATTEMPTS = 3  # bookies that are busy with all of them may answer late
LOOKS_AT_ONCE = 64
READ_BYTES = 4 << 20
OTHERS_BYTES = 512 << 10  # beside one entry of the largest size, what a block may have: other entries and its header

T = TypeVar("T")


class BookkeeperLedgerStore:
    """Lives on the event loop that runs `start`; `racks`, of the bookies, are there then. `health` is told of appends that failed.
    `metadata_store` makes the client's way to the metadata of ledgers, from the hosts and the root of `url`.

    Beyond the interface: `on_failed` is called once, on the loop, when another broker took over the range that this one took over
    first, which is its own. `generation` and `name_generation` as in `messaging/storage/managed/generations.py`. For backups it is
    a `HeldStore` that has `held_ledgers`."""

    def __init__(
        self,
        url: BookkeeperUrl,
        health: BackgroundLoop | None = None,
        *,
        metadata_store: Callable[[BookkeeperUrl], MetadataStore] | None = None,
        entry_bytes_max: int | None = None,
        config: Config | None = None,
    ) -> None:
        self.url = url
        self._config = config or Config(frame_bytes_max=url.frame_bytes_max, ssl_context=bookie_context(url))
        self.read_bytes = READ_BYTES
        self.entry_bytes_max = entry_bytes_max or self._config.entry_bytes_max - HEADER_BYTES_MAX - OTHERS_BYTES
        self.what = WHAT
        self.failed: StoreError | None = None
        self.on_failed: Callable[[StoreError], None] | None = None
        self.epoch = 0
        self.generation = ""
        self._health = health
        self._metadata_store = metadata_store or partial(in_zookeeper, options=zookeeper_options(url))
        self._password = url.password()
        self._fences = FenceTable(0)
        self._own_scope: str | None = None
        self._versions: dict[str, int] = {}  # of each scope's node, as it was taken over
        self._writers: dict[int, BookkeeperLedgerWriter] = {}  # of ledgers that this process made and has not sealed
        self._running = False
        self._written_bytes = 0
        self.held_ledgers = HeldLedgers(self._delete)
        self._client: BookkeeperClient
        self._nodes: StoreNodes
        self._opened: OpenedLedgers
        self.racks: BookieRacks

    # --- life of the store

    async def start(self) -> None:
        """Raises `StoreError`, which says what is wrong with the cluster; `Unreachable` if nothing is but that it does not
        answer."""
        self.failed = None
        self._fences, self._versions, self._writers = FenceTable(0), {}, {}
        self.held_ledgers = HeldLedgers(self._delete)
        metadata = self._metadata_store(self.url)
        self._client = BookkeeperClient(metadata, self._config)
        self._nodes = StoreNodes(metadata, self.url)
        self.racks = BookieRacks(metadata, self.url.racks_path)
        self._opened = OpenedLedgers(self._client, self._nodes, self._password)
        try:
            await self._client.start()
        except BookkeeperError as error:
            raise told(error) from error
        try:
            await self._nodes.begin()
        except BaseException:
            await self._client.stop()
            raise
        self.epoch, self.generation = self._nodes.record.epoch, self._nodes.record.generation
        self._running = True

    async def stop(self) -> None:
        """Ledgers that were not sealed are when their scope is taken over next."""
        if not self._running:
            return
        self._running = False
        for writer in self._writers.values():
            writer.end(LedgerClosed("the store was stopped", writer.ledger_id))
        await self.held_ledgers.stop()
        await asyncio.gather(*(writer.settled() for writer in self._writers.values()))
        await self._client.stop()

    def cache_in(self, account: CacheAccount) -> Callable[[int], None]:
        """See `CachingStore`: of the store that was started."""
        self._opened.cache_in(account)
        return self._opened.shrink

    async def name_generation(self, generation: str) -> None:
        """Durable when it returns. Raises `StoreError`."""
        self._check_running()
        await self._nodes.name_generation(generation)
        self.generation = generation

    async def read_generation(self) -> str:
        """Raises `StoreError`."""
        self._check_running()
        self.generation = await self._nodes.generation()
        return self.generation

    def bookies(self) -> list[BookieAddress]:
        """Those that are registered, by id."""
        self._check_running()
        return self._client.bookies()

    def degraded_for_s(self) -> dict[int, float]:
        if not self._running:
            return {}
        return {self._nodes.own_id(ledger_id): for_s for ledger_id, for_s in self._client.degraded_for_s().items()}

    async def ask(self) -> None:
        """Returns when ZooKeeper has answered and there are bookies for a new ledger. Raises `StoreError`."""
        self._check_running()
        await self._nodes.ask()
        usable = [bookie for bookie in self._client.bookies() if bookie.problem is None and not bookie.read_only]
        if len(usable) < self.url.ensemble:
            raise Unreachable(f"{WHAT}: {len(usable)} bookies take writes; a new ledger needs {self.url.ensemble}")

    # --- ownership

    async def take_over(self, fence: Fence) -> None:
        """Seals what former owners of the scope have left open, many at a time. Raises `Unreachable` if some of it cannot be: they
        may go on with that."""
        self._check_running()
        self._own_scope = self._own_scope or fence.scope
        if self._fences.admit(fence):
            self._versions.pop(fence.scope, None)
        former = [writer for writer in self._writers.values() if writer.fence.scope == fence.scope and writer.fence != fence]
        for writer in former:
            writer.end(Fenced(f"epoch {fence.epoch} took {fence.scope} over", writer.ledger_id))
        await asyncio.gather(*(writer.settled() for writer in former))
        version = await self._nodes.raise_fence(fence)
        for writer in former:
            await writer.bookkeeper.abandon()
            self._writers.pop(writer.ledger_id, None)
        open_ids = [ledger_id for ledger_id in (await self._nodes.listed(fence.scope)).open_ids if ledger_id not in self._writers]
        outcomes = await _all(RECOVERIES_AT_ONCE, [self._recover_left(fence.scope, ledger_id) for ledger_id in open_ids])
        errors = [outcome for outcome in outcomes if outcome is not None]
        if errors:
            raise Unreachable(f"{len(errors)} ledgers of {fence.scope} cannot be taken from its former owner: {errors[0]}")
        await self.held_ledgers.going()
        self._versions[fence.scope] = version

    async def _recover_left(self, scope: str, ledger_id: int) -> StoreError | None:
        for attempt in range(RECOVERY_ATTEMPTS):
            try:
                await self._opened.recover(ledger_id)
            except NoSuchLedger:
                pass  # it was deleted
            except StoreError as error:
                if error.retryable and attempt + 1 < RECOVERY_ATTEMPTS:
                    continue
                return error
            break
        await self._nodes.sealed(scope, ledger_id)
        return None

    # --- ledgers

    async def create(self, fence: Fence, ledger_id: int, properties: dict[str, str]) -> BookkeeperLedgerWriter:
        version = self._check(fence)
        stored = with_scope(properties, fence.scope)
        with self.held_ledgers.making(ledger_id):
            created = await self._create(fence, version, ledger_id, stored)
            await self.held_ledgers.going()
        owner = WriterOwner(self.entry_bytes_max, self.seal, self._why_failed, self._confirmed, self.held_ledgers.withholds)
        writer = self._writers[ledger_id] = BookkeeperLedgerWriter(ledger_id, fence, stored, created, owner)
        try:
            self._check(fence)
        except StoreError as error:  # fenced or stopped while it was created
            writer.end(error)
        return writer

    async def _create(self, fence: Fence, version: int, ledger_id: int, stored: dict[str, str]) -> LedgerWriter:
        along = (self._nodes.check(fence.scope, version), *self._nodes.listing(fence.scope, ledger_id))
        try:
            return await self._client.create(
                ensemble=self.url.ensemble,
                write_quorum=self.url.write_quorum,
                ack_quorum=self.url.ack_quorum,
                ledger_id=self._nodes.bookkeeper_id(ledger_id),
                digest_type=DIGEST_TYPE,
                password=self._password,
                custom=custom_of(stored),
                along=along,
            )
        except ConditionFailed as error:
            if error.path == self._nodes.scope_path(fence.scope):
                raise self._lost(fence) from None
            raise LedgerExists(f"ledger {ledger_id} exists, or did: {error.path} does", ledger_id) from None
        except NotEnoughBookies as error:
            raise self._too_few(error, ledger_id) from error
        except BookkeeperError as error:
            raise told(error, ledger_id) from error

    async def seal(self, fence: Fence, ledger_id: int) -> LedgerInfo:
        version = self._check(fence)
        self._check_there(ledger_id)
        writer = await self._ended(ledger_id, LedgerClosed(f"ledger {ledger_id} is being sealed", ledger_id))
        await self._require(fence, version)
        info = await self._closed(writer) if writer is not None else None
        if info is None:
            info = await self._opened.recover(ledger_id)
        await self.held_ledgers.going()
        if writer is not None:
            writer.end(Fenced(f"ledger {ledger_id} is sealed", ledger_id))
            await writer.bookkeeper.abandon()
            self._writers.pop(ledger_id, None)
        await self._nodes.sealed(scope_of(info.properties), ledger_id)
        return info

    async def open(self, ledger_id: int) -> BookkeeperLedgerReader:
        self._check_running()
        self._check_there(ledger_id)
        if ledger_id not in self._writers:
            await self._opened.open(ledger_id)
        return BookkeeperLedgerReader(ledger_id, self.read)

    def forecast(self, ledger_id: int, first: int, *, entries_max: int, bytes_max: int) -> int | Awaitable[int]:
        """0 where nobody read yet."""
        source = self._source_now(ledger_id)
        return 0 if source is None else LedgerReading(ledger_id, source, self._opened.reads).forecast(first, entries_max, bytes_max)

    async def delete(self, fence: Fence, ledger_id: int) -> None:
        self._check(fence)
        writer = await self._ended(ledger_id, LedgerClosed(f"ledger {ledger_id} was deleted", ledger_id))
        if not self.held_ledgers.kept:
            await self._delete(fence, ledger_id)
            return
        self.held_ledgers.defer(fence, ledger_id)
        self._writers.pop(ledger_id, None)
        self._opened.forget(ledger_id)
        if writer is not None:
            await writer.bookkeeper.abandon()

    async def _delete(self, fence: Fence, ledger_id: int) -> None:
        """Once nobody reads it any more for a backup."""
        version = self._check(fence)
        writer = self._writers.get(ledger_id)
        with self.held_ledgers.deleting(ledger_id):
            if writer is not None:
                scope = writer.fence.scope
            else:
                try:
                    scope = scope_of(await self._opened.properties(ledger_id))
                except NoSuchLedger:
                    scope = fence.scope
            try:
                await self._client.delete(self._nodes.bookkeeper_id(ledger_id), [self._nodes.check(fence.scope, version)])
            except ConditionFailed:
                raise self._lost(fence) from None
            except BookkeeperError as error:
                raise Unavailable(f"ledger {ledger_id} could not be deleted: {told(error)}", ledger_id) from error
            self._writers.pop(ledger_id, None)
            self._opened.forget(ledger_id)
            if writer is not None:
                await writer.bookkeeper.abandon()
            await self._nodes.deleted(scope, ledger_id)

    async def info(self, ledger_id: int) -> LedgerInfo:
        self._check_running()
        writer = self._writers.get(ledger_id)
        if writer is not None:
            return writer.info(sealed=False)
        self._check_there(ledger_id)
        return replace((await self._opened.open(ledger_id)).info)

    async def ledgers(self) -> list[LedgerInfo]:
        """Asks for every ledger by itself: for audits."""
        self._check_running()
        listed = [ledger_id for scope in await self._nodes.scopes() for ledger_id in await self.ledger_ids(scope)]
        infos: list[LedgerInfo | None] = await _all(LOOKS_AT_ONCE, [self._info_or_none(ledger_id) for ledger_id in sorted(listed)])
        return [info for info in infos if info is not None]

    async def ledger_ids(self, scope: str) -> list[int]:
        self._check_running()
        listed = (await self._nodes.listed(scope)).all_ids
        return [ledger_id for ledger_id in listed if not self.held_ledgers.is_deferred(ledger_id)]

    # --- backups

    async def hold(self) -> None:
        """Nothing is answered until `resume`: messaging/storage/bookkeeper/held_ledgers.py."""
        self._check_running()
        await self.held_ledgers.hold(self._writers)

    def resume(self) -> None:
        self.held_ledgers.resume()

    async def image(self) -> None:
        """There are no files."""

    def keep_files(self, kept: bool) -> None:
        """Ledgers."""
        self.held_ledgers.keep(kept)

    def statistics(self) -> StoreStatistics:
        """What bookies hold, and how they sync it, is known to them alone."""
        degraded = len(self._client.degraded()) if self._running else 0
        return StoreStatistics(0, 0.0, self._written_bytes, None, None, degraded)

    async def read(self, ledger_id: int, first: int, entries_max: int, bytes_max: int) -> list[Block]:
        self._check_running()
        return await LedgerReading(ledger_id, await self._source(ledger_id), self._opened.reads).blocks(
            first, entries_max, bytes_max
        )

    # --- inside

    async def _ended(self, ledger_id: int, reason: StoreError) -> BookkeeperLedgerWriter | None:
        """The ledger's writer, once it takes nothing more and has its answers."""
        writer = self._writers.get(ledger_id)
        if writer is not None:
            writer.end(reason)
            await writer.settled()
        return writer

    async def _closed(self, writer: BookkeeperLedgerWriter) -> LedgerInfo | None:
        """None: it has to be recovered."""
        try:
            closed = await writer.bookkeeper.close()
        except BookkeeperError:
            return None
        return writer.info(sealed=True) if closed.last_entry_id == writer.last_block else None

    async def _source(self, ledger_id: int) -> Source:
        source = self._source_now(ledger_id)
        return source if source is not None else (await self._opened.open(ledger_id)).source

    def _source_now(self, ledger_id: int) -> Source | None:
        """None: its metadata has to be read."""
        writer = self._writers.get(ledger_id)
        if writer is not None:
            return Source(writer.last_block, writer.last_confirmed, writer.sparse, writer.bookkeeper.read)
        return self._opened.source_now(ledger_id)

    async def _info_or_none(self, ledger_id: int) -> LedgerInfo | None:
        try:
            return await self.info(ledger_id)
        except NoSuchLedger:
            return None

    async def _why_failed(self, writer: BookkeeperLedgerWriter, error: BookkeeperError) -> StoreError:
        """Another owner, or BookKeeper itself: a repair takes a ledger from its writer, who goes on in another one."""
        reason: StoreError = AppendFailed(str(told(error)), writer.ledger_id)
        if isinstance(error, LedgerFenced):
            try:
                newest = await self._nodes.epoch_of(writer.fence.scope)
            except StoreError:
                newest = writer.fence.epoch
            if newest > writer.fence.epoch:
                return self._lost(writer.fence)
        if self._health is not None:
            self._health.failed(reason)
        return reason

    def _too_few(self, error: NotEnoughBookies, ledger_id: int) -> StoreError:
        """Why no ledger can be made: disks are full, or bookies are missing or of no use."""
        says = [str(told(error))]
        says += [f"{bookie.bookie} is not used: {bookie.problem}" for bookie in self._client.bookies() if bookie.problem]
        full = [bookie.bookie for bookie in self._client.bookies() if bookie.read_only and bookie.problem is None]
        if full:
            says.append(f"{', '.join(full)} take none, because their disks are full or they were told so")
        kind = DiskFull if full else Unavailable
        return kind(f"ledger {ledger_id} could not be created: {'; '.join(says)}", ledger_id)

    def _confirmed(self, size_bytes: int) -> None:
        self._written_bytes += size_bytes
        if self._health is not None and self._health.failing:
            self._health.succeeded()

    def _check_running(self) -> None:
        if not self._running:
            raise Unavailable(f"{WHAT} is not in use: the store is not running")

    def _check(self, fence: Fence) -> int:
        """The version of its scope's node."""
        self._check_running()
        self._fences.check(fence)
        version = self._versions.get(fence.scope)
        if version is None:  # the takeover failed
            raise fenced_out(fence)
        return version

    def _check_there(self, ledger_id: int) -> None:
        if self.held_ledgers.is_deferred(ledger_id):
            raise NoSuchLedger(f"there is no ledger {ledger_id}", ledger_id)

    async def _require(self, fence: Fence, version: int) -> None:
        try:
            await self._nodes.check_fence(fence, version)
        except Fenced:
            raise self._lost(fence) from None

    def _lost(self, fence: Fence) -> Fenced:
        error = fenced_out(fence)
        if fence.scope == self._own_scope and self.failed is None:
            self.failed = error
            if self.on_failed is not None:
                self.on_failed(error)
        return error


class BookkeeperLedgerReader:
    def __init__(self, ledger_id: int, read: Callable[[int, int, int, int], Awaitable[list[Block]]]) -> None:
        self.ledger_id = ledger_id
        self._read = read

    async def read(self, first: int, *, entries_max: int, bytes_max: int) -> list[Block]:
        return await self._read(self.ledger_id, first, entries_max, bytes_max)

    async def aclose(self) -> None:
        return None


async def _all(at_once: int, works: Sequence[Coroutine[Any, Any, T]]) -> list[T]:
    """What each returns, in their order; `at_once` of them run at a time."""
    room = asyncio.Semaphore(at_once)

    async def run(work: Coroutine[Any, Any, T]) -> T:
        async with room:
            return await work

    return await asyncio.gather(*map(run, works))


def in_zookeeper(url: BookkeeperUrl, options: Mapping[str, Any]) -> MetadataStore:
    """Its library is loaded only where it is used. Raises `StoreError`."""
    try:
        from messaging.bookkeeper.metadata.zookeeper import ZookeeperMetadataStore
    except ImportError:
        raise StoreError(f'{WHAT} needs the library kazoo: pip install "magnetar[bookkeeper]"') from None
    return ZookeeperMetadataStore(url.hosts, root=url.root, racks_path=url.racks_path, **options)
