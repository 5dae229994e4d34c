"""Blocking calls in turns by tenant: in threads that a test holds up and lets go."""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Iterator
from concurrent.futures import Future, wait

import pytest

from messaging.errors import NotReady
from messaging.fairness.threads import FairThreads
from tests.support.waiting import eventually_sync

WHO: contextvars.ContextVar[str] = contextvars.ContextVar("who", default="nobody")


class Calls:
    """Each runs until it is let go."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self._go_on: dict[str, threading.Event] = {}

    def __call__(self, name: str) -> str:
        self._go_on.setdefault(name, threading.Event())
        self.begun.append(name)
        assert self._go_on[name].wait(30)
        return name

    def let_go(self, *names: str) -> None:
        for name in names:
            self._go_on.setdefault(name, threading.Event()).set()


@pytest.fixture
def calls() -> Iterator[Calls]:
    made = Calls()
    yield made


def submit(threads: FairThreads, calls: Calls, name: str, destination: str | None = None) -> Future[str]:
    """The tenant of a name is its first letter."""
    return threads.submit(name[0], lambda: calls(name), destination)


def test_a_tenant_with_a_hundred_calls_leaves_threads_to_others(calls: Calls) -> None:
    threads = FairThreads(4, "test")
    asked = [submit(threads, calls, f"a{index}") for index in range(100)]
    eventually_sync(lambda: len(calls.begun) == 2)
    other = submit(threads, calls, "b")
    calls.let_go("b")
    assert other.result(30) == "b" and calls.begun == ["a0", "a1", "b"]
    calls.let_go(*(f"a{index}" for index in range(100)))
    assert [future.result(30) for future in asked] == [f"a{index}" for index in range(100)]
    assert (threads.running, threads.waiting) == (0, 0)
    threads.shutdown()


def test_a_call_cancelled_before_its_turn_is_never_made(calls: Calls) -> None:
    threads = FairThreads(1, "test")
    first, second, third = (submit(threads, calls, name) for name in ("a1", "a2", "a3"))
    eventually_sync(lambda: calls.begun == ["a1"])
    assert second.cancel() and not first.cancel()
    assert threads.waiting == 1
    calls.let_go("a1", "a2", "a3")
    assert third.result(30) == "a3" and calls.begun == ["a1", "a3"]
    threads.shutdown()


def test_a_failed_call_gives_its_thread_back(calls: Calls) -> None:
    threads = FairThreads(1, "test")
    failed = threads.submit("a", lambda: 1 // 0)
    calls.let_go("b")
    assert submit(threads, calls, "b").result(30) == "b"
    assert isinstance(failed.exception(), ZeroDivisionError)
    threads.shutdown()


def test_a_destination_that_does_not_answer_holds_only_its_share(calls: Calls) -> None:
    threads = FairThreads(8, "test", per_destination_max=1)
    silent = [submit(threads, calls, f"{tenant}1", "silent") for tenant in "abc"]
    eventually_sync(lambda: calls.begun == ["a1"])
    calls.let_go("d1")
    assert submit(threads, calls, "d1", "other").result(30) == "d1"
    calls.let_go("a1", "b1", "c1")
    wait(silent)
    assert calls.begun == ["a1", "d1", "b1", "c1"]
    threads.shutdown()


def test_too_much_that_waits_is_refused(calls: Calls) -> None:
    threads = FairThreads(1, "test", waiting_max=4)
    asked = [submit(threads, calls, f"a{index}") for index in range(3)]
    with pytest.raises(NotReady, match="2 calls wait already"):
        submit(threads, calls, "a3")
    asked.append(submit(threads, calls, "b1"))
    calls.let_go("a0", "a1", "a2", "b1")
    assert len(wait(asked).done) == 4
    threads.shutdown()


def test_a_call_runs_in_the_context_of_who_asked() -> None:
    threads = FairThreads(1, "test")
    WHO.set("me")
    assert threads.submit("a", WHO.get).result(30) == "me"
    threads.shutdown()


def test_nothing_is_lost_when_many_ask_and_give_up_at_the_same_time() -> None:
    threads, done = FairThreads(3, "test"), []
    futures: list[Future[None]] = []

    def ask(tenant: str) -> None:
        for index in range(200):
            future = threads.submit(tenant, lambda index=index: done.append((tenant, index)))  # type: ignore[misc]
            futures.append(future)
            if index % 3 == 0:
                future.cancel()

    askers = [threading.Thread(target=ask, args=(tenant,)) for tenant in "abcd"]
    for asker in askers:
        asker.start()
    for asker in askers:
        asker.join()
    wait(futures)
    assert len(done) == len(set(done)) == sum(not future.cancelled() for future in futures)
    assert (threads.running, threads.waiting) == (0, 0)
    threads.shutdown()


def test_running_calls_answer_at_the_end_and_waiting_ones_are_cancelled(calls: Calls) -> None:
    threads = FairThreads(1, "test")
    first, second = (submit(threads, calls, name) for name in ("a1", "b1"))
    eventually_sync(lambda: calls.begun == ["a1"])
    ending = threading.Thread(target=threads.shutdown)
    ending.start()
    eventually_sync(lambda: threads.ended)
    calls.let_go("a1")
    assert first.result(30) == "a1"
    ending.join()
    assert len(wait([second], 30).done) == 1 and second.cancelled()
    assert submit(threads, calls, "c1").cancelled() and calls.begun == ["a1"]
