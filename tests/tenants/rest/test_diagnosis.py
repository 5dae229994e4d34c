"""`explain` and `trace` over REST. That strangers get neither, `test_table.py` tests for every address."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tenants.models import Membership
from tests.tenants.world import Caller, World

N = "/api/v1/tenants/acme/namespaces/orders/topics"


NO_IDS = ["1", "1:", ":1", "a:b", "-1:0", "1:-1", "1:0:0", "1:4294967296", "\u0661:0", "9" * 50 + ":0"]


@pytest.fixture
def olga(world: World, caller: Callable[[str], Caller]) -> Caller:
    """The owner of a topic with a subscription."""
    owner = caller("olga")
    assert owner("POST", N, {"name": "t"}).status_code == 201
    assert owner("PUT", "/admin/v2/persistent/acme/orders/t/subscription/s").status_code == 204
    return owner


def test_explain_says_what_holds_delivery_back(olga: Caller) -> None:
    found = olga("GET", f"{N}/t/subscriptions/s/explain").json()
    assert found["findings"][0]["reason"] == "nothing_to_deliver"
    assert found["sentence"] == "There is nothing to deliver: everything is acknowledged."
    assert (found["backlog_entries"], found["delayed_entries"]) == (0, 0)


def test_trace_says_that_a_message_does_not_exist(olga: Caller) -> None:
    found = olga("GET", f"{N}/t/messages/99:0/trace").json()
    assert found["entry"] is None and found["subscriptions"] == []


@pytest.mark.parametrize(
    "message_id", ["1", "1:", ":1", "a:b", "-1:0", "1:-1", "1:0:0", "1:4294967296", "\u0661:0", "9" * 50 + ":0"]
)
def test_what_is_no_message_id_is_refused(olga: Caller, message_id: str) -> None:
    assert olga("GET", f"{N}/t/messages/{message_id}/trace").status_code == 400


def test_what_is_not_there_is_not_found(olga: Caller) -> None:
    for path in ("t/subscriptions/other/explain", "other/subscriptions/s/explain", "other/messages/1:0/trace"):
        assert olga("GET", f"{N}/{path}").status_code == 404


def test_who_may_neither_produce_nor_consume_learns_nothing(world: World, olga: Caller, caller: Callable[[str], Caller]) -> None:
    Membership.unscoped.filter(tenant_id="acme", user__username="tom").update(role="billing")
    for path in ("t/subscriptions/s/explain", "t/messages/1:0/trace"):
        assert caller("tom")("GET", f"{N}/{path}").status_code == 403
        assert caller("sam")("GET", f"{N}/{path}").status_code == 404
        assert Caller(world.token("app@other", tenant="other"))("GET", f"{N}/{path}").status_code == 404
