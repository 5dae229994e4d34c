"""Processes of a simulation: each drives one machine of the client, with a network that delays, loses and reorders."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from messaging.bookkeeper.core.actions import Arrived, Confirmed, Failed, Finished, SendAdd, SendRead, WriteMetadata
from messaging.bookkeeper.core.entry_read import EntryRead
from messaging.bookkeeper.core.ledger_metadata import LedgerMetadata
from messaging.bookkeeper.core.packets import Status
from messaging.bookkeeper.core.recovery import Recovery
from messaging.bookkeeper.core.writer import Writer, WriterState
from messaging.bookkeeper.errors import BookkeeperError, Fenced, NotEnoughBookies
from tests.simulation.checker import Violated

if TYPE_CHECKING:
    from tests.simulation.bookkeeper.run import World

TIMEOUT_MS = 5000
DAMAGED = 0.002  # answers of reads with a changed bit
LOST_ANSWER = 0.1  # of metadata
PENDING_MAX = 100


class Process:
    """`stopped_until_ms`: nothing reaches it before, then everything does in its order."""

    def __init__(self, world: World, number: int) -> None:
        self.world = world
        self.number = number
        self.alive = True
        self.stopped_until_ms = 0.0

    def _deliver(self, event: Callable[[], None]) -> None:
        if not self.alive:
            return
        if self.world.now_ms < self.stopped_until_ms:
            self.world.after(self.stopped_until_ms - self.world.now_ms, lambda: self._deliver(event))
        else:
            event()

    def _request(
        self, bookie_name: str, serve: Callable[[Callable[[Status, bytes], None]], None], answered: Callable[[Status, bytes], None]
    ) -> None:
        """`serve` is called at the bookie, with what sends its answer. `answered` is called once, by the answer or instead of
        it.
        """
        world = self.world
        bookie = world.bookies[bookie_name]
        done = False

        def once(status: Status, body: bytes = b"") -> None:
            nonlocal done
            if not done:
                done = True
                answered(status, body)

        def arrive() -> None:
            if (self.number, bookie_name) in world.cuts or not bookie.up:
                if world.random.random() < 0.5:
                    world.after(world.delay_ms(), lambda: self._deliver(lambda: once(Status.CONNECTION_LOST)))
                return
            if bookie.paused:
                life = bookie.life
                world.after(200, lambda: arrive() if bookie.life == life else None)
                return
            life = bookie.life

            def reply(status: Status, body: bytes) -> None:
                if bookie.life == life and (self.number, bookie_name) not in world.cuts:
                    world.after(world.delay_ms(), lambda: self._deliver(lambda: once(status, body)))

            serve(reply)

        world.after(TIMEOUT_MS, lambda: self._deliver(lambda: once(Status.TIMED_OUT)))
        world.after(world.delay_ms(), arrive)

    def _send_add(self, action: SendAdd, recovery: bool, answered: Callable[[Status, bytes], None]) -> None:
        bookie = self.world.bookies[action.bookie]

        def serve(reply: Callable[[Status, bytes], None]) -> None:
            status = bookie.add(action.entry_id, b"".join(action.body), self.world.digest.master_key, recovery)
            if status is not Status.OK:
                reply(status, b"")
                return
            life = bookie.life

            def sync() -> None:
                if bookie.life == life:
                    bookie.sync(action.entry_id)
                    reply(Status.OK, b"")

            self.world.after(self.world.random.expovariate(1 / 2), sync)

        self._request(action.bookie, serve, answered)

    def _send_read(self, action: SendRead, fence: bool, answered: Callable[[Status, bytes], None]) -> None:
        bookie = self.world.bookies[action.bookie]

        def serve(reply: Callable[[Status, bytes], None]) -> None:
            status, body = bookie.read(action.entry_id, self.world.digest.master_key if fence else None)
            if body and self.world.troubled and self.world.random.random() < DAMAGED:
                body = body[:-1] + bytes([body[-1] ^ 1])
            reply(status, body)

        self._request(action.bookie, serve, answered)

    def _write_metadata(self, action: WriteMetadata, machine: Writer | Recovery, take: Callable[[Iterable[object]], None]) -> None:
        world = self.world

        def read_again() -> None:
            stored = world.metadata.stored
            world.after(world.delay_ms(), lambda: self._deliver(lambda: take(machine.metadata_present(stored))))

        def store() -> None:
            if world.troubled and world.random.random() < LOST_ANSWER:
                if world.random.random() < 0.5:
                    world.metadata.write(action.metadata)
                world.counts["unknown outcome"] += 1
                world.after(world.delay_ms(), read_again)
                return
            written = world.metadata.write(action.metadata)
            if written is None:
                world.counts["conflict"] += 1
                world.after(world.delay_ms(), read_again)
            else:
                world.after(world.delay_ms(), lambda: self._deliver(lambda: take(machine.metadata_written(written))))
                world.writer.notice(written)

        world.after(world.delay_ms(), store)


class Writing(Process):
    def __init__(self, world: World, number: int) -> None:
        super().__init__(world, number)
        self.machine = Writer(world.metadata.stored, world.digest, world.choose)

    def append(self) -> bool:
        """Whether it goes on."""
        world = self.world
        if self.machine.state is not WriterState.OPEN:
            return False
        if self.machine.pending_entries < PENDING_MAX and world.now_ms >= self.stopped_until_ms:
            payload = bytes(world.random.randrange(256) for _ in range(world.random.choice((0, 1, 5))))
            entry_id, actions = self.machine.append(payload)
            world.payloads[entry_id] = payload
            self._take(actions)
        if self.machine.degraded and world.random.random() < 0.1:
            self._take(self.machine.bookies_changed())
        return True

    def close(self) -> bool:
        if self.machine.state is not WriterState.OPEN or self.world.now_ms < self.stopped_until_ms:
            return False
        self._take(self.machine.close())
        return True

    def notice(self, metadata: LedgerMetadata) -> None:
        """What a watch of the ledger's metadata tells, at times."""
        if self.world.random.random() < self.world.watched:
            self.world.after(
                self.world.delay_ms() * 10, lambda: self._deliver(lambda: self._take(self.machine.metadata_present(metadata)))
            )

    def _take(self, actions: Iterable[object]) -> None:
        world, machine = self.world, self.machine
        for action in actions:
            if isinstance(action, SendAdd):
                self._send_add(action, False, self._added(action))
            elif isinstance(action, WriteMetadata):
                world.say(f"writer writes {action.metadata.state.name} {action.metadata.segments[-2:]} at {machine.last_confirmed}")
                self._write_metadata(action, machine, self._take)
            elif isinstance(action, Confirmed):
                world.counts["confirmed"] += 1
                world.check_confirmed(action.entry_id)
            elif isinstance(action, Finished):
                world.say(f"writer closed at {action.metadata.last_entry_id}")
                world.counts["closed by the writer"] += 1
                world.check_closed(action.metadata)
                if action.metadata.last_entry_id != machine.last_confirmed:
                    raise Violated(f"closed at {action.metadata.last_entry_id}, confirmed up to {machine.last_confirmed}")
            elif isinstance(action, Failed):
                world.say(f"writer fails: {action.error}")
                world.counts[type(action.error).__name__] += 1
                if machine.state is WriterState.FAILED and not isinstance(action.error, Fenced | NotEnoughBookies):
                    raise Violated(f"a writer failed with {action.error!r}")

    def _added(self, action: SendAdd) -> Callable[[Status, bytes], None]:
        slot, bookie, entry_id, attempt = action.slot, action.bookie, action.entry_id, action.attempt
        return lambda status, _body: self._take(self.machine.added(slot, bookie, entry_id, status, attempt))


