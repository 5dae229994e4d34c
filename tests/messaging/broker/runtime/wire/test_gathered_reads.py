"""While the next commit waits, a peer that sends message after message is left unread until it is due."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from typing import Any, cast

import pytest

from messaging.broker.core.consumer import Consumer, ConsumerSink
from messaging.broker.runtime.wire.gathered_reads import LOW_WATER_BYTES, PATIENT_COMMITS, GatheredReads
from messaging.storage.next_commit import NextCommit


class FakeTransport:
    def __init__(self, peer: socket.socket | None) -> None:
        self.peer = peer

    def get_extra_info(self, name: str) -> socket.socket | None:
        return self.peer


class Peer:
    """One end of a TCP connection, and the reads of it."""

    def __init__(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as server:
            self.far = socket.create_connection(server.getsockname())
            self.near, _ = server.accept()
        self.next_commit = NextCommit()
        self.next_commit.delay()
        self.reads = GatheredReads(cast(asyncio.Transport, FakeTransport(self.near)), self.next_commit)
        self.consumers: dict[int, tuple[Any, Any, Consumer]] = {}

    def read(self, sent: int = 0, acked: int = 0) -> None:
        self.reads.read(sent, acked, self.consumers)

    @property
    def unread(self) -> bool:
        return self.near.getsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT) == LOW_WATER_BYTES


@pytest.fixture
def peer() -> Iterator[Peer]:
    made = Peer()
    yield made
    made.near.close()
    made.far.close()


def test_a_second_message_before_the_next_commit_begins_it(peer: Peer) -> None:
    peer.read(sent=1)
    assert not peer.unread
    peer.read(sent=1)
    assert peer.unread
    peer.next_commit.due()
    assert not peer.unread
    peer.read(sent=1)
    assert not peer.unread


def test_several_messages_of_one_read_begin_it(peer: Peer) -> None:
    peer.read(sent=5)
    assert peer.unread
    peer.next_commit.end_delay()
    assert not peer.unread


def test_single_acknowledgements_are_read_as_they_come(peer: Peer) -> None:
    for _ in range(5):
        peer.read(acked=1)
        assert not peer.unread


def test_consumers_that_asked_for_plenty_are_left_unread_longer(peer: Peer) -> None:
    consumer = Consumer(1, "c", cast(ConsumerSink, None))
    peer.consumers[1] = (None, None, consumer)
    consumer.permits = 10
    peer.read(acked=5)
    peer.next_commit.due()
    assert not peer.unread
    consumer.permits = 1000
    peer.read(acked=5)
    for _ in range(PATIENT_COMMITS):
        assert peer.unread
        peer.next_commit.due()
    assert not peer.unread
    consumer.blocked = True
    peer.read(acked=5)
    peer.next_commit.due()
    assert not peer.unread


def test_nobody_is_left_unread_when_commits_are_delayed_no_more(peer: Peer) -> None:
    """It waited for another commit, which may never come."""
    peer.read(acked=5)
    peer.next_commit.end_delay()
    assert not peer.unread


def test_a_connection_that_ended_meanwhile_stops_nobody(peer: Peer) -> None:
    """The error kept the next commit from beginning: nothing was stored any more."""
    peer.read(sent=5)
    peer.near.close()
    peer.next_commit.due()
    peer.next_commit.end_delay()


class ClosedSocket:
    """uvloop's sockets have no descriptor when their transport is closed."""

    def __init__(self) -> None:
        self.closed = False

    def setsockopt(self, *values: int) -> None:
        if self.closed:
            raise ValueError("file descriptor cannot be a negative integer (-1)")


def test_a_closed_transport_stops_nobody() -> None:
    next_commit, near = NextCommit(), ClosedSocket()
    next_commit.delay()
    reads = GatheredReads(cast(asyncio.Transport, FakeTransport(cast(socket.socket, near))), next_commit)
    reads.read(5, 0, {})
    near.closed = True
    next_commit.due()
    next_commit.end_delay()


def test_a_transport_without_a_socket_is_always_read() -> None:
    next_commit = NextCommit()
    next_commit.delay()
    reads = GatheredReads(cast(asyncio.Transport, FakeTransport(None)), next_commit)
    reads.read(5, 0, {})
    next_commit.end_delay()


async def test_what_was_left_unread_comes_in_one_read(peer: Peer) -> None:
    loop = asyncio.get_running_loop()
    peer.near.setblocking(False)
    peer.read(sent=5)
    for _ in range(3):
        peer.far.sendall(b"x" * 100)
    readable = loop.create_future()
    loop.add_reader(peer.near, lambda: readable.done() or readable.set_result(None))
    done, _ = await asyncio.wait([readable], timeout=0.05)
    assert not done
    peer.next_commit.due()
    await asyncio.wait_for(readable, 30)
    loop.remove_reader(peer.near)
    assert len(peer.near.recv(1000)) == 300


async def test_the_end_of_the_connection_is_seen_all_the_same(peer: Peer) -> None:
    loop = asyncio.get_running_loop()
    peer.read(sent=5)
    ended = loop.create_future()
    loop.add_reader(peer.near, lambda: ended.done() or ended.set_result(None))
    peer.far.close()
    await asyncio.wait_for(ended, 30)
    loop.remove_reader(peer.near)
