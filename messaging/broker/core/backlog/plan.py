"""Decides which reads from storage the subscriptions of one topic need if the entry cache no longer has their entries. Pure: each
event returns the steps to take.

A *read* is a MiB or more of consecutive blocks, as the store says. Subscriptions at about the same place share it, whether it is
finished or in progress. While a subscription is sent one read, the next two are fetched, both at once if the log can predict where
each ends, so that neither the disk nor the consumer waits for the other.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from messaging.broker.core.backlog.read import BacklogRead, ReadState, memory_bytes
from messaging.broker.core.entries import EntryBlock, from_log
from messaging.broker.core.subscription import Subscription
from messaging.storage.ledger_store import READ_BYTES, Block, Position
from messaging.storage.managed.ledger_list import LedgerList

FIRST_READ_BYTES = 256 << 10  # where a subscription begins, or entries are sent again: perhaps only a few are wanted
AHEAD_READS = 2  # of one subscription, beside the one that it is sent


@dataclass(slots=True)
class Steps:
    start: list[BacklogRead] = field(default_factory=list)
    cancel: list[BacklogRead] = field(default_factory=list)  # nobody needs these any more: what they hold is given back
    dispatch: list[Subscription] = field(default_factory=list)  # what these waited for is there, or will not come
    joined: int = 0  # subscriptions that found what another's read had brought, or was bringing
    unreadable: str = ""  # why the block that was asked for is none of ours


class ReadAhead:
    """The reads of one subscription: the one it is sent from, those after it, and one for entries that are sent again."""

    __slots__ = ("again", "ahead", "current", "idle")

    def __init__(self) -> None:
        self.current: BacklogRead | None = None
        self.ahead: list[BacklogRead] = []
        self.again: BacklogRead | None = None
        self.idle = False  # at the last sweep it could take nothing

    @property
    def reads(self) -> list[BacklogRead]:
        return [read for read in (self.current, self.again, *self.ahead) if read is not None]


class BacklogPlan:
    """`cached` says whether an entry need not be read, `entries_of` what a block of the log holds. `read_bytes`: of one
    read where a subscription goes on from the one before."""

    def __init__(
        self,
        ledger_list: LedgerList,
        cached: Callable[[Position], bool],
        entries_of: Callable[[Block], EntryBlock] = from_log,
        read_bytes: int = READ_BYTES,
    ) -> None:
        self._entries_of = entries_of
        self._read_bytes = read_bytes
        self.reads: list[BacklogRead] = []
        self.subscriptions: dict[Subscription, ReadAhead] = {}
        self._ledger_list = ledger_list
        self._cached = cached
        self._bytes_per_entry = READ_BYTES  # of the last read

    # --- asking

    def near_cache(self) -> bool:
        """Whether a subscription may reach the cached entries soon."""
        return any(read.to_end for read_ahead in self.subscriptions.values() for read in read_ahead.reads)

    def pending_reads(self, subscription: Subscription) -> int:
        return sum(subscription in read.users and not read.done for read in self.reads)

    def reads_of(self, subscription: Subscription) -> tuple[int, int]:
        """How many of its reads wait for their turn, and how many are under way."""
        states = [read.state for read in self.reads if subscription in read.users]
        return states.count(ReadState.WAITING), states.count(ReadState.UNDER_WAY)

    def block_in_memory(self, position: Position) -> EntryBlock | None:
        """The block that holds `position`, if it was read for anybody and is still here."""
        for read in self.reads:
            if read.done and read.covers(position):
                try:
                    return read.block_of(position)
                except ValueError:
                    return None
        return None

    # --- events

    def find(self, subscription: Subscription, position: Position, *, sequential: bool) -> tuple[EntryBlock | None, Steps]:
        """`subscription` needs the block that holds `position`: it is returned if it is there. `sequential`: what follows will be
        needed next; else it is one of single entries, which do not move the place up to which the subscription has read."""
        steps = Steps()
        read_ahead = self.subscriptions.get(subscription)
        if read_ahead is None:
            read_ahead = self.subscriptions[subscription] = ReadAhead()
        read_ahead.idle = False
        read = read_ahead.current if sequential else read_ahead.again
        if read is None or not read.covers(position):
            read = (self._continue if sequential else self._again)(subscription, read_ahead, position, steps)
        if not read.done:
            return None, steps
        try:
            block = read.block_of(position)
        except ValueError as error:
            steps.unreadable = str(error)
            return None, steps
        if sequential:
            self._read_ahead(subscription, read_ahead, steps)
        return block, steps

    def arrived(self, read: BacklogRead, blocks: list[Block]) -> Steps:
        """A read that somebody needs has brought `blocks`, at least one."""
        steps, last = Steps(), blocks[-1]
        read.state = ReadState.DONE
        read.blocks += blocks
        read.stop_entry = last.last_entry + 1
        read.to_end = not self._ledger_list.may_deliver(self._ledger_list.next_after(Position(last.ledger_id, last.last_entry)))
        read.size_bytes = memory_bytes(blocks)
        data_bytes, entries = sum(len(block.data) for block in blocks), sum(block.count for block in blocks)
        self._bytes_per_entry = max(1, data_bytes // entries)
        for subscription in list(read.users):
            read_ahead = self.subscriptions[subscription]
            if read not in read_ahead.ahead:
                steps.dispatch.append(subscription)
            elif subscription.can_dispatch():
                self._read_ahead(subscription, read_ahead, steps)
        return steps

    def failed(self, read: BacklogRead) -> Steps:
        """A read that somebody needs has brought nothing. `dispatch` names those that waited for it."""
        steps = Steps()
        read.state = ReadState.DONE
        for subscription in list(read.users):
            read_ahead = self.subscriptions[subscription]
            if read not in read_ahead.ahead:
                steps.dispatch.append(subscription)
            read_ahead.ahead = [other for other in read_ahead.ahead if other is not read]
            read_ahead.current = None if read_ahead.current is read else read_ahead.current
            read_ahead.again = None if read_ahead.again is read else read_ahead.again
            self._leave(subscription, read_ahead, read, steps)
        return steps

    def forget(self, subscription: Subscription) -> Steps:
        """It needs nothing of this any more."""
        steps = Steps()
        read_ahead = self.subscriptions.pop(subscription, None)
        if read_ahead is not None:
            reads = read_ahead.reads
            read_ahead.current = read_ahead.again = None
            read_ahead.ahead = []
            for read in reads:
                self._leave(subscription, read_ahead, read, steps)
        return steps

    def give_back(self) -> Steps | None:
        """Memory is short: lets go of what was read for subscriptions that take nothing now. None if there are none."""
        resting = [subscription for subscription in self.subscriptions if not subscription.can_dispatch()]
        if not resting:
            return None
        return Steps(cancel=[read for subscription in resting for read in self.forget(subscription).cancel])

    def sweep(self) -> Steps:
        """A subscription that takes nothing keeps the read it is in, and after the next time nothing."""
        steps = Steps()
        for subscription, read_ahead in list(self.subscriptions.items()):
            if subscription.can_dispatch() and subscription.next_due() is not None:
                continue
            if read_ahead.idle:
                steps.cancel += self.forget(subscription).cancel
                continue
            read_ahead.idle = True
            ahead, read_ahead.ahead = read_ahead.ahead, []
            for read in ahead:
                self._leave(subscription, read_ahead, read, steps)
        return steps

    # --- the reads of a subscription

    def _continue(self, subscription: Subscription, read_ahead: ReadAhead, position: Position, steps: Steps) -> BacklogRead:
        """To a read ahead, to another's, or to a new one."""
        before, ahead = read_ahead.current, read_ahead.ahead
        at = next((index for index, read in enumerate(ahead) if read.covers(position)), len(ahead))
        read_ahead.ahead = ahead[at + 1 :]
        if at < len(ahead):
            read_ahead.current = ahead[at]
        else:
            read_ahead.current = self._join(subscription, position, FIRST_READ_BYTES if before is None else self._read_bytes, steps)
        self._leave(subscription, read_ahead, before, steps)
        for read in ahead[:at]:
            self._leave(subscription, read_ahead, read, steps)
        return read_ahead.current

    def _again(self, subscription: Subscription, read_ahead: ReadAhead, position: Position, steps: Steps) -> BacklogRead:
        """More at a time where the last such read was right before: then many lie scattered over the log."""
        before = read_ahead.again
        size = READ_BYTES if before is not None and before.is_near(position) else FIRST_READ_BYTES
        read_ahead.again = self._join(subscription, position, size, steps)
        self._leave(subscription, read_ahead, before, steps)
        return read_ahead.again

    def _read_ahead(self, subscription: Subscription, read_ahead: ReadAhead, steps: Steps) -> None:
        """Starts the next read, if it is known where that begins and there are not enough. One each time, so that a
        consumer that takes little has no more than one."""
        newest = read_ahead.ahead[-1] if read_ahead.ahead else read_ahead.current
        if newest is None or not newest.stop_entry or len(read_ahead.ahead) >= AHEAD_READS:
            return
        following = self._ledger_list.next_after(Position(newest.first.ledger_id, newest.stop_entry - 1))
        if self._ledger_list.may_deliver(following) and not self._cached(following):
            read_ahead.ahead.append(self._join(subscription, following, self._read_bytes, steps))

    def _join(self, subscription: Subscription, position: Position, size: int, steps: Steps) -> BacklogRead:
        for read in self.reads:
            if read.covers(position):
                steps.joined += subscription not in read.users
                read.users[subscription] = None
                return read
        read = BacklogRead(position, size, 1 + size // (2 * self._bytes_per_entry), self._entries_of)
        read.users[subscription] = None
        self.reads.append(read)
        steps.start.append(read)
        return read

    def _leave(self, subscription: Subscription, read_ahead: ReadAhead, read: BacklogRead | None, steps: Steps) -> None:
        """`held` no longer has `read` in the place where it had it."""
        if read is None or read in read_ahead.reads or subscription not in read.users:
            return
        del read.users[subscription]
        if not read.users:
            self.reads.remove(read)
            steps.cancel.append(read)
