"""What the jump dialog finds: everything that has a name, pages and actions, and only what somebody may have."""

from __future__ import annotations

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from admin_ui.jump import finding
from admin_ui.jump.finding import OF_A_KIND_MAX
from admin_ui.jump.places import NAMESPACE, OF_SUBSCRIPTION, OF_TOPIC, PLATFORM, TENANT, route_name
from admin_ui.permissions import CONSOLE
from admin_ui.urls import urlpatterns
from tenants.access import platform_actor
from tenants.actions import create_key, create_namespace, create_tenant, set_member
from tenants.models import Tenant
from tests.admin_ui.console_broker import ConsoleBroker
from tests.admin_ui.pages import Browse
from tests.admin_ui.people import PLACED

pytestmark = pytest.mark.django_db
HERE = {"tenant": "acme", "namespace": "orders"}
NAMED = ("tenant", "namespace", "topic", "subscription", "key", "person")


def found(browse: Browse, person: str, words: str, **where: str) -> dict[str, str]:
    """label -> kind"""
    entries = browse(person).get("/jump", {"q": words, **where}).json()["found"]
    return {entry["label"]: entry["kind"] for entry in entries}


def named(browse: Browse, person: str, words: str) -> set[str]:
    return {label for label, kind in found(browse, person, words).items() if kind in NAMED}


def test_only_what_is_yours(browse: Browse) -> None:
    assert named(browse, "owner", "placed") == {"acme/orders/placed"}
    assert {"acme", "acme/orders", "acme/orders/placed"} <= named(browse, "teammate", "acme")
    assert found(browse, "stranger", "placed").keys().isdisjoint({"acme/orders/placed"})
    assert not any("acme" in label for label in found(browse, "stranger", "acme", **HERE))


def test_subscriptions_keys_and_people(browse: Browse, world: ConsoleBroker) -> None:
    key = create_key(platform_actor(), "acme", "checkout").key
    world.real.add(PLACED, "invoicing")
    assert named(browse, "teammate", "invoic") == {"invoicing on acme/orders/placed"}
    assert named(browse, "owner", "checkout") == named(browse, "owner", key.id) == {"checkout@acme"}
    assert named(browse, "superuser", "teamm") == {"teammate"}
    assert named(browse, "owner", "teamm") == {"teammate, of acme"}
    assert (
        named(browse, "stranger", "teamm") == named(browse, "teammate", "checkout") == named(browse, "stranger", "invoic") == set()
    )


def test_pages_and_actions_by_words_in_any_order(browse: Browse) -> None:
    assert found(browse, "owner", "acme keys", **HERE)["Keys of acme"] == "page"
    assert found(browse, "owner", "new key")["New key in acme"] == "action"
    assert found(browse, "owner", "create namespace")["New namespace in acme"] == "action"
    assert found(browse, "superuser", "platf")["Platform"] == "page"
    assert "Platform" not in found(browse, "owner", "platf")
    assert "New key in acme" not in found(browse, "teammate", "new key")
    assert "Delete tenant acme" not in found(browse, "owner", "delete tenant")


def test_actions_on_what_is_named(browse: Browse, world: ConsoleBroker) -> None:
    world.real.add(PLACED, "invoicing")
    first = browse("owner").get("/jump", {"q": "reset subscription invoic"}).json()["found"][0]
    assert first["label"] == "Reset invoicing on acme/orders/placed" and first["kind"] == "action"
    assert first["url"] == reverse("console:subscription_reset", args=["acme", "orders", "placed", "invoicing"])
    assert "Publish to acme/orders/placed" in found(browse, "owner", "publish placed")
    assert "Delete topic acme/orders/placed" in found(browse, "owner", "delete placed")
    assert {"action"}.isdisjoint(found(browse, "teammate", "reset invoic").values())
    assert {"action"}.isdisjoint(found(browse, "stranger", "reset invoic").values())


