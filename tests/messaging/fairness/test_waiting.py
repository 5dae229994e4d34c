"""Threads that wait for their turn: no longer than they may, no more of a tenant than there is room for, and not for who left."""

from __future__ import annotations

import threading
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from messaging.caller import Caller, working_for
from messaging.errors import NotReady
from messaging.fairness.waiting import ThreadTurns
from tests.support.waiting import eventually_sync

LONG_S = 30.0


def test_a_tenant_has_its_part_and_the_rest_is_for_others() -> None:
    turns = ThreadTurns(4, 2, 8, 0.01)
    assert [turns.begin("a") for _ in range(3)] == [True, True, False]
    assert [turns.begin("b"), turns.begin("b")] == [True, False], "it is left one, as long as there may be a third"
    turns.end("a")
    assert turns.begin("a")
    assert turns.waiting == 0


def test_those_that_wait_are_served_in_turns_and_those_without_room_refused() -> None:
    turns, served = ThreadTurns(1, 1, 4, LONG_S), list[str]()
    assert turns.begin("a")

    def serve(name: str) -> bool:
        if not turns.begin(name[0]):
            return False
        served.append(name)
        turns.end(name[0])
        return True

    with ThreadPoolExecutor(8) as threads:
        asked: list[Future[bool]] = []
        for name in ("a1", "a2", "b1"):
            asked.append(threads.submit(serve, name))
            eventually_sync(lambda: turns.waiting == len(asked))
        assert not serve("a3"), "two of a tenant wait, and there is room for one more, which is for others"
        turns.end("a")
        assert all(each.result(LONG_S) for each in asked)
    assert served == ["a1", "b1", "a2"]


@pytest.mark.parametrize("leaves_first", [True, False])
def test_who_leaves_waits_no_longer_and_keeps_no_turn(leaves_first: bool) -> None:
    turns, caller, came = ThreadTurns(1, 1, 4, LONG_S), Caller("a"), threading.Event()
    assert turns.begin("a")

    def ask() -> bool:
        with working_for(caller):
            came.set()
            return turns.begin("a")

    if leaves_first:
        caller.leave()
        with pytest.raises(NotReady, match="left"):
            ask()
    else:
        with ThreadPoolExecutor(1) as threads:
            asked = threads.submit(ask)
            eventually_sync(lambda: turns.waiting == 1)
            caller.leave()
            assert asked.result(LONG_S) is False
    assert turns.waiting == 0
    turns.end("a")
    assert turns.begin("b"), "nothing is held for who left"
