"""One run: ledgers one after the other, each with a writer, recoveries, readers, and everything that can go wrong, from a seed.

cluster.py   bookies and metadata          clients.py   a process that writes, recovers or reads

What always holds (I1 to I5 of docs/bookkeeper.md): an entry is confirmed when an ack quorum of the ensemble that the metadata
names stored it, and all before it are; what was confirmed is in the ledger after any recovery; a closed ledger does not change;
what is read is what was written; once a recovery is done no writer confirms anything more.
"""

from __future__ import annotations

import heapq
from collections import Counter, deque
from collections.abc import Callable, Set
from dataclasses import dataclass, field
from random import Random
from traceback import format_exception

from messaging.bookkeeper.core.entries import Digest, DigestType
from messaging.bookkeeper.core.ledger_metadata import LedgerMetadata, Segment
from messaging.bookkeeper.core.placement import Candidate, Placement
from tests.simulation.bookkeeper.clients import Reading, Recovering, Writing
from tests.simulation.bookkeeper.cluster import Bookie, Metadata
from tests.simulation.checker import Violated

QUORUMS = ((3, 3, 2), (3, 3, 2), (3, 2, 2), (4, 3, 2), (5, 3, 3), (3, 3, 1), (2, 2, 2), (1, 1, 1), (5, 4, 2))
DAY_MS = 20_000  # how long a ledger is troubled
LINES = 80
QUIET_STEPS = 50_000


