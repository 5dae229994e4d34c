from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from messaging.http_server.places import Places


def test_the_longest_silent_of_the_largest_crowd_makes_room() -> None:
    places: Places[str] = Places(4, reserved=2)
    for name, address in (("a1", "a"), ("a2", "a"), ("b1", "b"), ("a3", "a")):
        assert places.arrive(name, address) is None
    places.busy("a1")
    assert places.arrive("c1", "c") == "a2"
    assert places.taken == 4 and places.made_room == 1


def test_who_is_busy_stays_and_newcomers_find_a_reserve_that_nobody_can_hold() -> None:
    places: Places[str] = Places(2, reserved=2)
    for name in ("a1", "a2"):
        places.arrive(name, "a")
        places.busy(name)
    assert not places.full
    assert places.arrive("s1", "a") is None and places.full
    # A silent one in the reserve goes for whoever comes next, so the reserve cannot be held without asking.
    assert places.arrive("s2", "a") == "s1"
    places.busy("s2")
    assert places.arrive("s3", "a") is None
    places.busy("s3")
    assert places.arrive("s4", "a") == "s4" and places.turned_away == 1
    places.leave("a1")
    places.leave("a2")
    assert not places.full


def test_a_connection_that_rests_counts_from_then_on() -> None:
    places: Places[str] = Places(2)
    places.arrive("first", "a")
    places.arrive("second", "a")
    places.busy("first")
    places.silent("first")
    assert places.arrive("third", "a") == "second"


def test_an_upgrade_keeps_its_place() -> None:
    places: Places[str] = Places(1)
    places.arrive("http", "a")
    places.replace("http", "websocket")
    assert places.taken == 1
    assert places.arrive("other", "a") is None and places.full  # in the reserve
    places.leave("websocket")
    places.leave("http")
    assert places.taken == 1 and not places.full


ACTS = st.lists(
    st.tuples(st.sampled_from(["arrive", "busy", "silent", "leave"]), st.integers(0, 12), st.sampled_from("abc")), max_size=60
)


@given(ACTS)
def test_never_more_than_there_are_and_counts_that_agree(acts: list[tuple[str, int, str]]) -> None:
    places: Places[int] = Places(4, reserved=2)
    inside: set[int] = set()
    for act, peer, address in acts:
        if act == "arrive" and peer not in inside:
            inside.add(peer)
            inside.discard(places.arrive(peer, address))  # type: ignore[arg-type]
        elif act == "leave":
            places.leave(peer)
            inside.discard(peer)
        elif act in ("busy", "silent"):
            getattr(places, act)(peer)
        assert places.taken == len(inside) <= 6
        silent = sum(map(len, places._silent.values()))
        assert silent + places._busy.total() == places.taken
