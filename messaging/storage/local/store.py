"""`LedgerStore` on the local disk: one append-only log in one directory for all ledgers of a broker."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec

from messaging.storage.fence_table import FenceTable, scope_of, with_scope
from messaging.storage.ledger_store import (
    READ_BYTES,
    SPARSE,
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
)
from messaging.storage.local.config import Durability, LocalConfig
from messaging.storage.local.device.aio import AioContext
from messaging.storage.local.device.disk import DirectoryLock, Disk, OsDisk
from messaging.storage.local.environment import LogEnvironment
from messaging.storage.local.format.directory import claim, lock
from messaging.storage.local.format.records import CREATED, DELETED, SEALED
from messaging.storage.local.image import LogImage, take_image
from messaging.storage.local.ledger_state import LedgerState, Phase, SparseLedgerState
from messaging.storage.local.log import Log
from messaging.storage.local.read.commit_scan import Damage
from messaging.storage.local.read.index import EntryIndex
from messaging.storage.local.read.reader import LocalLedgerReader, forecast
from messaging.storage.local.recover.recovery import Recovery
from messaging.storage.local.write.delayed_commits import DelayedCommits
from messaging.storage.local.write.ledger_writer import LocalLedgerWriter, SparseLedgerWriter, control
from messaging.storage.local.write.queue import CommitQueue, Committed
from messaging.storage.local.write.segment_files import NoSpace
from messaging.storage.local.write.space_watch import SpaceWatch
from messaging.storage.local.write.writer import LogWriter
from messaging.storage.next_commit import NextCommit

READ_THREADS = 2


class LocalLedgerStore:
    """Lives on the event loop that runs `start`. `disk` is for tests, as are `log`, `writer` and `queue`, which exist while the
    store is open.

    Beyond the interface: `failed` is the reason why nothing is accepted any more, or None; `on_failed` is called once with it, on
    the loop. `damage` is what recovery found. Ledgers created with properties ``{"reserved": ...}`` may use the reserved space when
    the disk is full; ``{"tenant": name}`` names the tenant whose share of a commit an append uses."""

    def __init__(self, directory: Path | str, config: LocalConfig | None = None, *, disk: Disk | None = None) -> None:
        self.directory = Path(directory)
        self.config = config or LocalConfig()
        self.entry_bytes_max = self.config.entry_bytes_max
        self.read_bytes = READ_BYTES
        self.failed: StoreError | None = None
        self.on_failed: Callable[[StoreError], None] | None = None
        self.damage: list[Damage] = []
        self.disk: Disk = disk or OsDisk()
        self._lock: DirectoryLock | None = None
        self._aio: AioContext | None = None
        self.next_commit = NextCommit()
        self._delayed: DelayedCommits | None = None
        self._seal_state = self._seal  # one bound method shared by all writers
        self.epoch = 0
        self._fences = FenceTable(0)
        self._running = False
        self._creating: set[int] = set()  # ledgers whose CREATED record is not durable yet
        self._undeleted: set[int] = set()  # ledgers whose deletion was refused: it can be asked for again
        self._loop: asyncio.AbstractEventLoop
        self.log: Log
        self.writer: LogWriter
        self.queue: CommitQueue
        self._index: EntryIndex
        self._pool: ThreadPoolExecutor
        self._space_watch: SpaceWatch

    async def start(self) -> None:
        """Raises `DirectoryInUse`, `DiskFull` and `Unavailable`, each naming the directory."""
        self._loop = asyncio.get_running_loop()
        self._lock = lock(self.disk, self.directory)
        self._aio = self.disk.aio(self._loop)
        self._delayed = self._make_delayed_commits()
        try:
            await self._loop.run_in_executor(None, self._open)
        except BaseException as error:
            self._release()
            if isinstance(error, NoSpace):
                raise DiskFull(f"the log in {self.directory} cannot be opened: {error}") from error
            if isinstance(error, OSError):
                raise Unavailable(f"the log in {self.directory} cannot be opened: {error}") from error
            raise
        self._running = True

    def _make_delayed_commits(self) -> DelayedCommits | None:
        """None where commits never wait for more: without asynchronous writes they gather enough as it is."""
        delay_us, sync = self.config.commit_delay_us_max, self.config.durability is Durability.SYNC
        if not delay_us or not sync or self._aio is None:
            return None
        try:
            return DelayedCommits(self._loop, self.next_commit, delay_us / 1e6)
        except OSError:
            return None

    def _open(self) -> None:
        environment = LogEnvironment(self.directory, self.disk, self.config, *claim(self.disk, self.directory), self._reported)
        log = self.log = Log.of(environment)
        recovery = Recovery(log)
        try:
            active = recovery.run()
        except BaseException:
            log.close()
            raise
        self.damage = recovery.damage
        self._index = EntryIndex(log.segments.by_number, log.segments.files, log.snapshots.distrust)
        self.failed = None
        self.epoch = environment.epoch
        self._fences = FenceTable(self.epoch)
        self.writer = log.writer(active, self._aio, self._deliver, self._committed)
        self.queue = CommitQueue(
            self._loop,
            self.writer.commit,
            self.config.commit_bytes_max,
            self.entry_bytes_max,
            self.config.durability,
            self._delayed,
        )
        self._space_watch = SpaceWatch(self._loop, log.thread, log.allocator, self._on_loop)
        self._pool = ThreadPoolExecutor(READ_THREADS, thread_name_prefix="ledger-read")
        log.thread.start()
        log.thread.post(log.allocator.prepare)
        for older in recovery.unsealed:
            log.sealer.seal_later(older)
        log.background.maintain(lambda: log.reclaimer.drop_tombstones(recovery.rewritten))
        log.thread.post(log.snapshots.write_if_due)
        log.thread.post(log.reclaimer.start_if_due)

    async def stop(self) -> None:
        if not self._running:
            return
        self._running = False
        self.queue.resume()
        for state in self.log.ledgers.states.values():
            if state.writer is not None:
                state.writer.end(LedgerClosed("the store was stopped", state.ledger_id))
        await self.queue.idle()
        self._space_watch.stop()
        await self._loop.run_in_executor(None, self._close)
        self._release()

    def _close(self) -> None:
        self.log.background.stop()
        self.log.thread.stop()
        self.writer.close()
        self._pool.shutdown(wait=True)
        self.log.close()

    def _release(self) -> None:
        if self._delayed is not None:
            self._delayed.close()
        if self._aio is not None:
            self._aio.close()
        if self._lock is not None:
            self._lock.release()

    async def take_over(self, fence: Fence) -> None:
        self._check_running()
        if not self._fences.admit(fence):
            return
        for state in self.log.ledgers.states.values():
            if state.writer is not None and scope_of(state.properties) == fence.scope:
                state.writer.end(Fenced(f"epoch {fence.epoch} took {fence.scope} over", state.ledger_id))
        await self._flush()

    async def create(self, fence: Fence, ledger_id: int, properties: dict[str, str]) -> LocalLedgerWriter:
        self._check(fence)
        if ledger_id in self.log.ledgers.states or ledger_id in self.log.ledgers.tombstones:
            raise LedgerExists(f"ledger {ledger_id} exists", ledger_id)
        made, written_by = (SparseLedgerState, SparseLedgerWriter) if SPARSE in properties else (LedgerState, LocalLedgerWriter)
        state = made(ledger_id, self.log.ledgers.intern(with_scope(properties, fence.scope)))
        self.log.ledgers.states[ledger_id] = state
        self._creating.add(ledger_id)
        try:
            await self._record(state, CREATED, msgspec.msgpack.encode(state.properties))
        except StoreError as error:
            self.log.ledgers.states.pop(ledger_id, None)
            if isinstance(error, DiskFull):
                raise
            raise Unavailable(f"ledger {ledger_id} could not be created: {error}", ledger_id) from error
        except asyncio.CancelledError:
            raise  # included because it may become durable: the orphan collection must see it
        finally:
            self._creating.discard(ledger_id)
        writer = state.writer = written_by(state, self.queue, fence, self._seal_state)
        try:
            self._fences.check(fence)
        except Fenced as error:  # fenced while it was created
            writer.end(error)
        return writer

    async def seal(self, fence: Fence, ledger_id: int) -> LedgerInfo:
        self._check(fence)
        state = self._get(ledger_id)
        if state.writer is not None:
            state.writer.end(LedgerClosed(f"ledger {ledger_id} is being sealed", ledger_id))
        return await self._seal(state, fence)

    async def _seal(self, state: LedgerState, fence: Fence) -> LedgerInfo:
        self._check(fence)
        if state.deleted:
            raise NoSuchLedger(f"ledger {state.ledger_id} was deleted", state.ledger_id)
        if not state.sealed:
            # The queue is ordered: its record comes after all accepted appends.
            try:
                await self._record(state, SEALED, bytes(8))
            except StoreError as error:
                if isinstance(error, DiskFull):
                    raise
                raise Unavailable(f"ledger {state.ledger_id} could not be sealed: {error}", state.ledger_id) from error
            if not state.deleted:  # meanwhile
                state.phase = Phase.SEALED
            if state.writer is not None:
                state.writer.end(Fenced(f"ledger {state.ledger_id} is sealed", state.ledger_id))
        return self._info(state)

    async def open(self, ledger_id: int) -> LocalLedgerReader:
        return LocalLedgerReader(self._get(ledger_id), self.log.segments, self._index, self._pool, self._aio, self._flush)

    def forecast(self, ledger_id: int, first: int, *, entries_max: int, bytes_max: int) -> int:
        state = self.log.ledgers.states.get(ledger_id)
        if state is None or state.deleted:
            return 0
        return forecast(state, self._index, first, entries_max, bytes_max)

    async def delete(self, fence: Fence, ledger_id: int) -> None:
        self._check(fence)
        state = self.log.ledgers.states.get(ledger_id)
        if state is None or (state.deleted and ledger_id not in self._undeleted):
            return
        self._undeleted.discard(ledger_id)
        state.phase = Phase.DELETING
        if state.writer is not None:
            state.writer.end(LedgerClosed(f"ledger {ledger_id} was deleted", ledger_id))
        try:
            await self._record(state, DELETED, b"")
        except StoreError as error:
            self._undeleted.add(ledger_id)
            raise Unavailable(f"ledger {ledger_id} could not be deleted: {error}", ledger_id) from error
        self.log.ledgers.states.pop(ledger_id, None)

    async def info(self, ledger_id: int) -> LedgerInfo:
        return self._info(self._get(ledger_id))

    async def ledgers(self) -> list[LedgerInfo]:
        states = self.log.ledgers.states.values()
        return [self._info(state) for state in sorted(states, key=lambda state: state.ledger_id) if not state.deleted]

    async def ledger_ids(self, scope: str) -> list[int]:
        return [ledger_id for ledger_id, state in self.log.ledgers.states.items() if scope_of(state.properties) == scope]

    @property
    def generation(self) -> str:
        return self.log.manifest.generation

    async def name_generation(self, generation: str) -> None:
        """Makes the name durable, and that the log reaches as far as it is durable now. Raises `StoreError`."""
        self._check_running()
        try:
            await self._loop.run_in_executor(None, self.log.manifest.write, generation, self.writer.durable_end)
        except OSError as error:
            raise Unavailable(f"the manifest in {self.directory} cannot be written: {error}") from error

    async def read_generation(self) -> str:
        """Nobody else has the log: it is what this process knows."""
        return self.generation

    async def hold(self) -> None:
        """Returns when all that was confirmed is in the files, and no commit begins until `resume`."""
        self._check_running()
        await self.queue.hold()

    def resume(self) -> None:
        if self._running:
            self.queue.resume()

    async def image(self) -> LogImage:
        """What the log is now, while it is held. Raises `Unavailable`."""
        self._check_running()

        def take() -> LogImage | OSError:
            active = self.writer.active
            try:
                return take_image(self.log, active.segment, active.offset, self.generation)
            except OSError as error:  # which concerns the backup alone
                return error

        image = await self._loop.run_in_executor(None, self.log.thread.ask, take)
        if isinstance(image, OSError):
            raise Unavailable(f"the log in {self.directory} cannot be read: {image}") from image
        return image

    def keep_files(self, kept: bool) -> None:
        """Whether files that are needed no longer stay, since they are being copied."""
        if self._running:
            self.log.reclaimer.keeps_files = kept

    def statistics(self) -> StoreStatistics:
        writer, segments = self.writer, list(self.log.segments.by_number.values())
        return StoreStatistics(
            writer.syncs, writer.sync_s, writer.written_bytes, len(segments), sum(segment.size_bytes for segment in segments)
        )

    async def _record(self, state: LedgerState, type_: int, header: bytes) -> None:
        item, future = control(self._loop, state, type_, header)
        self.queue.push(item)
        await future

    async def _flush(self) -> None:
        """Waits until everything appended so far is written."""
        await self._record(LedgerState(-1, {"reserved": "flush"}), 0, b"")

    def _check_running(self) -> None:
        if self.failed is not None:
            raise self.failed
        if not self._running:
            raise Unavailable(f"the store in {self.directory} is not running")

    def _check(self, fence: Fence) -> None:
        self._check_running()
        self._fences.check(fence)

    def _get(self, ledger_id: int) -> LedgerState:
        state = self.log.ledgers.states.get(ledger_id)
        if state is None or state.deleted or ledger_id in self._creating:
            raise NoSuchLedger(f"there is no ledger {ledger_id}", ledger_id)
        return state

    def _info(self, state: LedgerState) -> LedgerInfo:
        return LedgerInfo(state.ledger_id, state.last_entry, state.length_bytes, state.sealed, dict(state.properties))

    # Called from the log thread

    def _deliver(self, outcome: Committed) -> None:
        self._on_loop(self._committed, outcome)

    def _reported(self, kind: str, text: str) -> None:
        if kind == "failed":
            self._on_loop(self._fail, Unavailable(text))
        elif kind == "full":
            self._on_loop(self._space_watch.begin)

    def _on_loop(self, callback: Callable[..., None], *values: object) -> None:
        try:
            self._loop.call_soon_threadsafe(callback, *values)
        except RuntimeError:
            pass  # the loop was closed without `stop`: nobody is waiting any more

    def _committed(self, outcome: Committed) -> None:
        if outcome.error is not None:
            self._fail(outcome.error)
        self.queue.committed(outcome)

    def _fail(self, error: StoreError) -> None:
        if self.failed is None:
            self.failed = self.queue.failed = error
            if self.on_failed is not None:
                self.on_failed(error)
