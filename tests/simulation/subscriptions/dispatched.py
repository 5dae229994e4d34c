"""A subscription, the real one, on a model of its topic: the log is a list of blocks, and the time an argument."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import accumulate, takewhile
from random import Random

from messaging.broker.core.consumer import Consumer
from messaging.broker.core.cursors.cursor import Cursor
from messaging.broker.core.dead_letters.dead_entries import DeadLetterPolicy, DeadLetterRecord, DeadLetters
from messaging.broker.core.delayed.gathered_block import GatheredBlock
from messaging.broker.core.delayed.run_jobs import Job, Load
from messaging.broker.core.delayed.topic_delays import DelayPolicy, TopicDelays
from messaging.broker.core.dispatch import key_shared
from messaging.broker.core.dispatch.key_shared_mode import KeySharedSettings
from messaging.broker.core.dispatch.sources import EntrySource
from messaging.broker.core.entries import EntryBlock
from messaging.broker.core.subscription import Subscription
from messaging.broker.core.subscription_type import SubscriptionType
from messaging.storage.ledger_store import Position
from messaging.storage.managed.ledger_list import LedgerList
from tests.simulation.checker import Violated
from tests.simulation.small_runs import SEALED
from tests.simulation.subscriptions.blocks import Draft, block_of
from tests.simulation.subscriptions.client import sink_of
from tests.simulation.subscriptions.cursor_log import CursorLog
from tests.simulation.subscriptions.model import Entry, Fate, Model
from tests.support.run_disk import RunDisk
from tests.support.throwing import NEVER, Thrower, Thrown

START_MS = 1_790_000_000_000
TICK_MS = 1_000
UNACKED_LIMITS = 40, 70  # messages of a consumer, and of all
LEDGER_ENTRIES = 120, 4, 4, 4  # the sizes of ledgers, by how many there are
FROM_THE_LOG = 0.3  # of what is due: it was not read ahead
GATHERED_MAX = 6  # entries of one block
JOBS_ENDED = 0.3  # of those that are under way, whenever somebody looks

Delivered = Callable[["DispatchedTopic", Consumer, Entry, int], None]


class DispatchedTopic:
    """`delivered` is told of each delivery before the model is."""

    def __init__(self, kind: SubscriptionType, random: Random, delivered: Delivered) -> None:
        self.kind = kind
        self.random = random
        self.model = Model()
        self.counts: Counter[str] = Counter()
        self.now_ms = START_MS
        self.ttl_ms = 0
        self.look_ahead = key_shared.LOOK_AHEAD_PER_CONSUMER
        self.policy = DelayPolicy(True, TICK_MS, random.random() < 0.5)
        self.redeliver_max: int | None = random.choice((None, 1, 3))
        self.partition = random.choice((-1, 0, 1))
        self.unacked_limits = UNACKED_LIMITS
        self.moving: list[Position] = []  # dead letters that are in the target and not acknowledged yet
        self.ledger_list = LedgerList([(1, -1)])
        self.throw_at = NEVER
        self._ledger_entries = LEDGER_ENTRIES[0]
        self._consumer_ids = 0
        self._delivered = delivered
        self.log = CursorLog(random)
        self.disk = RunDisk()  # of delayed messages
        self._jobs: list[Job] = []  # of their index, which take their time
        self.begin(Cursor())

    def begin(self, cursor: Cursor) -> None:
        """With what is stored."""
        self.index, self._jobs = self.disk.restored(self.policy.resolution_ms, SEALED), []
        self.delays = TopicDelays(self.index, lambda size: True)
        self.subscription = Subscription(
            "s",
            cursor,
            self.ledger_list,
            topic="persistent://t/n/a",
            partition=self.partition,
            unacked_max=self.unacked_limits[0],
            unacked_of_all_max=self.unacked_limits[1],
            key_shared=KeySharedSettings(points=5),
        )
        self.limit_redeliveries(self.redeliver_max)

    @property
    def consumers(self) -> list[Consumer]:
        return list(self.subscription.consumers)

    # --- what is published

    def publish(self, drafts: Sequence[Draft]) -> None:
        """One block."""
        ledger_id, first = self.ledger_list.last_id, self.ledger_list.last_entry + 1
        block = block_of(drafts, Position(ledger_id, first), self.now_ms)
        for entry_id, draft in enumerate(drafts, first):
            self._store(Position(ledger_id, entry_id), block, draft)
        self.ledger_list.confirm(ledger_id, block.last_entry)
        if block.deliver_at_ms is not None:
            self.delays.published(ledger_id, first, block.deliver_at_ms, self.policy.cutoff_ms(self.now_ms))
            self.work()
        if block.last_entry > self._ledger_entries:
            self.roll()
            self._drop_settled_ledgers()
        self.dispatch()

    def roll(self) -> None:
        """Ledger ids are unique over all topics."""
        self.ledger_list.add(self.ledger_list.last_id + self.random.randint(1, 3))
        self._ledger_entries = self.random.choice(LEDGER_ENTRIES)

    def _store(self, position: Position, block: EntryBlock, draft: Draft) -> None:
        number = self.counts[f"of {draft.producer}"] = self.counts[f"of {draft.producer}"] + 1
        message = draft.chunk[0] if draft.chunk else 0
        if draft.chunk:
            self.model.messages.setdefault(message, (draft.chunk[2], []))[1].append(position)
        self.model.stored(Entry(position, block, draft.producer, number, draft.key, draft.size, self.now_ms, draft.due_ms, message))

    def _drop_settled_ledgers(self) -> None:
        while len(self.ledger_list.ids) > 2 and self.subscription.cursor.mark_delete.ledger_id > self.ledger_list.first_id:
            self.sync()
            self.model.drop(self.ledger_list.drop_first())
            self.log.begin_anew(self.subscription.cursor)

    def limit_redeliveries(self, count_max: int | None) -> None:
        self.redeliver_max = count_max
        record = None if count_max is None else DeadLetterRecord(1, DeadLetterPolicy("p", count_max, "persistent://t/n/d", "o", ""))
        self.subscription.follow_dead_letters(None if record is None else DeadLetters(record))
        self.dispatch()

    def limit_unacked(self, of_consumer: int, of_all: int) -> None:
        self.unacked_limits = of_consumer, of_all
        self.subscription.state.limit_unacked(of_consumer, of_all)
        self.dispatch()

    # --- time

    def pass_time(self, time_ms: int) -> None:
        self.now_ms += time_ms
        self.look_at_delays()
        self.dispatch()

    def look_at_delays(self) -> None:
        """As timers have it, and the jobs that they begin: until nothing is due any more."""
        for _ in range(1_000):
            self.delays.advance(self.now_ms, self.policy, self.ledger_list.first_id)
            self.work()
            wake_ms = self.delays.wake_ms(self.now_ms, self.policy)
            if wake_ms is None or wake_ms > self.policy.cutoff_ms(self.now_ms):
                return
        raise Violated(f"what is due at {wake_ms} is never released")

    def work(self) -> None:
        """The jobs of the index: blocks that come due are read at once, the others end some time."""
        self._jobs += self.disk.jobs(self.index, self.now_ms)
        done = [job for job in self._jobs if isinstance(job, Load) or self.random.random() < JOBS_ENDED]
        self._jobs = [job for job in self._jobs if job not in done]
        for job in done:
            self.disk.do(self.index, job)
            self.counts[f"{type(job).__name__} of delayed messages"] += 1

    def sync(self) -> None:
        """All changes so far are durable."""
        self.log.sync(self.subscription.cursor)

    # --- dispatching

    @property
    def expired_before_ms(self) -> int:
        return self.now_ms - self.ttl_ms if self.ttl_ms else 0

    def follow_taken_chunks(self) -> None:
        """A message that is not whole may have been taken from its consumer when its key went to another."""
        model = self.model
        for position, whom in list(model.with_whom.items()) if self.kind is SubscriptionType.KEY_SHARED else ():
            message = model.entries[position].message
            if message and position.entry_id not in whom.held.get(position.ledger_id, ()) and not model.has_all(message, whom):
                del model.with_whom[position]
                model.came.pop(message, None)

    def dispatch(self) -> None:
        """As a topic does it: what raises is tried again. `throw_at`: instead of which call something raises, once."""
        thrower, self.throw_at = Thrower(self.throw_at), NEVER
        if thrower.number < NEVER:
            try:
                with thrower:
                    self._dispatch(thrower)
                return
            except Thrown as thrown:
                self.counts[str(thrown)] += 1
                self.counts["exceptions"] += 1
                unstored: list[bytes] = []
                self.subscription.recover(unstored.append)
                self._expired_before(unstored)
        self._dispatch(thrower)

    def _dispatch(self, thrower: Thrower) -> None:
        """The loop of the topic. Each turn has to make progress."""
        subscription = self.subscription
        for _ in range(10_000):
            due = subscription.next_due() if subscription.can_dispatch() else None
            self.follow_taken_chunks()
            if due is None and subscription.unsettled:
                continue
            if due is None:
                return
            source, position = due
            if position not in self.model.entries:
                raise Violated(f"{position} was asked for and does not exist")
            block = self._block_at(source, position)
            if subscription.delays and self.index.pending and subscription.state.delays is None:
                subscription.state.use_delays(self.delays)
                continue
            if block.deliver_at_ms is not None and subscription.delays:
                if subscription.state.delays is None:
                    subscription.state.use_delays(self.delays)
                    continue
                self.delays.cutoff_ms = self.policy.cutoff_ms(self.now_ms)
            made = subscription.assign(source, block, position, block.last_entry, self.expired_before_ms, self.now_ms)
            with thrower.paused():
                self._expired(block, made.deltas, made.expired_entries)
            subscription.state.unstored.clear()
            if subscription.state.delayed is not None:
                self.delays.count(subscription.state.delayed)
            for delivery in made.deliveries:
                thrower.call("deliver_picked")
                with thrower.paused():
                    sink_of(delivery.consumer).deliver_picked(
                        delivery.consumer, delivery.block, list(delivery.indexes), delivery.redelivery_counts
                    )
                subscription.state.unsent.popleft()
            if not made.more:
                return
        raise Violated(f"dispatching does not end: it stands at {subscription.next_due()}")

    def _block_at(self, source: EntrySource, position: Position) -> EntryBlock:
        """The block of an entry as it was stored; of what is due also the one that reading ahead makes of single messages."""
        block, delayed = self.model.entries[position].block, self.subscription.state.delayed
        if delayed is None or source is not delayed or self.random.random() < FROM_THE_LOG:
            return block
        gathered = self._gathered([Position(position.ledger_id, entry) for entry in delayed.due[position.ledger_id]])
        return block if gathered is None else gathered

    def _gathered(self, due: Sequence[Position]) -> GatheredBlock | None:
        """The first of `due`, up to one that is looked at in the block that it was stored in."""
        entries = [self.model.entries.get(position) for position in due]
        plain = list(takewhile(lambda entry: entry is not None and _plain(entry, self.expired_before_ms), entries))
        plain = plain[: self.random.randint(1, GATHERED_MAX)]
        parts = [bytes(entry.block.data[slice(*_bounds(entry))]) for entry in plain if entry is not None]
        if not parts:
            return None
        ids = array("I", [position.entry_id for position in due[: len(parts)]])
        oldest_ms = min(entry.stored_ms for entry in plain if entry is not None)
        self.counts["blocks read ahead of delayed messages"] += 1
        return GatheredBlock(due[0].ledger_id, ids, b"".join(parts), array("I", accumulate(map(len, parts))), oldest_ms)

    def _expired(self, block: EntryBlock, deltas: Sequence[bytes], count: int) -> None:
        if not deltas:
            return
        positions = [Position(block.ledger_id, entry) for entry in range(block.first_entry, block.last_entry + 1)]
        expired = [
            position for position in positions if position in self.model.open and self.subscription.cursor.acknowledged(position)
        ]
        if block.broker_time_ms >= self.expired_before_ms or len(expired) != count:
            raise Violated(f"{expired} were acknowledged as expired; {count} are said to be")
        self.model.settle(expired, Fate.EXPIRED, self.log.append(deltas))

    def _expired_before(self, deltas: Sequence[bytes]) -> None:
        """Something raised when these were made and not stored."""
        model, cursor = self.model, self.subscription.cursor
        expired = [
            position
            for position, entry in model.open.items()
            if entry.stored_ms < self.expired_before_ms and cursor.acknowledged(position)
        ]
        if expired or deltas:
            model.settle(expired, Fate.EXPIRED, self.log.append(deltas))

    def deliver(self, consumer: Consumer, position: Position, count: int) -> None:
        model = self.model
        if position not in model.entries:
            raise Violated(f"{consumer.name} was sent {position}, which does not exist")
        entry = model.entries[position]
        self._delivered(self, consumer, entry, count)
        self.counts["deliveries"] += 1
        sink_of(consumer).permits -= model.unacked_in(entry)
        model.delivered(entry, consumer)
        if self.subscription.active is not None:
            model.reached = position
            model.numbers[entry.producer] = entry.number


def _plain(entry: Entry, expired_before_ms: int) -> bool:
    """What is read ahead: no batches, no chunks, nothing that may have expired."""
    return entry.size == 1 and not entry.message and entry.stored_ms >= expired_before_ms


def _bounds(entry: Entry) -> tuple[int, int]:
    index = entry.position.entry_id - entry.block.first_entry
    return entry.block.start_of(index), entry.block.end_offsets[index]
