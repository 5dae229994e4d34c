"""Fair shares of a commit, and what a failure does to what waits."""

from __future__ import annotations

from array import array

from hypothesis import given
from hypothesis import strategies as st

from messaging.storage.local.ledger_state import LedgerState
from messaging.storage.local.write.queue import Item, fair_shares


def item(owner: str, size_bytes: int, serial: int) -> Item:
    return (LedgerState(1, {"tenant": owner}), lambda error: None, b"", b"", array("I"), serial, size_bytes)


def bytes_by_owner(items: list[Item]) -> dict[str, int]:
    sizes: dict[str, int] = {}
    for state, _, _, _, _, _, size_bytes in items:
        sizes[state.owner] = sizes.get(state.owner, 0) + size_bytes
    return sizes


def serials(items: list[Item], owners: str = "abcd") -> list[int]:
    return [serial for state, _, _, _, _, serial, _ in items if state.owner in owners]


def test_each_owner_gets_its_share_and_what_others_leave() -> None:
    items = [item("a", 10, serial) for serial in range(100)]
    items += [item("b", 10, serial) for serial in range(3)]
    items += [item("c", 10, serial) for serial in range(100)]
    taken, left = fair_shares(items, 600)
    assert bytes_by_owner(taken) == {"a": 280, "b": 30, "c": 280}  # the last 10 cannot be split
    assert len(taken) + len(left) == len(items)


def test_an_item_that_is_too_large_goes_alone() -> None:
    taken, left = fair_shares([item("a", 1000, 0), item("a", 1, 1)], 10)
    assert serials(taken) == [0] and serials(left) == [1]


@given(
    st.lists(st.tuples(st.sampled_from("abcd"), st.integers(1, 50)), min_size=1, max_size=60),
    st.integers(1, 400),
)
def test_order_and_bounds(given_items: list[tuple[str, int]], bytes_max: int) -> None:
    items = [item(owner, size, serial) for serial, (owner, size) in enumerate(given_items)]
    taken, left = fair_shares(items, bytes_max)
    assert taken
    assert sum(bytes_by_owner(taken).values()) <= bytes_max or len(taken) == 1
    assert sorted(serials(taken + left)) == list(range(len(items)))
    for owner in "abcd":
        of_owner = serials(taken + left, owner)
        assert of_owner == sorted(of_owner)
    assert serials(left) == sorted(serials(left))
    assert left or len(taken) == len(items)


def test_a_flush_is_not_taken_before_what_it_waits_for() -> None:
    """It had a share of its own, so a flush was over while appends before it still waited: they succeeded after `take_over`."""
    waits = (LedgerState(-1, {"reserved": "flush"}), lambda error: None, b"", b"", None, 0, 0)
    flood = [item("a", 10, serial) for serial in range(10)]
    left = [*flood, waits, *(item("b", 10, serial) for serial in range(10))]
    rounds = 0
    while waits in left:
        taken, left = fair_shares(left, 40)
        rounds += 1
        assert (waits in taken) == (not any(block in left for block in flood)), rounds
    assert rounds > 1
    assert fair_shares([waits], 40) == ([waits], [])
