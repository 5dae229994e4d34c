"""The simulated world: a broker and its lives, its disk, its clients, and what survives a crash."""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import count
from random import Random
from typing import TypeVar

from messaging.broker.runtime.topics.backlog.reader import READ_RETRY_S
from messaging.settings import Settings
from messaging.storage.local.read.rebuilt_footers import DOUBT_S
from tests.simulation.checker import Checker, Violated
from tests.simulation.consumer import ConsumerClient
from tests.simulation.life import Life
from tests.simulation.network import Link
from tests.simulation.non_persistent import NonPersistentClients
from tests.simulation.producer import ProducerClient
from tests.simulation.sockets import Json, Socket
from tests.simulation.virtual_time import EPOCH_S, VirtualClock
from tests.simulation.web_socket_clients import WebSocketClients
from tests.support.clients.raw_client import Received
from tests.support.storage.fake_disk import FakeDisk
from tests.support.storage.memory_ledgers import MemoryMetaStore

START_S = 30.0
CRASHES_IN_RECOVERY = 0.2  # of all recoveries
STARTS_WITHOUT_METADATA = 0.15  # of all starts
STARTING_CALLS = 8  # of the metadata store: one of the first so many fails, and all that follow
READS_SETTLE_S = DOUBT_S + 2 * READ_RETRY_S
RECOVERY_OPERATIONS = 40  # before one of the first so many
LINES_KEPT = 200
DISK_BYTES = 64 << 20
TICK_MS = 1_000  # without strict delivery a delayed message may come so much before its time


class Trace:
    """What happened, line by line: a hash of all, and the last lines."""

    def __init__(self, clock: VirtualClock) -> None:
        self.lines: deque[str] = deque(maxlen=LINES_KEPT)
        self._clock = clock
        self._hash = hashlib.sha256()

    def note(self, line: str) -> None:
        line = f"{self._clock.now_s:.6f} {line}"
        self.lines.append(line)
        self._hash.update(line.encode() + b"\n")

    @property
    def hash(self) -> str:
        return self._hash.hexdigest()


T = TypeVar("T")
Invariant = Callable[["Simulation"], Iterator[str]]  # what is wrong, if anything is


