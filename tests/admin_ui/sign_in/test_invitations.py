"""Invitations: one use, one address, one role, an end; and what a stolen, used, revoked or outlived one is worth."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import timedelta

import msgspec
import pytest
import time_machine
from allauth.account.models import EmailAddress
from django.conf import settings as django_settings
from django.test import Client
from django.utils import timezone

from tenants.models import AuditRecord, Invitation, Membership, User
from tests.admin_ui.people import PASSWORD
from tests.support.mail_server import MailServer, link_in, mail_server

Browse = Callable[[str], Client]
NEW = "mint-harbor-77-x"
WORKS_NOT = b"This invitation does not work"


@pytest.fixture
def mails(monkeypatch: pytest.MonkeyPatch) -> Iterator[MailServer]:
    with mail_server() as server:
        monkeypatch.setattr(django_settings, "MAGNETAR", msgspec.structs.replace(django_settings.MAGNETAR, smtp_url=server.url))
        yield server


def invited(client: Client, email: str = "new@acme.test", role: str = "viewer") -> str:
    """Invites by a link that is copied; its path."""
    page = client.post("/tenants/acme/new-invitation", {"email": email, "role": role, "how": "link"}).content.decode()
    match = re.search(r'<code id="link"[^>]*>https?://[^/]+([^<]+)</code>', page)
    assert match, page
    return match[1]


def join(client: Client, link: str) -> bytes:
    client.get(link)
    return client.post("/invitation", {"password1": NEW, "password2": NEW}, follow=True).content


def have_address(username: str, email: str, *, verified: bool = True) -> None:
    EmailAddress.objects.create(user=User.objects.get(username=username), email=email, verified=verified, primary=True)


def role_in_acme(username: str) -> str:
    return Membership.unscoped.filter(tenant="acme", user__username=username).values_list("role", flat=True).first() or ""


def test_somebody_without_an_account_joins_by_mail(browse: Browse, mails: MailServer) -> None:
    form = {"email": "New@Acme.test", "role": "owner", "how": "mail"}
    assert browse("owner").post("/tenants/acme/new-invitation", form).status_code == 302
    message = mails.next()
    assert message["To"] == "new@acme.test" and "owner invites you to the tenant acme" in message.get_content()
    client = browse("")
    page = join(client, link_in(message))
    assert b"You are a member of acme now" in page
    assert role_in_acme("new@acme.test") == "owner"
    assert EmailAddress.objects.get(email="new@acme.test").verified, "who reads the mail has the address"
    assert client.get("/tenants/acme/keys").status_code == 200
    actions = list(AuditRecord.unscoped.order_by("id").values_list("action", flat=True))[-4:]
    assert actions == ["invitation.create", "person.create", "invitation.accept", "session.sign_in"]


def test_a_link_that_was_copied_proves_no_address(browse: Browse) -> None:
    assert b"You are a member of acme now" in join(browse(""), invited(browse("owner")))
    assert not EmailAddress.objects.get(email="new@acme.test").verified


def test_a_used_link_is_worth_nothing(browse: Browse) -> None:
    link = invited(browse("owner"))
    join(browse(""), link)
    thief = browse("")
    assert WORKS_NOT in thief.get(link, follow=True).content
    assert WORKS_NOT in join(thief, link)
    assert User.objects.filter(email="new@acme.test").count() == 1


def test_a_revoked_and_an_expired_link_are_worth_nothing(browse: Browse) -> None:
    owner, client = browse("owner"), browse("")
    link = invited(owner)
    client.get(link)  # open in a browser already
    assert owner.post("/tenants/acme/invitations/revoke", {"invitation": Invitation.unscoped.get().id}).status_code == 302
    assert WORKS_NOT in join(client, link)
    later = invited(owner)
    with time_machine.travel(timezone.now() + timedelta(days=8), tick=False):
        assert WORKS_NOT in join(browse(""), later)
    assert not User.objects.filter(email="new@acme.test").exists()


def test_a_stolen_link_does_not_let_in_another_account(browse: Browse) -> None:
    """Neither somebody with another address, nor with the address but unconfirmed, nor a new account beside the owner's."""
    link = invited(browse("owner"), "sam@globex.test")
    for verified in (None, False):
        if verified is not None:
            have_address("stranger", "sam@globex.test", verified=verified)
        thief = browse("stranger")
        thief.get(link)
        assert b"not a confirmed address" in thief.post("/invitation").content
    assert role_in_acme("stranger") == ""
    EmailAddress.objects.all().delete()
    have_address("stranger", "sam@globex.test")
    anonymous = browse("")
    assert b"There is an account with this address" in join(anonymous, link)
    assert not User.objects.filter(username="sam@globex.test").exists()


