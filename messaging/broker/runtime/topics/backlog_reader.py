"""What was read from one topic's log for the subscriptions that are behind its cached tail. Exists only while there is something.

A *read* is about a MiB of consecutive blocks. Subscriptions at about the same place share it, whether it is there or still under
way. While a subscription is sent one read the next two are fetched, both at a time where the log can tell where each ends, so that
neither the disk waits for a single consumer nor the consumer for the disk.
"""

from __future__ import annotations

import asyncio
from typing import Protocol

import structlog

from messaging.broker.core.entries import EntryBlock
from messaging.broker.core.subscription import Subscription
from messaging.broker.runtime.topics.backlog_read import BacklogRead, memory_bytes
from messaging.broker.runtime.topics.backlog_scheduler import BacklogDispatcher
from messaging.broker.runtime.topics.entry_cache import EntryCache
from messaging.broker.runtime.topics.topic_context import TopicContext
from messaging.storage.ledger_store import Block, Corrupt, Position

log = structlog.get_logger("broker.dispatcher")

FIRST_READ_BYTES = 256 << 10  # where a subscription begins, or entries are sent again: perhaps only a few are wanted
READ_BYTES = 1 << 20  # where it goes on from one read to the next
READ_ENTRIES = 4096
READ_RETRY_S = 1.0
AHEAD_READS = 2  # of one subscription, beside the one that it is sent


class BacklogOwner(BacklogDispatcher, Protocol):
    """The dispatcher as its backlog reader sees it."""

    topic: TopicContext
    cache: EntryCache
    backlog: BacklogReader | None

    def dispatch(self, subscription: Subscription) -> None: ...


class ReadAhead:
    """What one subscription needs: the read it is in, those after it, and one with entries that it is sent again. `idle`: it
    could take nothing at the last sweep."""

    __slots__ = ("again", "ahead", "current", "idle")

    def __init__(self) -> None:
        self.current: BacklogRead | None = None
        self.ahead: list[BacklogRead] = []
        self.again: BacklogRead | None = None
        self.idle = False

    @property
    def reads(self) -> list[BacklogRead]:
        return [read for read in (self.current, self.again, *self.ahead) if read is not None]


