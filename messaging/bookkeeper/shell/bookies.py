"""The bookies of a cluster: who is registered, a connection to each that is used, which ones failed, and how much space they
have.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Set
from dataclasses import dataclass
from random import SystemRandom

from messaging.bookkeeper.config import Config
from messaging.bookkeeper.core.entries import NO_ENTRY, Body
from messaging.bookkeeper.core.packets import Answer, Status
from messaging.bookkeeper.core.placement import Candidate, Placement
from messaging.bookkeeper.errors import BookkeeperError
from messaging.bookkeeper.metadata.store import BookieAddress, MetadataStore
from messaging.bookkeeper.shell.connection import BookieConnection, PlainConnection

logger = logging.getLogger("bookkeeper")
Call = Callable[[BookieConnection], None]
_WAITING_MAX = 10_000  # requests for a connection that is being made


class _Peer:
    """One bookie's connection of a kind: made when it is needed, and after a failure not at once again."""

    def __init__(self, bookies: Bookies, bookie: str, kind: type[BookieConnection]) -> None:
        self._bookies = bookies
        self._bookie = bookie
        self._kind = kind
        self._connection: BookieConnection | None = None
        self._connecting: asyncio.Task[None] | None = None
        self._waiting: list[tuple[Call, Callable[[Answer], None], int]] = []
        self._waiting_bytes = 0
        self._retry_at_s = 0.0

    def call(self, call: Call, answered: Callable[[Answer], None], size: int) -> None:
        if self._connection is not None and not self._connection.closed:
            call(self._connection)
        elif self._connecting is None and asyncio.get_running_loop().time() < self._retry_at_s:
            answered(Answer(0, Status.CONNECTION_LOST))
        elif self._waiting_bytes + size > self._bookies.config.bookie_bytes_max or len(self._waiting) >= _WAITING_MAX:
            answered(Answer(0, Status.OVERLOADED))
        else:
            self._waiting.append((call, answered, size))
            self._waiting_bytes += size
            if self._connecting is None:
                self._connecting = asyncio.get_running_loop().create_task(self._connect())

    async def close(self) -> None:
        if self._connecting is not None:
            self._connecting.cancel()
            await asyncio.gather(self._connecting, return_exceptions=True)
        if self._connection is not None:
            self._connection.close()

    async def _connect(self) -> None:
        loop = asyncio.get_running_loop()
        config = self._bookies.config
        connection = None
        try:
            async with asyncio.timeout(config.connect_timeout_s):
                address = self._bookies.address(self._bookie)
                _, connection = await loop.create_connection(lambda: self._kind(config, self._lost), *address)
                if config.ssl_context is not None:
                    await connection.start_tls()
        except (OSError, TimeoutError, ValueError) as error:
            if connection is not None:
                connection.close()
            self._retry_at_s = loop.time() + config.reconnect_pause_s
            logger.warning("no connection to bookie %s: %s", self._bookie, error or type(error).__name__)
            connection = None
        finally:
            self._connecting = None
            waiting, self._waiting, self._waiting_bytes = self._waiting, [], 0
            self._connection = connection
            for call, answered, _ in waiting:
                if connection is None or connection.closed:
                    answered(Answer(0, Status.CONNECTION_LOST))
                else:
                    call(connection)

    def _lost(self, problem: str) -> None:
        logger.info("the connection to bookie %s ended: %s", self._bookie, problem)


@dataclass(slots=True)
class _Failure:
    """`ask_after_s`: so long a bookie has to have had no other failure until it is asked whether it answers."""

    at_s: float
    ask_after_s: float
    answers: bool = False


