"""Which reads from storage are started, shared and cancelled for subscriptions that are behind, and who can be sent something."""

from __future__ import annotations

from array import array
from itertools import pairwise

from messaging.broker.core.backlog.plan import AHEAD_READS, FIRST_READ_BYTES, BacklogPlan, Steps
from messaging.broker.core.backlog.read import BacklogRead, ReadState
from messaging.broker.core.consumer import Consumer
from messaging.broker.core.cursors.cursor import Cursor
from messaging.broker.core.subscription import Subscription
from messaging.broker.core.subscription_type import SubscriptionType
from messaging.protocol import pulsar_pb2 as pb
from messaging.protocol.frames import build_send
from messaging.storage.block_header import encode_plain
from messaging.storage.ledger_store import READ_BYTES, Block, Position
from messaging.storage.managed.ledger_list import LedgerList
from tests.support.worlds.subscription_world import Sink

LEDGER = 7
ENTRIES = 100  # in the ledger
READ = 10  # entries that every read brings


class Backlog:
    """A topic of `ENTRIES` entries, and a plan for its subscriptions. Entries from `cached_from` on need no read."""

    def __init__(self, cached_from: int = ENTRIES, read_bytes: int = READ_BYTES) -> None:
        self.ledger_list = LedgerList([(LEDGER, ENTRIES - 1)])
        self.cached_from = cached_from
        self.plan = BacklogPlan(self.ledger_list, lambda position: position.entry_id >= self.cached_from, read_bytes=read_bytes)
        self.frame = build_send(1, 0, pb.Metadata(producer_name="p", sequence_id=0, publish_time=1), b"x" * 100)

    def subscription(self, permits: int = 1000) -> Subscription:
        subscription = Subscription("s", Cursor(), self.ledger_list)
        consumer = Consumer(1, "c", Sink())
        subscription.attach(consumer, SubscriptionType.SHARED)
        consumer.flow(permits, 0)
        return subscription

    def find(self, subscription: Subscription, entry_id: int, *, sequential: bool = True) -> tuple[bool, Steps]:
        """Whether the entry is there. Every read is forecast, as a store does that knows its blocks."""
        block, steps = self.plan.find(subscription, Position(LEDGER, entry_id), sequential=sequential)
        for read in steps.start:
            read.forecast(READ)
        assert block is None or block.first_entry <= entry_id <= block.last_entry
        return block is not None, steps

    def arrive(self, read: BacklogRead, entries: int = READ) -> Steps:
        read.state = ReadState.UNDER_WAY
        steps = self.plan.arrived(read, [self.block(read.first.entry_id + index) for index in range(entries)])
        for begun in steps.start:
            begun.forecast(READ)
        return steps

    def block(self, entry_id: int, data: bytes | None = None) -> Block:
        data = data or self.frame
        return Block(LEDGER, entry_id, encode_plain(1, 1, 0, 0, b"p"), data, array("I", [len(data)]))


def firsts(reads: list[BacklogRead]) -> list[int]:
    return [read.first.entry_id for read in reads]


def begun(backlog: Backlog, subscription: Subscription) -> BacklogRead:
    """The first read of a subscription, done."""
    there, steps = backlog.find(subscription, 0)
    assert not there
    (read,) = steps.start
    assert backlog.arrive(read).dispatch == [subscription]
    return read


def test_a_first_read_is_small_and_the_next_ones_are_large() -> None:
    backlog = Backlog()
    subscription = backlog.subscription()
    read = begun(backlog, subscription)
    there, steps = backlog.find(subscription, 0)
    assert there and firsts(steps.start) == [READ]
    assert steps.start[0].size_bytes == READ_BYTES
    assert FIRST_READ_BYTES < READ_BYTES and read.first == Position(LEDGER, 0)


