"""Connections to other brokers on behalf of clients."""

from __future__ import annotations

import pytest

from messaging.broker.core.limits.outgoing_shares import OutgoingShares
from messaging.errors import NotReady


def _taken(shares: OutgoingShares, tenant: str) -> int:
    """As many as it is let have."""
    count = 0
    try:
        while True:
            shares.take(tenant)
            count += 1
    except NotReady:
        return count


def test_one_tenant_leaves_half_to_the_others() -> None:
    shares = OutgoingShares(100)
    assert _taken(shares, "crowd") == 50
    assert _taken(shares, "neighbour") == 25
    shares.take("newcomer")
    with pytest.raises(NotReady, match="tenant 'crowd' has 50 connections to other brokers, and 24 of connections_max = 100"):
        shares.take("crowd")


def test_there_are_no_more_than_files_for_them_and_what_is_given_back_is_there_again() -> None:
    shares = OutgoingShares(2)
    shares.take("acme")
    shares.take("other")
    with pytest.raises(NotReady, match="all 2 connections"):
        shares.take("third")
    shares.give("acme")
    shares.take("third")
    shares.give("third")
    shares.give("other")
    assert not shares.total and not shares.by_tenant
