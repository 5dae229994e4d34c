"""A caller waits for a long change as long as pulsar-admin waits, in short calls that leave the turns to others."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from messaging.adminrpc import calls
from messaging.adminrpc.base import A, Method, R
from messaging.adminrpc.calls import TypedCalls
from messaging.adminrpc.changes import ChangeRef
from messaging.adminrpc.client import decode_answer
from messaging.adminrpc.methods import TOPICS_DELETE
from messaging.adminrpc.topics import TopicDelete, TopicDeletion
from messaging.broker.http.asgi import error_body
from messaging.caller import Caller, working_for
from messaging.errors import UnderWay
from tests.support.waiting import eventually_sync

DELETE = TopicDelete(topic="persistent://acme/orders/p", partitioned=True)
GOES_ON = UnderWay("it goes on").of("change-1")


class Broker(TypedCalls):
    """Says that the change goes on until it was asked `looks` times for the outcome."""

    def __init__(self, looks: int) -> None:
        self.looks = looks
        self.asked: list[str] = []

    def perform(self, method: Method[R, A], request: R) -> A:
        self.asked.append(method.name)
        if method.name == "changes.outcome":
            assert request == ChangeRef(id="change-1")
            self.looks -= 1
        body, status = (b"{}", 200) if not self.looks else (error_body(GOES_ON), GOES_ON.http_status)
        return decode_answer(method, status, body)


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calls, "LOOK_S", 0)


def test_a_long_change_is_begun_once_and_its_outcome_is_the_answer() -> None:
    """Its caller had 503 after 10 s."""
    broker = Broker(looks=3)
    assert broker.call(TOPICS_DELETE, DELETE) == TopicDeletion()
    assert broker.asked == ["topics.delete", *["changes.outcome"] * 3]


def test_what_takes_longer_than_a_caller_waits_says_that_it_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calls, "CHANGE_S", 0)
    with pytest.raises(UnderWay, match="it goes on"):
        Broker(looks=3).call(TOPICS_DELETE, DELETE)


class Waiting(threading.Thread):
    def __init__(self, tenant: str) -> None:
        super().__init__(daemon=True)
        self.caller, self.broker, self.error = Caller(tenant), Broker(looks=-1), ""
        self.start()

    def run(self) -> None:
        with working_for(self.caller):
            try:
                self.broker.call(TOPICS_DELETE, DELETE)
            except UnderWay as error:
                self.error = error.message


@pytest.fixture
def waiting(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Waiting]]:
    """As many callers of one tenant as may wait, for ever."""
    monkeypatch.setattr(calls, "LOOK_S", 3600)
    monkeypatch.setattr(calls, "LOOK_S_MAX", 3600)
    threads = [Waiting("a") for _ in range(calls.WAITING_PER_TENANT_MAX)]
    eventually_sync(lambda: all(thread.broker.asked for thread in threads))
    yield threads
    for thread in threads:
        thread.caller.leave()
        thread.join(30)


def test_whoever_leaves_waits_no_more(waiting: list[Waiting]) -> None:
    first = waiting[0]
    eventually_sync(lambda: calls.waiting_callers("a") == len(waiting))
    first.caller.leave()
    first.join(30)
    assert first.error == "it goes on" and first.broker.asked == ["topics.delete"]
    assert calls.waiting_callers("a") == len(waiting) - 1


def test_those_who_wait_leave_room_for_others(waiting: list[Waiting]) -> None:
    eventually_sync(lambda: calls.waiting_callers("a") == len(waiting))
    third = Waiting("a")
    third.join(30)
    assert third.error == "it goes on"
    other = Waiting("b")
    eventually_sync(lambda: calls.waiting_callers("b") == 1)
    other.caller.leave()
    other.join(30)