class Simulation:
    """`random` decides what happens. `always`: what must hold whenever the loop has run."""

    def __init__(self, seed: int, settings: Settings, always: Iterable[Invariant]) -> None:
        self.random = Random(f"what happens in {seed}")
        self.clock = VirtualClock()
        self.trace = Trace(self.clock)
        self.disk = FakeDisk(DISK_BYTES)
        self.topics = [f"persistent://public/default/t{number}" for number in range(2)]
        self.strict = self.random.random() < 0.5
        early_ms = 0 if self.strict else TICK_MS
        self.checker = Checker(lambda data: self.disk.holds(data), self.note, self._clients_ms, early_ms)
        self.producers: list[ProducerClient] = []
        self.consumers: list[ConsumerClient] = []
        self.non_persistent: NonPersistentClients | None = None  # until they have come
        self.web_sockets: WebSocketClients | None = None
        self.deduplicates = self.random.random() < 0.5
        self.violation = ""
        self.full = False
        self.reads_fail = False
        self.reads_good_from_s = 0.0  # when what could not be read has been read again
        self.life: Life
        self._always = always
        self._settings = settings
        self._meta = MemoryMetaStore()
        self._timers: dict[int, tuple[float, Callable[[], None]]] = {}
        self._timer_ids = count()
        self._links: list[Link | Socket] = []
        self._left_behind: FakeDisk | None = None

    # --- what clients ask for

    def note(self, line: str) -> None:
        self.trace.note(line)

    def _clients_ms(self) -> int:
        return int((EPOCH_S + self.clock.now_s) * 1000)

    def due_ms(self) -> int:
        """What is due before is not held back: a clock that is behind delays, one that is ahead does not hurry."""
        return self._clients_ms() + min(0, int(self.clock.wall_off_s * 1000))

    def later(self, seconds: float, act: Callable[[], None]) -> None:
        """Happens whether or not the broker of now lives then."""
        number = next(self._timer_ids)
        self._timers[number] = (self.clock.now_s + seconds, act)
        self._set(number)

    def _set(self, number: int) -> None:
        if not self.life.dead:
            self.life.loop.call_at(self._timers[number][0], self._fire, number)

    def _fire(self, number: int) -> None:
        self._timers.pop(number)[1]()

    def link(
        self, written: Callable[[Received], None], received: Callable[[Received], None], lost: Callable[[], None]
    ) -> Link | None:
        if self.life.dead or not self.life.serving:
            return None
        made = Link(self.life.loop, self.random, self._judged(written), received, lost)
        made.connect(self.life.connection())
        self._links = [link for link in self._links if link.open] + [made]
        return made

    def socket(
        self,
        path: str,
        query: str,
        opened: Callable[[], None],
        written: Callable[[Json], None],
        received: Callable[[Json], None],
        lost: Callable[[], None],
    ) -> Socket | None:
        if self.life.dead or not self.life.serving:
            return None
        context, told = self.life.websockets, self._judged(written)
        made = Socket(self.life.loop, self.random, context, path, query, opened=opened, written=told, received=received, lost=lost)
        self._links = [link for link in self._links if link.open] + [made]
        return made

    def _judged(self, written: Callable[[T], None]) -> Callable[[T], None]:
        """A violation is kept: the broker, which calls this, is not to see it."""

        def judge(subject: T) -> None:
            try:
                written(subject)
            except Exception as error:
                self.violation = self.violation or (str(error) if isinstance(error, Violated) else f"{subject}: {error!r}"[:500])
                self.life.loop.stop()

        return judge

    # --- lives

    def begin_life(self) -> None:
        """Until the broker serves. One that comes after a crash may meet the next one while it recovers."""
        self.clock.wall_off_s = 0.0  # whoever starts has no other clock to compare it with
        self.life = Life(
            self._settings, self.clock, self.random, self.disk, self._meta, deduplicates=self.deduplicates, strict=self.strict
        )
        self.life.died = self._died
        self.life.on_unloaded = self._unloaded
        self.life.reads_fail = lambda: self.reads_fail
        if self._left_behind is not None and self.random.random() < CRASHES_IN_RECOVERY:
            self.life.crash_at = self.random.randint(1, RECOVERY_OPERATIONS)
        elif self.random.random() < STARTS_WITHOUT_METADATA:
            self.life.metadata_fails_from = self.random.randint(1, STARTING_CALLS)
        for number in self._timers:
            self._set(number)
        until = self.clock.now_s + START_S
        while not self.life.serving and not self.life.dead:
            self.life.loop.run_for(0.01)
            if self.life.refusal is not None and self.life.metadata_failed:
                self._start_again()
                return
            if self.life.refusal is not None:
                raise Violated(f"the broker does not start: {self.life.refusal!r}")
            if self.clock.now_s > until:
                raise Violated(f"the broker did not come up within {START_S} s")
        if self.life.dead:
            self._begin_again()

    def _start_again(self) -> None:
        """The broker did not start without its metadata, which is there again."""
        self.note(f"no start: {self.life.refusal!r}")
        self.checker.count("refused starts")
        self.disk = self.disk.frozen()
        self.life.bury()
        self.begin_life()

    def _unloaded(self, topic: str) -> None:
        if self.web_sockets is not None:
            self.web_sockets.topic_unloaded(topic)

    def _died(self) -> None:
        self._left_behind = self.disk.frozen()
        self.note(f"crash before operation {self.life.operations}")
        for link in self._links:
            link.cut(arrives=self.random.random() < 0.5)
        self._links.clear()

    def _begin_again(self) -> None:
        assert self._left_behind is not None
        power_lost = self.random.random() < 0.5
        self.disk = self._left_behind.power_loss(self.random) if power_lost else self._left_behind
        self.disk.capacity_bytes, self.full = DISK_BYTES, False
        self.life.bury()
        self.note("the power was lost" if power_lost else "the process was killed")
        self.checker.count("power losses" if power_lost else "kills")
        self.begin_life()

    def stop(self) -> None:
        """The broker is told to stop, and does."""
        self.life.loop.run_until_complete(self.life.service.stop())

    def abandon(self) -> None:
        """The end of the run, whatever its state."""
        self.life.died = lambda: None
        self.life.bury()

    # --- the disk

    def fill_disk(self) -> None:
        self.disk.capacity_bytes -= self.disk.free()
        self.full = True

    def free_disk(self) -> None:
        self.disk.capacity_bytes, self.full = DISK_BYTES, False

    def fail_reads(self, seconds: float) -> None:
        """Of what is stored, until then; recovery is spared, since what it cannot read it has to give up."""
        self.reads_fail = True
        self.reads_good_from_s = self.clock.now_s + seconds + READS_SETTLE_S
        self.later(seconds, self.mend_reads)

    def mend_reads(self) -> None:
        self.reads_fail = False

    # --- letting time pass

    def run_for(self, seconds: float) -> None:
        if not self.violation:
            self.life.loop.run_for(seconds)
        if not self.violation:
            self.require(self._always)
        if self.violation:
            raise Violated(self.violation)
        if self.life.dead:
            self._begin_again()

    def require(self, what: Iterable[Invariant]) -> None:
        for invariant in what:
            for wrong in invariant(self):
                raise Violated(wrong)
