"""Calls to the broker take turns by tenant, and a read is done only while somebody waits for it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from messaging.adminrpc.base import A, Empty, Method, R
from messaging.adminrpc.calls import TypedCalls
from messaging.adminrpc.feed import FeedVersion
from messaging.adminrpc.messages import MessageFind
from messaging.adminrpc.methods import FEED_VERSION, MESSAGES_FIND, TOPICS_DELETE
from messaging.adminrpc.topics import MessageIdAnswer, TopicDelete
from messaging.caller import Caller, current_caller, working_for
from messaging.errors import NotReady
from tenants import answers, broker
from tenants.answers import Answers, NothingAnswered
from tenants.broker import PooledRpc
from tests.support.waiting import eventually_sync

FIND, DELETE = MessageFind(topic="t", timestamp_ms=1), TopicDelete(topic="t")


class Held(TypedCalls):
    """A broker that answers when it is let. `answers_small`: what takes no time it answers at once."""

    def __init__(self, *, answers_small: bool = False) -> None:
        self.answers_small = answers_small
        self.begun: list[str] = []
        self.callers: list[Caller] = []
        self.go_on = threading.Event()

    def perform(self, method: Method[R, A], request: R) -> Any:
        self.begun.append(method.name)
        self.callers.append(current_caller())
        if self.answers_small and method.name == FEED_VERSION.name:
            return FeedVersion(version=1)
        assert self.go_on.wait(30)
        return MessageIdAnswer(ledger_id=1, entry_id=1, partition=-1) if method.name == MESSAGES_FIND.name else Empty()


@pytest.fixture
def held() -> Iterator[Held]:
    made = Held()
    yield made
    made.go_on.set()


class Asking(threading.Thread):
    def __init__(self, rpc: PooledRpc, caller: Caller, method: Method[Any, Any] = MESSAGES_FIND) -> None:
        super().__init__(daemon=True)
        self._rpc, self._caller, self._method = rpc, caller, method
        self.error: NotReady | None = None
        self.start()

    def run(self) -> None:
        request = FIND if self._method == MESSAGES_FIND else DELETE
        with working_for(self._caller):
            try:
                self._rpc.perform(self._method, request)
            except NotReady as error:
                self.error = error


def test_forty_calls_of_one_tenant_leave_threads_to_another(held: Held) -> None:
    rpc = PooledRpc(held, threads_max=4)
    many = [Asking(rpc, Caller("a")) for _ in range(40)]
    eventually_sync(lambda: len(held.begun) == 2)
    other = Asking(rpc, Caller("b"), TOPICS_DELETE)
    eventually_sync(lambda: "topics.delete" in held.begun)
    assert rpc.takes_calls(10), "and so it is with a health check"
    held.go_on.set()
    for asking in (*many, other):
        asking.join(30)
    assert len(held.begun) == 41


def test_a_read_whose_caller_left_is_not_begun_and_a_change_is_done(held: Held) -> None:
    rpc = PooledRpc(held, threads_max=1)
    Asking(rpc, Caller("a"), TOPICS_DELETE)
    eventually_sync(lambda: held.begun)
    reader, changer = Caller("b"), Caller("c")
    read, change = Asking(rpc, reader), Asking(rpc, changer, TOPICS_DELETE)
    eventually_sync(lambda: rpc.waiting == 2)
    reader.leave()
    changer.leave()
    read.join(30)
    assert read.error is not None and "the caller left" in read.error.message
    held.go_on.set()
    change.join(30)
    assert held.begun == ["topics.delete", "topics.delete"] and change.error is None


def test_a_call_that_waits_too_long_is_refused_and_not_made(held: Held, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broker, "ANSWER_S", 0.01)
    rpc = PooledRpc(held, threads_max=1)
    blocked = Asking(rpc, Caller("a"), TOPICS_DELETE)
    blocked.join(30)
    with pytest.raises(NotReady, match="the broker did not respond"):
        rpc.perform(MESSAGES_FIND, FIND)
    assert not rpc.takes_calls(0.01) and rpc.waiting == 0
    assert held.begun == ["topics.delete"]


def test_who_waits_for_a_moment_is_told_and_what_they_read_is_ended(held: Held, monkeypatch: pytest.MonkeyPatch) -> None:
    """And is then asked for less: a page that asks five times is not five times as late. What is said is the same, however long it
    was: a page that looks again every few seconds changed each time."""
    rpc = PooledRpc(held, threads_max=1)
    monkeypatch.setattr(broker, "rpc", lambda: rpc)
    caller = Caller("a")
    with working_for(caller):
        with pytest.raises(NotReady, match="in time") as first:
            broker.answer_within(MESSAGES_FIND, FIND, 0.01)
        assert caller.unanswered and not caller.left and held.callers[0].left
        monkeypatch.setattr(answers, "MOMENT_S", 0.02)
        monkeypatch.setattr(answers, "INSTANT_S", 0.02)
        with pytest.raises(NotReady) as second:
            broker.answer_within(MESSAGES_FIND, FIND, 60)
        assert first.value.message == second.value.message and caller.waited_s < 10
    held.go_on.set()
    assert rpc.waiting == 0 and held.begun == ["messages.find"]


@pytest.mark.parametrize("still", [True, False])
def test_a_broker_that_stands_still_is_not_waited_for_and_one_that_works_is(still: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broker, "answers", Answers())
    monkeypatch.setattr(broker, "LOOK_S", 0.01)
    monkeypatch.setattr(broker, "STILL_S", 0.02 if still else 20)
    held = Held(answers_small=not still)
    rpc = PooledRpc(held)
    caller = Caller("a")
    caller.patience_s = 30
    asking = Asking(rpc, caller)
    if still:
        asking.join(30)
        assert isinstance(asking.error, NothingAnswered) and "in time" in asking.error.message and caller.unanswered
    else:
        eventually_sync(lambda: "feed.version" in held.begun)
        assert asking.is_alive()
    held.go_on.set()
    asking.join(30)
    assert still or asking.error is None


def test_for_a_change_it_is_looked_whether_the_broker_stands_still(held: Held, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that what may be done twice is asked of another one, though nobody is told that there was no answer."""
    monkeypatch.setattr(broker, "LOOK_S", 0.01)
    asking = Asking(PooledRpc(held), Caller("a"), TOPICS_DELETE)
    eventually_sync(lambda: held.begun == ["topics.delete", "feed.version"])
    held.go_on.set()
    asking.join(30)
    assert asking.error is None


def test_a_tenant_whose_calls_take_long_leaves_others_their_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """The broker answers what takes it no time, so it is not silent."""
    monkeypatch.setattr(broker, "answers", Answers())
    monkeypatch.setattr(broker, "LOOK_S", 0.01)
    monkeypatch.setattr(broker, "STILL_S", 10)
    held = Held(answers_small=True)
    caller = Caller("a")
    caller.patience_s = 10.05
    asking = Asking(PooledRpc(held), caller)
    asking.join(30)
    held.go_on.set()
    assert asking.error is not None and "in time" in asking.error.message
    with broker.answers.waiting(5.0) as first, broker.answers.waiting(5.0) as second:
        assert first == second == 5.0


def test_nothing_is_left_waiting_for_a_change_that_was_given_up(held: Held, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broker, "LOOK_S", 0.01)
    monkeypatch.setattr(broker, "STILL_S", 0.02)
    rpc = PooledRpc(held, threads_max=1)
    with pytest.raises(NotReady):
        rpc.perform(TOPICS_DELETE, DELETE, 0.1)
    assert rpc.waiting == 0, "the look, which a health check would wait behind"
    held.go_on.set()
    assert rpc.takes_calls(30) and held.begun == [TOPICS_DELETE.name]
