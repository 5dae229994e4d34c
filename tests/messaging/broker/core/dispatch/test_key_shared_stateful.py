"""Anything that may happen to a Key_Shared subscription, in any order: each key in order and at one consumer at a time, nothing
lost, nobody who could take something kept waiting.
"""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, rule

from messaging.broker.core.consumer import Consumer
from messaging.broker.core.dispatch import key_shared
from messaging.broker.core.dispatch.holding import ready
from messaging.broker.core.dispatch.key_shared import KeySharedDispatch
from messaging.broker.core.dispatch.key_shared_mode import KeySharedMode, KeySharedSettings
from messaging.broker.core.dispatch.selectors.selector import owner_of, slot_of
from messaging.broker.core.subscription_type import SubscriptionType
from messaging.storage.ledger_store import Position
from tests.support.examples import examples
from tests.support.subscription_machine import PICK, AnySubscription
from tests.support.worlds.subscription_world import World, counted

KEYS = [f"key-{number}" for number in range(7)]
QUARTERS = [(start, start + 16383) for start in range(0, 65536, 16384)]


class KeySharedMachine(AnySubscription):
    mode = KeySharedMode()
    settings_of_broker = KeySharedSettings(points=5)
    look_ahead = 10

    @initialize()
    def begin(self) -> None:
        self.patch = pytest.MonkeyPatch()
        self.patch.setattr(key_shared, "LOOK_AHEAD_PER_CONSUMER", self.look_ahead)
        self.begin_in(World(unacked_max=30, unacked_of_all_max=70, key_shared=self.settings_of_broker))
        self.keys: dict[Position, str] = {}

    # --- what a topic and its clients do

    @rule(keys=st.lists(st.sampled_from(KEYS), min_size=1, max_size=30), size=st.sampled_from([1, 1, 3]))
    def publish(self, keys: list[str], size: int) -> None:
        positions = self.next_positions(len(keys))
        self.keys.update(zip(positions, keys, strict=True))
        self.sizes.update(dict.fromkeys(positions, size))
        self.world.publish_keyed(keys, size)
        self.look()

    @rule(permits=st.integers(0, 40), name=st.sampled_from(["", "same"]))
    def attach(self, permits: int, name: str) -> None:
        used = [consumer.key_shared.ranges for consumer in self.world.subscription.consumers]
        free = [quarter for quarter in QUARTERS if (quarter,) not in used]
        if len(used) < 4 and free:
            mode = self.mode._replace(ranges=(free[0],)) if self.mode.sticky else self.mode
            self.world.attach(SubscriptionType.KEY_SHARED, permits, name=name, key_shared=mode)
            self.world.dispatch()
            self.look()

    @rule(pick=PICK)
    def detach(self, pick: int) -> None:
        consumer = self.consumer(pick)
        if consumer is None:
            return
        self.with_whom = {position: whom for position, whom in self.with_whom.items() if whom is not consumer}
        if len(self.world.subscription.consumers) == 1:
            self.forget_counts()
        self.world.detach(consumer)
        self.look()

    @rule(count_max=st.none() | st.integers(0, 2))
    def dead_letters(self, count_max: int | None) -> None:
        """What was redelivered too often is sent to nobody, as long as there is a dead-letter policy."""
        self.world.subscription.state.redeliveries.limit_counts(count_max)
        self.world.dispatch()
        self.look()

    @rule(permits=st.integers(0, 40))
    def another_type_between(self, permits: int) -> None:
        """All leave, and a Shared consumer takes some and leaves again."""
        self.detach_all()
        self.with_whom.clear()
        self.forget_counts()
        shared = self.world.attach(SubscriptionType.SHARED, permits)
        for position, _ in counted(shared):
            assert position not in self.acked
        self.world.detach(shared)
        self.forget_counts()

    @rule(pick=PICK)
    def acknowledge_all_sent(self, pick: int) -> None:
        consumer = self.consumer(pick)
        if consumer is not None:
            chosen = [position for position in self.keys if self.with_whom.get(position) is consumer]
            self.forget(chosen)
            self.world.ack(consumer, *chosen)
            self.look()

    # --- what must hold

    def forget_counts(self) -> None:
        if self.world.subscription.state.redeliveries.count_max is None:
            self.asked_again.clear()

    def undelivered(self, key: str) -> list[Position]:
        dead = self.world.subscription.state.redeliveries.is_dead
        there = [
            position
            for position in self.keys
            if self.keys[position] == key and position not in self.acked and position not in self.with_whom
        ]
        return [position for position in there if not dead(position)]

    def look(self) -> None:
        for consumer in self.world.subscription.consumers:
            for position, count in counted(consumer):
                key = self.keys[position]
                assert position not in self.acked, f"{position} was acknowledged and came again"
                assert position not in self.with_whom, f"{position} came while another consumer holds it"
                assert count == self.asked_again.get(position, 0)
                assert position == self.undelivered(key)[0], f"{position} of {key} came before {self.undelivered(key)[0]}"
                if not self.mode.out_of_order:
                    at = {holder for other, holder in self.with_whom.items() if self.keys[other] == key}
                    assert at <= {consumer}, f"{key} is at two consumers"
                self.with_whom[position] = consumer

    def owner(self, key: str) -> Consumer | None:
        strategy = self.world.subscription.strategy
        assert isinstance(strategy, KeySharedDispatch)
        position = next(candidate for candidate in self.keys if self.keys[candidate] == key)
        block = self.world.block(position)
        slot = slot_of(strategy.selector, block.key_hashes[position.entry_id - block.first_entry])
        return owner_of(strategy.selector.slot_map(), slot)

    @invariant()
    def nobody_waits_for_what_could_be_sent(self) -> None:
        if not self.begun or not self.world.subscription.consumers or self.world.subscription.unacked.blocked:
            return
        strategy = self.world.subscription.strategy
        assert isinstance(strategy, KeySharedDispatch)
        limit = self.look_ahead * len(self.world.subscription.consumers)
        for key in KEYS:
            due = self.undelivered(key)
            owner = self.owner(key) if due else None
            if owner is None or not ready(owner):
                continue
            others = {holder for other, holder in self.with_whom.items() if self.keys[other] == key} - {owner}
            unread = due[0] >= self.world.subscription.read_position or strategy.waiting.is_unknown(*due[0])
            beyond = unread and strategy.waiting.set_aside >= limit
            assert others or beyond, f"{due[0]} of {key} could be sent to {owner.name}"

    @invariant()
    def counts_what_is_held(self) -> None:
        if not self.begun:
            return
        subscription = self.world.subscription
        assert subscription.backlog_entries == len(self.keys) - len(self.acked)
        for consumer in subscription.consumers:
            positions = [position for position, whom in self.with_whom.items() if whom is consumer]
            assert consumer.unacked_messages == sum(self.sizes[position] for position in positions)
            assert {Position(ledger, entry) for ledger, bitmap in consumer.held.items() for entry in bitmap} == set(positions)

    @invariant()
    def says_which_keys_change_hands(self) -> None:
        if not self.begun or not self.world.subscription.consumers:
            return
        strategy = self.world.subscription.strategy
        assert isinstance(strategy, KeySharedDispatch)
        strategy.settle()
        expected: dict[int, int] = {}
        for position, consumer in self.with_whom.items():
            block = self.world.block(position)
            slot = slot_of(strategy.selector, block.key_hashes[position.entry_id - block.first_entry])
            if owner_of(strategy.selector.slot_map(), slot) is not consumer:
                expected[slot] = expected.get(slot, 0) + 1
        ordered = not (self.mode.sticky or self.mode.out_of_order)
        assert {slot: draining_slot.unacked for slot, draining_slot in strategy.draining.slots.items()} == (
            expected if ordered else {}
        )

    def teardown(self) -> None:
        """In the end somebody who takes everything gets everything."""
        if not self.begun:
            return
        self.detach_all()
        self.world.subscription.state.limit_unacked(0, 0)
        self.world.subscription.state.redeliveries.limit_counts(None)
        all_ranges = self.mode._replace(ranges=tuple(QUARTERS)) if self.mode.sticky else self.mode
        last = self.world.attach(SubscriptionType.KEY_SHARED, key_shared=all_ranges)
        self.world.flow(last, 10**6)
        assert [position for position, _ in counted(last)] == self.left
        self.patch.undo()


class HashRangeMachine(KeySharedMachine):
    settings_of_broker = KeySharedSettings(consistent_hashing=False)


class StickyMachine(KeySharedMachine):
    mode = KeySharedMode(sticky=True)


class OutOfOrderMachine(KeySharedMachine):
    mode = KeySharedMode(out_of_order=True)


class FarLookAheadMachine(KeySharedMachine):
    look_ahead = 10_000


TestConsistentHashing = KeySharedMachine.TestCase
TestHashRange = HashRangeMachine.TestCase
TestSticky = StickyMachine.TestCase
TestOutOfOrder = OutOfOrderMachine.TestCase
TestFarLookAhead = FarLookAheadMachine.TestCase
for case in (TestConsistentHashing, TestHashRange, TestSticky, TestOutOfOrder, TestFarLookAhead):
    case.settings = settings(max_examples=examples(60), stateful_step_count=40, deadline=None)
del case
