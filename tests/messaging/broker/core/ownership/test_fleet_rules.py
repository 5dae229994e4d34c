"""Where bundles go by isolation policies, failure domains and anti-affinity groups."""

from __future__ import annotations

from typing import Any

import pytest

from messaging.broker.core.control.placement_view import PlacementView
from messaging.broker.core.ownership.balancing import BundleMove, moves
from messaging.broker.core.ownership.fleet_rules import FleetRules
from messaging.broker.core.ownership.lookup import Acquire, NotNow, There, answer
from messaging.broker.core.ownership.owner_map import OwnerMap
from messaging.storage.ownership import DRAINS, SERVES, BrokerSession, NamespaceBundle, OwnershipChanges, OwnershipRow

END = 0xFFFFFFFF
BROKERS = ("b1", "b2", "b3", "b4")
WHOLE = NamespaceBundle("acme/orders", 0, END)


class Fleet:
    """`owned`: by whom the only bundle of each namespace is owned."""

    def __init__(self, *brokers: str, owned: dict[str, str] | None = None, draining: tuple[str, ...] = ()) -> None:
        self.view, self.owners = PlacementView(), OwnerMap()
        self.rules = FleetRules(self.view, self.owners)
        there = {SERVES: "pulsar://there"}
        sessions = [BrokerSession(each, 1, there | ({DRAINS: "1"} if each in draining else {}), True) for each in brokers]
        rows = [
            OwnershipRow(NamespaceBundle(namespace, 0, END), broker_id, 1, 1, "owned", False, change)
            for change, (namespace, broker_id) in enumerate((owned or {}).items(), 1)
        ]
        self.owners.apply(OwnershipChanges(rows, sessions, len(rows), more=False))

    def isolate(self, **policies: tuple[str, str, str]) -> None:
        for name, (namespaces, primary, secondary) in policies.items():
            state: dict[str, Any] = {
                "namespaces": [namespaces],
                "primary": [primary],
                "secondary": [secondary] if secondary else [],
            }
            self.view.isolation_states[name] = state
        self.view.changed({"isolation"})

    def group(self, name: str, *namespaces: str) -> None:
        for namespace in namespaces:
            self.view.keep_namespace(namespace, {"policies": {"anti_affinity_group": name}})

    def domains(self, **domains: list[str]) -> None:
        self.view.domain_states |= {name: {"brokers": brokers} for name, brokers in domains.items()}
        self.view.changed({"failure_domain"})

    def ask(self, me: str, *, sent: bool = False) -> object:
        return answer(self.owners, me, 1, WHOLE, 1, sent=sent, rules=self.rules)


# --- isolation ------------------------------------------------------------------------------------------------------------------


def test_a_lookup_sends_to_a_broker_that_may() -> None:
    fleet = Fleet(*BROKERS)
    fleet.isolate(p=("acme/.*", "b3", ""))
    for me in ("b1", "b2", "b4"):
        assert fleet.ask(me) == There(fleet.owners.sessions["b3"], owner=False)
    assert fleet.ask("b3") == Acquire(WHOLE)


def test_a_broker_that_may_not_refuses_whoever_was_sent_to_it() -> None:
    fleet = Fleet(*BROKERS)
    fleet.isolate(p=("acme/.*", "b3", ""))
    assert isinstance(fleet.ask("b1", sent=True), NotNow)
    assert fleet.ask("b3", sent=True) == Acquire(WHOLE)


def test_where_nobody_may_a_lookup_says_why_and_does_not_wait() -> None:
    fleet = Fleet("b1", "b2")
    fleet.isolate(p=("acme/.*", "away", ""))
    decided = fleet.ask("b1")
    assert isinstance(decided, NotNow) and "isolation policy p" in decided.why


def test_secondary_brokers_serve_while_primary_ones_drain() -> None:
    fleet = Fleet("b1", "b2", draining=("b1",))
    fleet.isolate(p=("acme/.*", "b1", "b2"))
    assert fleet.rules.allowed("acme/orders", ["b2"]) == ["b2"]
    assert fleet.rules.permits("acme/orders", "b1"), "it may go on with what it has"


def test_which_brokers_may_does_not_depend_on_which_are_asked_about() -> None:
    fleet = Fleet(*BROKERS)
    fleet.isolate(p=("acme/.*", "b1", "b2"))
    assert fleet.rules.allowed("acme/orders", ["b2", "b3"]) == [], "the primary one is there, although it is not asked about"
    assert not fleet.rules.permits("acme/orders", "b2") and fleet.rules.permits("other/things", "b2")


def test_a_bundle_in_a_log_of_a_broker_stays_with_it() -> None:
    fleet = Fleet("b1", "b2")
    fleet.owners.put(OwnershipRow(WHOLE, "b2", 0, 1, "owned", True, 1))
    fleet.isolate(p=("acme/.*", "b1", ""))
    assert fleet.ask("b2") == Acquire(WHOLE)


def test_balancing_keeps_to_the_policies() -> None:
    fleet = Fleet("b1", "b2", "b3")
    fleet.isolate(p=("acme/.*", "b[12]", ""))
    loads = {"b1": {WHOLE: 5.0, NamespaceBundle("acme/more", 0, END): 6.0}, "b2": {}, "b3": {}}
    assert {move.taker for move in moves(loads, {}, 10**9, fleet.rules)} == {"b2"}
    del loads["b2"]
    assert moves(loads, {}, 10**9, fleet.rules) == []