def test_policies_of_where_one_is_and_documents(browse: Browse) -> None:
    entries = browse("owner").get("/jump", {"q": "retention", **HERE}).json()["found"]
    policy = next(entry for entry in entries if entry["kind"] == "policy")
    assert policy["label"].endswith("policy of acme/orders")
    assert "policy=" in policy["url"] and browse("owner").get(policy["url"]).status_code == 200
    document = next(entry for entry in entries if entry["kind"] == "docs")
    assert browse("").get(document["url"].partition("#")[0]).status_code == 200


def test_what_is_called_exactly_so_comes_first(browse: Browse, world: ConsoleBroker) -> None:
    for name in ("placed-1", "replaced", "a-placed"):
        world.real.add(f"persistent://acme/orders/{name}")
    assert browse("owner").get("/jump", {"q": "placed"}).json()["found"][0]["label"] == "acme/orders/placed"


def test_it_says_what_is_missing_while_the_broker_does_not_answer(browse: Browse, world: ConsoleBroker) -> None:
    world.cut("the broker does not answer")
    answer = browse("owner").get("/jump", {"q": "acme"}).json()
    assert {"tenant", "namespace"} <= {entry["kind"] for entry in answer["found"]}
    assert "topic" not in {entry["kind"] for entry in answer["found"]}
    assert "Topics and subscriptions could not be searched" in answer["note"]


@pytest.mark.parametrize("places", [PLATFORM, TENANT, NAMESPACE, OF_TOPIC, OF_SUBSCRIPTION])
def test_every_place_is_a_page(places: tuple[tuple[str, str, str], ...]) -> None:
    assert [route for _, route, _ in places if ("GET", route_name(route)) not in CONSOLE] == []


# What stands for itself in the dialog, is a part or a file of a page, or comes after one.
NO_PLACES = {
    *("home", "sign_in", "jump", "invitation", "view_create", "topic", "subscription", "docs_search", "member_remove"),
    *(
        "now_fragment",
        "worker_fragment",
        "namespace_marks",
        "topic_fragment",
        "topic_timeline",
        "redrives_fragment",
        "delayed_chart",
        "tasks_fragment",
    ),
    *("platform_fragment", "audit_export", "platform_audit_export", "messages_export", "costs_export", "usage_export"),
    *("audit_stream_delete", "platform_audit_stream_delete"),
}


def test_every_page_that_needs_no_more_than_a_place_is_found() -> None:
    known = {place.route for places in (PLATFORM, TENANT, NAMESPACE, OF_TOPIC, OF_SUBSCRIPTION) for place in places}
    of_a_place = {"tenant", "namespace", "topic", "subscription"}
    pages = {each.name for each in urlpatterns if each.pattern.converters.keys() <= of_a_place}
    shown = {name for name in pages if ("GET", f"console:{name}") in CONSOLE}
    assert shown - {route_name(route).partition(":")[2] for route in known} == NO_PLACES


def test_what_people_keep_for_themselves_is_found(browse: Browse) -> None:
    assert found(browse, "owner", "passkey").items() >= {("Your second factor", "page")}
    assert found(browse, "owner", "mail").items() >= {("Your e-mail address", "page")}


def test_pages_that_say_why_and_lists_of_clients_and_brokers(browse: Browse, world: ConsoleBroker) -> None:
    world.real.add(PLACED, "invoicing")
    assert "Why nothing arrives at invoicing on acme/orders/placed" in found(browse, "owner", "why invoicing")
    assert "Why nothing is published to acme/orders/placed" in found(browse, "owner", "why placed")
    assert "Clients of acme" in found(browse, "owner", "clients")
    assert {"Brokers of the platform", "Clients of the platform"} <= found(browse, "superuser", "platform", **HERE).keys()
    assert found(browse, "stranger", "why placed").keys().isdisjoint({"Why nothing is published to acme/orders/placed"})
    assert "Clients of the platform" not in found(browse, "owner", "clients of the platform")