class BacklogReader:
    def __init__(self, dispatcher: BacklogOwner) -> None:
        self.dispatcher = dispatcher
        self.tenant = dispatcher.topic.name.tenant
        self.backlog_scheduler = dispatcher.topic.services.backlog_scheduler
        self.reads: list[BacklogRead] = []
        self.readers: dict[Subscription, ReadAhead] = {}
        self._bytes_an_entry = READ_BYTES  # of late
        self.backlog_scheduler.readers[self] = None

    def near_cache(self) -> bool:
        """Whether somebody here may reach the cached tail soon."""
        return any(read.to_end for reader in self.readers.values() for read in reader.reads)

    def reads_of(self, subscription: Subscription) -> int:
        """Reads that are asked for or under way for it."""
        return sum(subscription in read.users and not read.there for read in self.reads)

    # --- finding

    def find(self, subscription: Subscription, position: Position, *, again: bool) -> EntryBlock | None:
        """The block that holds `position`; None while it is being read: `subscription` is served when it is there. `again`: it is
        one of single entries, and not the place up to which the subscription has read."""
        reader = self.readers.get(subscription)
        if reader is None:
            reader = self.readers[subscription] = ReadAhead()
        reader.idle = False
        read = reader.again if again else reader.current
        if read is None or not read.covers(position):
            read = self._again(subscription, reader, position) if again else self._go_on(subscription, reader, position)
        if not read.there:
            return None
        try:
            block = read.block_of(position)
        except ValueError as error:
            self._skip(subscription, Corrupt(str(error), position.ledger_id, position.entry_id))
            self.backlog_scheduler.schedule(self.dispatcher, subscription)
            return None
        if not again:
            self._read_ahead(subscription, reader)
        return block

    def held(self, position: Position) -> EntryBlock | None:
        """The block that holds `position`, if it was read for anybody and is still here."""
        for read in self.reads:
            if read.there and read.covers(position):
                try:
                    return read.block_of(position)
                except ValueError:
                    return None
        return None

    def _go_on(self, subscription: Subscription, reader: ReadAhead, position: Position) -> BacklogRead:
        """To a read ahead, to another's, or to a new one."""
        before, ahead = reader.current, reader.ahead
        at = next((index for index, read in enumerate(ahead) if read.covers(position)), len(ahead))
        reader.ahead = ahead[at + 1 :]
        if at < len(ahead):
            reader.current = ahead[at]
        else:
            reader.current = self._join(subscription, position, FIRST_READ_BYTES if before is None else READ_BYTES)
        self._leave(subscription, reader, before)
        for read in ahead[:at]:
            self._leave(subscription, reader, read)
        return reader.current

    def _again(self, subscription: Subscription, reader: ReadAhead, position: Position) -> BacklogRead:
        before, reader.again = reader.again, self._join(subscription, position, FIRST_READ_BYTES)
        self._leave(subscription, reader, before)
        return reader.again

    def _read_ahead(self, subscription: Subscription, reader: ReadAhead) -> None:
        """Asks for the next read, if it is known where that begins and there are not enough. One each time: who takes little has
        no more than one."""
        newest = reader.ahead[-1] if reader.ahead else reader.current
        if newest is None or not newest.stop_entry or len(reader.ahead) >= AHEAD_READS:
            return
        ledger_list = self.dispatcher.topic.ledger_list
        following = ledger_list.next_after(Position(newest.first.ledger_id, newest.stop_entry - 1))
        if ledger_list.holds(following) and self.dispatcher.cache.find(following) is None:
            reader.ahead.append(self._join(subscription, following, READ_BYTES))

    def _join(self, subscription: Subscription, position: Position, size: int) -> BacklogRead:
        for read in self.reads:
            if read.covers(position):
                self.backlog_scheduler.reads_joined += subscription not in read.users
                read.users[subscription] = None
                return read
        ledger = self.dispatcher.topic.ledger
        entries = ledger.forecast(position, entries_max=READ_ENTRIES, bytes_max=size)
        guess = 1 + size // (2 * self._bytes_an_entry)
        read = BacklogRead(position, size, entries or guess, position.entry_id + entries if entries else 0)
        read.users[subscription] = None
        self.reads.append(read)
        self.backlog_scheduler.ask(self, read)
        return read

    # --- reading

    def begin(self, read: BacklogRead) -> None:
        """Its turn has come."""
        entries = read.entries if read.stop_entry else READ_ENTRIES
        work = self.dispatcher.topic.ledger.read(read.first, entries_max=entries, bytes_max=read.size_bytes)
        read.task = asyncio.get_running_loop().create_task(work, name=f"catch up {self.dispatcher.topic.text}")
        read.task.add_done_callback(lambda task: self._ended(read, task))

    def _ended(self, read: BacklogRead, task: asyncio.Task[list[Block]]) -> None:
        read.task = None
        read.there = True
        error = None if task.cancelled() else task.exception()
        blocks = [] if error is not None or task.cancelled() else task.result()
        topic = self.dispatcher.topic
        # Few reads are under way at a time, over all topics: one whose end raised would be counted among them for ever.
        with topic.services.dispatching.guard(topic=topic.text, position=str(read.first)):
            if not read.users:
                self.backlog_scheduler.resized(self.tenant, read.size_bytes, 0)
            elif blocks:
                self._arrived(read, blocks)
            else:
                self._failed(read, error)
        self.backlog_scheduler.ended()

    def _arrived(self, read: BacklogRead, blocks: list[Block]) -> None:
        read.blocks += blocks
        ledger_list, last = self.dispatcher.topic.ledger_list, blocks[-1]
        read.stop_entry = last.last_entry + 1
        read.to_end = not ledger_list.holds(ledger_list.next_after(Position(last.ledger_id, last.last_entry)))
        data_bytes = sum(len(block.data) for block in blocks)
        entries = sum(len(block.end_offsets) for block in blocks)
        self._bytes_an_entry = max(1, data_bytes // entries)
        expected, read.size_bytes = read.size_bytes, memory_bytes(blocks)
        self.backlog_scheduler.resized(self.tenant, expected, read.size_bytes)
        for subscription in list(read.users):
            reader = self.readers.get(subscription)
            if reader is None:
                continue  # it had to give back its memory to what another asked for here
            if read not in reader.ahead:
                self.backlog_scheduler.schedule(self.dispatcher, subscription)
            elif subscription.can_dispatch():
                self._read_ahead(subscription, reader)

    def _failed(self, read: BacklogRead, error: BaseException | None) -> None:
        """Nothing came. Who waited for it goes on behind what cannot be read, or tries again later."""
        if not isinstance(error, Corrupt):
            log.error("read.failed", topic=self.dispatcher.topic.text, position=str(read.first), error=str(error or "nothing came"))
        for subscription in list(read.users):
            reader = self.readers[subscription]
            waits = read not in reader.ahead
            reader.ahead = [one for one in reader.ahead if one is not read]
            reader.current = None if reader.current is read else reader.current
            reader.again = None if reader.again is read else reader.again
            self._leave(subscription, reader, read)
            if not waits:
                continue
            if isinstance(error, Corrupt):
                self._skip(subscription, error)
                self.backlog_scheduler.schedule(self.dispatcher, subscription)
            else:
                asyncio.get_running_loop().call_later(READ_RETRY_S, self.dispatcher.dispatch, subscription)

    def _skip(self, subscription: Subscription, error: Corrupt) -> None:
        bad = Position(error.ledger_id, error.entry_id)
        self.dispatcher.topic.services.storage.damage["delivery"] += 1
        log.error(
            "entry.corrupt", topic=self.dispatcher.topic.text, ledger_id=bad.ledger_id, entry_id=bad.entry_id, error=str(error)
        )
        for delta in subscription.skip_lost(bad.ledger_id, error.resume_entry):
            self.dispatcher.topic.store(subscription, delta)

    # --- giving back

    def forget(self, subscription: Subscription) -> None:
        """It needs nothing of this any more."""
        reader = self.readers.pop(subscription, None)
        if reader is not None:
            reads = reader.reads
            reader.current = reader.again = None
            reader.ahead = []
            for read in reads:
                self._leave(subscription, reader, read)
        if not self.readers:
            self.backlog_scheduler.readers.pop(self, None)
            self.dispatcher.backlog = None

    def give_back(self) -> bool:
        """Memory is short: lets go of what was read for those who take nothing now. Whether there were any."""
        resting = [subscription for subscription in self.readers if not subscription.can_dispatch()]
        for subscription in resting:
            self.forget(subscription)
        return bool(resting)

    def sweep(self) -> None:
        """Who takes nothing keeps the read it is in, and the next time nothing."""
        for subscription, reader in list(self.readers.items()):
            if subscription.can_dispatch() and subscription.next_due() is not None:
                continue
            if reader.idle:
                self.forget(subscription)
                continue
            reader.idle = True
            ahead, reader.ahead = reader.ahead, []
            for read in ahead:
                self._leave(subscription, reader, read)

    def close(self) -> None:
        for subscription in list(self.readers):
            self.forget(subscription)

    def _leave(self, subscription: Subscription, reader: ReadAhead, read: BacklogRead | None) -> None:
        """`reader` no longer has `read` in the place where it had it."""
        if read is None or read in reader.reads or subscription not in read.users:
            return
        del read.users[subscription]
        if read.users:
            return
        self.reads.remove(read)
        if read.there:
            self.backlog_scheduler.resized(self.tenant, read.size_bytes, 0)
        elif read.task is not None:
            read.task.cancel()  # it gives back when it has ended
        else:
            self.backlog_scheduler.withdraw(self, read)