@dataclass
class World:
    """One ledger and its cluster. `step` counts what happened; time is virtual and in ms."""

    random: Random
    counts: Counter[str]
    now_ms: float = 0
    step: int = 0
    events: list[tuple[float, int, Callable[[], None]]] = field(default_factory=list)
    lines: deque[str] = field(default_factory=lambda: deque(maxlen=LINES))
    troubled: bool = True
    cuts: set[tuple[int, str]] = field(default_factory=set)
    sequence: int = 0

    def __post_init__(self) -> None:
        random = self.random
        size, write_quorum, ack_quorum = random.choice(QUORUMS)
        self.bookies = {f"b{number}": Bookie(f"b{number}") for number in range(size + random.randint(0, 5))}
        self.placement = Placement(random.random)
        ensemble = self.placement.ensemble(self.candidates(), size, write_quorum)
        metadata = LedgerMetadata(7, size, write_quorum, ack_quorum, (Segment(0, ensemble),))
        self.ack_quorum = ack_quorum
        self.metadata = Metadata(metadata)
        self.digest = Digest(DigestType.CRC32C, b"")
        self.wipes_left = ack_quorum - 1  # more of them lose entries, whatever a client does
        self.payloads: dict[int, bytes] = {}
        self.confirmed = -1
        # Each life has a character of its own: some faults come often and others never, so that they meet in many ways.
        self.weights = {name: weight * random.choice((0, 1, 1, 5)) for name, weight in WEIGHTS.items()}
        self.weights["start"] = self.weights["start"] or 4
        self.weights["recover"] = self.weights["recover"] or 0.3
        self.pause_ms = random.choice((15, 60, 200))
        self.append_ms = random.choice((1, 5, 20))
        self.slow = random.choice((0.01, 0.1, 0.3))
        self.slowest_ms = random.choice((100, 1000, 7000))
        self.watched = random.choice((0.0, 0.0, 0.3))
        self.writer = Writing(self, 0)
        self.processes: list[Writing | Recovering | Reading] = [self.writer]
        self.next_process = 1

    # --- time ---------------------------------------------------------------------------------------------------------------------

    def after(self, delay_ms: float, action: Callable[[], None]) -> None:
        self.sequence += 1
        heapq.heappush(self.events, (self.now_ms + delay_ms, self.sequence, action))

    def delay_ms(self) -> float:
        slow = self.troubled and self.random.random() < self.slow
        return self.random.uniform(10, self.slowest_ms) if slow else self.random.expovariate(1 / 3)

    def say(self, line: str) -> None:
        self.lines.append(f"{self.now_ms:9.1f} {line}")

    def run(self, steps_max: int) -> None:
        while self.events and self.step < steps_max:
            self.now_ms, _, action = heapq.heappop(self.events)
            self.step += 1
            action()

    # --- the cluster ------------------------------------------------------------------------------------------------------------

    def candidates(self) -> list[Candidate]:
        return [
            Candidate(bookie.name, f"/rack-{index % 2}")
            for index, bookie in enumerate(self.bookies.values())
            if not bookie.read_only
        ]

    def choose(self, ensemble: tuple[str, ...], slots: Set[int], avoid: Set[str]) -> dict[int, str]:
        avoid = {bookie for bookie in sorted(avoid) if self.random.random() < 0.7}  # the others answer again
        return self.placement.replacements(self.candidates(), ensemble, slots, avoid, self.metadata.stored.write_quorum)

    def check_confirmed(self, entry_id: int) -> None:
        stored = self.metadata.stored
        ensemble = stored.segment_of(entry_id).ensemble
        copies = [ensemble[slot] for slot in stored.write_set(entry_id) if entry_id in self.bookies[ensemble[slot]].ever_stored]
        if len(copies) < self.ack_quorum:
            raise Violated(f"entry {entry_id} was confirmed with copies on {copies} of {stored.segments}")
        if stored.is_closed and stored.last_entry_id < entry_id:
            raise Violated(f"entry {entry_id} was confirmed after the ledger was closed at {stored.last_entry_id}")
        self.confirmed = max(self.confirmed, entry_id)

    def check_closed(self, metadata: LedgerMetadata) -> None:
        if not metadata.same_content(self.metadata.stored):
            raise Violated(f"somebody was told {metadata}, and {self.metadata.stored} is stored")
        if metadata.last_entry_id < self.confirmed:
            raise Violated(f"entry {self.confirmed} was confirmed, and the ledger was closed at {metadata.last_entry_id}")
        length = sum(len(self.payloads[entry_id]) for entry_id in range(metadata.last_entry_id + 1))
        if metadata.length != length:
            raise Violated(f"the ledger was closed with the length {metadata.length}; its payloads have {length}")

    # --- faults -----------------------------------------------------------------------------------------------------------------

    def trouble(self) -> None:
        if not self.troubled:
            return
        self.after(self.random.expovariate(1 / self.pause_ms), self.trouble)
        bookie = self.random.choice(list(self.bookies.values()))
        name = self.random.choices(list(self.weights), list(self.weights.values()))[0]
        described = WHAT[name](self, bookie)
        if described:
            self.counts[name] += 1
            self.say(described)

    def crash(self, bookie: Bookie) -> str:
        if not bookie.up:
            return ""
        bookie.crash()
        return f"{bookie.name} crashes"

    def start(self, bookie: Bookie) -> str:
        if bookie.up:
            return ""
        bookie.up = True
        return f"{bookie.name} starts"

    def empty(self, bookie: Bookie) -> str:
        if bookie.up or not self.wipes_left:
            return ""
        self.wipes_left -= 1
        bookie.empty()
        return f"{bookie.name} loses its disks"

    def pause(self, bookie: Bookie) -> str:
        bookie.paused = not bookie.paused and bookie.up
        return f"{bookie.name} {'is stopped' if bookie.paused else 'goes on'}"

    def fill(self, bookie: Bookie) -> str:
        bookie.read_only = not bookie.read_only
        return f"{bookie.name} {'is full' if bookie.read_only else 'has space'}"

    def cut(self, bookie: Bookie) -> str:
        process = self.random.choice(self.processes)
        self.cuts ^= {(process.number, bookie.name)}
        return (
            f"process {process.number} is {'cut off from' if (process.number, bookie.name) in self.cuts else 'with'} {bookie.name}"
        )

    def recover(self, _bookie: Bookie | None = None) -> str:
        if sum(isinstance(process, Recovering) and process.alive for process in self.processes) > 1:
            return ""
        return self._spawn(Recovering(self, self.next_process), "recovers")

    def read(self, _bookie: Bookie) -> str:
        if self.confirmed < 0:
            return ""
        return self._spawn(Reading(self, self.next_process, self.random.randint(0, self.confirmed)), "reads")

    def _spawn(self, process: Recovering | Reading, what: str) -> str:
        self.next_process += 1
        self.processes = [*(process for process in self.processes if process.alive or process is self.writer), process]
        process.start()
        return f"process {process.number} {what}"

    def kill_recovery(self, _bookie: Bookie) -> str:
        for process in self.processes:
            if isinstance(process, Recovering) and process.alive:
                process.alive = False
                return f"process {process.number} is killed"
        return ""

    def stop_process(self, _bookie: Bookie) -> str:
        process = self.random.choice(self.processes)
        process.stopped_until_ms = self.now_ms + self.random.uniform(100, 8000)
        return f"process {process.number} is stopped until {process.stopped_until_ms:.0f}"

    def close(self, _bookie: Bookie) -> str:
        return "the writer closes" if self.writer.close() else ""

    def write_on(self) -> None:
        if self.troubled and self.writer.append():
            self.after(self.random.expovariate(1 / self.append_ms), self.write_on)

    # --- a whole life -----------------------------------------------------------------------------------------------------------

    def live(self) -> None:
        self.after(0, self.write_on)
        self.after(self.random.uniform(10, 2000), self.trouble)
        self.after(DAY_MS * self.random.random() ** 2, self._heal)
        self.run(QUIET_STEPS)
        attempts = 0
        while not self.metadata.stored.is_closed or any(process.alive for process in self.processes if process is not self.writer):
            attempts += 1
            if attempts > 20:
                raise Violated(f"without any fault the ledger cannot be recovered: {self.metadata.stored}")
            self.recover()
            self.run(self.step + QUIET_STEPS)
        self.check_closed(self.metadata.stored)
        self.counts["entries"] += self.metadata.stored.last_entry_id + 1
        self.counts["segments"] += len(self.metadata.stored.segments)
        for entry_id in range(self.metadata.stored.last_entry_id + 1):
            reading = Reading(self, self.next_process, entry_id)
            self._spawn(reading, f"reads {entry_id}")
            self.run(self.step + QUIET_STEPS)
            if not reading.arrived:
                raise Violated(f"entry {entry_id} of a closed ledger cannot be read: {reading.error}")

    def _heal(self) -> None:
        self.troubled = False
        self.cuts.clear()
        for bookie in self.bookies.values():
            bookie.up, bookie.paused, bookie.read_only = True, False, False
        for process in self.processes:
            process.stopped_until_ms = 0
        self.say("all is well again")


WEIGHTS = {
    "crash": 4,
    "start": 16,
    "empty": 2,
    "pause": 4,
    "fill": 2,
    "cut": 4,
    "recover": 1,
    "read": 6,
    "kill_recovery": 2,
    "stop_process": 2,
    "close": 0.2,
}
WHAT: dict[str, Callable[[World, Bookie], str]] = {name: getattr(World, name) for name in WEIGHTS}


@dataclass(frozen=True)
class Result:
    seed: int
    counts: Counter[str]
    steps: int
    violation: str = ""
    lines: tuple[str, ...] = ()

    @property
    def described(self) -> str:
        lines = "\n".join(self.lines)
        return (
            f"{lines}\nseed {self.seed}: {self.violation}\nSee it again: python -m tests.simulation.bookkeeper --seed {self.seed}"
        )


def simulate(seed: int) -> Result:
    """The life of one ledger."""
    counts: Counter[str] = Counter()
    world = World(Random(seed), counts)
    try:
        world.live()
    except (Violated, AssertionError, KeyError, IndexError, ValueError) as error:
        return Result(seed, counts, world.step, "".join(format_exception(error)), tuple(world.lines))
    return Result(seed, counts, world.step, lines=tuple(world.lines))