def test_a_store_may_want_more_at_a_time() -> None:
    backlog = Backlog(read_bytes=4 * READ_BYTES)
    subscription = backlog.subscription()
    assert begun(backlog, subscription).size_bytes > 0
    ahead = [steps.start[0].size_bytes for _, steps in (backlog.find(subscription, 0) for _ in range(AHEAD_READS))]
    assert ahead == [4 * READ_BYTES] * AHEAD_READS
    _, steps = backlog.find(subscription, 90)
    assert [read.size_bytes for read in steps.start] == [4 * READ_BYTES]
    _, steps = backlog.find(subscription, 50, sequential=False)
    assert [read.size_bytes for read in steps.start] == [FIRST_READ_BYTES], "of what is sent again perhaps little is wanted"


def test_where_the_second_read_ahead_begins_is_known_before_the_first_is_there() -> None:
    backlog = Backlog()
    subscription = backlog.subscription()
    ahead = [begun(backlog, subscription)]
    for _ in range(AHEAD_READS):
        there, steps = backlog.find(subscription, 0)
        assert there
        ahead += steps.start
    assert [read.done for read in ahead] == [True, False, False]
    for before, after in pairwise(ahead):
        assert after.first == Position(LEDGER, before.stop_entry)
    assert backlog.find(subscription, 0)[1].start == [], "and no further"
    assert backlog.plan.pending_reads(subscription) == AHEAD_READS


def test_nothing_is_read_ahead_where_the_log_cannot_tell_where_a_read_ends() -> None:
    backlog = Backlog()
    subscription = backlog.subscription()
    _, steps = backlog.plan.find(subscription, Position(LEDGER, 0), sequential=True)  # no forecast
    (read,) = steps.start
    assert backlog.find(subscription, 0) == (False, Steps())
    backlog.arrive(read)
    assert firsts(backlog.find(subscription, 0)[1].start) == [READ], "now it is known"


def test_a_read_ahead_that_arrives_starts_the_next_and_sends_nothing() -> None:
    backlog = Backlog()
    subscription = backlog.subscription()
    begun(backlog, subscription)
    (ahead,) = backlog.find(subscription, 0)[1].start
    steps = backlog.arrive(ahead)
    assert steps.dispatch == [] and firsts(steps.start) == [2 * READ]


def test_a_subscription_that_takes_nothing_reads_no_further() -> None:
    backlog = Backlog()
    subscription = backlog.subscription(permits=0)
    begun(backlog, subscription)
    (ahead,) = backlog.find(subscription, 0)[1].start
    assert backlog.arrive(ahead) == Steps()


def test_reading_ahead_ends_at_the_cached_entries_and_at_the_end() -> None:
    backlog = Backlog(cached_from=READ)
    subscription = backlog.subscription()
    read = begun(backlog, subscription)
    assert backlog.find(subscription, 0)[1].start == [] and not read.to_end
    backlog = Backlog()
    subscription = backlog.subscription()
    _, steps = backlog.find(subscription, ENTRIES - READ)
    backlog.arrive(steps.start[0])
    assert steps.start[0].to_end and backlog.plan.near_cache()
    assert backlog.find(subscription, ENTRIES - 1) == (True, Steps())


def test_going_on_leaves_the_read_before_and_gives_it_back() -> None:
    backlog = Backlog()
    subscription = backlog.subscription()
    first = begun(backlog, subscription)
    (ahead,) = backlog.find(subscription, 0)[1].start
    backlog.arrive(ahead)
    there, steps = backlog.find(subscription, READ)
    assert there and steps.cancel == [first]


def test_a_subscription_that_skips_ahead_of_its_reads_gives_all_of_them_back() -> None:
    backlog = Backlog()
    subscription = backlog.subscription()
    first = begun(backlog, subscription)
    (ahead,) = backlog.find(subscription, 0)[1].start
    there, steps = backlog.find(subscription, 5 * READ)
    assert not there and firsts(steps.start) == [5 * READ]
    assert steps.cancel == [first, ahead]


def test_subscriptions_at_the_same_place_share_a_read_until_the_last_leaves() -> None:
    backlog = Backlog()
    first, other = backlog.subscription(), backlog.subscription()
    (read,) = backlog.find(first, 0)[1].start
    there, steps = backlog.find(other, READ - 1)
    assert not there and steps.start == [] and steps.joined == 1
    assert set(backlog.arrive(read).dispatch) == {first, other}
    assert backlog.plan.forget(first) == Steps()
    assert backlog.plan.forget(other) == Steps(cancel=[read])
    assert not backlog.plan.reads and not backlog.plan.subscriptions


