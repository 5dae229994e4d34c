"""Dead-letter policies over our REST API and in the console: who may set them, on whose behalf they act."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from messaging.adminrpc.methods import SUBSCRIPTIONS_DEAD_LETTER_POLICY
from messaging.adminrpc.subscriptions import DeadLetterPolicyAnswer, SubscriptionRef
from tenants import actions
from tenants.models import AuditRecord
from tests.tenants.world import Caller, World

TOPIC = "persistent://acme/orders/t"
AT = "/api/v1/tenants/acme/namespaces/orders/topics/t/subscriptions/s/dead-letter-policy"
PAGE = "/tenants/acme/namespaces/orders/topics/t/subscriptions/s/dead-letters"


@pytest.fixture(autouse=True)
def topic(world: World) -> None:
    world.broker.add(TOPIC, "s")


def held(world: World) -> DeadLetterPolicyAnswer:
    """As the broker holds it."""
    return world.broker.call(SUBSCRIPTIONS_DEAD_LETTER_POLICY, SubscriptionRef(topic=TOPIC, subscription="s"))


def test_a_policy_from_setting_to_removing(world: World, caller: Callable[[str], Caller]) -> None:
    olga = caller("olga")
    assert olga("GET", AT).status_code == 404
    made = olga("PUT", AT, {"max_redeliver_count": 3, "initial_subscription": "dead"})
    assert made.status_code == 200, made.content
    assert made.json() == {
        "max_redeliver_count": 3,
        "target": f"{TOPIC}-s-DLQ",
        "initial_subscription": "dead",
        "owner": "tenant:acme",
        "waiting_entries": 0,
        "moved_messages": 0,
        "last_error": "",
    }
    assert olga("GET", AT).json() == made.json()
    assert olga("DELETE", AT).status_code == 204
    assert olga("GET", AT).status_code == 404
    written = AuditRecord.unscoped.filter(resource=f"{TOPIC}/s").order_by("at").values_list("action", flat=True)
    assert list(written) == ["subscription.set_dead_letter_policy", "subscription.remove_dead_letter_policy"]


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({}, 400),
        ({"max_redeliver_count": -1}, 400),
        ({"max_redeliver_count": 1, "target": "not a topic"}, 400),
        ({"max_redeliver_count": 1, "target": "x" * 4000}, 400),
        ({"max_redeliver_count": 1, "target": "persistent://acme/nowhere/x"}, 404),
        ({"max_redeliver_count": 1, "unknown": 1}, 400),
    ],
)
def test_what_cannot_be_a_policy_is_refused(world: World, call: Caller, body: Any, code: int) -> None:
    assert call("PUT", AT, body).status_code == code
    assert held(world).target == ""


def test_a_key_needs_permission_on_both_ends_and_the_policy_acts_as_it(world: World) -> None:
    olga = world.actor("olga")
    actions.grant_permission(olga, "acme/orders", "app@acme", ["consume"])
    app = Caller(world.token("app@acme"))
    assert app("PUT", AT, {"max_redeliver_count": 1}).status_code == 403, "it may not produce to the target"
    actions.grant_permission(olga, "acme/orders", "app@acme", ["consume", "produce"])
    made = app("PUT", AT, {"max_redeliver_count": 1})
    assert (made.status_code, made.json()["owner"]) == (200, "app@acme")
    foreign = {"max_redeliver_count": 1, "target": "persistent://other/things/t"}
    assert app("PUT", AT, foreign).status_code == 404, "another tenant's topic is not theirs to see"
    assert held(world).target == f"{TOPIC}-s-DLQ"


FOREIGN = {"max_redeliver_count": 1, "target": "persistent://other/things/t"}


def test_a_target_of_another_tenant_is_refused_whether_it_exists_or_not(world: World, caller: Callable[[str], Caller]) -> None:
    world.broker.add("persistent://other/things/t")
    actions.grant_permission(world.actor("olga"), "acme/orders", "app@acme", ["consume", "produce"])
    olga, app = caller("olga"), Caller(world.token("app@acme"))
    world.line.calls.clear()
    for who in (olga, app):
        for initial in ({}, {"initial_subscription": "dead"}):
            answers = [
                who("PUT", AT, {**FOREIGN, **initial, "target": f"persistent://{target}/t"})
                for target in ("other/things", "other/absent", "absent/absent")
            ]
            assert [one.status_code for one in answers] == [404] * 3
            bodies = [{**one.json(), "request_id": "", "reason": ""} for one in answers]
            assert bodies[0] == bodies[1] == bodies[2]
    assert not [one for one in world.line.calls if "other" in str(one) or "set" in one[0]]
    assert held(world).target == ""


def test_a_target_of_another_tenant_takes_a_grant_of_that_tenant(world: World) -> None:
    """The policy acts as the key, so that the other tenant can take the right back."""
    actions.grant_permission(world.actor("olga"), "acme/orders", "app@acme", ["consume"])
    actions.grant_permission(world.actor("sam"), "other/things", "app@acme", ["produce"])
    app = Caller(world.token("app@acme"))
    assert app("PUT", AT, {**FOREIGN, "initial_subscription": "dead"}).status_code in (403, 404), "that takes consume there"
    made = app("PUT", AT, FOREIGN)
    assert (made.status_code, made.json()["owner"]) == (200, "app@acme")


def test_a_person_of_both_tenants_cannot_lend_the_rights_of_one_to_the_other(world: World, caller: Callable[[str], Caller]) -> None:
    """It acted as the other tenant itself, which could neither see the policy nor take the right back."""
    actions.set_member(world.actor("sam"), "other", "olga", "owner")
    refused = caller("olga")("PUT", AT, FOREIGN)
    assert refused.status_code == 405 and "set this policy with a key" in refused.json()["detail"], refused.json()
    assert held(world).target == ""


def test_strangers_see_nothing(world: World, caller: Callable[[str], Caller]) -> None:
    sam = caller("sam")
    assert [sam(method, AT, {"max_redeliver_count": 1}).status_code for method in ("GET", "PUT", "DELETE")] == [404] * 3


def test_the_console_sets_shows_and_removes_it(world: World, caller: Callable[[str], Caller]) -> None:
    olga = caller("olga")
    form = "application/x-www-form-urlencoded"
    assert b"Dead letters of s" in olga("GET", PAGE).content
    assert olga("POST", PAGE, b"max_redeliver_count=5&target=&initial_subscription=", form).status_code == 302
    assert held(world).max_redeliver_count == 5
    shown = olga("GET", PAGE).content.decode()
    assert f'value="{TOPIC}-s-DLQ"' in shown and "Moved so far: 0" in shown
    assert olga("POST", PAGE, b"max_redeliver_count=5&target=persistent://other/things/t", form).status_code == 200
    assert held(world).target == f"{TOPIC}-s-DLQ"
    assert olga("POST", PAGE, b"max_redeliver_count=&target=", form).status_code == 302
    assert held(world).target == ""
    assert olga("GET", PAGE.replace("/s/", "/missing/")).status_code == 404
    assert caller("tom")("GET", PAGE).status_code == 403
    assert caller("sam")("GET", PAGE).status_code == 404
