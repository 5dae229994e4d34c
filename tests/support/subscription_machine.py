"""What clients of any subscription do, in any order, and what is known of each entry meanwhile: shared by state machines."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

from messaging.broker.core.consumer import Consumer
from messaging.broker.core.seek_target import SeekTarget
from messaging.storage.ledger_store import EARLIEST, Position
from tests.support.worlds.subscription_world import World

PICK = st.integers(0, 10_000)


class AnySubscription(RuleBasedStateMachine):
    """A machine begins with `begin_in`, publishes and attaches by rules of its own, and calls `look` whenever something may have
    been sent."""

    world: World

    def begin_in(self, world: World) -> None:
        self.world = world
        self.sizes: dict[Position, int] = {}  # messages of each entry that was published
        self.acked: set[Position] = set()
        self.with_whom: dict[Position, Consumer] = {}  # sent, and not given back
        self.asked_again: dict[Position, int] = {}

    def look(self) -> None:
        """Every delivery since the last look had a cause."""
        raise NotImplementedError

    def given_back(self, consumer: Consumer, positions: list[Position]) -> None:
        """`consumer` asks for these again; none: for all that it holds."""
        for position in set(positions) if positions else list(self.with_whom):
            if self.with_whom.get(position) is consumer:
                del self.with_whom[position]
                self.asked_again[position] = self.asked_again.get(position, 0) + 1

    def forget(self, positions: list[Position]) -> None:
        """These were acknowledged."""
        self.acked.update(positions)
        for position in positions:
            self.with_whom.pop(position, None)
            self.asked_again.pop(position, None)

    def begun_anew(self) -> None:
        """The subscription was moved: nobody holds anything."""
        self.with_whom.clear()
        self.asked_again.clear()

    @property
    def begun(self) -> bool:
        return hasattr(self, "world")

    @property
    def left(self) -> list[Position]:
        return [position for position in self.sizes if position not in self.acked]

    def next_positions(self, count: int) -> list[Position]:
        """Where as many entries would be stored now."""
        ledger, first = self.world.ledger_list.ids[-1], self.world.ledger_list.lasts[-1] + 1
        return [Position(ledger, first + index) for index in range(count)]

    def consumer(self, pick: int) -> Consumer | None:
        consumers = list(self.world.subscription.consumers)
        return consumers[pick % len(consumers)] if consumers else None

    def detach_all(self) -> None:
        for consumer in list(self.world.subscription.consumers):
            self.world.subscription.detach(consumer)

    @rule()
    def roll(self) -> None:
        self.world.roll()

    @rule(pick=PICK, permits=st.integers(1, 60))
    def flow(self, pick: int, permits: int) -> None:
        consumer = self.consumer(pick)
        if consumer is not None:
            self.world.flow(consumer, permits)
            self.look()

    @rule(pick=PICK, readable=st.booleans())
    def peer_reads(self, pick: int, readable: bool) -> None:
        consumer = self.consumer(pick)
        if consumer is not None:
            consumer.sink.writable = readable  # type: ignore[misc]
            consumer.wake()
            self.world.dispatch()
            self.look()

    @rule(pick=PICK, entries=st.lists(PICK, min_size=1, max_size=20))
    def acknowledge(self, pick: int, entries: list[int]) -> None:
        consumer = self.consumer(pick)
        published = list(self.sizes)
        if consumer is not None and published:
            chosen = [published[index % len(published)] for index in entries]
            self.forget(chosen)
            self.world.ack(consumer, *chosen)
            self.look()

    @rule(pick=PICK)
    def acknowledge_up_to(self, pick: int) -> None:
        published = list(self.sizes)
        if published:
            to = published[pick % len(published)]
            self.forget([position for position in published if position <= to])
            self.world.subscription.acknowledge_up_to(to, 0)
            self.world.dispatch()
            self.look()

    @rule(pick=PICK, entries=st.lists(PICK, max_size=6))
    def ask_again(self, pick: int, entries: list[int]) -> None:
        consumer = self.consumer(pick)
        published = list(self.sizes)
        if consumer is not None and published:
            chosen = [published[index % len(published)] for index in entries]
            self.given_back(consumer, chosen)
            self.world.nack(consumer, *chosen)
            self.look()

    @rule(pick=PICK, earliest=st.booleans())
    def seek(self, pick: int, earliest: bool) -> None:
        """As the topic does it: consumers are gone first."""
        published = list(self.sizes)
        to = EARLIEST if earliest or not published else published[pick % len(published)]
        self.detach_all()
        self.world.subscription.reset(SeekTarget(to))
        self.acked = {position for position in published if position <= to}
        self.begun_anew()
        self.look()
