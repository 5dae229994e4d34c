"""How many connections each may have: whoever has most waits, everybody else finds a place."""

from __future__ import annotations

from itertools import count
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from messaging.broker.core.limits.connection_shares import ConnectionLimits, ConnectionOwner, ConnectionShares, TenantCeiling

ADMIN = ConnectionOwner("admin", "admin-key", privileged=True)


def table(connections_max: int = 100, unauthenticated_max: int = 10, **limits: int) -> ConnectionShares[Any]:
    return ConnectionShares(ConnectionLimits(connections_max, unauthenticated_max, **limits))


def fill(shares: ConnectionShares[Any], owner: ConnectionOwner, address: str = "1.1.1.1", most: int = 1000) -> int:
    """How many connections of `owner` find a place."""
    for number in range(most):
        peer = object()
        shares.arrive(peer, address)
        if shares.sign_in(peer, owner):
            shares.leave(peer)
            return number
    return most


def test_silent_sockets_drive_out_each_other_and_nobody_else() -> None:
    shares = table(unauthenticated_max=10)
    assert [shares.arrive(number, "6.6.6.6") for number in range(10)] == [None] * 10
    assert shares.arrive("client", "1.1.1.1") == 0  # the oldest of the address that has most
    assert shares.arrive("another", "1.1.1.1") == 1
    for number in range(10, 60):
        assert shares.arrive(number, "6.6.6.6") not in ("client", "another")
    assert shares.sign_in("client", ADMIN) == ""
    assert shares.unauthenticated <= 10


def test_a_network_of_one_customer_is_one_address() -> None:
    """Whoever had a /64 of IPv6 came from another address each time, and drove out everybody else's."""
    shares = table(unauthenticated_max=10)
    assert shares.arrive("client", "2001:db8:1::1") is None
    for number in range(40):
        assert shares.arrive(number, f"2001:db8:2::{number:x}") != "client"


def test_a_connection_driven_out_cannot_sign_in_any_more() -> None:
    shares = table(unauthenticated_max=1)
    shares.arrive("first", "1.1.1.1")
    assert shares.arrive("second", "1.1.1.1") == "first"
    assert "ended to make room" in shares.sign_in("first", ADMIN)
    shares.leave("first")
    assert (shares.unauthenticated, shares.authenticated) == (1, 0)


def test_a_key_has_a_third_a_tenant_half_and_others_the_rest() -> None:
    shares = table(connections_max=160)  # 10 of them reserved
    assert fill(shares, ConnectionOwner("acme", "a")) == 50
    assert fill(shares, ConnectionOwner("acme", "b")) == 25  # acme now has half of 150
    assert fill(shares, ConnectionOwner("globex", "c")) == 25  # a third of what is left
    assert fill(shares, ConnectionOwner("initech", "d")) > 0
    assert fill(shares, ADMIN, most=5) == 5


def test_the_reserve_of_superusers_is_left_to_them() -> None:
    shares = table(connections_max=32)
    for number in range(200):
        fill(shares, ConnectionOwner(f"tenant-{number}", f"key-{number}"))
    assert shares.authenticated == 30
    assert fill(shares, ADMIN) == 2


def test_those_without_a_key_share_by_address() -> None:
    shares = table(connections_max=160)
    shares.limits = shares.limits._replace(of_address_max=20)
    assert fill(shares, ConnectionOwner("anonymous"), "6.6.6.6") == 20
    assert fill(shares, ConnectionOwner("anonymous"), "1.1.1.1") == 20
    assert fill(shares, ConnectionOwner("acme", "a"), "6.6.6.6") > 20, "a key is not bound by the address it comes from"


def test_bounds_may_be_set_and_say_what_is_wrong() -> None:
    shares = table(of_key_max=3)
    assert fill(shares, ConnectionOwner("acme", "a")) == 3
    shares.arrive("late", "1.1.1.1")
    reason = shares.sign_in("late", ConnectionOwner("acme", "a"))
    assert "key 'a' has 3 connections" in reason and "connections_max = 100" in reason


def test_a_ceiling_that_is_lowered_ends_nothing_and_refuses_the_next() -> None:
    shares = table()
    assert fill(shares, ConnectionOwner("acme", "a"), most=3) == 3
    shares.arrive("late", "1.1.1.1")
    ceiling = TenantCeiling(2, "tenant")
    reason = shares.sign_in("late", ConnectionOwner("acme", "b"), ceiling)
    assert reason.startswith("tenant 'acme' has 3 connections, which is max_connections_per_tenant = 2, set on the tenant: close")
    assert shares.by_tenant["acme"] == 3
    assert shares.sign_in("late", ConnectionOwner("acme", privileged=True), ceiling) == ""
    for other in range(2):
        shares.arrive(f"other {other}", "1.1.1.1")
        assert shares.sign_in(f"other {other}", ConnectionOwner("other", "c"), ceiling) == ""


def test_leaving_gives_back_and_twice_does_no_harm() -> None:
    shares = table()
    shares.arrive("one", "1.1.1.1")
    assert shares.sign_in("one", ConnectionOwner("acme", "a")) == ""
    assert shares.sign_in("one", ConnectionOwner("acme", "a")) == "", "a new credential on the same connection"
    assert shares.by_key == {"a": 1}
    shares.leave("one")
    shares.leave("one")
    assert not shares.by_tenant and not shares.by_key and shares.authenticated == 0


class Crowd(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.shares = table(connections_max=16, unauthenticated_max=4)
        self.numbers = count()
        self.here: list[int] = []

    @rule(address=st.sampled_from("abc"))
    def arrive(self, address: str) -> None:
        peer = next(self.numbers)
        gone = self.shares.arrive(peer, address)
        self.here.append(peer)
        if gone is not None:
            self.here.remove(gone)

    @rule(pick=st.integers(0, 100), tenant=st.sampled_from(["acme", "globex"]), key=st.sampled_from(["", "k", "l"]))
    def sign_in(self, pick: int, tenant: str, key: str) -> None:
        if self.here:
            self.shares.sign_in(self.here[pick % len(self.here)], ConnectionOwner(tenant, key))

    @rule(pick=st.integers(0, 100))
    def leave(self, pick: int) -> None:
        if self.here:
            self.shares.leave(self.here.pop(pick % len(self.here)))

    @invariant()
    def the_counts_are_those_of_who_is_here(self) -> None:
        shares = self.shares
        assert shares.authenticated + shares.unauthenticated == len(self.here)
        assert shares.unauthenticated <= 4
        assert shares.authenticated <= 15
        assert sum(shares.by_tenant.values()) == shares.authenticated
        assert sum(shares.by_key.values()) + sum(shares.by_address.values()) == shares.authenticated


TestCrowd = Crowd.TestCase


def test_what_other_brokers_connect_with_for_a_tenant_has_a_share_of_its_own() -> None:
    """It takes none of the connections that the tenant may have, which the other broker counts, and no more than others leave."""
    shares = table(160, 1000)
    assert fill(shares, ConnectionOwner("acme", "a", delegated=True), most=40) == 40
    assert not shares.by_tenant and not shares.by_key and not shares.by_tenant_and_key()
    assert shares.delegated["acme"] == 40 == shares.authenticated
    assert fill(shares, ConnectionOwner("acme", "b", delegated=True)) == 35, "half of what there is for everybody"
    assert fill(shares, ConnectionOwner("globex", "c")) > 0
