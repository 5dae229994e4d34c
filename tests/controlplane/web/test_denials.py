"""However many are refused, a minute leaves a bounded number of records, and the counts are whole."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from controlplane.denials import ALL, EACH, KEYS, KEYS_OF_ADDRESS, Denials, Refused


def test_the_first_few_of_somebody_are_recorded_and_the_rest_counted() -> None:
    denials, who = Denials(), Refused("192.0.2.1", "x@acme")
    assert denials.due(60.0) == []
    assert [denials.one(who) for _ in range(100)].count(True) == EACH
    assert denials.due(119.9) == []
    [more] = denials.due(120.0)
    assert (more.who, more.refusals, more.since_s) == (who, 100 - EACH, 60)
    assert denials.due(121.0) == []
    assert denials.one(who)  # a new minute


def test_a_flood_leaves_room_for_the_record_of_another() -> None:
    denials = Denials()
    denials.due(60.0)
    for _ in range(10_000):
        denials.one(Refused("192.0.2.1", "x@acme"))
    assert denials.one(Refused("192.0.2.2", "y@acme"))


def test_an_address_refused_under_many_names_hides_no_other() -> None:
    """60 sign-ins with made-up names a minute, from one address, left what was refused to everybody else without a record."""
    denials = Denials()
    denials.due(60.0)
    for number in range(10_000):
        denials.one(Refused("192.0.2.1", f"user:name-{number}"))
    other = Refused("192.0.2.2", "y@acme")
    assert [denials.one(other) for _ in range(EACH + 3)].count(True) == EACH
    counted = {more.who: more.refusals for more in denials.due(120.0)}
    assert counted[other] == 3
    assert set(counted) <= {other, *(who for who in counted if who.address == "192.0.2.1")}  # and nobody is "everybody else"
    assert len(counted) == KEYS_OF_ADDRESS + 1


@given(st.lists(st.tuples(st.integers(0, 500), st.integers(0, 3)), max_size=2000))
def test_records_of_refusals_are_bounded_and_all_are_counted(refused: list[tuple[int, int]]) -> None:
    denials = Denials()
    denials.due(60.0)
    one_by_one = sum(denials.one(Refused(f"192.0.2.{address}", f"r{role}")) for address, role in refused)
    counted = denials.due(120.0)
    assert one_by_one <= ALL and len(counted) <= KEYS + 1
    assert one_by_one + sum(more.refusals for more in counted) == len(refused)