# --- anti-affinity --------------------------------------------------------------------------------------------------------------


def test_namespaces_of_a_group_go_to_different_brokers() -> None:
    fleet = Fleet(*BROKERS, owned={"acme/a": "b1", "acme/b": "b2"})
    fleet.group("g", "acme/a", "acme/b", "acme/orders")
    assert fleet.rules.allowed("acme/orders", BROKERS) == ["b3", "b4"]
    fleet.group("G", "acme/orders")  # the same group: case does not matter, as in Pulsar
    assert fleet.rules.allowed("acme/orders", BROKERS) == ["b3", "b4"]
    assert fleet.rules.allowed("acme/other", BROKERS) == list(BROKERS)


def test_where_there_are_too_few_brokers_they_lie_together() -> None:
    fleet = Fleet("b1", "b2", owned={"acme/a": "b1", "acme/b": "b2", "acme/c": "b2"})
    fleet.group("g", "acme/a", "acme/b", "acme/c", "acme/orders")
    assert fleet.rules.allowed("acme/orders", ["b1", "b2"]) == ["b1"]


def test_failure_domains_come_first() -> None:
    fleet = Fleet(*BROKERS, owned={"acme/a": "b1"})
    fleet.group("g", "acme/a", "acme/orders")
    fleet.domains(here=["b1", "b2"], there=["b3", "b4"])
    assert fleet.rules.allowed("acme/orders", BROKERS) == ["b3", "b4"]


def test_groups_of_other_tenants_do_not_count() -> None:
    fleet = Fleet("b1", "b2", owned={"other/a": "b1"})
    fleet.group("g", "other/a", "acme/orders")
    assert fleet.rules.allowed("acme/orders", ["b1", "b2"]) == ["b1", "b2"]


def test_a_bundle_of_a_group_stays_where_it_is_expected_to_be() -> None:
    """Rules that count it there would send it on, and the next one of the group to the same broker."""
    fleet = Fleet("b1", "b2")
    fleet.group("g", "acme/a", "acme/orders")
    for broker_id in ("b1", "b2"):
        fleet.owners.expect(WHOLE, broker_id)
        decided = fleet.ask("b1")
        assert decided == (Acquire(WHOLE) if broker_id == "b1" else There(fleet.owners.sessions["b2"], owner=False))
        for _ in range(2):
            fleet.owners.forget_expected()


def test_what_is_about_to_be_acquired_counts() -> None:
    fleet = Fleet("b1", "b2")
    fleet.group("g", "acme/a", "acme/b", "acme/orders")
    assert fleet.rules.allowed("acme/orders", ["b1", "b2"]) == ["b1", "b2"]
    for namespace, broker_id in (("acme/a", "b1"), ("acme/b", "b1")):
        fleet.owners.expect(NamespaceBundle(namespace, 0, END), broker_id)
    assert fleet.rules.allowed("acme/orders", ["b1", "b2"]) == ["b2"]
    for _ in range(2):  # who did not acquire it in time is expected to no more
        fleet.owners.forget_expected()
    assert fleet.rules.allowed("acme/orders", ["b1", "b2"]) == ["b1", "b2"]


def test_namespaces_that_leave_a_group_do_not_count() -> None:
    fleet = Fleet("b1", "b2", owned={"acme/a": "b1"})
    fleet.group("g", "acme/a", "acme/orders")
    assert fleet.rules.allowed("acme/orders", ["b1", "b2"]) == ["b2"]
    fleet.view.keep_namespace("acme/a", None)
    assert fleet.rules.allowed("acme/orders", ["b1", "b2"]) == ["b1", "b2"]


@pytest.mark.parametrize(
    ("owned", "taker", "expected"),
    [
        ({"acme/orders": "b1", "acme/b": "b2"}, "b2", False),  # both would be at one broker
        ({"acme/orders": "b1", "acme/b": "b1"}, "b2", True),
        ({"acme/orders": "b1", "acme/b": "b2"}, "b3", True),
    ],
)
def test_balancing_brings_no_group_nearer_together(owned: dict[str, str], taker: str, expected: bool) -> None:
    fleet = Fleet("b1", "b2", "b3", owned=owned)
    fleet.group("g", "acme/orders", "acme/b")
    assert (taker in fleet.rules.allowed("acme/orders", [taker], "b1")) is expected
    loads = {"b1": {WHOLE: 5.0, NamespaceBundle("other/x", 0, END): 6.0}, taker: {}}
    moved = moves(loads, {NamespaceBundle("other/x", 0, END): 10**9}, 10**9, fleet.rules)
    assert moved == ([BundleMove(WHOLE, "b1", taker)] if expected else [])


def test_balancing_respects_domains() -> None:
    fleet = Fleet(*BROKERS, owned={"acme/orders": "b1", "acme/b": "b3"})
    fleet.group("g", "acme/orders", "acme/b")
    fleet.domains(here=["b1", "b2"], there=["b3", "b4"])
    assert fleet.rules.allowed("acme/orders", ["b2", "b4"], "b1") == ["b2"]
