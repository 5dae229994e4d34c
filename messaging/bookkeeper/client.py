"""The client: create, open, recover, delete and list ledgers."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import AsyncIterator, Mapping, Sequence, Set
from types import TracebackType
from weakref import WeakSet

from messaging.bookkeeper.config import Config
from messaging.bookkeeper.core.entries import NO_ENTRY, Digest, DigestMismatch, DigestType
from messaging.bookkeeper.core.ledger_metadata import CUSTOM_METADATA_BYTES_MAX, LedgerMetadata, Segment, check_quorums
from messaging.bookkeeper.core.packets import Answer, Status
from messaging.bookkeeper.errors import (
    ConditionFailed,
    CorruptEntry,
    InvalidArgument,
    LedgerExists,
    NoSuchLedger,
    Unavailable,
    WrongDigest,
    WrongPassword,
)
from messaging.bookkeeper.metadata.store import BookieAddress, MetadataConflict, MetadataStore, NodeChange, UnknownOutcome
from messaging.bookkeeper.shell.bookies import Bookies
from messaging.bookkeeper.shell.ledger_reader import LedgerReader
from messaging.bookkeeper.shell.ledger_writer import LedgerWriter
from messaging.bookkeeper.shell.recovering import LedgerRecovery

_PAUSE_S = 0.2


class BookkeeperClient:
    """All calls are of one event loop. It holds one connection to each bookie that it uses, and the metadata store's."""

    def __init__(self, store: MetadataStore, config: Config | None = None) -> None:
        self.config = config or Config()
        self._store = store
        self._bookies = Bookies(self.config, store)
        self._writers: WeakSet[LedgerWriter] = WeakSet()

    async def start(self) -> None:
        """Raises `UnsupportedLayout`, `Unavailable`."""
        await self._store.start()
        try:
            await self._bookies.start()
        except BaseException:
            await self._store.stop()
            raise

    async def stop(self) -> None:
        """Writers that were not closed are abandoned."""
        for writer in list(self._writers):
            await writer.abandon()
        await self._bookies.stop()
        await self._store.stop()

    async def __aenter__(self) -> BookkeeperClient:
        await self.start()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.stop()

    def bookies(self) -> list[BookieAddress]:
        """Those that are registered, also the ones that take no writes."""
        return self._bookies.registered()

    def suspects(self) -> frozenset[str]:
        """Bookies that failed and were not seen to answer since: they are chosen last."""
        return self._bookies.suspects()

    def degraded(self) -> Set[int]:
        """Ids of ledgers that this client writes with fewer bookies than they should have: entries get fewer copies."""
        return self._bookies.degraded.keys()

    def degraded_for_s(self) -> dict[int, float]:
        """The same with the seconds since when."""
        now_s = asyncio.get_running_loop().time()
        return {ledger_id: now_s - since_s for ledger_id, since_s in self._bookies.degraded.items()}

    async def create(
        self,
        *,
        ensemble: int = 3,
        write_quorum: int = 3,
        ack_quorum: int = 2,
        ledger_id: int | None = None,
        digest_type: DigestType = DigestType.CRC32C,
        password: bytes = b"",
        custom: Mapping[str, bytes] | None = None,
        along: Sequence[NodeChange] = (),
    ) -> LedgerWriter:
        """A new ledger; None: the store chooses its id. `custom` is kept with its metadata, which is made in one transaction with
        `along`.

        Raises `LedgerExists`, `ConditionFailed`, `NotEnoughBookies`, `InvalidArgument`, `Unavailable`.
        """
        check_quorums(ensemble, write_quorum, ack_quorum)
        custom = dict(custom or {})
        size = sum(len(key.encode()) + len(value) for key, value in custom.items())
        if size > CUSTOM_METADATA_BYTES_MAX:
            raise InvalidArgument(f"custom metadata of {size} bytes is above the limit of {CUSTOM_METADATA_BYTES_MAX}", ledger_id)
        metadata = LedgerMetadata(
            ledger_id=await self._store.new_ledger_id() if ledger_id is None else ledger_id,
            ensemble_size=ensemble,
            write_quorum=write_quorum,
            ack_quorum=ack_quorum,
            segments=(Segment(0, self._bookies.ensemble(ensemble, write_quorum)),),
            digest_type=digest_type,
            password=password,
            created_ms=time.time_ns() // 1_000_000,  # for people; nothing is decided by it
            custom=custom,
            creator_token=secrets.randbits(63),
        )
        # Before any entry: a bookie deletes what it has of a ledger without metadata.
        stored = await self._create_metadata(metadata, along)
        writer = LedgerWriter(stored, Digest(digest_type, password), self._bookies, self._store)
        self._writers.add(writer)
        return writer

    async def open(
        self,
        ledger_id: int,
        *,
        digest_type: DigestType | None = None,
        password: bytes = b"",
        last_entry_id: int | None = None,
    ) -> LedgerReader:
        """Reads a ledger without troubling its writer. Of one that is not closed, what its bookies say is confirmed can be read; or
        up to `last_entry_id`, if the writer has told that this one is confirmed, which its bookies learn only with the next one.

        Raises `NoSuchLedger`, `WrongDigest`, `WrongPassword`, `MalformedMetadata`, `Unavailable`.
        """
        metadata, digest = await self._look_up(ledger_id, digest_type, password)
        if last_entry_id is not None:
            if metadata.is_closed and metadata.last_entry_id < last_entry_id:
                problem = f"ledger {ledger_id} was closed at entry {metadata.last_entry_id}; its writer confirmed {last_entry_id}"
                raise CorruptEntry(problem, ledger_id)
            return LedgerReader(metadata, digest, self._bookies, self._store, last_entry_id)
        last = metadata.last_entry_id if metadata.is_closed else await self._last_confirmed(metadata, digest)
        return LedgerReader(metadata, digest, self._bookies, self._store, last)

    async def recover(self, ledger_id: int, *, digest_type: DigestType | None = None, password: bytes = b"") -> LedgerReader:
        """Takes a ledger over from its writer and closes it: afterwards nothing more is confirmed by anybody. May be repeated.

        Raises as `open`; `Unavailable`: too few bookies answered, try again later.
        """
        metadata, digest = await self._look_up(ledger_id, digest_type, password)
        closed = await LedgerRecovery(metadata, digest, self._bookies, self._store).run()
        return LedgerReader(closed, digest, self._bookies, self._store, closed.last_entry_id)

    async def delete(self, ledger_id: int, along: Sequence[NodeChange] = ()) -> None:
        """Bookies free its space later. In one transaction with `along`. Deleting what is not there is done already. Raises
        `ConditionFailed`, `Unavailable`."""
        for _ in range(max(1, int(self.config.metadata_timeout_s / _PAUSE_S))):
            try:
                await self._store.delete(ledger_id, along)
            except NoSuchLedger:
                return
            except MetadataConflict as conflict:
                raise _condition_failed(conflict, ledger_id, "deleted") from None
            except (UnknownOutcome, Unavailable):
                await asyncio.sleep(_PAUSE_S)
                continue
            return
        raise Unavailable(f"whether ledger {ledger_id} was deleted is not known: the metadata store is not responding", ledger_id)

    async def metadata(self, ledger_id: int) -> LedgerMetadata:
        """Raises `NoSuchLedger`, `MalformedMetadata`, `Unavailable`."""
        return await self._store.read(ledger_id)

    def ledgers(self) -> AsyncIterator[int]:
        """Ids of all ledgers of the cluster, not in order."""
        return self._store.ledgers()

    # --- inside
    # --------------------------------------------------------------------------------------------------------------------

    async def _create_metadata(self, metadata: LedgerMetadata, along: Sequence[NodeChange]) -> LedgerMetadata:
        ledger_id = metadata.ledger_id
        try:
            async with asyncio.timeout(self.config.metadata_timeout_s):
                while True:
                    try:
                        return await self._store.create(metadata, along)
                    except MetadataConflict as conflict:
                        stored = await self._stored(ledger_id)
                        if stored is not None and stored.creator_token == metadata.creator_token:
                            return stored  # an attempt of ours whose answer was lost
                        if conflict.path is not None:
                            raise _condition_failed(conflict, ledger_id, "created") from None
                        raise LedgerExists(f"ledger {ledger_id} exists, and somebody else made it", ledger_id) from None
                    except UnknownOutcome:
                        await asyncio.sleep(_PAUSE_S)
        except TimeoutError:
            problem = f"whether ledger {ledger_id} was created is not known: the metadata store is not responding"
            raise Unavailable(problem, ledger_id) from None

    async def _stored(self, ledger_id: int) -> LedgerMetadata | None:
        try:
            return await self._store.read(ledger_id)
        except NoSuchLedger:
            return None

    async def _look_up(self, ledger_id: int, digest_type: DigestType | None, password: bytes) -> tuple[LedgerMetadata, Digest]:
        metadata = await self._store.read(ledger_id)
        if digest_type is not None and digest_type is not metadata.digest_type:
            problem = f"ledger {ledger_id} was written with the digest {metadata.digest_type.name}, not {digest_type.name}"
            raise WrongDigest(problem, ledger_id)
        # Found out here, and not by the bookies: one that never saw the ledger would keep the wrong key and refuse the right one.
        if password != metadata.password:
            raise WrongPassword(f"the password is not that of ledger {ledger_id}", ledger_id)
        return metadata, Digest(metadata.digest_type, password)

    async def _last_confirmed(self, metadata: LedgerMetadata, digest: Digest) -> int:
        """The highest that a bookie of the last segment knows of; entries of the segments before are confirmed in any case."""
        loop = asyncio.get_running_loop()
        futures: list[asyncio.Future[Answer]] = []
        for bookie in metadata.last_segment.ensemble:
            future: asyncio.Future[Answer] = loop.create_future()
            futures.append(future)
            self._bookies.read(bookie, metadata.ledger_id, NO_ENTRY, None, future.set_result)
        last, answers = metadata.last_segment.first_entry_id - 1, 0
        for answer in await asyncio.gather(*futures):
            if answer.status is Status.OK:
                try:
                    last = max(last, digest.unpack(metadata.ledger_id, NO_ENTRY, answer.body).last_confirmed)
                except DigestMismatch:
                    continue
            answers += answer.status in (Status.OK, Status.NO_ENTRY, Status.NO_LEDGER)
        if not answers:
            raise Unavailable(f"no bookie of ledger {metadata.ledger_id} said what is confirmed", metadata.ledger_id)
        return last


def _condition_failed(conflict: MetadataConflict, ledger_id: int, what: str) -> ConditionFailed:
    path = conflict.path or ""
    return ConditionFailed(f"ledger {ledger_id} was not {what}: the node {path} is not as demanded", ledger_id, path)
