"""Pages of roles, of who may do what, and of ceilings."""

from __future__ import annotations

import pytest

from admin_ui.action_texts import ROLE_TEXTS, TEXTS
from messaging.adminrpc.ceilings import CeilingsUsed
from messaging.adminrpc.methods import CEILINGS_USED
from messaging.permissions.roles import BUILT_IN, OF_TENANT
from tenants.access import actor_of_user, platform_actor
from tenants.actions import KeyUse, create_key, set_custom_role, set_member, set_tenant_policies
from tenants.models import CustomRole, User
from tests.admin_ui.console_broker import ConsoleBroker
from tests.admin_ui.pages import Browse, text


def test_every_action_of_a_role_has_a_text() -> None:
    assert TEXTS.keys() == set(OF_TENANT)


# --- roles


def test_a_role_is_made_changed_and_deleted(browse: Browse) -> None:
    client = browse("owner")
    made = client.post("/tenants/acme/new-role", {"name": "keeper", "description": "keeps keys", "actions": ["key_admin"]})
    assert made.status_code == 302
    assert CustomRole.unscoped.get().actions == ["key_admin"]
    page = text(client, "/tenants/acme/roles")
    assert "keeps keys" in page and "keeper may" in page
    again = client.post("/tenants/acme/new-role", {"name": "keeper", "actions": ["produce"]})
    assert "There is a role of this name" in again.content.decode()
    client.post("/tenants/acme/roles/keeper", {"name": "other", "actions": ["key_admin", "produce"]})
    assert (CustomRole.unscoped.get().name, CustomRole.unscoped.get().actions) == ("keeper", ["produce", "key_admin"])
    set_member(actor_of_user(User.objects.get(username="owner")), "acme", "teammate", "keeper")
    refused = client.post("/tenants/acme/roles/keeper/delete", {"confirm": "keeper"}).content.decode()
    assert "is still given to 1 member" in refused
    set_member(actor_of_user(User.objects.get(username="owner")), "acme", "teammate", "viewer")
    assert client.post("/tenants/acme/roles/keeper/delete", {"confirm": "keeper"}).status_code == 302
    assert not CustomRole.unscoped.exists()


def test_nobody_makes_a_role_that_can_do_more_than_they_can(browse: Browse) -> None:
    admin = actor_of_user(User.objects.get(username="owner"))
    set_custom_role(admin, "acme", "people", ["tenant_admin"])
    set_member(admin, "acme", "teammate", "people")
    page = browse("teammate").post("/tenants/acme/new-role", {"name": "more", "actions": ["produce"]}).content.decode()
    assert "You lack" in page and "produce" in page
    assert not CustomRole.unscoped.filter(name="more").exists()


def test_the_requests_follow_the_form_and_change_nothing(browse: Browse) -> None:
    page = text(browse("owner"), "/tenants/acme/new-role", calls="yes", name="keeper", actions="produce")
    assert "/api/v1/tenants/acme/roles/keeper" in page and "admin.roles.set(&#x27;acme&#x27;, &#x27;keeper&#x27;" in page
    assert "magnetar roles set keeper --action produce --tenant acme" in page
    assert not CustomRole.unscoped.exists()
    assert browse("teammate").get("/tenants/acme/new-role", {"calls": "yes"}).status_code == 403


# --- who may do what


def test_an_explanation_has_every_reason_and_everybody_else(browse: Browse) -> None:
    admin = actor_of_user(User.objects.get(username="owner"))
    key = create_key(admin, "acme", "app", scope=[KeyUse(["produce"], "orders")]).key
    client = browse("teammate")
    page = text(client, "/tenants/acme/access", action="produce", role="user:owner", namespace="orders", topic="placed")
    assert "user:owner has the role owner on the whole tenant" in page
    assert f"key {key.id} of app@acme was made for produce" in page
    page = text(client, "/tenants/acme/access", action="produce", role="user:teammate")
    assert "May not" in page and "lacks &#x27;produce&#x27;" in page
    assert "user:stranger" not in page


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        ({"action": "produce"}, "Give either role"),
        ({"action": "produce", "role": "r", "key_id": "k"}, "Give either role"),
        ({"action": "produce", "key_id": "absent"}, "does not exist"),
        ({"action": "produce", "role": "r", "namespace": "absent"}, "does not exist"),
        ({"action": "produce", "role": "r", "topic": "t"}, "need a namespace"),
        ({"action": "fly", "role": "r"}, "Select a valid choice"),
    ],
)
def test_a_question_that_has_no_answer(browse: Browse, asked: dict[str, str], why: str) -> None:
    assert why in text(browse("owner"), "/tenants/acme/access", **asked)


def test_a_key_of_another_tenant_cannot_be_asked_about(browse: Browse) -> None:
    stranger = actor_of_user(User.objects.get(username="stranger"))
    key = create_key(stranger, "globex", "theirs", scope=[KeyUse(["produce"])]).key
    page = text(browse("owner"), "/tenants/acme/access", action="produce", key_id=key.id)
    assert "does not exist" in page and "theirs" not in page


# --- ceilings


def test_what_is_used_stands_beside_each_ceiling(browse: Browse, world: ConsoleBroker) -> None:
    world.divert(CEILINGS_USED, lambda asked: CeilingsUsed(used={"max_topics_per_tenant": 19, "max_producers_per_tenant": 3}))
    set_tenant_policies(platform_actor(), "acme", {"max_topics_per_tenant": 20})
    page = text(browse("teammate"), "/tenants/acme/ceilings")
    assert "19 topics" in page and "95 %" in page and "share-warn" in page and "set on this tenant" in page
    assert "unknown" in page, "what the broker does not tell"
    assert "Set for this tenant" not in page


def test_only_administrators_of_the_platform_are_led_to_set_them(browse: Browse) -> None:
    link = 'href="/tenants/acme/policies?policy=max_topics_per_tenant#policy"'
    assert link in text(browse("superuser"), "/tenants/acme/ceilings")
    assert "?policy=" not in text(browse("owner"), "/tenants/acme/ceilings")
    assert browse("owner").post("/tenants/acme/policies?policy=max_topics_per_tenant", {"before": "{}"}).status_code == 403


def test_every_built_in_role_says_what_it_is_for_where_one_is_chosen() -> None:
    assert ROLE_TEXTS.keys() == BUILT_IN.keys()