def test_somebody_with_an_account_signs_in_and_joins(browse: Browse) -> None:
    have_address("stranger", "sam@globex.test")
    client = browse("")
    page = client.get(invited(browse("owner"), "sam@globex.test"), follow=True).content.decode()
    link = re.search(r'href="(/sign-in\?next=[^"]+)"', page)
    assert link
    after = client.post(link[1], {"username": "stranger", "password": PASSWORD, "next": "/invitation"})
    assert after["Location"] == "/invitation"
    assert client.post("/invitation")["Location"] == "/tenants/acme"
    assert role_in_acme("stranger") == "viewer"


def test_an_invitation_is_worth_no_more_than_who_made_it(browse: Browse) -> None:
    link = invited(browse("owner"))
    Membership.unscoped.filter(user__username="owner").update(role="viewer")
    assert WORKS_NOT in join(browse(""), link)


def test_only_administrators_of_the_tenant_invite(browse: Browse) -> None:
    form = {"email": "new@acme.test", "role": "viewer"}
    assert browse("teammate").post("/tenants/acme/new-invitation", form).status_code == 403
    assert browse("stranger").post("/tenants/acme/new-invitation", form).status_code == 404
    assert browse("teammate").get("/tenants/acme/people").status_code == 200
    assert (
        b"is not one of the available choices"
        in browse("owner").post("/tenants/acme/new-invitation", {**form, "role": "emperor"}).content
    )
    assert not Invitation.unscoped.exists()


def test_members_are_added_changed_and_removed(browse: Browse) -> None:
    owner = browse("owner")
    assert owner.post("/tenants/acme/new-member", {"username": "stranger", "role": "viewer"}).status_code == 302
    assert role_in_acme("stranger") == "viewer"
    owner.post("/tenants/acme/new-member", {"username": "stranger", "role": "owner"})
    assert role_in_acme("stranger") == "owner"
    owner.post("/tenants/acme/people/remove", {"username": "stranger", "confirmed": "yes"})
    assert role_in_acme("stranger") == ""
    refused = owner.post("/tenants/acme/people/remove", {"username": "owner", "confirmed": "yes"})
    assert b"must keep an owner" in refused.content


def test_invitations_and_sessions_over_the_api(browse: Browse) -> None:
    owner = browse("owner")
    made = owner.post("/api/v1/tenants/acme/invitations", {"email": "new@acme.test"}, content_type="application/json")
    assert made.status_code == 201 and made["Cache-Control"] == "no-store"
    shown = made.json()
    assert "/invitations/" in shown["link"] and shown["state"] == "open" and shown["role"] == "metadata"
    again = owner.post("/api/v1/tenants/acme/invitations", {"email": "new@acme.test"}, content_type="application/json")
    assert again.status_code == 409
    bad = owner.post("/api/v1/tenants/acme/invitations", {"email": "x", "role": "owner"}, content_type="application/json")
    assert bad.status_code == 400 and "not a mail address" in bad.json()["detail"]
    listed = owner.get("/api/v1/tenants/acme/invitations").json()["items"]
    assert [row["email"] for row in listed] == ["new@acme.test"] and "link" not in listed[0]
    path = f"/api/v1/tenants/acme/invitations/{shown['id']}"
    assert browse("teammate").delete(path).status_code == 403
    assert browse("stranger").get(path).status_code == 404
    assert owner.delete(path).json()["state"] == "revoked"
    client = browse("")
    client.post("/sign-in", {"username": "owner", "password": PASSWORD})
    sessions = client.get("/api/v1/me/sessions").json()["items"]
    assert [row["current"] for row in sessions] == [True]
    assert owner.delete(f"/api/v1/me/sessions/{sessions[0]['id']}").status_code == 204
    assert client.get("/api/v1/me").status_code in (401, 403)
    assert browse("stranger").delete(f"/api/v1/me/sessions/{sessions[0]['id']}").status_code == 404
    teammate = browse("teammate")
    assert browse("owner").delete("/api/v1/me/sessions").status_code == 204
    assert owner.get("/api/v1/me").status_code in (401, 403), "signed out everywhere"
    assert teammate.get("/api/v1/me").status_code == 200, "nobody else is"
