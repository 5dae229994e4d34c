"""Pages that ask before something is done: what takes something away looks so, whether or not its name has to be typed."""

from __future__ import annotations

import pytest

from messaging.policies.isolation import Isolation
from tenants.access import platform_actor
from tenants.actions.placement import set_failure_domain, set_isolation_policy
from tests.admin_ui.pages import Browse
from workers.alerts.rule_actions import create_rule

FILLED, BLUE = "button-danger-fill", 'class="button button-primary" type="submit"'


def assert_takes_away(page: str) -> None:
    assert FILLED in page and "notice-bad" in page and BLUE not in page


@pytest.mark.parametrize(
    "path",
    [
        "/platform/brokers/isolation/gold/delete",
        "/platform/brokers/domains/rack-1/delete",
        "/tenants/acme/people/remove?username=teammate",
        "/tenants/acme/delete",
    ],
)
def test_a_deletion_looks_like_one(browse: Browse, path: str) -> None:
    actor = platform_actor()
    set_isolation_policy(actor, "gold", Isolation(("acme/.*",), ("broker-2",), (), 1, 80, "none"))
    set_failure_domain(actor, "rack-1", ["broker-1"])
    assert_takes_away(browse("superuser").get(path).content.decode())


def test_so_does_that_of_an_alert_rule(browse: Browse) -> None:
    rule = {"name": "Orders wait", "kind": "backlog_entries", "topic": "persistent://acme/orders/placed", "threshold": 100}
    made = create_rule(platform_actor(), "acme", rule)
    assert_takes_away(browse("owner").post(f"/tenants/acme/alerts/{made.id}", {"what": "delete"}).content.decode())


def test_what_takes_nothing_away_does_not(browse: Browse) -> None:
    page = browse("superuser").get("/platform/brokers/broker-1/drain").content.decode()
    assert BLUE in page and FILLED not in page