def test_entries_sent_again_do_not_disturb_the_place_where_reading_goes_on() -> None:
    backlog = Backlog()
    subscription = backlog.subscription()
    first = begun(backlog, subscription)
    (ahead,) = backlog.find(subscription, 0)[1].start
    backlog.arrive(ahead)
    assert backlog.find(subscription, READ)[1].cancel == [first]
    there, steps = backlog.find(subscription, 3, sequential=False)
    (again,) = steps.start
    assert not there and again.size_bytes == FIRST_READ_BYTES and steps.cancel == []
    assert backlog.arrive(again).dispatch == [subscription]
    assert backlog.find(subscription, 3, sequential=False) == (True, Steps()), "and nothing is read ahead of it"
    assert backlog.find(subscription, READ)[0], "the read that it was in is still there"


def test_a_read_that_fails_names_those_that_waited_for_it() -> None:
    backlog = Backlog()
    waiting, ahead_of_it = backlog.subscription(), backlog.subscription()
    begun(backlog, ahead_of_it)
    (read,) = backlog.find(ahead_of_it, 0)[1].start
    assert backlog.find(waiting, READ)[1].joined == 1
    steps = backlog.plan.failed(read)
    assert steps.dispatch == [waiting] and steps.cancel == [read]
    assert firsts(backlog.find(waiting, READ)[1].start) == [READ], "tried again"


def test_a_block_that_is_not_ours_is_reported_and_not_returned() -> None:
    backlog = Backlog()
    subscription = backlog.subscription()
    (read,) = backlog.find(subscription, 0)[1].start
    read.state = ReadState.UNDER_WAY
    backlog.plan.arrived(read, [backlog.block(0, b"nothing of ours")])
    there, steps = backlog.find(subscription, 0)
    assert not there and steps.unreadable
    assert backlog.plan.block_in_memory(Position(LEDGER, 0)) is None


def test_blocks_read_for_a_subscription_are_found_by_others() -> None:
    backlog = Backlog()
    begun(backlog, backlog.subscription())
    block = backlog.plan.block_in_memory(Position(LEDGER, 3))
    assert block is not None and block.first_entry <= 3 <= block.last_entry
    assert backlog.plan.block_in_memory(Position(LEDGER, READ)) is None


def test_a_subscription_that_takes_nothing_keeps_one_read_and_then_none() -> None:
    backlog = Backlog()
    resting, reading = backlog.subscription(permits=0), backlog.subscription()
    first = begun(backlog, resting)
    assert backlog.find(reading, 0, sequential=False) == (True, Steps(joined=1))
    (ahead,) = backlog.find(resting, 0)[1].start
    assert backlog.plan.sweep() == Steps(cancel=[ahead])
    assert backlog.plan.sweep() == Steps(), "the other one is still in that read"
    assert list(backlog.plan.subscriptions) == [reading]
    assert backlog.plan.forget(reading) == Steps(cancel=[first])


def test_short_memory_is_taken_from_those_who_take_nothing() -> None:
    backlog = Backlog()
    resting, reading = backlog.subscription(permits=0), backlog.subscription()
    (far,) = backlog.find(resting, 5 * READ)[1].start
    begun(backlog, reading)
    assert backlog.plan.give_back() == Steps(cancel=[far])
    assert backlog.plan.give_back() is None


def test_nothing_is_read_ahead_that_may_not_be_delivered() -> None:
    backlog = Backlog()
    backlog.ledger_list.withheld_from = Position(LEDGER, READ)
    subscription = backlog.subscription()
    read = begun(backlog, subscription)
    assert read.to_end, "the entry cache may be next"
    assert backlog.find(subscription, 0) == (True, Steps())
    backlog.ledger_list.withheld_from = None
    there, steps = backlog.find(subscription, 0)
    assert there and firsts(steps.start) == [READ]
