"""Pages of what roles are granted in a namespace, and of who administers the platform: for good, or for a time."""

from __future__ import annotations

from datetime import timedelta

from django.utils import timezone

from admin_ui.views.keys import new_key
from messaging.permissions.model import Action
from tenants.access import actor_of_user
from tenants.models import Grant, User
from tenants.scoping import tenant_scope
from tests.admin_ui.pages import Browse, text

AT = "/tenants/acme/namespaces/orders"
GIVEN = {"role": "contractor@acme", "topic": "placed", "actions": ["consume"], "days": "7"}


def test_a_role_is_granted_something_for_a_week_and_loses_it(browse: Browse) -> None:
    owner = browse("owner")
    assert owner.post(f"{AT}/new-permission", GIVEN).status_code == 302
    grant = Grant.unscoped.get(role="contractor@acme")
    assert (grant.topic, grant.actions) == ("persistent://acme/orders/placed", ["consume"])
    assert grant.expires_at is not None and timedelta(days=6) < grant.expires_at - timezone.now() <= timedelta(days=7)
    page = text(owner, f"{AT}/permissions")
    assert "contractor@acme" in page and "until" in page and "placed" in page
    owner.post(f"{AT}/permissions/revoke", {"role": "contractor@acme", "topic": grant.topic})
    assert not Grant.ever.filter(role="contractor@acme").exists()


def test_what_has_ended_is_not_shown(browse: Browse) -> None:
    owner = browse("owner")
    owner.post(f"{AT}/new-permission", GIVEN)
    Grant.ever.filter(role="contractor@acme").update(expires_at=timezone.now() - timedelta(seconds=1))
    text(owner, f"{AT}/permissions")  # which says once what was granted
    assert "contractor@acme" not in text(owner, f"{AT}/permissions")


def test_the_requests_follow_the_form(browse: Browse) -> None:
    page = text(browse("owner"), f"{AT}/new-permission", calls="yes", role="app@acme", actions="consume", days="7")
    assert "magnetar permissions set orders app@acme --action consume --days 7 --tenant acme" in page
    assert "expires_at" in page


def test_those_who_may_not_grant_look_at_most(browse: Browse) -> None:
    teammate, stranger = browse("teammate"), browse("stranger")
    for path in ("new-permission", "permissions/revoke"):
        assert teammate.post(f"{AT}/{path}", GIVEN).status_code == 403
        assert stranger.post(f"{AT}/{path}", GIVEN).status_code == 404
    assert stranger.get(f"{AT}/permissions").status_code == 404
    assert "Revoke" not in teammate.get(f"{AT}/permissions").content.decode()
    assert not Grant.ever.filter(role="contractor@acme").exists()


def test_somebody_administers_the_platform_for_a_day(browse: Browse) -> None:
    admin = browse("superuser")
    assert browse("owner").post("/people/teammate/administrator", {"days": "1"}).status_code == 403
    assert admin.post("/people/teammate/administrator", {"days": "1"}).status_code == 302
    teammate = User.objects.get(username="teammate")
    assert teammate.superuser_until is not None and actor_of_user(teammate).may(Action.SUPERUSER)
    assert "Platform administrator, until" in text(admin, "/people")
    admin.post("/people/teammate/administrator", {"days": "no"})
    assert not actor_of_user(User.objects.get(username="teammate")).may(Action.SUPERUSER)


def test_an_administrator_for_a_day_gets_no_link_of_whoever_has_rights_for_longer(browse: Browse) -> None:
    browse("superuser").post("/people/teammate/administrator", {"days": "1"})
    teammate = browse("teammate")
    refused = teammate.post("/people/superuser/link", {"kind": "password"}, follow=True)
    assert "has rights for longer" in refused.content.decode()
    assert "/reset-password/" not in refused.content.decode()
    assert "nobody gives for longer" in teammate.post("/new-person", {"username": "eve", "superuser": "on"}).content.decode()
    assert not User.objects.filter(username="eve").exists()
    of_member = teammate.post("/people/owner/link", {"kind": "password"}, follow=True).content.decode()
    assert "has rights for longer" in of_member and "/reset-password/" not in of_member
    teammate.post("/new-person", {"username": "noor"})
    assert teammate.post("/people/noor/link", {"kind": "password"}).status_code == 200


def test_a_key_beside_a_grant_for_a_time_makes_it_last_no_longer(browse: Browse) -> None:
    owner = browse("owner")
    owner.post(f"{AT}/new-permission", {**GIVEN, "topic": ""})
    ends = Grant.unscoped.get(role="contractor@acme").expires_at
    actor = actor_of_user(User.objects.get(username="owner"))
    with tenant_scope("acme"):
        new_key(actor, "acme", "contractor", {"acme/orders": ["produce"]})
    grant = Grant.unscoped.get(role="contractor@acme")
    assert (grant.actions, grant.expires_at) == (["produce", "consume"], ends)
