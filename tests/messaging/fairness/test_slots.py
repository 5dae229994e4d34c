"""What holds of fair slots whatever is asked for, ended and given up, in any order."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from messaging.fairness.slots import FairSlots

SLOTS = 6
TENANTS = "abcdefgh"


class Slots(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.slots: FairSlots[int] = FairSlots(SLOTS)
        self.asked = 0
        self.waiting: dict[int, str] = {}
        self.served: dict[int, str] = {}
        self.others_first: dict[str, list[str]] = {}  # who began since this tenant, which uses no slot, began to wait

    @rule(tenant=st.sampled_from(TENANTS))
    def ask(self, tenant: str) -> None:
        self.asked += 1
        if tenant not in self.waiting.values() and tenant not in self.served.values():
            self.others_first[tenant] = []
        assert self.slots.ask(tenant, self.asked)
        self.waiting[self.asked] = tenant
        self._begin()

    @precondition(lambda self: self.served)
    @rule(data=st.data())
    def end(self, data: st.DataObject) -> None:
        item = data.draw(st.sampled_from(sorted(self.served)))
        self.slots.end(self.served.pop(item))
        self._begin()

    @precondition(lambda self: self.waiting)
    @rule(data=st.data())
    def withdraw(self, data: st.DataObject) -> None:
        item = data.draw(st.sampled_from(sorted(self.waiting)))
        tenant = self.waiting.pop(item)
        assert self.slots.withdraw(tenant, item)
        assert not self.slots.withdraw(tenant, item)
        if tenant not in self.waiting.values():
            self.others_first.pop(tenant, None)
        self._begin()

    def _begin(self) -> None:
        while (following := self.slots.begin()) is not None:
            tenant, item = following
            assert self.waiting.pop(item) == tenant, "what was withdrawn, or served before, is not served"
            before = list(self.served.values())
            assert before.count(tenant) < SLOTS - len(before), "nobody has more than is left for the others"
            self.served[item] = tenant
            self.others_first.pop(tenant, None)
            for first in self.others_first.values():
                first.append(tenant)

    @invariant()
    def nobody_waits_for_more_than_one_of_each_other_tenant(self) -> None:
        for first in self.others_first.values():
            assert len(first) == len(set(first))

    @invariant()
    def a_tenant_without_a_slot_waits_only_while_all_are_in_use(self) -> None:
        if self.slots.free:
            assert not set(self.waiting.values()) - set(self.served.values())

    @invariant()
    def counts_are_what_is_there(self) -> None:
        assert self.slots.free == SLOTS - len(self.served)
        assert self.slots.waiting.total() == len(self.waiting)

    def teardown(self) -> None:
        """Nothing is lost: whoever waits is served in the end."""
        while self.served:
            item, tenant = next(iter(self.served.items()))
            del self.served[item]
            self.slots.end(tenant)
            self._begin()
        assert not self.waiting and self.slots.free == SLOTS


TestSlots = Slots.TestCase


def test_a_tenant_has_half_of_the_slots_and_the_next_half_of_the_rest() -> None:
    slots: FairSlots[str] = FairSlots(8)
    for tenant in "abcde":
        for index in range(8):
            slots.ask(tenant, f"{tenant}{index}")
        while slots.begin():
            pass
    assert dict(slots.served) == {"a": 4, "b": 2, "c": 1, "d": 1}
    slots.end("a")
    assert slots.begin() == ("e", "e0")


@given(st.lists(st.sampled_from("abc"), max_size=60))
def test_a_tenant_waits_with_no_more_than_is_left_for_others(asked: list[str]) -> None:
    slots: FairSlots[int] = FairSlots(1, waiting_max=8)
    slots.ask("other", -1)
    slots.begin()
    for index, tenant in enumerate(asked):
        waiting, room = slots.waiting[tenant], 8 - slots.waiting.total()
        assert slots.ask(tenant, index) == (waiting < room)
    assert slots.waiting.total() <= 8
