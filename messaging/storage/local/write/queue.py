"""The queue of items for the next commit, owned by the event loop. One commit is in progress at a time; the next takes everything
queued meanwhile.

There is no task and no future per append: an append adds a tuple to a list, and a commit wakes the loop once.
"""

from __future__ import annotations

import asyncio
from array import array
from collections.abc import Callable
from typing import NamedTuple, TypeAlias

from messaging.storage.ledger_store import AppendFailed, Buffer, Done, LedgerClosed, StoreError
from messaging.storage.local.config import Durability
from messaging.storage.local.ledger_state import LedgerState
from messaging.storage.local.write.delayed_commits import DelayedCommits

# A record to be written: (state, done, header, data, end offsets, first, bytes of the record in the log). A block has end offsets;
# for anything else they are None and `first` is the record type (0: writes nothing, only waits). It is a plain tuple and always
# unpacked: to make a named one is a call more for every block.
Item: TypeAlias = "tuple[LedgerState, Done, bytes, Buffer, array[int] | None, int, int]"


class Committed(NamedTuple):
    """The outcome of a commit: `error` applies to all of `items`; `refused` were not written, each for its own reason."""

    items: list[Item]
    refused: list[tuple[Item, StoreError]]
    error: StoreError | None


class CommitQueue:
    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        commit: Callable[[list[Item]], None],
        bytes_max: int,
        entry_bytes_max: int,
        durability: Durability,
        delayed: DelayedCommits | None = None,
    ) -> None:
        self.entry_bytes_max = entry_bytes_max
        self.pending: list[Item] = []
        self.pending_bytes = 0
        self.busy = False
        self.failed: StoreError | None = None
        self.commits = 0
        self._loop = loop
        self._commit = commit
        self._bytes_max = bytes_max
        self._early = durability is Durability.LOSE_ON_CRASH
        self._any_refused = False
        self._idle: list[asyncio.Future[None]] = []
        self._held: asyncio.Future[None] | None = None  # done once no commit is in progress
        self._delayed = delayed  # None: commits never wait for more
        if delayed is not None:
            delayed.ended = self._kick

    def push(self, item: Item) -> None:
        _, _, _, _, _, _, size_bytes = item
        self.pending.append(item)
        self.pending_bytes += size_bytes
        if not self.busy:
            self.begin()

    def begin(self) -> None:
        """The first item of a commit was queued: the commit starts in the next turn of the loop, with everything queued in this
        turn."""
        self.busy = True
        self._loop.call_soon(self._kick)

    def _kick(self) -> None:
        """Passes the pending items to the log's writer. `busy` must be set and no commit in progress."""
        if self._held is not None:
            if not self._held.done():
                self._held.set_result(None)
            return
        if self.failed is not None:
            self._drop(self.failed)
        if self._any_refused:
            self._drop_refused()
        if not self.pending:
            self.busy = False
            if self._delayed is not None:
                self._delayed.nothing_waits()
            idle, self._idle = self._idle, []
            for waiter in idle:
                if not waiter.done():
                    waiter.set_result(None)
            return
        if self.pending_bytes <= self._bytes_max:
            items, self.pending, self.pending_bytes = self.pending, [], 0
        else:
            items, self.pending = fair_shares(self.pending, self._bytes_max)
            self.pending_bytes -= sum(size_bytes for _, _, _, _, _, _, size_bytes in items)
        self.commits += 1
        if self._delayed is not None:
            self._delayed.commit_begins()
        self._commit(items)
        if self._early:
            self._confirm(items)

    def committed(self, outcome: Committed) -> None:
        """Called on the loop after a commit ended."""
        items, refused, error = outcome
        if error is not None and self.failed is None:
            self.failed = error
        for item, reason in refused:
            self._any_refused = True
            self._fail(item, reason)
        if error is None:
            self._complete(items)
        else:
            self._fail_all(items, error)
        if self._delayed is None or not self._delayed.begin_after(items):
            self._kick()

    async def idle(self) -> None:
        """Waits until nothing is pending and no commit is in progress."""
        if self.busy:
            waiter: asyncio.Future[None] = self._loop.create_future()
            self._idle.append(waiter)
            await waiter

    async def hold(self) -> None:
        """Returns when no commit is in progress. Until `resume`, none begins, and what is pushed waits."""
        if self._held is None:
            self._held = self._loop.create_future()
            if not self.busy:
                self.busy = True
                self._held.set_result(None)
        await asyncio.shield(self._held)

    def resume(self) -> None:
        held, self._held = self._held, None
        if held is None:
            return
        if held.done():
            self._loop.call_soon(self._kick)
        else:  # the commit in progress goes on to the next
            held.set_result(None)

    def _complete(self, items: list[Item]) -> None:
        if self._early:
            for state, done, _, data, end_offsets, first, _ in items:
                if end_offsets is None:
                    self._call(done, None)
                else:
                    self._count(state, first + len(end_offsets) - 1, len(data))
            return
        for state, done, _, data, end_offsets, first, _ in items:
            if end_offsets is not None:
                last = first + len(end_offsets) - 1
                size = len(data)
                state.last_entry = last
                state.length_bytes += size
                writer = state.writer
                if writer is not None:
                    writer.last_confirmed = last
                    writer.pending_bytes -= size
            try:
                done(None)
            except Exception as error:
                self._report(error)

    def _confirm(self, items: list[Item]) -> None:
        for state, done, _, _, end_offsets, first, _ in items:
            if end_offsets is None:
                continue
            if state.writer is not None:
                state.writer.last_confirmed = first + len(end_offsets) - 1
            self._call(done, None)

    def _count(self, state: LedgerState, last: int, size: int) -> None:
        state.last_entry = last
        state.length_bytes += size
        if state.writer is not None:
            state.writer.pending_bytes -= size

    def _fail_all(self, items: list[Item], reason: StoreError) -> None:
        for item in items:
            state, _, _, _, _, _, _ = item
            self._fail(item, AppendFailed(str(reason), state.ledger_id))

    def _fail(self, item: Item, reason: StoreError) -> None:
        state, done, _, data, end_offsets, first, _ = item
        if end_offsets is not None and state.writer is not None:
            state.writer.refuse(reason, len(data))
            if self._early and first <= state.writer.last_confirmed:
                return  # its `done` was called before the write: this durability permits that loss
        self._call(done, reason)

    def _drop(self, reason: StoreError) -> None:
        items, self.pending, self.pending_bytes = self.pending, [], 0
        self._fail_all(items, reason)

    def _drop_refused(self) -> None:
        """After the first failure of a writer, none of its later appends may succeed (G1)."""
        kept: list[Item] = []
        for item in self.pending:
            state, _, _, _, end_offsets, _, size_bytes = item
            writer = state.writer
            if end_offsets is not None and writer is not None and writer.refusal is not None and writer.broken:
                self.pending_bytes -= size_bytes
                self._fail(item, LedgerClosed("an earlier append of this writer failed", state.ledger_id))
            else:
                kept.append(item)
        self.pending = kept
        self._any_refused = False

    def _call(self, done: Done, outcome: StoreError | None) -> None:
        try:
            done(outcome)
        except Exception as error:
            self._report(error)

    def _report(self, error: Exception) -> None:
        context = {"message": "a callback of the ledger store raised", "exception": error}
        self._loop.call_exception_handler(context)


