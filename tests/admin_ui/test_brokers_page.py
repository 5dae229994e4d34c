"""Brokers, their bundles and isolation policies in the console."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.test import Client

from messaging.adminrpc.brokers import BrokerSeen, BrokersSeen
from messaging.adminrpc.bundles import BundleLoad, BundleLoads, Drained
from messaging.adminrpc.methods import BROKERS_DRAIN, BROKERS_LIST, BUNDLES_LOADS
from messaging.policies.isolation import Isolation
from tenants.access import platform_actor
from tenants.actions.placement import isolation_policies, set_failure_domain, set_isolation_policy
from tenants.models import AuditRecord
from tests.admin_ui.console_broker import ConsoleBroker

Browse = Callable[[str], Client]
PAGE = "/platform/brokers"
GOLD = Isolation(("acme/.*",), ("broker-2",), ("broker-3",), 2, 80, "none")
FORM = {"name": "gold", "namespaces": "acme/.*\nother/x", "primary": "b-[12]", "secondary": "", "min_limit": 1}


def load(namespace: str, bundle: str, load: float) -> BundleLoad:
    rates = {"messages_in_per_s": 0.0, "messages_out_per_s": 0.0, "bytes_in_per_s": 0.0, "bytes_out_per_s": 0.0}
    return BundleLoad(namespace=namespace, bundle=bundle, topics=3, load=load, **rates)


@pytest.fixture
def fleet(world: ConsoleBroker) -> ConsoleBroker:
    """Two brokers that run, and one that is away."""
    seen = [BrokerSeen(broker_id=f"broker-{number}", live=number < 3, broker_url="") for number in (1, 2, 3)]
    world.divert(BROKERS_LIST, lambda _: BrokersSeen(brokers=seen))
    bundles = [load("acme/orders", "0x00000000_0x40000000", 2.5), load("other/things", "0x40000000_0x80000000", 1.0)]
    world.divert(
        BUNDLES_LOADS,
        lambda asked: BundleLoads(
            broker_id=asked.broker_id, movable=True, draining=False, bundles=bundles if asked.broker_id == "broker-1" else []
        ),
    )
    return world


def text(client: Client, path: str = PAGE) -> str:
    answer = client.get(path)
    assert answer.status_code == 200
    return answer.content.decode()


def test_it_shows_brokers_their_bundles_and_what_the_policies_say(browse: Browse, fleet: ConsoleBroker) -> None:
    page = text(browse("superuser"))
    assert "every namespace may be at any broker" in page and "each broker may fail by itself" in page
    set_isolation_policy(platform_actor(), "gold", GOLD)
    set_failure_domain(platform_actor(), "rack-1", ["broker-1"])
    page = text(browse("superuser"))
    assert page.count("against policy: gold") == 1, "other/things may be there"
    assert "gold (primary)" in page and "gold (secondary)" in page and "rack-1" in page
    assert "Away: it has not renewed its session." in page
    assert "It has no bundles." in text(browse("superuser"), f"{PAGE}?broker=broker-2")
    set_isolation_policy(platform_actor(), "gold", GOLD._replace(primary=("gone",), secondary=()))
    assert "isolation policy gold names no broker that runs" in text(browse("superuser"))


def test_a_policy_is_set_changed_and_deleted(browse: Browse, world: ConsoleBroker) -> None:
    client = browse("superuser")
    assert "isolation comes first" in text(client, f"{PAGE}/isolation")
    refused = client.post(f"{PAGE}/isolation", {**FORM, "primary": "b(", "unload_scope": "changed"})
    assert refused.status_code == 200 and "RE2" in refused.content.decode()
    assert client.post(f"{PAGE}/isolation", {**FORM, "unload_scope": "changed"}).status_code == 302
    assert isolation_policies() == {"gold": Isolation(("acme/.*", "other/x"), ("b-[12]",), (), 1, 100, "changed")}
    assert AuditRecord.unscoped.order_by("-id")[0].action == "isolation.set"
    set_isolation_policy(platform_actor(), "gold", GOLD)
    changed = {**FORM, "name": "another", "primary": "b9", "unload_scope": "all_matching"}
    assert client.post(f"{PAGE}/isolation/gold", changed).status_code == 302
    gold = isolation_policies()["gold"]
    assert gold.primary == ("b9",) and gold.usage_threshold == 80, "what the form does not have stays"
    assert client.get(f"{PAGE}/isolation/absent").status_code == client.get(f"{PAGE}/isolation/absent/delete").status_code == 404
    assert client.post(f"{PAGE}/isolation/gold/delete", {"confirmed": "1"}).status_code == 302
    assert isolation_policies() == {}


def test_a_broker_is_drained_and_what_stays_is_told(browse: Browse, fleet: ConsoleBroker) -> None:
    asked: list[str] = []

    def drain(request: object) -> Drained:
        asked.append(request.broker_id)  # type: ignore[attr-defined]
        return Drained(left=len(asked) - 1)

    fleet.divert(BROKERS_DRAIN, drain)
    client = browse("superuser")
    assert "Drain broker broker-1" in text(client, f"{PAGE}/broker-1/drain") and not asked
    for expected in ("has given all its bundles away", "1 bundle stays with broker broker-1"):
        answer = client.post(f"{PAGE}/broker-1/drain", {"confirmed": "1"}, follow=True)
        assert expected in answer.content.decode()
    assert asked == ["broker-1", "broker-1"]
    assert AuditRecord.unscoped.order_by("-id")[0].action == "broker.drain"


def test_a_bundle_that_cannot_be_moved_stays_and_the_page_says_why(browse: Browse, fleet: ConsoleBroker) -> None:
    bundle = {"namespace": "acme/orders", "bundle": "0x00000000_0x40000000", "giver": "broker-1"}
    answer = browse("superuser").post(f"{PAGE}/move", {**bundle, "taker": "absent"}, follow=True)
    assert "inactive destination broker" in answer.content.decode()
    answer = browse("superuser").post(f"{PAGE}/move", {**bundle, "taker": ""}, follow=True)
    assert "Choose a broker." in answer.content.decode()


@pytest.mark.parametrize("name", ["owner", "teammate"])
def test_nobody_else_sees_or_changes_anything(browse: Browse, world: ConsoleBroker, name: str) -> None:
    client = browse(name)
    set_isolation_policy(platform_actor(), "gold", GOLD)
    for path in ("", "/isolation", "/isolation/gold", "/isolation/gold/delete", "/broker-1/drain"):
        assert client.get(f"{PAGE}{path}").status_code == 403
    for path in ("/isolation", "/isolation/gold", "/isolation/gold/delete", "/broker-1/drain", "/move"):
        assert client.post(f"{PAGE}{path}", {**FORM, "confirmed": "1"}).status_code == 403
    assert isolation_policies() == {"gold": GOLD}