class Bookies:
    """`changed` callbacks are called after bookies came or went, or one that failed answers again, which may give a slot without a
    bookie one."""

    def __init__(self, config: Config, store: MetadataStore, chance: Callable[[], float] | None = None) -> None:
        self.config = config
        self.changed: set[Callable[[], None]] = set()
        self.degraded: dict[int, float] = {}  # ids of ledgers, and since when, by the clock of the loop
        self._store = store
        self._placement = Placement(chance or SystemRandom().random, config.require_racks)
        self._known: dict[str, BookieAddress] = {}
        self._registered: dict[str, BookieAddress] = {}
        self._peers: dict[tuple[str, type[BookieConnection]], _Peer] = {}
        self._failures: dict[str, _Failure] = {}  # of each bookie the last one
        self._free_bytes: dict[str, int] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._stale = asyncio.Event()

    async def start(self) -> None:
        await self._list()
        self._store.watch_bookies(self._stale.set)
        loop = asyncio.get_running_loop()
        self._tasks = [loop.create_task(self._follow()), loop.create_task(self._ask_failed())]

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await asyncio.gather(*(peer.close() for peer in self._peers.values()))

    def registered(self) -> list[BookieAddress]:
        return sorted(self._registered.values(), key=lambda address: address.bookie)

    def address(self, bookie: str) -> tuple[str, int]:
        """Of one that is not registered any more, the last one. Raises `ValueError` if there was none."""
        known = self._known.get(bookie)
        if known is not None:
            return known.host, known.port
        host, colon, port = bookie.rpartition(":")
        if not colon or not port.isdigit():
            raise ValueError(f"bookie {bookie} is not registered, so its address is not known")
        return host, int(port)

    # --- requests: each is answered once ------------------------------------------------------------------------------------------

    def add(
        self,
        bookie: str,
        ledger_id: int,
        entry_id: int,
        key: bytes,
        body: Body,
        recovery: bool,
        answered: Callable[[Answer], None],
    ) -> None:
        peer = self._peer(bookie, BookieConnection if recovery else PlainConnection)
        peer.call(lambda peer: peer.add(ledger_id, entry_id, key, body, recovery, answered), answered, sum(map(len, body)))

    def read(self, bookie: str, ledger_id: int, entry_id: int, fence_key: bytes | None, answered: Callable[[Answer], None]) -> None:
        plain = fence_key is None and entry_id != NO_ENTRY
        peer = self._peer(bookie, PlainConnection if plain else BookieConnection)
        peer.call(lambda peer: peer.read(ledger_id, entry_id, fence_key, answered), answered, 0)

    # --- choice
    # --------------------------------------------------------------------------------------------------------------------

    def failed(self, bookie: str) -> None:
        """It is chosen for new ledgers only where there is no other one, until it answers, or for a while."""
        now, before = asyncio.get_running_loop().time(), self._failures.get(bookie)
        if before is None:
            self._failures[bookie] = _Failure(now, self.config.ask_failed_s)
        elif before.answers:
            self._failures[bookie] = _Failure(now, min(2 * before.ask_after_s, self.config.failed_bookie_s))
        else:
            before.at_s = now

    def suspects(self) -> frozenset[str]:
        """Bookies that failed and were not seen to answer since."""
        if not self._failures:
            return frozenset()
        over_s = asyncio.get_running_loop().time() - self.config.failed_bookie_s
        for bookie in [bookie for bookie, failure in self._failures.items() if failure.at_s <= over_s]:
            del self._failures[bookie]
        return frozenset(bookie for bookie, failure in self._failures.items() if not failure.answers)

    def tell_degraded(self, ledger_id: int, degraded: bool) -> None:
        """Whether a ledger that is being written has a slot without a bookie."""
        if degraded == (ledger_id in self.degraded):
            return
        if degraded:
            if not self.degraded:
                logger.warning("ledger %s, and maybe others, get fewer copies than they should: too few bookies answer", ledger_id)
            self.degraded[ledger_id] = asyncio.get_running_loop().time()
        else:
            self.degraded.pop(ledger_id, None)
            if not self.degraded:
                logger.info("what is written to ledgers has all its copies again")

    def ensemble(self, size: int, write_quorum: int) -> tuple[str, ...]:
        """Raises `NotEnoughBookies`."""
        return self._placement.ensemble(self._candidates(), size, write_quorum)

    def replacements(self, ensemble: tuple[str, ...], slots: Set[int], avoid: Set[str], write_quorum: int) -> dict[int, str]:
        return self._placement.replacements(self._candidates(), ensemble, slots, avoid, write_quorum)

    def _candidates(self) -> list[Candidate]:
        suspects = self.suspects()
        return [
            Candidate(address.bookie, self._rack(address), self._free_bytes.get(address.bookie), address.bookie in suspects)
            for address in self.registered()
            if not address.read_only and address.problem is None
        ]

    def _rack(self, address: BookieAddress) -> str:
        return self.config.racks.get(address.bookie, address.rack)

    # --- inside
    # --------------------------------------------------------------------------------------------------------------------

    def _peer(self, bookie: str, kind: type[BookieConnection] = BookieConnection) -> _Peer:
        peer = self._peers.get((bookie, kind))
        if peer is None:
            peer = self._peers[bookie, kind] = _Peer(self, bookie, kind)
        return peer

    async def _list(self) -> None:
        addresses = await self._store.bookies()
        for address in addresses:
            before = self._known.get(address.bookie)
            if address.problem and (before is None or before.problem != address.problem):
                logger.warning("bookie %s is not used for new ledgers: %s", address.bookie, address.problem)
        self._registered = {address.bookie: address for address in addresses}
        self._known.update(self._registered)
        for changed in list(self.changed):
            changed()

    async def _follow(self) -> None:
        loop = asyncio.get_running_loop()
        measure_at_s = loop.time()
        while True:
            if loop.time() >= measure_at_s:
                self._measure()
                measure_at_s = loop.time() + self.config.free_space_interval_s
            try:
                async with asyncio.timeout_at(measure_at_s):
                    await self._stale.wait()
            except TimeoutError:
                continue
            self._stale.clear()
            try:
                await self._list()
            except BookkeeperError as error:
                logger.warning("the list of bookies could not be read: %s", error)
                self._stale.set()
                await asyncio.sleep(self.config.reconnect_pause_s)

    async def _ask_failed(self) -> None:
        """Writers that go on without a bookie learn that it is back, or that there is another one."""
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(self.config.ask_failed_s)
            for bookie in self.suspects() & self._registered.keys():
                failure = self._failures[bookie]
                if loop.time() >= failure.at_s + failure.ask_after_s:
                    answered = self._answers_again(failure)
                    self._peer(bookie).call(lambda peer, answered=answered: peer.disk_space(answered), answered, 0)  # type: ignore[misc]

    def _answers_again(self, failure: _Failure) -> Callable[[Answer], None]:
        def take(answer: Answer) -> None:
            if answer.status is Status.OK:
                failure.answers = True
                for changed in list(self.changed):
                    changed()

        return take

    def _measure(self) -> None:
        for bookie in [address.bookie for address in self.registered() if address.problem is None]:
            measured = self._measured(bookie)
            self._peer(bookie).call(lambda peer, measured=measured: peer.disk_space(measured), measured, 0)  # type: ignore[misc]

    def _measured(self, bookie: str) -> Callable[[Answer], None]:
        def take(answer: Answer) -> None:
            if answer.status is Status.OK and answer.disk is not None:
                self._free_bytes[bookie] = answer.disk[1]

        return take
