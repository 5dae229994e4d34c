"""Brokers, their bundles and isolation policies in the console."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest
from django.test import Client

from admin_ui import broker as admin_broker
from messaging.adminrpc.brokers import BrokerAsked, BrokerSeen, BrokersSeen
from messaging.adminrpc.bundles import BrokerDrained, BundleLoad, BundleLoads, Drained
from messaging.adminrpc.methods import BROKERS_DRAIN, BROKERS_LIST, BUNDLES_LOADS
from messaging.policies.isolation import Isolation
from tenants.access import platform_actor
from tenants.actions.placement import failure_domains, isolation_policies, set_failure_domain, set_isolation_policy
from tenants.models import AuditRecord
from tests.admin_ui.console_broker import ConsoleBroker

Browse = Callable[[str], Client]
PAGE = "/platform/brokers"
GOLD = Isolation(("acme/.*",), ("broker-2",), ("broker-3",), 2, 80, "none")
FORM = {"name": "gold", "namespaces": "acme/.*\nother/x", "primary": "b-[12]", "secondary": "", "min_limit": 1}


def load(namespace: str, bundle: str, load: float) -> BundleLoad:
    rates = {"messages_in_per_s": 0.0, "messages_out_per_s": 0.0, "bytes_in_per_s": 0.0, "bytes_out_per_s": 0.0}
    return BundleLoad(namespace=namespace, bundle=bundle, topics=3, load=load, producers=0, consumers=0, **rates)


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
    assert "Isolation policy gold names no broker that runs" in text(browse("superuser"))


@pytest.mark.parametrize("late", [False, True])
def test_brokers_are_asked_together_and_one_that_does_not_answer_holds_up_no_other(
    browse: Browse, fleet: ConsoleBroker, monkeypatch: pytest.MonkeyPatch, late: bool
) -> None:
    """The first is answered only once the second was asked; with `late`, the second is not answered while the page waits."""
    assert text(browse("superuser")).count("takes bundles</span>") == 2
    asked, ends = threading.Event(), threading.Event()
    monkeypatch.setattr(admin_broker, "ANSWER_S", 0.2 if late else 5.0)

    def loads(request: BrokerAsked) -> BundleLoads:
        if request.broker_id == "broker-1":
            assert asked.wait(5.0)
        else:
            asked.set()
            assert not late or ends.wait(30.0)
        return BundleLoads(broker_id=request.broker_id, movable=True, draining=False, bundles=[])

    fleet.divert(BUNDLES_LOADS, loads)
    try:
        page = text(browse("superuser"))
    finally:
        ends.set()
    assert page.count("takes bundles</span>") == (1 if late else 2)
    assert ("The broker did not respond in time." in page) == late


def test_why_bundles_stay_is_told(browse: Browse, fleet: ConsoleBroker) -> None:
    page = text(browse("superuser"))
    assert (
        "/bundles/0x00000000_0x40000000/unload?broker=broker-1" in page
        and "/broker-1/drain" in page
        and "in a log of its own" not in page
    )
    bundles = [load("acme/orders", "0x00000000_0x40000000", 2.5)]
    fleet.divert(
        BUNDLES_LOADS, lambda asked: BundleLoads(broker_id=asked.broker_id, movable=False, draining=False, bundles=bundles)
    )
    page = text(browse("superuser"))
    assert "/broker-1/drain" not in page and "each in a log of its own" in page
    fleet.divert(BUNDLES_LOADS, lambda asked: BundleLoads(broker_id=asked.broker_id, movable=True, draining=False, bundles=bundles))
    fleet.divert(BROKERS_LIST, lambda _: BrokersSeen(brokers=[BrokerSeen(broker_id="broker-1", live=True, broker_url="")]))
    page = text(browse("superuser"))
    assert "/broker-1/drain" not in page and "There is no other broker that bundles could be moved to." in page


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

    def drain(request: BrokerDrained) -> Drained:
        asked.append("ends" if request.ends else request.broker_id)
        return Drained(left=len(asked) - 1)

    fleet.divert(BROKERS_DRAIN, drain)
    client = browse("superuser")
    assert "Drain broker broker-1" in text(client, f"{PAGE}/broker-1/drain") and not asked
    for expected in ("has given all its bundles away", "1 bundle stays with broker broker-1"):
        answer = client.post(f"{PAGE}/broker-1/drain", {"confirmed": "1"}, follow=True)
        assert expected in answer.content.decode()
    assert asked == ["broker-1", "broker-1"]
    assert AuditRecord.unscoped.order_by("-id")[0].action == "broker.drain"
    answer = client.post(f"{PAGE}/broker-1/end-drain", follow=True)
    assert "Broker broker-1 takes bundles again." in answer.content.decode() and asked[-1] == "ends"
    assert AuditRecord.unscoped.order_by("-id")[0].action == "broker.end_drain"


def test_a_failure_domain_is_set_changed_and_deleted(browse: Browse, world: ConsoleBroker) -> None:
    client = browse("superuser")
    set_failure_domain(platform_actor(), "rack-1", ["b1"])
    refused = client.post(f"{PAGE}/domains", {"name": "rack-2", "brokers": "b2\nb1"})
    assert refused.status_code == 200 and "already exists in another domain: rack-1" in refused.content.decode()
    assert client.post(f"{PAGE}/domains", {"name": "rack-2", "brokers": "b2\nb3"}).status_code == 302
    assert client.post(f"{PAGE}/domains/rack-1", {"name": "another", "brokers": "b1 b4"}).status_code == 302
    assert failure_domains() == {"rack-1": ["b1", "b4"], "rack-2": ["b2", "b3"]}
    assert "b1\nb4" in client.get(f"{PAGE}/domains/rack-1").content.decode()
    assert client.get(f"{PAGE}/domains/absent").status_code == client.get(f"{PAGE}/domains/absent/delete").status_code == 404
    assert client.post(f"{PAGE}/domains/rack-2/delete", {"confirmed": "1"}).status_code == 302
    assert list(failure_domains()) == ["rack-1"]
    assert AuditRecord.unscoped.order_by("-id")[0].action == "failure_domain.delete"
    assert "rack-1" in text(client)


def test_its_bundles_are_sorted_filtered_and_paged(browse: Browse, fleet: ConsoleBroker) -> None:
    assert text(browse("superuser")).index("acme/orders") < text(browse("superuser")).index("other/things"), "the most load first"
    page = text(browse("superuser"), f"{PAGE}?broker=broker-1&bundlesq=things")
    assert "acme/orders" not in page and "other/things" in page
    page = text(browse("superuser"), f"{PAGE}?broker=broker-1&bundlessort=load")
    assert page.index("other/things") < page.index("acme/orders")
    assert "No bundles match." in text(browse("superuser"), f"{PAGE}?bundlesq=nothing")
    many = [load("acme/orders", f"0x{number:08x}_0x{number + 1:08x}", float(number)) for number in range(101)]
    fleet.divert(BUNDLES_LOADS, lambda asked: BundleLoads(broker_id=asked.broker_id, movable=True, draining=False, bundles=many))
    page = text(browse("superuser"), f"{PAGE}?broker=broker-1")
    assert "bundlespage=2" in page and "0x00000000_0x00000001" not in page
    assert "0x00000000_0x00000001" in text(browse("superuser"), f"{PAGE}?broker=broker-1&bundlespage=2")


@pytest.mark.parametrize("name", ["owner", "teammate"])
def test_nobody_else_sees_or_changes_anything(browse: Browse, world: ConsoleBroker, name: str) -> None:
    client = browse(name)
    set_isolation_policy(platform_actor(), "gold", GOLD)
    set_failure_domain(platform_actor(), "rack-1", ["b1"])
    domains = ("/domains", "/domains/rack-1", "/domains/rack-1/delete")
    for path in ("", "/isolation", "/isolation/gold", "/isolation/gold/delete", "/broker-1/drain", *domains):
        assert client.get(f"{PAGE}{path}").status_code == 403
    changes = (
        "/isolation",
        "/isolation/gold",
        "/isolation/gold/delete",
        "/broker-1/drain",
        "/broker-1/end-drain",
        *domains,
    )
    for path in changes:
        assert client.post(f"{PAGE}{path}", {**FORM, "brokers": "b2", "confirmed": "1"}).status_code == 403
    assert failure_domains() == {"rack-1": ["b1"]}
    assert isolation_policies() == {"gold": GOLD}
