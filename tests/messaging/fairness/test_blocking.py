from __future__ import annotations

import threading

from messaging.fairness.blocking import BlockingFairQueue


def test_tenants_are_served_in_turn() -> None:
    queue: BlockingFairQueue[str] = BlockingFairQueue()
    for item in ("a1", "a2", "b1"):
        queue.put(item[0], item)
    assert [queue.take(), queue.take_waiting(), queue.take(), queue.take_waiting()] == ["a1", "b1", "a2", None]


def test_items_put_in_are_taken_out_before_the_end() -> None:
    queue: BlockingFairQueue[str] = BlockingFairQueue()
    taken: list[str | None] = []

    def take_all() -> None:
        while taken[-1:] != [None]:
            taken.append(queue.take())

    thread = threading.Thread(target=take_all)
    thread.start()
    queue.put("a", "a1")
    queue.put("b", "b1")
    queue.end()
    thread.join(60)
    assert taken == ["a1", "b1", None]


def test_a_tenant_that_does_not_fit_waits_and_the_others_go_on() -> None:
    queue: BlockingFairQueue[str] = BlockingFairQueue()
    for item in ("a1", "b1", "b2"):
        queue.put(item[0], item)

    def fits(tenant: str, item: str) -> bool:
        return tenant != "a"

    assert [queue.take_waiting(fits), queue.take(0, fits), queue.take(0, fits)] == ["b1", "b2", None]
    assert not queue.ended
    queue.end()
    assert queue.take(None, fits) is None and queue.ended
    assert queue.take() == "a1"
