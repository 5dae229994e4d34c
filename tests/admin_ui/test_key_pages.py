"""Pages of keys: a token is shown once, and grants are only added to."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest
import time_machine
from django.conf import settings as django_settings
from django.utils import timezone

from messaging.identity import TokenVerifier
from tenants.access import actor_of_user
from tenants.actions import create_key, revoke_key
from tenants.models import AuditRecord, Grant, Key, Tenant, User
from tests.admin_ui.console_broker import ConsoleBroker
from tests.admin_ui.pages import NAMESPACE, Browse, text


def test_a_token_is_in_one_answer_and_nowhere_else(browse: Browse) -> None:
    client = browse("owner")
    form = {"name": "checkout", "limited_by": "role", "expiry": "30", "produce-0": "on"}
    response = client.post("/tenants/acme/new-key", form)
    token = response.context["token"]
    assert response.status_code == 200 and response["Cache-Control"] == "no-store"
    assert response.content.decode().count(token) == 1
    principal = TokenVerifier.from_settings(django_settings.MAGNETAR).verify(token, int(datetime.now(UTC).timestamp() * 1000))
    key = Key.unscoped.get()
    assert principal.role == key.role == "checkout@acme" and principal.key_id == key.id
    assert key.expires_at is not None and timedelta(days=29) < key.expires_at - timezone.now() < timedelta(days=31)
    assert Grant.unscoped.get().actions == ["produce"]
    assert token not in text(client, "/tenants/acme/keys")
    for record in AuditRecord.unscoped.all():
        assert token not in json.dumps([record.before, record.after, record.resource])
    assert token not in json.dumps(dict(client.session))


def test_grants_of_a_role_are_added_to_never_taken_away(browse: Browse) -> None:
    client = browse("owner")
    client.post("/tenants/acme/new-key", {"name": "checkout", "limited_by": "role", "expiry": "never", "produce-0": "on"})
    client.post("/tenants/acme/new-key", {"name": "checkout", "limited_by": "role", "expiry": "never", "consume-0": "on"})
    assert Grant.unscoped.get().actions == ["produce", "consume"]


def test_only_a_superuser_may_make_a_key_that_administers(browse: Browse) -> None:
    form = {"name": "boss", "limited_by": "role", "expiry": "never", "administer": "on"}
    assert browse("owner").post("/tenants/acme/new-key", form).status_code == 200
    assert "boss@acme" not in Tenant.unscoped.get(name="acme").admin_roles
    browse("superuser").post("/tenants/acme/new-key", form)
    assert "boss@acme" in Tenant.unscoped.get(name="acme").admin_roles


def test_no_key_is_made_while_the_broker_is_away(browse: Browse, world: ConsoleBroker) -> None:
    world.cut("the broker does not answer")
    client = browse("owner")
    page = client.post("/tenants/acme/new-key", {"name": "checkout", "limited_by": "role", "expiry": "never"}).content.decode()
    assert "The key was not created" in page
    page = client.post(f"{NAMESPACE}/quick-start", {"name": "checkout", "topic": "hello"}).content.decode()
    assert "The key was not created" in page
    assert not Key.unscoped.exists()


def test_revoking_wants_the_name(browse: Browse) -> None:
    key = create_key(actor_of_user(User.objects.get(username="owner")), "acme", "checkout").key
    client = browse("owner")
    client.post(f"/tenants/acme/keys/{key.id}/revoke", {"confirm": "something"})
    key.refresh_from_db()
    assert key.revoked_at is None
    assert client.post(f"/tenants/acme/keys/{key.id}/revoke", {"confirm": "checkout"}).status_code == 302
    key.refresh_from_db()
    assert key.revoked_at is not None


def test_the_states_of_keys(browse: Browse) -> None:
    actor = actor_of_user(User.objects.get(username="owner"))
    create_key(actor, "acme", "lasting")
    create_key(actor, "acme", "ending", timezone.now() + timedelta(days=2))
    client = browse("owner")
    assert "Expires soon" in text(client, "/tenants/acme/keys")
    with time_machine.travel(timezone.now() + timedelta(days=3)):
        page = text(client, "/tenants/acme/keys")
    assert "Expired" in page and "Active" in page


# --- scopes


SCOPED = {"name": "app", "limited_by": "scope", "expiry": "30"}


def test_a_key_is_made_for_what_was_chosen_and_nothing_else(browse: Browse) -> None:
    client = browse("owner")
    uses = {"use-0-namespace": "orders", "use-0-topics": "pay-*", "use-0-produce": "on", "use-3-consume": "on"}
    made = client.post("/tenants/acme/new-key", {**SCOPED, **uses, "networks": "192.0.2.0/24 2001:db8::1", "produce-0": "on"})
    assert made.status_code == 200 and made.context["token"]
    key = Key.unscoped.get()
    assert key.scope == [
        {"actions": ["produce"], "namespace": "acme/orders", "topics": "pay-*"},
        {"actions": ["consume"], "namespace": "", "topics": ""},
    ]
    assert key.networks == ["192.0.2.0/24", "2001:db8::1/128"]
    assert not Grant.unscoped.exists(), "boxes of the other choice do not count"
    for page in (text(client, "/tenants/acme/keys"), text(client, f"/tenants/acme/keys/{key.id}")):
        assert "orders, topics pay-*: produce" in page and "all namespaces: consume" in page and "and nothing else" in page


def test_a_scope_that_cannot_be_is_refused_where_it_was_given(browse: Browse) -> None:
    client = browse("owner")
    for more, why in (
        ({}, "Choose at least one use"),
        ({"use-0-namespace": "orders"}, "Choose produce, consume or both"),
        ({"use-0-namespace": "absent", "use-0-produce": "on"}, "does not exist"),
        ({"use-0-produce": "on", "networks": "example.org"}, "use addresses or networks"),
    ):
        assert why in client.post("/tenants/acme/new-key", {**SCOPED, **more}).content.decode()
    assert not Key.unscoped.exists()


def test_the_requests_follow_the_form_of_a_key(browse: Browse) -> None:
    client = browse("owner")
    page = text(client, "/tenants/acme/new-key", calls="yes", name="app", limited_by="scope", **{"use-0-produce": "on"})
    assert "magnetar keys create app --tenant acme --produce" in page
    page = text(client, "/tenants/acme/new-key", calls="yes", name="app", limited_by="role", **{"consume-0": "on"})
    assert "/namespaces/orders/permissions/app@acme" in page
    assert "NAME" in text(client, "/tenants/acme/new-key", calls="yes")
    assert not Key.unscoped.exists()


# --- rotation, and tokens that leaked


def test_rotation_is_guided_to_its_end(browse: Browse) -> None:
    client = browse("owner")
    former = create_key(actor_of_user(User.objects.get(username="owner")), "acme", "app").key
    assert "magnetar keys rotate" in text(client, f"/tenants/acme/keys/{former.id}/rotate")
    made = client.post(f"/tenants/acme/keys/{former.id}/rotate", {"overlap_s": "3600"})
    token = made.context["token"]
    assert made["Cache-Control"] == "no-store" and "which ends at" in made.content.decode()
    new = Key.unscoped.get(replaces=former)
    page = text(client, f"/tenants/acme/keys/{former.id}")
    assert "Being replaced" in page and new.id in page and "By itself at" in page and token not in page
    assert "which is still valid" in text(client, f"/tenants/acme/keys/{new.id}")
    assert (
        "is being replaced already" in client.post(f"/tenants/acme/keys/{former.id}/rotate", {"overlap_s": "3600"}).content.decode()
    )
    client.post(f"/tenants/acme/keys/{former.id}/revoke", {"confirm": "app"})
    assert "the rotation is complete" in text(client, f"/tenants/acme/keys/{former.id}")
    assert "which has ended" in text(client, f"/tenants/acme/keys/{new.id}")


def test_a_leaked_token_is_revoked_and_never_shown(browse: Browse) -> None:
    client = browse("owner")
    new = create_key(actor_of_user(User.objects.get(username="owner")), "acme", "app")
    form = {"token": f"  Authorization: Bearer {new.token[:40]}\n{new.token[40:]} "}
    done = client.post("/tenants/acme/leaked-token", form, follow=True)
    assert "which is revoked" in done.content.decode() and new.token not in done.content.decode()
    new.key.refresh_from_db()
    assert new.key.revoked_at is not None
    theirs = create_key(actor_of_user(User.objects.get(username="stranger")), "globex", "theirs")
    refused = client.post("/tenants/acme/leaked-token", {"token": theirs.token}).content.decode()
    assert "is of no key of tenant" in refused and theirs.token not in refused and "theirs" not in refused
    wrong = client.post("/tenants/acme/leaked-token", {"token": "abc"}).content.decode()
    assert "no valid token" in wrong and ">abc<" not in wrong
    theirs.key.refresh_from_db()
    assert theirs.key.revoked_at is None


def test_keys_come_in_pages_and_are_searched(browse: Browse, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("admin_ui.row_list.ROWS_A_PAGE", 2)
    actor = actor_of_user(User.objects.get(username="owner"))
    first, _, _ = (create_key(actor, "acme", name).key for name in ("alpha", "beta", "gamma"))
    revoke_key(actor, "acme", first.id)
    client = browse("owner")
    page = text(client, "/tenants/acme/keys")
    assert "gamma" in page and "beta" in page and "alpha" not in page and "Page 1 of 2" in page
    assert "alpha" in text(client, "/tenants/acme/keys", page="2")
    page = text(client, "/tenants/acme/keys", q="bet")
    assert "beta@acme" in page and "gamma@acme" not in page
    assert "No key has this name" in text(client, "/tenants/acme/keys", q="nothing")


@pytest.mark.parametrize("path", ["", "/rotate", "/revoke"])
def test_a_key_of_another_tenant_is_not_there(browse: Browse, path: str) -> None:
    key = create_key(actor_of_user(User.objects.get(username="owner")), "acme", "app").key
    assert browse("stranger").get(f"/tenants/globex/keys/{key.id}{path}").status_code == 404


def test_a_key_may_be_given_for_a_week(browse: Browse, world: ConsoleBroker) -> None:
    client = browse("owner")
    client.post("/tenants/acme/new-key", {**SCOPED, "expiry": "7", "use-0-namespace": "orders", "use-0-consume": "on"})
    expires_at = Key.unscoped.get(name="app").expires_at
    assert expires_at is not None and timedelta(days=6) < expires_at - timezone.now() <= timedelta(days=7)
