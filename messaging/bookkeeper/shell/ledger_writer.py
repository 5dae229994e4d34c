"""A ledger that is being written."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable, Set

from messaging.bookkeeper.core.actions import Confirmed, Failed, Finished, SendAdd, WriteMetadata, WriterAction
from messaging.bookkeeper.core.entries import Buffer, Digest
from messaging.bookkeeper.core.ledger_metadata import LedgerMetadata
from messaging.bookkeeper.core.packets import Answer, Status
from messaging.bookkeeper.core.writer import Writer, WriterState
from messaging.bookkeeper.errors import BookkeeperError, EntryTooLarge, NoSuchLedger
from messaging.bookkeeper.metadata.store import MetadataStore
from messaging.bookkeeper.shell.bookies import Bookies
from messaging.bookkeeper.shell.metadata_writes import write_for
from messaging.bookkeeper.shell.reading import read_entries

# What is wrong is not the bookie, or nothing is.
_NO_FAILURE = (Status.OK, Status.FENCED, Status.UNAUTHORIZED, Status.BAD_REQUEST, Status.BAD_VERSION)


class LedgerWriter:
    """The one writer of a ledger. Made by `BookkeeperClient.create`.

    Futures of `append` are resolved in the order of the calls, with the entry's id once it is durable. After the first that fails
    none succeeds; whether those that failed are in the ledger is unknown until it is recovered, except after `close`: then they
    are not.
    """

    def __init__(self, metadata: LedgerMetadata, digest: Digest, bookies: Bookies, store: MetadataStore) -> None:
        self._bookies = bookies
        self._store = store
        self._digest = digest
        self._machine = Writer(metadata, digest, self._choose)
        self._futures: deque[tuple[int, asyncio.Future[int]]] = deque()
        self._space: deque[asyncio.Future[None]] = deque()
        self._tasks: set[asyncio.Task[None]] = set()
        self._finished: asyncio.Future[LedgerMetadata] = asyncio.get_running_loop().create_future()
        self._finished.add_done_callback(lambda future: future.cancelled() or future.exception())
        self._entry_bytes_max = bookies.config.entry_bytes_max - digest.overhead
        self._unwatch = store.watch(metadata.ledger_id, self._changed)
        self._look_again = False
        bookies.changed.add(self._bookies_changed)

    @property
    def ledger_id(self) -> int:
        return self._machine.metadata.ledger_id

    @property
    def metadata(self) -> LedgerMetadata:
        return self._machine.metadata

    @property
    def last_confirmed(self) -> int:
        """-1: none yet."""
        return self._machine.last_confirmed

    @property
    def length(self) -> int:
        """Bytes of all payloads up to the last confirmed one."""
        return self._machine.confirmed_length

    @property
    def pending_bytes(self) -> int:
        return self._machine.pending_bytes

    @property
    def degraded(self) -> bool:
        """Entries have fewer copies than they should: close the ledger and go on in another one."""
        return self._machine.degraded

    @property
    def error(self) -> BookkeeperError | None:
        """What ended this writer, if anything did."""
        return self._machine.error

    def append(self, *payload: Buffer) -> asyncio.Future[int]:
        """One entry; its payload may be in parts, which are not changed until it is confirmed. Raises what ended the writer, or
        `EntryTooLarge`. `writable` tells when there is room; this does not wait."""
        size = sum(map(len, payload))
        if size > self._entry_bytes_max:
            problem = f"an entry of {size} bytes is above the limit of {self._entry_bytes_max} (frame_bytes_max less headers)"
            raise EntryTooLarge(problem, self.ledger_id)
        entry_id, actions = self._machine.append(*payload)
        future: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._futures.append((entry_id, future))
        self._take(actions)
        return future

    async def writable(self) -> None:
        """Waits until what is not confirmed is below `ledger_bytes_max`, or the writer ended."""
        while self._machine.pending_bytes >= self._bookies.config.ledger_bytes_max and self._machine.state is WriterState.OPEN:
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._space.append(future)
            await future

    async def flush(self) -> None:
        """Waits for every append that was made. Raises what the last of them raised."""
        if self._futures:
            await asyncio.shield(self._futures[-1][1])

    async def close(self) -> LedgerMetadata:
        """Ends the ledger behind the last confirmed entry; `flush` before, if appends are under way. May be called again.

        Raises `Fenced` if somebody else recovers it, `Unavailable` if nobody knows whether it was closed.
        """
        self._take(self._machine.close())
        return await asyncio.shield(self._finished)

    async def read(self, first: int, last: int, bytes_max: int | None = None) -> list[bytes]:
        """Payloads of entries that are confirmed, both ends included, or until `bytes_max` is reached (at least one)."""
        return [
            entry.payload
            for entry in await read_entries(self.metadata, self._digest, self._bookies, first, last, self.last_confirmed, bytes_max)
        ]

    async def abandon(self) -> None:
        """Stops without closing the ledger, as if the process ended: it is to be recovered."""
        self._take(self._machine.abandon())
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    # --- carrying out
    # --------------------------------------------------------------------------------------------------------------

    def _choose(self, ensemble: tuple[str, ...], slots: Set[int], avoid: Set[str]) -> dict[int, str]:
        # One that failed and answers again is as good as another one.
        avoid = self._bookies.suspects().intersection(avoid)
        return self._bookies.replacements(ensemble, slots, avoid, self._machine.metadata.write_quorum)

    def _take(self, actions: Iterable[WriterAction]) -> None:
        for action in actions:
            if isinstance(action, SendAdd):
                self._send(action)
            elif isinstance(action, Confirmed):
                while self._futures and self._futures[0][0] <= action.entry_id:
                    entry_id, future = self._futures.popleft()
                    if not future.done():
                        future.set_result(entry_id)
                self._wake()
            elif isinstance(action, WriteMetadata):
                self._start(self._write_metadata(action.metadata))
            elif isinstance(action, Finished):
                self._end()
                if not self._finished.done():
                    self._finished.set_result(action.metadata)
            else:
                self._fail(action)

    def _send(self, action: SendAdd) -> None:
        slot, bookie, entry_id = action.slot, action.bookie, action.entry_id

        def answered(answer: Answer) -> None:
            if answer.status not in _NO_FAILURE:
                self._bookies.failed(bookie)
            self._take(self._machine.added(slot, bookie, entry_id, answer.status, action.attempt))
            if answer.status is not Status.OK:
                self._tell_degraded()

        def later(answer: Answer) -> None:
            # Refused before it was sent: the machine is still in the call that asked for it.
            if answer.status in (Status.OVERLOADED, Status.CONNECTION_LOST):
                asyncio.get_running_loop().call_soon(answered, answer)
            else:
                answered(answer)

        self._bookies.add(bookie, self.ledger_id, entry_id, self._digest.master_key, action.body, False, later)

    def _fail(self, action: Failed) -> None:
        futures, self._futures = self._futures, deque()
        for _, future in futures:
            if not future.done():
                future.set_exception(action.error)
                future.exception()  # whoever waits for the next one learns the same
        self._wake()
        if self._machine.state is WriterState.FAILED:
            self._end()
            if not self._finished.done():
                self._finished.set_exception(action.error)

    def _wake(self) -> None:
        space, self._space = self._space, deque()
        for future in space:
            if not future.done():
                future.set_result(None)

    def _end(self) -> None:
        self._unwatch()
        self._unwatch = lambda: None
        self._bookies.changed.discard(self._bookies_changed)
        self._tell_degraded()

    def _bookies_changed(self) -> None:
        self._take(self._machine.bookies_changed())
        self._tell_degraded()

    def _tell_degraded(self) -> None:
        """After what may have changed it."""
        written = self._machine.state is WriterState.OPEN
        self._bookies.tell_degraded(self.ledger_id, written and self._machine.degraded and self._machine.writes_no_metadata)

    def _start(self, work: object) -> None:
        task: asyncio.Task[None] = asyncio.get_running_loop().create_task(work)  # type: ignore[arg-type]
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _write_metadata(self, metadata: LedgerMetadata) -> None:
        self._take(await write_for(self._machine, self._store, metadata, self._bookies.config.metadata_timeout_s))
        self._tell_degraded()

    def _changed(self) -> None:
        """The watch: somebody else may recover this ledger, or repair replaced a bookie in an earlier segment."""
        if self._look_again or self._machine.state in (WriterState.CLOSED, WriterState.FAILED):
            return
        self._look_again = True
        self._start(self._look())

    async def _look(self) -> None:
        self._look_again = False
        try:
            stored = await self._store.read(self.ledger_id)
        except NoSuchLedger as error:
            self._take(self._machine.metadata_failed(error))
        except BookkeeperError:
            return  # the next change of the metadata or the bookies' refusal tells
        else:
            self._take(self._machine.metadata_present(stored))