@pytest.mark.parametrize("person", ["superuser", "owner"])
def test_of_thousands_of_tenants_only_what_is_found_is_read(browse: Browse, world: ConsoleBroker, person: str) -> None:
    """With 10,000 tenants each word typed took an administrator 700 ms of CPU, and named every tenant in five statements."""
    for number in range(30):
        Tenant.unscoped.create(name=f"many-{number:02}", admin_roles=[])
    client = browse(person)
    with CaptureQueriesContext(connection) as queries:
        kinds = {entry["label"]: entry["kind"] for entry in client.get("/jump", {"q": "acme", "tenant": "acme"}).json()["found"]}
        assert client.get("/views").status_code == 200
    assert kinds["acme"] == "tenant" and kinds["acme/orders/placed"] == "topic"
    assert not any("many-29" in query["sql"] for query in queries)
    assert named(browse, "superuser", "many-29") == {"many-29"} and named(browse, "owner", "many-29") == set()


def test_an_administrator_without_a_second_factor_finds_no_topics_where_one_is_required(
    browse: Browse, world: ConsoleBroker
) -> None:
    assert "acme/orders/placed" in named(browse, "superuser", "placed")
    Tenant.unscoped.filter(name="acme").update(second_factor_required=True)
    assert "acme/orders/placed" not in named(browse, "superuser", "placed")


def test_what_is_closed_to_somebody_takes_no_place_of_what_is_open(browse: Browse, world: ConsoleBroker) -> None:
    """What one may not see was left out after the first 20 were taken, so that nothing was found."""
    actor = platform_actor()
    for number in range(OF_A_KIND_MAX + 2):
        create_namespace(actor, f"acme/shelf-{number:02}")
        create_key(actor, "acme", f"till-{number:02}")
        world.real.add(f"persistent://acme/orders/crate-{number:02}", "loading")
    last = f"shelf-{OF_A_KIND_MAX + 1}"
    set_member(actor, "acme", "stranger", "developer", namespace=last)
    create_key(actor, "globex", "till")
    world.real.add("persistent://globex/edge/crate", "loading")
    assert named(browse, "stranger", "shelf") == {f"acme/{last}"}
    assert "Policies of acme/" + last in found(browse, "stranger", "shelf policies")
    assert named(browse, "stranger", "till") == {"till@globex"}
    Tenant.unscoped.filter(name="acme").update(second_factor_required=True)
    assert named(browse, "superuser", "crate") == {"globex/edge/crate"}
    assert named(browse, "superuser", "loading") == {"loading on globex/edge/crate"}
    assert named(browse, "superuser", "till") == {"till@globex"}


def test_a_person_of_many_tenants_is_offered_the_action_where_they_may(browse: Browse) -> None:
    actor = platform_actor()
    for number in range(5):
        create_tenant(actor, f"shop-{number}")
        set_member(actor, f"shop-{number}", "teammate", "owner" if number == 4 else "metadata")
    assert found(browse, "teammate", "new key shop").keys() >= {"New key in shop-4"}


def test_a_search_of_namespaces_says_how_far_it_looked(browse: Browse, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(finding, "NAMESPACES_LOOKED_AT_MAX", 2)
    monkeypatch.setattr(finding, "NAMESPACES_A_LOOK", 1)
    actor = platform_actor()
    for number in range(4):
        create_namespace(actor, f"acme/shelf-{number}")
    set_member(actor, "acme", "stranger", "developer", namespace="shelf-3")
    answer = browse("stranger").get("/jump", {"q": "shelf"}).json()
    assert "The first 2 namespaces that are called so were looked at" in answer["note"]


def test_nothing_that_is_typed_is_an_error(browse: Browse) -> None:
    for query in (
        {"q": "\x00acme", "tenant": "\x00"},
        {"q": "100%_\\", **HERE},
        {"q": "acme", "tenant": "acme", "namespace": "\x00"},
    ):
        assert browse("owner").get("/jump", query).status_code == 200