def size_of(item: Item) -> int:
    """In the log, in bytes."""
    _, _, _, _, _, _, size_bytes = item
    return size_bytes


def only_waits(item: Item) -> bool:
    """Whether it writes nothing."""
    _, _, _, _, end_offsets, first, _ = item
    return end_offsets is None and not first


def _owner_of(item: Item) -> str:
    state, _, _, _, _, _, _ = item
    return state.owner


def fair_shares(items: list[Item], bytes_max: int) -> tuple[list[Item], list[Item]]:
    """Returns (taken, left): at most `bytes_max` are taken, or one item. Owners get equal shares; what one does not use goes to the
    others. What only waits has no share: it is taken once nothing before it is left.

    Both lists keep the order of each owner's items."""
    waiting: dict[str, list[Item]] = {}
    for item in items:
        if not only_waits(item):
            waiting.setdefault(_owner_of(item), []).append(item)
    used = dict.fromkeys(waiting, 0)
    room = bytes_max
    hungry = list(waiting)
    while hungry:
        share = room // len(hungry)
        still: list[str] = []
        for owner in hungry:
            queue, index, budget = waiting[owner], used[owner], share
            while index < len(queue) and (size_bytes := size_of(queue[index])) <= budget:
                budget -= size_bytes
                index += 1
            room -= share - budget
            if index > used[owner] and index < len(queue):
                still.append(owner)
            used[owner] = index
        hungry = still
    if waiting and not any(used.values()):
        used[next(iter(waiting))] = 1
    taken = [item for owner, queue in waiting.items() for item in queue[: used[owner]]]
    left: list[Item] = []
    passed = dict.fromkeys(waiting, 0)
    for item in items:
        if only_waits(item):
            (left if left else taken).append(item)
            continue
        owner = _owner_of(item)
        if passed[owner] >= used[owner]:
            left.append(item)
        passed[owner] += 1
    return taken, left
