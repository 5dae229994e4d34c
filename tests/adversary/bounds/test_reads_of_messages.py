"""A tenant whose hundred members, keys and addresses all search its messages at the same time, beside a neighbour who reads one."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

from messaging.adminrpc.base import A, Method, R
from messaging.adminrpc.browse import MessagesBrowse, MessagesBrowsed
from messaging.adminrpc.calls import TypedCalls
from messaging.adminrpc.topics import Partitions
from messaging.caller import Caller, working_for
from messaging.errors import NotReady
from messaging.fairness.waiting import ThreadTurns
from messaging.payloads.masks import NO_MASKS
from messaging.protocol.names import parse_topic
from tenants.browsing import pages
from tenants.browsing.query import message_query
from tests.support.waiting import eventually_sync

CROWD = 100


class Held(TypedCalls):
    """A broker that answers reads of the crowd when it is let, and others at once."""

    def __init__(self) -> None:
        self.under_way: Counter[str] = Counter()
        self.most: Counter[str] = Counter()
        self.go_on = threading.Event()
        self._lock = threading.Lock()

    def perform(self, method: Method[R, A], request: R) -> Any:
        if not isinstance(request, MessagesBrowse):
            return Partitions(partitions=0)
        tenant = parse_topic(request.topic).tenant
        with self._lock:
            self.under_way[tenant] += 1
            self.most[tenant] = max(self.most[tenant], self.under_way[tenant])
        if tenant == "mob":
            assert self.go_on.wait(30)
        with self._lock:
            self.under_way[tenant] -= 1
        return MessagesBrowsed(messages=[], looked_at=0, ledger_id=1, entry_id=1, done=True)


@pytest.fixture
def held() -> Iterator[Held]:
    made = Held()
    yield made
    made.go_on.set()


def read(rpc: TypedCalls, tenant: str, who: str) -> str:
    """ "" or why not."""
    topic = parse_topic(f"persistent://{tenant}/n/t")
    with working_for(Caller(who)):
        try:
            pages.browse(rpc, topic, message_query(topic, {}), NO_MASKS)
        except NotReady as error:
            return error.message
    return ""


def test_a_hundred_members_of_a_tenant_who_search_leave_reads_to_a_neighbour(held: Held, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each took turns as somebody else, by their address: sixteen searches at a time were theirs, and all others waited."""
    turns = ThreadTurns(pages.UNDER_WAY_MAX, pages.OF_A_TENANT_MAX, pages.WAITING_MAX, 30.0)
    monkeypatch.setattr(pages, "turns", turns)
    with ThreadPoolExecutor(CROWD) as threads:
        asked: list[Future[str]] = [threads.submit(read, held, "mob", f"192.0.2.{number}") for number in range(CROWD)]
        eventually_sync(
            lambda: sum(each.done() for each in asked) == CROWD - pages.OF_A_TENANT_MAX - turns.waiting and turns.waiting > 0
        )
        refused = [each.result() for each in asked if each.done()]
        assert len(refused) >= CROWD - pages.OF_A_TENANT_MAX - pages.WAITING_MAX // 2 - 1
        assert set(refused) == {
            "4 reads of messages of tenant mob are under way and others wait: try again when one has ended, and search less at a "
            "time, by a span of time or a lower limit"
        }
        assert read(held, "neighbour", "198.51.100.1") == "", "at once: the others are held until then"
        held.go_on.set()
        served = [each.result(30) for each in asked]
    assert served.count("") == CROWD - len(refused), "those that waited are served in the end"
    assert held.most == {"mob": pages.OF_A_TENANT_MAX, "neighbour": 1}
    assert read(held, "mob", "192.0.2.1") == ""