class Recovering(Process):
    def __init__(self, world: World, number: int) -> None:
        super().__init__(world, number)
        self.machine = Recovery(world.metadata.stored, world.digest, world.choose, read_ahead=world.random.choice((1, 4, 16)))

    def start(self) -> None:
        self._take(self.machine.start())

    def _take(self, actions: Iterable[object]) -> None:
        world, machine = self.world, self.machine
        for action in actions:
            generation = machine.generation
            if isinstance(action, SendAdd):
                self._send_add(action, True, self._added(generation, action))
            elif isinstance(action, SendRead):
                self._send_read(action, True, self._answered(generation, action))
            elif isinstance(action, WriteMetadata):
                world.say(f"recovery {self.number} writes {action.metadata.state.name} at {action.metadata.last_entry_id}")
                self._write_metadata(action, machine, self._take)
            elif isinstance(action, Finished):
                world.say(f"recovery {self.number} is done: closed at {action.metadata.last_entry_id}")
                world.counts["recovered"] += 1
                self.alive = False
                world.check_closed(action.metadata)
            elif isinstance(action, Failed):
                world.say(f"recovery {self.number} fails: {action.error}")
                world.counts["recovery failed"] += 1
                self.alive = False
                if not action.error.retryable:
                    raise Violated(f"a recovery failed with {action.error!r}")

    def _added(self, generation: int, action: SendAdd) -> Callable[[Status, bytes], None]:
        return lambda status, _body: self._take(self.machine.added(generation, action.slot, action.bookie, action.entry_id, status))

    def _answered(self, generation: int, action: SendRead) -> Callable[[Status, bytes], None]:
        machine = self.machine
        return lambda status, body: self._take(
            machine.answered(generation, action.slot, action.bookie, action.entry_id, status, body)
        )


class Reading(Process):
    """Reads one entry that the writer confirmed, or that is in the closed ledger."""

    def __init__(self, world: World, number: int, entry_id: int) -> None:
        super().__init__(world, number)
        self.entry_id = entry_id
        self.arrived = False
        self.error: BookkeeperError | None = None
        self.machine = EntryRead(world.metadata.stored, world.digest, entry_id)

    def start(self) -> None:
        self._take(self.machine.start())
        self.world.after(500, lambda: self._deliver(lambda: self._take(self.machine.slow())))

    def _take(self, actions: Iterable[object]) -> None:
        for action in actions:
            if isinstance(action, SendRead):
                self._send_read(action, False, self._answered(action))
            elif isinstance(action, Arrived):
                self.alive, self.arrived = False, True
                self.world.counts["read back"] += 1
                if action.entry.payload != self.world.payloads[self.entry_id]:
                    raise Violated(
                        f"entry {self.entry_id} was written as {self.world.payloads[self.entry_id]!r}, read as {action.entry}"
                    )
            elif isinstance(action, Failed):
                self.alive, self.error = False, action.error
                self.world.counts["read failed"] += 1

    def _answered(self, action: SendRead) -> Callable[[Status, bytes], None]:
        return lambda status, body: self._take(self.machine.answered(action.slot, action.bookie, status, body))
