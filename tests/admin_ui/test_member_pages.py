"""A person of a tenant: their role, what they made, their removal, and what is said of those who left."""

from __future__ import annotations

from datetime import timedelta

import pytest
from allauth.account.models import EmailAddress
from django.utils import timezone

from tenants import actions
from tenants.access import Actor, actor_of_user
from tenants.actions.invitations import invite
from tenants.actions.members import end_memberships
from tenants.models import AuditRecord, CustomRole, Key, Membership, User
from tests.admin_ui.pages import Browse, text
from workers.alerts.actions import set_target
from workers.billing import budget_actions

AT = "/tenants/acme/members/teammate"
REMOVE = "/tenants/acme/people/remove"


def actor(username: str) -> Actor:
    return actor_of_user(User.objects.get(username=username))


@pytest.fixture
def made(browse: Browse) -> None:
    """The teammate administers the tenant and makes a key and a report."""
    actions.set_member(actor("owner"), "acme", "teammate", "admin")
    actions.create_key(actor("teammate"), "acme", "billing-app")
    budget_actions.create_schedule(actor("teammate"), "acme", "weekly costs", "week", "namespace")


def test_the_role_is_set_on_the_page_of_the_member(browse: Browse) -> None:
    owner = browse("owner")
    page = text(owner, AT)
    assert 'name="role"' in page and 'value="teammate"' in page
    assert owner.post("/tenants/acme/new-member", {"username": "teammate", "role": "developer", "days": "7"}).status_code == 302
    membership = Membership.unscoped.get(user__username="teammate", tenant="acme")
    assert membership.role == "developer" and membership.expires_at is not None
    assert "Until then" in text(owner, AT)
    owner.post("/tenants/acme/new-member", {"username": "teammate", "role": "viewer", "days": "kept"})
    assert Membership.unscoped.get(user__username="teammate", tenant="acme").expires_at == membership.expires_at


def test_a_removal_says_what_goes_on_and_leads_to_all_of_it(browse: Browse, made: None) -> None:
    owner = browse("owner")
    asked = text(owner, REMOVE, username="teammate")
    assert "Key: billing-app" in asked and "Report on schedule: weekly costs" in asked
    unconfirmed = owner.post(REMOVE, {"username": "teammate"})
    assert unconfirmed.status_code == 200 and Membership.unscoped.filter(user__username="teammate", tenant="acme").exists()
    done = owner.post(REMOVE, {"username": "teammate", "confirmed": "yes"}, follow=True).content.decode()
    assert not Membership.unscoped.filter(user__username="teammate", tenant="acme").exists()
    assert "What they made goes on" in done and "billing-app" in done and "/tenants/acme/keys/" in done
    assert "/tenants/acme/reports" in done and "No member" in done
    assert AT in text(owner, "/tenants/acme/people"), "among those who are no members any more"
    again = owner.get(REMOVE, {"username": "teammate"}, follow=True).content.decode()
    assert "teammate is not a member" in again


def test_a_membership_that_ended_by_itself_leads_to_what_was_made(browse: Browse, made: None) -> None:
    Membership.ever.filter(user__username="teammate", tenant="acme").update(expires_at=timezone.now() - timedelta(seconds=1))
    end_memberships(actor("superuser"), timezone.now())
    people = text(browse("owner"), "/tenants/acme/people")
    assert AT in people and "ended by itself" in people
    assert "billing-app" in text(browse("owner"), AT)


def test_who_does_not_administer_the_tenant_is_refused(browse: Browse, made: None) -> None:
    actions.set_member(actor("owner"), "acme", "teammate", "viewer")
    teammate = browse("teammate")
    for path in ("/tenants/acme/members/owner", f"{REMOVE}?username=owner"):
        assert teammate.get(path).status_code == 403
    assert teammate.post(REMOVE, {"username": "owner", "confirmed": "yes"}).status_code == 403
    assert "/tenants/acme/members/" not in text(teammate, "/tenants/acme/people")
    assert browse("stranger").get(AT).status_code == 404
    assert AuditRecord.unscoped.filter(action="denied", role="user:teammate").exists()


def test_keys_invitations_and_mails_of_who_left_are_marked(browse: Browse, made: None) -> None:
    EmailAddress.objects.create(user=User.objects.get(username="teammate"), email="team@acme.test", verified=True)
    budget_actions.create_budget(actor("owner"), "acme", "all", "5.00", "EUR", emails=["team@acme.test"])
    budget_actions.create_schedule(actor("owner"), "acme", "daily", "day", "namespace", ["team@acme.test"])
    set_target(actor("owner"), "acme", "", ["team@acme.test"])
    invite(actor("teammate"), "acme", "new@acme.test", "viewer")
    owner, key = browse("owner"), Key.unscoped.get(name="billing-app")
    marked = {
        "/tenants/acme/keys": "no member any more",
        f"/tenants/acme/keys/{key.id}": "no member any more",
        "/tenants/acme/people": "may not invite any more",
        "/tenants/acme/reports": "No mail goes to these addresses any more",
        "/tenants/acme/budgets": "No mail goes to these addresses any more",
        "/tenants/acme/alerts": "No mail goes to these addresses any more",
    }
    assert [path for path, mark in marked.items() if mark in text(owner, path)] == []
    invitations = "/api/v1/tenants/acme/invitations"
    assert owner.get(invitations).json()["items"][0]["works"] is True
    actions.remove_member(actor("owner"), "acme", "teammate")
    assert [path for path, mark in marked.items() if mark not in text(owner, path)] == []
    invitation = owner.get(invitations).json()["items"][0]
    assert (invitation["state"], invitation["works"]) == ("open", False)


def test_many_roles_are_sent_with_the_page_of_one_member_alone(browse: Browse) -> None:
    before = len(text(browse("owner"), "/tenants/acme/people"))
    CustomRole.unscoped.bulk_create([CustomRole(tenant_id="acme", name=f"role-{number}", actions=[]) for number in range(105)])
    assert len(text(browse("owner"), "/tenants/acme/people")) - before < 200
    assert "role-104" in text(browse("owner"), AT)
    browse("owner").post("/tenants/acme/new-member", {"username": "teammate", "role": "role-104", "days": ""})
    assert Membership.unscoped.get(user__username="teammate", tenant="acme").role == "role-104"
