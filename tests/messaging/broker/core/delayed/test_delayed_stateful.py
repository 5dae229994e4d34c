"""Random operations on a topic with delayed messages and several subscriptions: none is early, none is lost, each comes once."""

from __future__ import annotations

from collections import Counter, defaultdict

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from messaging.broker.core.consumer import Consumer
from messaging.broker.core.seek_target import SeekTarget
from messaging.storage.ledger_store import Position
from tests.support.examples import examples
from tests.support.worlds.delayed_world import DelayedWorld, taken

NAMES = ("a", "b", "c")
NAME = st.sampled_from(NAMES)
PICK = st.integers(0, 10_000)
AFTER = st.one_of(st.none(), st.integers(-2_000, 20_000), st.sampled_from([60_000, 600_000]))


class DelayedMachine(RuleBasedStateMachine):
    @initialize(
        tick_ms=st.sampled_from([1, 100, 1_000]), strict=st.booleans(), kept=st.sampled_from(["little", "memory", "stored"])
    )
    def begin(self, tick_ms: int, strict: bool, kept: str) -> None:
        room = 2_500 if kept == "little" else 1 << 30
        self.world = DelayedWorld(tick_ms=tick_ms, strict=strict, room=room, stored=kept == "stored")
        self.early_ms = 0 if strict else tick_ms
        self.consumers: dict[str, list[Consumer]] = defaultdict(list)
        self.wanted: dict[str, set[Position]] = {}  # what each subscription has yet to acknowledge
        self.times_sent: dict[str, Counter[Position]] = defaultdict(Counter)
        self.cancelled: set[Position] = set()
        self.may_again: dict[str, Counter[Position]] = defaultdict(Counter)  # given back, asked for again, sought back to

    # --- what happens

    @rule(after=st.lists(AFTER, min_size=1, max_size=12))
    def publish(self, after: list[int | None]) -> None:
        # Consumers take them while they are published: they count as wanted before that.
        ledger, first = self.world.ledger_list.ids[-1], self.world.ledger_list.lasts[-1] + 1
        for wanted in self.wanted.values():
            wanted.update(Position(ledger, first + index) for index in range(len(after)))
        self.world.publish(after)
        self.look()

    @rule()
    def roll(self) -> None:
        self.world.roll()

    @rule()
    def work(self) -> None:
        self.world.work()

    @rule(time_ms=st.one_of(st.integers(1, 3_000), st.integers(1, 40_000)))
    def time_passes(self, time_ms: int) -> None:
        self.world.pass_(time_ms)
        self.look()

    @rule(name=NAME, permits=st.integers(0, 30))
    def attach(self, name: str, permits: int) -> None:
        if len(self.consumers[name]) < 3:
            if name not in self.wanted:
                self.wanted[name] = set(self.world.times) - self.cancelled
            self.consumers[name].append(self.world.attach(name, permits))
            self.look()

    @rule(name=NAME, pick=PICK)
    def detach(self, name: str, pick: int) -> None:
        consumer = self.consumer(name, pick)
        if consumer is not None:
            self.again(name, self.held(consumer))
            self.consumers[name].remove(consumer)
            self.world.detach(name, consumer)
            self.look()

    @rule(name=NAME, pick=PICK, permits=st.integers(1, 40))
    def flow(self, name: str, pick: int, permits: int) -> None:
        consumer = self.consumer(name, pick)
        if consumer is not None:
            consumer.flow(permits, self.world.now_ms)
            self.world.dispatch()
            self.look()

    @rule(name=NAME, pick=PICK, ask_again=st.booleans())
    def answer(self, name: str, pick: int, ask_again: bool) -> None:
        """Acknowledges half of what the consumer holds, or asks for all of it again."""
        consumer = self.consumer(name, pick)
        if consumer is None:
            return
        positions = self.held(consumer)
        subscription = self.world.subscriptions[name]
        if ask_again:
            self.again(name, positions)
            subscription.redeliver(consumer, None)
        else:
            for position in positions[::2]:
                self.wanted[name].discard(position)
                subscription.acknowledge(consumer, position.ledger_id, [position.entry_id], self.world.now_ms)
        self.world.dispatch()
        self.look()

    @rule(name=NAME, pick=PICK)
    def seek(self, name: str, pick: int) -> None:
        subscription, exist = self.world.subscriptions.get(name), list(self.world.times)
        if subscription is None or not exist:
            return
        start = exist[pick % len(exist)]
        subscription.reset(SeekTarget(self.world.ledger_list.before(start)))
        self.world.acknowledge_cancelled(name)
        after = [position for position in exist if position >= start and position not in self.cancelled]
        self.wanted[name] = set(after)
        self.again(name, after)
        self.world.dispatch()
        self.look()

    @rule(name=NAME, pick=PICK)
    def skip(self, name: str, pick: int) -> None:
        subscription, exist = self.world.subscriptions.get(name), list(self.world.times)
        if subscription is not None and exist:
            to = exist[pick % len(exist)]
            self.wanted[name] = {position for position in self.wanted[name] if position > to}
            subscription.acknowledge_up_to(to, self.world.now_ms)
            self.world.dispatch()
            self.look()

    @rule(picks=st.lists(PICK, min_size=1, max_size=4))
    def cancel(self, picks: list[int]) -> None:
        chosen = [position for position in self.delayed(picks) if self.world.may_change(position)]
        if chosen:
            self.cancelled.update(chosen)
            for wanted in self.wanted.values():
                wanted.difference_update(chosen)
            self.world.cancel(chosen)
            self.look()

    @rule(pick=PICK, after_ms=st.integers(-2_000, 40_000))
    def reschedule(self, pick: int, after_ms: int) -> None:
        for position in self.delayed([pick]):
            if self.world.may_change(position) and self.world.delays.memory_bytes + 2_000 < self.world.room:
                self.world.reschedule(position, after_ms)
                self.look()

    def delayed(self, picks: list[int]) -> list[Position]:
        """Some delayed messages, each once."""
        exist = [position for position, at_ms in self.world.times.items() if at_ms]
        return list(dict.fromkeys(exist[pick % len(exist)] for pick in picks)) if exist else []

    @rule(name=NAME)
    def unsubscribe(self, name: str) -> None:
        if name in self.world.subscriptions:
            self.look()
            self.world.unsubscribe(name)
            self.consumers.pop(name, None)
            del self.wanted[name]
            self.times_sent.pop(name, None)
            self.may_again.pop(name, None)

    @rule()
    def restart(self) -> None:
        self.look()
        for name, wanted in self.wanted.items():
            self.again(name, list(wanted))
        self.consumers.clear()
        self.world.restart()

    # --- what has to hold

    @invariant()
    def memory_stays_in_its_room(self) -> None:
        assert self.world.delays.memory_bytes < self.world.room + 20_000

    def look(self) -> None:
        for name in self.wanted:
            subscription = self.world.subscriptions[name]
            deliveries = self.world.received.pop(name, [])
            for consumer in subscription.consumers:
                deliveries += taken(consumer)
            for position, at_ms in deliveries:
                assert at_ms >= self.world.times[position] - self.early_ms, "early"
                assert position not in self.cancelled, "cancelled"
                self.times_sent[name][position] += 1
                assert self.times_sent[name][position] <= 1 + self.may_again[name][position], "twice"

    def teardown(self) -> None:
        """With room, permits and time everything is delivered to everybody who waits for it."""
        if not hasattr(self, "world"):
            return
        world = self.world
        world.room = 1 << 30
        world.wake()
        for name in list(self.wanted):
            if not self.consumers[name]:
                self.attach(name, 0)
            for consumer in self.consumers[name]:
                consumer.flow(100_000, world.now_ms)
        world.dispatch()
        self.look()
        world.pass_(1_000_000)
        world.wake()
        self.look()
        for name, wanted in self.wanted.items():
            subscription = world.subscriptions[name]
            all_held = {position for consumer in subscription.consumers for position in self.held(consumer)}
            assert all_held == wanted, "lost"
            assert subscription.next_due() is None and subscription.delayed_entries == 0
        assert world.delays.index.next_ms() is None
        assert world.delays.index.memory_bytes == 0

    # --- helpers

    def consumer(self, name: str, pick: int) -> Consumer | None:
        consumer = self.consumers[name]
        return consumer[pick % len(consumer)] if consumer else None

    def held(self, consumer: Consumer) -> list[Position]:
        return [Position(ledger_id, entry) for ledger_id, entries in consumer.held.items() for entry in entries]

    def again(self, name: str, entries: list[Position]) -> None:
        self.look()
        self.may_again[name].update(entries)


TestDelayed = DelayedMachine.TestCase
TestDelayed.settings = settings(max_examples=examples(150), stateful_step_count=40, deadline=None)
