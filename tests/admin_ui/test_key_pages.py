"""Pages of keys: a token is shown once, and grants are only added to."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import time_machine
from django.conf import settings as django_settings
from django.utils import timezone

from messaging.identity import TokenVerifier
from tenants.access import actor_of_user
from tenants.actions import create_key
from tenants.models import AuditRecord, Grant, Key, Tenant, User
from tests.admin_ui.console_broker import ConsoleBroker
from tests.admin_ui.pages import NAMESPACE, Browse, text


def test_a_token_is_in_one_answer_and_nowhere_else(browse: Browse) -> None:
    client = browse("owner")
    form = {"name": "checkout", "expiry": "30", "produce-0": "on"}
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
    client.post("/tenants/acme/new-key", {"name": "checkout", "expiry": "never", "produce-0": "on"})
    client.post("/tenants/acme/new-key", {"name": "checkout", "expiry": "never", "consume-0": "on"})
    assert Grant.unscoped.get().actions == ["produce", "consume"]


def test_only_a_superuser_may_make_a_key_that_administers(browse: Browse) -> None:
    form = {"name": "boss", "expiry": "never", "administer": "on"}
    assert browse("owner").post("/tenants/acme/new-key", form).status_code == 200
    assert "boss@acme" not in Tenant.unscoped.get(name="acme").admin_roles
    browse("superuser").post("/tenants/acme/new-key", form)
    assert "boss@acme" in Tenant.unscoped.get(name="acme").admin_roles


def test_no_key_is_made_while_the_broker_is_away(browse: Browse, world: ConsoleBroker) -> None:
    world.cut("the broker does not answer")
    client = browse("owner")
    page = client.post("/tenants/acme/new-key", {"name": "checkout", "expiry": "never"}).content.decode()
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
