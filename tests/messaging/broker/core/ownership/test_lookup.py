"""Where a broker sends whoever asks for a topic."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import pytest

from messaging.broker.core.ownership.lease import Lease
from messaging.broker.core.ownership.lookup import Acquire, Here, NotNow, There, answer
from messaging.broker.core.ownership.owner_map import OwnerMap
from messaging.broker.core.ownership.placement import candidate
from messaging.protocol.bundles import equal_bundles
from messaging.storage.ownership import (
    DRAINS,
    SERVES,
    UNTOLD,
    BrokerSession,
    NamespaceBundle,
    OwnershipChanges,
    OwnershipRow,
    State,
)

END = 0xFFFFFFFF
HALF = 0x80000000
WHOLE = NamespaceBundle("acme/orders", 0, END)
LOWER, UPPER = NamespaceBundle("acme/orders", 0, HALF), NamespaceBundle("acme/orders", HALF, END)
BROKERS = ("b1", "b2", "b3")


def _row(
    bundle: NamespaceBundle, broker_id: str, change: int, *, session: int = 1, state: State = "owned", pinned: bool = False
) -> OwnershipRow:
    return OwnershipRow(bundle, broker_id, session, change, state, pinned, change)


def _owners(*rows: OwnershipRow, dead: str = "") -> OwnerMap:
    owners = OwnerMap()
    sessions = [BrokerSession(broker_id, 1, {SERVES: "pulsar://there"}, broker_id not in dead) for broker_id in BROKERS]
    owners.apply(OwnershipChanges(list(rows), sessions, len(rows), more=False))
    return owners


def _ask(owners: OwnerMap, bundle: NamespaceBundle = LOWER, *, me: str = "b1", sent: bool = False) -> object:
    return answer(owners, me, 1, bundle, bundle.lower + 1, sent=sent)


def _one_for(broker_id: str) -> NamespaceBundle:
    """A bundle that placement gives to a broker while nobody has any."""
    names = (NamespaceBundle(f"acme/{number}", 0, END) for number in range(1000))
    return next(bundle for bundle in names if candidate(bundle, BROKERS, OwnerMap()) == broker_id)


def test_the_owner_answers_that_it_is_here() -> None:
    row = _row(LOWER, "b1", 1)
    assert _ask(_owners(row)) == Here(row)


def test_others_send_to_the_owner() -> None:
    owners = _owners(_row(LOWER, "b1", 1))
    assert _ask(owners, me="b2") == There(owners.sessions["b1"], owner=True)
    assert _ask(owners, me="b2", sent=True) == There(owners.sessions["b1"], owner=True)


def test_an_owner_with_larger_bundles_than_are_known_here_is_still_the_owner() -> None:
    owners = _owners(_row(WHOLE, "b1", 1))
    assert _ask(owners, UPPER, me="b2") == There(owners.sessions["b1"], owner=True)


def test_an_owner_of_a_part_that_is_alive_has_to_cut_first() -> None:
    owners = _owners(_row(LOWER, "b2", 1))
    assert answer(owners, "b1", 1, WHOLE, HALF + 1, sent=True) == There(owners.sessions["b2"], owner=False)


@pytest.mark.parametrize("me", BROKERS)
def test_nobody_is_sent_to_a_bundle_that_is_being_handed_over(me: str) -> None:
    assert isinstance(_ask(_owners(_row(LOWER, "b1", 1, state="draining")), me=me), NotNow)


@pytest.mark.parametrize("me", BROKERS)
def test_what_nobody_has_goes_to_its_candidate(me: str) -> None:
    bundle, owners = _one_for("b2"), _owners()
    assert _ask(owners, bundle, me=me) == (Acquire(bundle) if me == "b2" else There(owners.sessions["b2"], owner=False))


def test_whoever_a_client_was_sent_to_sends_it_no_further() -> None:
    bundle = _one_for("b2")
    assert _ask(_owners(), bundle, me="b1", sent=True) == Acquire(bundle)


def test_a_dead_owners_bundle_is_for_the_living() -> None:
    owners = _owners(_row(LOWER, "b1", 1), dead="b1")
    assert _ask(owners, me="b2", sent=True) == Acquire(LOWER)
    chosen = candidate(LOWER, ["b2", "b3"], OwnerMap())
    assert _ask(owners, me=str(chosen)) == Acquire(LOWER)


def test_a_bundle_of_an_earlier_session_is_acquired_again() -> None:
    assert _ask(_owners(_row(LOWER, "b1", 1, session=0)), sent=True) == Acquire(LOWER)


@pytest.mark.parametrize("me", ["b1", "b2"])
def test_a_pinned_bundle_waits_for_the_broker_that_has_its_log(me: str) -> None:
    owners = _owners(_row(LOWER, "b3", 1, pinned=True), dead="b3")
    answered = _ask(owners, me=me, sent=True)
    assert isinstance(answered, NotNow) and "b3" in answered.why
    assert _ask(owners, UPPER, me=me, sent=True) == Acquire(UPPER)


@pytest.mark.parametrize("sent", [False, True])
def test_a_pinned_bundle_is_taken_again_by_a_later_session_of_its_broker(sent: bool) -> None:
    owners = _owners(_row(LOWER, "b3", 1, session=0, pinned=True))
    assert _ask(owners, me="b1", sent=sent) == There(owners.sessions["b3"], owner=False)


@pytest.mark.parametrize("sent", [False, True])
def test_nobody_is_sent_to_a_broker_on_whose_port_nothing_listens(sent: bool) -> None:
    """Its lease has not ended: where it has a log of its own, whoever asks waits for it. New bundles go to others."""
    owners = _owners(_row(LOWER, "b3", 1, pinned=True))
    owners.refusing = {("b3", 1)}
    answered = _ask(owners, me="b1", sent=sent)
    assert isinstance(answered, NotNow) and answered.passes and "b3" in answered.why
    assert isinstance(_ask(owners, _one_for("b3"), me="b1", sent=sent), Acquire | There)
    assert _ask(owners, _one_for("b3"), me="b1", sent=sent) != There(owners.sessions["b3"], owner=False)
    owners.refusing = {("b3", 0)}
    assert _ask(owners, me="b1", sent=sent) == There(owners.sessions["b3"], owner=True), "it is back"


@pytest.mark.parametrize("sent", [False, True])
def test_whoever_asks_for_a_bundle_of_a_broker_that_is_gone_waits_for_the_next_owner(sent: bool) -> None:
    """Its session has not ended yet: nobody could acquire the bundle, and clients that are sent there find nobody."""
    owners = _owners(_row(LOWER, "b3", 1))
    owners.refusing = {("b3", 1)}
    answered = _ask(owners, me="b1", sent=sent)
    assert isinstance(answered, NotNow) and answered.passes and "b3" in answered.why
    ended = [session._replace(live=False) if session.broker_id == "b3" else session for session in owners.sessions.values()]
    owners.apply(OwnershipChanges([], ended, 1, more=False))
    assert isinstance(_ask(owners, me="b1", sent=sent), Acquire | There)


def test_its_own_pinned_bundle_a_broker_takes_back_wherever_placement_would_put_it() -> None:
    bundle = _one_for("b2")
    assert _ask(_owners(_row(bundle, "b1", 1, session=0, pinned=True)), bundle) == Acquire(bundle)


# --- the map -------------------------------------------------------------------------------------------------------------------


def test_a_row_replaces_all_that_it_overlaps() -> None:
    owners = _owners(_row(LOWER, "b1", 1), _row(UPPER, "b2", 2), _row(WHOLE, "b3", 3))
    assert owners.overlapping(WHOLE) == [_row(WHOLE, "b3", 3)]
    assert +owners.bundles_of == Counter(b3=1)


def test_each_broker_owns_the_rows_that_name_it() -> None:
    lower, upper = _row(LOWER, "b1", 1), _row(UPPER, "b1", 2)
    owners = _owners(lower, upper, _row(NamespaceBundle("acme/events", 0, END), "b2", 3))
    assert owners.owned_by("b1") == [lower, upper]
    owners.put(_row(LOWER, "b2", 4))
    owners.put(_row(UPPER, "", 5, state="free"))
    assert owners.owned_by("b1") == owners.owned_by("") == owners.owned_by("b3") == []
    assert [row.change for row in owners.owned_by("b2")] == [3, 4]
    assert +owners.bundles_of == Counter(b2=2)


def test_an_older_answer_changes_nothing() -> None:
    owners = _owners(_row(WHOLE, "b1", 5))
    owners.put(_row(LOWER, "b2", 4))
    assert owners.overlapping(WHOLE) == [_row(WHOLE, "b1", 5)]


def test_each_hash_lies_in_one_row() -> None:
    lower, upper = _row(LOWER, "b1", 1), _row(UPPER, "b2", 2)
    owners = _owners(upper, lower)
    expected = {0: lower, HALF - 1: lower, HALF: upper, END - 1: upper, END: upper}
    assert {position: owners.row_at("acme/orders", position) for position in expected} == expected
    assert owners.row_at("acme/other", 0) is None


def test_a_gap_belongs_to_nobody() -> None:
    owners = _owners(_row(NamespaceBundle("acme/orders", 10, 20), "b1", 1))
    assert [owners.row_at("acme/orders", position) is not None for position in (9, 10, 19, 20, END)] == [
        False,
        True,
        True,
        False,
        False,
    ]


# --- placement and lease -------------------------------------------------------------------------------------------------------


def _placed(owners: OwnerMap, bundle: NamespaceBundle) -> str:
    broker_id = str(candidate(bundle, BROKERS, owners))
    owners.expect(bundle, broker_id)
    return broker_id


def test_bundles_spread_over_the_brokers() -> None:
    owners = OwnerMap()
    counts = Counter(_placed(owners, NamespaceBundle(f"acme/{number}", 0, END)) for number in range(400))
    assert max(counts.values()) - min(counts.values()) == 1


def test_the_bundles_of_a_namespace_spread_over_the_brokers_whatever_else_these_have() -> None:
    """With as many bundles as brokers, each serves a part of the namespace."""
    owners = _owners(*(_row(NamespaceBundle(f"acme/{number}", 0, END), "b1", number + 1) for number in range(20)))
    bundles = [NamespaceBundle("acme/orders", at << 28, (at + 1) << 28) for at in range(6)]
    assert Counter(_placed(owners, bundle) for bundle in bundles) == Counter(b1=2, b2=2, b3=2)
    assert owners.load_within("acme/orders", "b1") == 2 and owners.load_of("b1") == 22


def test_of_brokers_with_as_many_bundles_of_a_namespace_the_one_with_the_fewest_of_all_has_the_next() -> None:
    rows = [_row(NamespaceBundle(f"acme/{number}", 0, END), "b1b1b2"[2 * (number % 3) :][:2], number + 1) for number in range(9)]
    assert candidate(WHOLE, BROKERS, _owners(*rows)) == "b3"


@pytest.mark.parametrize("bundles", [2, 4, 16])
@pytest.mark.parametrize("brokers", [2, 3, 4])
def test_the_bundles_of_one_namespace_spread_though_nobody_knows_of_the_others(brokers: int, bundles: int) -> None:
    """As those of `public/default`, of which each of some brokers decides at once."""
    names, edges = [f"b{each}" for each in range(brokers)], equal_bundles(bundles)
    for number in range(20):
        counts = Counter(candidate(NamespaceBundle(f"acme/{number}", *pair), names, OwnerMap()) for pair in pairwise(edges))
        assert sorted(counts.values()) == sorted(len(range(each, bundles, brokers)) for each in range(min(brokers, bundles)))


def _to(owners: OwnerMap, bundle: NamespaceBundle) -> str:
    """Which broker it goes to, as `b1` says, which then expects it there."""
    decided = _ask(owners, bundle)
    broker_id = decided.broker.broker_id if isinstance(decided, There) else "b1"
    owners.expect(bundle, broker_id)
    return broker_id


def test_bundles_that_are_looked_up_before_any_of_them_has_an_owner_spread_too() -> None:
    """As those of the partitions of a new topic."""
    for number in range(20):
        owners = _owners()
        bundles = [NamespaceBundle(f"acme/{number}", at << 28, (at + 1) << 28) for at in range(15)]
        counts = Counter(_to(owners, bundle) for bundle in bundles)
        assert counts == Counter(b1=5, b2=5, b3=5)
        again = Counter(_to(owners, bundle) for bundle in bundles)
        assert again == counts, "none is sent elsewhere"
        assert sum(map(owners.load_of, BROKERS)) == len(bundles)


def test_what_is_expected_and_does_not_come_is_forgotten() -> None:
    owners = _owners()
    owners.expect(LOWER, "b2")
    owners.put(_row(LOWER, "b2", 1, pinned=True))
    assert owners.load_of("b2") == 1 and owners.expected(LOWER) is None
    owners.expect(UPPER, "b3")
    version = owners.version
    owners.forget_expected()
    assert owners.expected(UPPER) == "b3" and owners.load_of("b3") == 1 and owners.version == version
    owners.apply(OwnershipChanges([], list(owners.sessions.values()), 1, more=False))
    owners.apply(OwnershipChanges([], list(owners.sessions.values()), 1, more=False))
    assert owners.expected(UPPER) == "b3", "however often the rows are read meanwhile"
    owners.forget_expected()
    assert owners.expected(UPPER) is None and owners.load_of("b3") == 0
    assert owners.version > version, "whoever left the bundle to that broker may take it"


def test_a_broker_to_which_a_bundle_is_handed_over_is_expected_to_have_it() -> None:
    owners = _owners(_row(LOWER, "b1", 1))
    owners.expect(LOWER, "b2")
    owners.put(_row(LOWER, "b1", 2, state="draining"))
    assert owners.load_of("b2") == 1
    owners.put(_row(LOWER, "b2", 3))
    assert owners.load_of("b2") == 1 and owners.load_of("b1") == 0


def test_a_broker_is_expected_to_have_what_moves_to_it_however_long_that_takes() -> None:
    """After two seconds it seemed to have room, and was chosen for the next ones, too."""
    owners = _owners(_row(LOWER, "b1", 1), _row(UPPER, "b1", 2))
    owners.expect(LOWER, "b2", moves=True)
    owners.expect(UPPER, "b2", moves=True)
    for _ in range(10):
        owners.forget_expected()
    assert owners.load_of("b2") == 2
    owners.put(_row(LOWER, "b2", 3))
    owners.expect_no_more(UPPER)  # it stays
    owners.expect_no_more(UPPER)
    assert owners.load_of("b2") == 1
    owners.expect(UPPER, "b3")
    for _ in range(2):
        owners.forget_expected()
    assert owners.load_of("b3") == 0


def test_a_broker_that_is_gone_is_expected_to_acquire_nothing() -> None:
    bundle = _one_for("b2")
    owners = _owners(dead="b2")
    owners.expect(bundle, "b2")
    assert _ask(owners, bundle) != There(owners.sessions["b2"], owner=False)


def test_without_brokers_there_is_no_candidate() -> None:
    assert candidate(WHOLE, [], OwnerMap()) is None


def test_a_broker_that_cannot_renew_stops_before_its_lease_ends() -> None:
    lease = Lease(100.0)
    assert lease.renew_s == 103.0
    assert lease.may_serve(109.9) and not lease.may_serve(110.0)
    lease.renewed(105.0, 105.1)
    lease.renewed(104.0, 105.2)  # an answer that was overtaken
    assert lease.may_serve(114.9) and not lease.may_serve(115.0)


def test_nobody_ends_others_for_their_leases_until_the_metadata_has_answered_for_a_while() -> None:
    """After an outage all leases have ended, and whoever is back first must not take the others for gone."""
    lease = Lease(100.0)
    lease.renewed(100.0, 100.1)
    assert not lease.may_end_others(103.0), "it has just started"
    for begun_s in (103.0, 106.0):
        lease.renewed(begun_s, begun_s + 0.1)
    assert lease.may_end_others(106.2)
    lease.failed()
    assert not lease.may_end_others(109.1)
    lease.renewed(125.0, 125.1)
    assert not lease.may_end_others(125.2)
    lease.renewed(128.0, 128.1)
    assert not lease.may_end_others(128.2) and lease.may_end_others(131.2)


def test_a_broker_that_did_not_run_ends_nobody_when_it_wakes() -> None:
    lease = Lease(100.0)
    lease.renewed(104.0, 104.1)
    lease.renewed(107.0, 107.1)
    assert not lease.may_end_others(200.0), "nor before it has renewed"
    lease.renewed(200.0, 200.1)
    assert not lease.may_end_others(203.0) and lease.may_end_others(206.2)


def test_metadata_that_are_always_slow_keep_nobody_from_being_ended() -> None:
    lease = Lease(100.0)
    for turn in range(4):
        lease.renewed(100.0 + 5 * turn, 102.5 + 5 * turn)
    assert lease.may_end_others(118.0)


@pytest.mark.parametrize("mark", [DRAINS, UNTOLD])
def test_a_broker_that_gives_its_bundles_away_or_knows_no_tenants_acquires_none_whoever_sends_clients_to_it(mark: str) -> None:
    bundle = _one_for("b1")
    owners = OwnerMap()
    sessions = [
        BrokerSession("b1", 1, {SERVES: "pulsar://there", mark: "1"}, True),
        BrokerSession("b2", 1, {SERVES: "pulsar://there"}, True),
    ]
    owners.apply(OwnershipChanges([], sessions, 0, more=False))
    for sent in (False, True):
        assert _ask(owners, bundle, sent=sent) == There(owners.sessions["b2"], owner=False)
    assert _ask(owners, bundle, me="b2", sent=True) == Acquire(bundle)
    owners.apply(OwnershipChanges([], sessions[:1], 0, more=False))
    assert _ask(owners, bundle) == Acquire(bundle), "better than nobody"
