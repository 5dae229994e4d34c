from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from messaging.fairness.queue import FairQueue


def test_tenants_are_served_in_turn() -> None:
    queue: FairQueue[str] = FairQueue()
    for item in ("a1", "a2", "a3", "b1", "c1", "b2"):
        queue.push(item[0], item)
    assert [queue.pop() for _ in range(6)] == ["a1", "b1", "c1", "a2", "b2", "a3"]
    assert queue.pop() is None
    assert not queue


def test_an_item_waits_once_and_keeps_its_place() -> None:
    queue: FairQueue[int] = FairQueue()
    for item in (1, 2, 1):
        queue.push("a", item)
    assert (len(queue), queue.pop(), queue.pop(), queue.pop()) == (2, 1, 2, None)


def test_an_item_that_does_not_fit_keeps_its_place_and_others_go_on() -> None:
    queue: FairQueue[int] = FairQueue()
    for tenant, size in (("a", 100), ("a", 1), ("b", 5)):
        queue.push(tenant, size)
    assert queue.pop(lambda tenant, size: size < 50) == 5
    assert queue.pop(lambda tenant, size: size < 50) is None  # the small one of `a` stays behind the large one
    assert [queue.pop(), queue.pop()] == [100, 1]


def test_discarded_items_do_not_come() -> None:
    queue: FairQueue[int] = FairQueue()
    queue.push("a", 1)
    queue.push("a", 2)
    queue.discard("a", 1)
    queue.discard("a", 7)
    queue.discard("b", 1)
    assert queue.pop() == 2
    queue.push("a", 3)
    queue.discard("a", 3)
    assert not queue


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 30))))
def test_nothing_is_lost_and_each_tenants_order_is_kept(pushed: list[tuple[str, int]]) -> None:
    queue: FairQueue[tuple[str, int]] = FairQueue()
    for item in pushed:
        queue.push(item[0], item)
    expected = {tenant: list(dict.fromkeys(item for item in pushed if item[0] == tenant)) for tenant in "abc"}
    assert len(queue) == sum(map(len, expected.values()))
    popped = []
    while (first := queue.pop()) is not None:
        popped.append(first)
    assert {tenant: [item for item in popped if item[0] == tenant] for tenant in "abc"} == expected
