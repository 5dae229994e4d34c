"""Who is cut off where answers that nobody reads take too much memory."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from messaging.http_server.unread_responses import UnreadResponses

PEERS = st.integers(0, 9)


def test_the_one_that_has_not_read_longest_goes_of_the_address_that_holds_most() -> None:
    unread = UnreadResponses[str](100)
    assert unread.waits("modest", "10.0.0.1", 30) == []
    assert unread.waits("first", "10.0.0.2", 20) == []
    assert unread.waits("second", "10.0.0.2", 20) == []
    assert unread.waits("third", "10.0.0.2", 40) == ["first"]
    assert (unread.held_bytes, unread.cut_off) == (90, 1)


def test_a_network_of_one_customer_is_one_address() -> None:
    """Whoever had a /64 took an address for each connection, and others were cut off for what they held."""
    unread = UnreadResponses[str](100)
    assert unread.waits("honest", "2001:db8:1::1", 40) == []
    for number in range(1, 7):
        assert unread.waits(f"crowd {number}", f"2001:db8:2::{number}", 10) == []
    assert unread.waits("crowd 7", "2001:db8:2::7", 10) == ["crowd 1"]


def test_a_response_alone_is_not_cut_off() -> None:
    unread = UnreadResponses[str](100)
    assert unread.waits("only", "10.0.0.1", 1_000) == []
    assert unread.waits("another", "10.0.0.2", 10) == ["only"]


@given(st.lists(st.tuples(PEERS, st.integers(0, 60))))
def test_the_bound_holds_and_nothing_is_counted_of_those_who_left(steps: list[tuple[int, int]]) -> None:
    unread, counted = UnreadResponses[int](100), Counter[int]()
    for peer, size in steps:
        counted[peer] = size
        for leaves in unread.waits(peer, f"10.0.0.{peer % 3}", size):
            del counted[leaves]
        assert unread.held_bytes == counted.total()
        assert unread.held_bytes <= 100
    for peer in range(10):
        unread.leave(peer)
        unread.leave(peer)
    assert unread.held_bytes == 0
