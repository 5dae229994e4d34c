"""What ends for many clients at the same time takes no other client's turn of the loop."""

from __future__ import annotations

import asyncio
from typing import Any

from messaging.broker.runtime.peers import ENDS_A_TURN, Peers
from messaging.broker.runtime.topics.dispatch.topic_end import send_end_of_topic
from messaging.permissions.model import Principal
from messaging.settings import Settings

COUNT = 10 * ENDS_A_TURN


class Connection:
    """Of the key `gone`, or of another."""

    def __init__(self, ended: list[Connection], key_id: str = "gone") -> None:
        self.principal = Principal("writer@acme", key_id=key_id)
        self._ended = ended

    def stop(self) -> None: ...

    def refuse(self, reason: str, detail: str = "") -> None:
        self._ended.append(self)

    def end(self, error: Exception) -> None:
        self._ended.append(self)


async def test_connections_of_a_revoked_key_end_in_slices() -> None:
    """All ended in one turn: a tenth of a second for a thousand of them."""
    peers: Any = Peers(Settings())
    ended: list[Connection] = []
    peers.connections.update(Connection(ended) for _ in range(COUNT))
    peers.sessions.update(Connection(ended) for _ in range(COUNT))
    other = Connection(ended, "other")
    peers.connections.add(other)
    peers.end_keys({"gone"})
    turns = 1
    while len(ended) < 2 * COUNT:
        assert len(ended) <= turns * ENDS_A_TURN
        await asyncio.sleep(0)
        turns += 1
        assert turns < COUNT
    assert len(set(ended)) == 2 * COUNT and other not in ended


async def test_a_connection_that_left_before_its_slice_is_not_ended_again() -> None:
    peers: Any = Peers(Settings())
    ended: list[Connection] = []
    peers.connections.update(Connection(ended) for _ in range(COUNT))
    peers.end_keys({"gone"})
    assert len(ended) == ENDS_A_TURN
    peers.connections.clear()
    for _ in range(20):
        await asyncio.sleep(0)
    assert len(ended) == ENDS_A_TURN


class Reader:
    def __init__(self, told: list[Reader]) -> None:
        self.sink = self
        self.looked_at = 0
        self._told = told
        self._end_told = False

    @property
    def end_told(self) -> bool:
        self.looked_at += 1
        return self._end_told

    @end_told.setter
    def end_told(self, value: bool) -> None:
        self._end_told = value

    def end_of_topic(self, consumer: Reader) -> None:
        self._told.append(consumer)


class Subscribed:
    backlog_entries = 0

    def __init__(self, consumers: list[Reader]) -> None:
        self.consumers = dict.fromkeys(consumers)


def test_the_end_of_a_topic_is_told_once_without_looking_at_all_consumers_again() -> None:
    """Each dispatch of a terminated topic looked at all of them."""
    told: list[Reader] = []
    readers = [Reader(told) for _ in range(1_000)]
    subscription: Any = Subscribed(readers)
    send_end_of_topic(subscription)
    assert told == readers
    before = sum(reader.looked_at for reader in readers)
    for _ in range(10):
        send_end_of_topic(subscription)
    assert told == readers
    assert sum(reader.looked_at for reader in readers) == before + 10
    late = Reader(told)
    subscription.consumers[late] = None
    send_end_of_topic(subscription)
    assert told == [*readers, late]
