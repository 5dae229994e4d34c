"""Pages of teams: created, changed, joined and left, deleted; and nobody gives by them what they lack."""

from __future__ import annotations

import pytest

from tenants.access import actor_of_user
from tenants.actions import RoleOfTeam, set_custom_role, set_member, set_team
from tenants.models import Team, TeamMember, User
from tests.admin_ui.pages import Browse, text


def test_a_team_from_its_beginning_to_its_end(browse: Browse) -> None:
    client = browse("owner")
    form = {"name": "payments", "description": "pays", "role-0": "developer", "namespace-0": "orders", "topics-0": "pay-*"}
    assert client.post("/tenants/acme/new-team", form).status_code == 302
    assert "There is a team of this name" in client.post("/tenants/acme/new-team", form).content.decode()
    assert "developer on topics pay-* of namespace acme/orders" in text(client, "/tenants/acme/teams")
    client.post("/tenants/acme/teams/payments", {"username": "teammate"})
    assert TeamMember.unscoped.get().user.username == "teammate"
    page = client.post("/tenants/acme/teams/payments", {"username": "stranger"}, follow=True).content.decode()
    assert "is not a member of" in page
    page = text(browse("teammate"), "/tenants/acme/teams/payments")
    assert "teammate" in page and "Remove" not in page
    assert "developer" in text(client, "/tenants/acme/teams/payments/change")
    client.post("/tenants/acme/teams/payments/change", {"role-0": "viewer", "role-4": "billing"})
    assert [(role.role, role.scope.namespace) for role in Team.unscoped.get().roles.all()] == [("viewer", ""), ("billing", "")]
    client.post("/tenants/acme/teams/payments", {"remove": "teammate"})
    assert not TeamMember.unscoped.exists()
    assert client.post("/tenants/acme/teams/payments/delete", {"confirm": "payments"}).status_code == 302
    assert not Team.unscoped.exists()


@pytest.mark.parametrize(
    ("form", "why"),
    [
        ({"role-0": "owner"}, "Select a valid choice"),
        ({"role-0": "viewer", "namespace-0": "absent"}, "does not exist"),
        ({"role-0": "viewer", "role-1": "viewer"}, "is there twice"),
        ({"name": "a/b"}, "name"),
    ],
)
def test_a_team_that_cannot_be(browse: Browse, form: dict[str, str], why: str) -> None:
    assert why in browse("owner").post("/tenants/acme/new-team", {"name": "payments", **form}).content.decode()
    assert not Team.unscoped.exists()


def test_nobody_gives_by_a_team_what_they_lack(browse: Browse) -> None:
    owner = actor_of_user(User.objects.get(username="owner"))
    set_custom_role(owner, "acme", "people", ["tenant_admin"])
    set_member(owner, "acme", "teammate", "people")
    set_team(owner, "acme", "payments", [RoleOfTeam("developer")])
    client = browse("teammate")
    page = client.post("/tenants/acme/new-team", {"name": "mine", "role-0": "developer"}).content.decode()
    assert "can do more than you can" in page
    page = client.post("/tenants/acme/teams/payments", {"username": "teammate"}, follow=True).content.decode()
    assert "can do more than you can" in page and not TeamMember.unscoped.exists()


def test_the_requests_follow_the_form(browse: Browse) -> None:
    form = {"name": "payments", "role-0": "viewer", "topics-0": "pay-*"}
    page = text(browse("owner"), "/tenants/acme/new-team", calls="yes", **form)
    assert "magnetar teams set payments --role &#x27;viewer@*/pay-*&#x27; --tenant acme" in page
    assert not Team.unscoped.exists()


def test_a_team_of_another_tenant_is_not_there(browse: Browse) -> None:
    set_team(actor_of_user(User.objects.get(username="owner")), "acme", "payments", [])
    for path in ("", "/change", "/delete"):
        assert browse("stranger").get(f"/tenants/globex/teams/payments{path}").status_code == 404
