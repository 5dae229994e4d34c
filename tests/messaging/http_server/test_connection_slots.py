from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from messaging.http_server.connection_slots import ConnectionSlots


def test_the_longest_silent_of_the_largest_crowd_makes_room() -> None:
    slots: ConnectionSlots[str] = ConnectionSlots(4, reserved=2)
    for name, address in (("a1", "a"), ("a2", "a"), ("b1", "b"), ("a3", "a")):
        assert slots.arrive(name, address) is None
    slots.busy("a1")
    assert slots.arrive("c1", "c") == "a2"
    assert slots.taken == 4 and slots.made_room == 1


def test_a_network_of_one_customer_is_one_address() -> None:
    """Whoever had a /64 of IPv6 came from another address each time, and drove out everybody else's."""
    slots: ConnectionSlots[str] = ConnectionSlots(4)
    assert slots.arrive("honest", "2001:db8:1::1") is None
    for number in range(10):
        assert slots.arrive(f"crowd {number}", f"2001:db8:2::{number}") != "honest"


def test_busy_connections_stay_and_newcomers_find_a_reserve_that_no_peer_can_hold() -> None:
    slots: ConnectionSlots[str] = ConnectionSlots(2, reserved=2)
    for name in ("a1", "a2"):
        slots.arrive(name, "a")
        slots.busy(name)
    assert not slots.full
    assert slots.arrive("s1", "a") is None and slots.full
    # A silent one in the reserve goes for whoever comes next, so the reserve cannot be held without asking.
    assert slots.arrive("s2", "a") == "s1"
    slots.busy("s2")
    assert slots.arrive("s3", "a") is None
    slots.busy("s3")
    assert slots.arrive("s4", "a") == "s4" and slots.turned_away == 1
    slots.leave("a1")
    slots.leave("a2")
    assert not slots.full


def test_a_connection_that_rests_counts_from_then_on() -> None:
    slots: ConnectionSlots[str] = ConnectionSlots(2)
    slots.arrive("first", "a")
    slots.arrive("second", "a")
    slots.busy("first")
    slots.silent("first")
    assert slots.arrive("third", "a") == "second"


def test_an_upgrade_keeps_its_place() -> None:
    slots: ConnectionSlots[str] = ConnectionSlots(1)
    slots.arrive("http", "a")
    slots.replace("http", "websocket")
    assert slots.taken == 1
    assert slots.arrive("other", "a") is None and slots.full  # in the reserve
    slots.leave("websocket")
    slots.leave("http")
    assert slots.taken == 1 and not slots.full


def test_who_is_counted_elsewhere_comes_back_silent_and_not_to_the_places_for_health_checks() -> None:
    slots: ConnectionSlots[str] = ConnectionSlots(2, reserved=1)
    for name in ("first", "second", "third"):
        slots.arrive(name, "a")
        slots.busy(name)
        slots.leave(name)
    assert not slots.taken
    assert slots.return_silent("first", "a") is None and slots.return_silent("first", "a") is None
    assert slots.return_silent("second", "a") is None
    assert slots.return_silent("third", "a") == "first", "the longest silent of the crowd"
    assert slots.arrive("fourth", "b") == "second" and (slots.taken, slots.full) == (2, False)
    slots.busy("fourth")
    slots.busy("third")
    assert slots.return_silent("first", "a") == "first" and (slots.taken, slots.turned_away) == (2, 1)
    slots.leave("third")
    slots.leave("fourth")
    assert not slots.taken and not slots.busy_peers


NAMES = ["arrive", "busy", "silent", "return", "leave"]
ACTS = st.lists(
    st.tuples(st.sampled_from(NAMES), st.integers(0, 12), st.sampled_from("abc")),
    max_size=60,
)


@given(ACTS)
def test_never_more_than_there_are_and_counts_that_agree(acts: list[tuple[str, int, str]]) -> None:
    slots: ConnectionSlots[int] = ConnectionSlots(4, reserved=2)
    inside: set[int] = set()
    for act, peer, address in acts:
        before = slots.taken
        if act == "arrive" and peer not in inside:
            inside.add(peer)
            inside.discard(slots.arrive(peer, address))
        elif act == "return" and peer not in inside:
            inside.add(peer)
            inside.discard(slots.return_silent(peer, address))
            assert slots.taken <= max(4, before)
        elif act == "leave":
            slots.leave(peer)
            inside.discard(peer)
        elif act in ("busy", "silent"):
            getattr(slots, act)(peer)
        assert slots.taken == len(inside) <= 6
        silent = sum(map(len, slots.silent_peers.values()))
        assert silent + slots.busy_peers.total() == slots.taken
