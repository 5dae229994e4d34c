"""A tenant that requires a second factor of people: pages, REST and WebSockets refuse whoever has none; keys are not asked."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from allauth.mfa.models import Authenticator
from django.test import Client

from admin_ui.access import NOT_VISIBLE, websocket_refusal
from messaging.permissions.model import Action, Principal, Resource, tenant_role
from tenants.access import Actor, SecondFactorMissing, require
from tenants.models import AuditRecord, Tenant, User

Browse = Callable[[str], Client]
RULE = "/tenants/acme/people/second-factor"


def have_factor(username: str) -> None:
    Authenticator.objects.create(user=User.objects.get(username=username), type="totp", data={"secret": "unread"})


@pytest.fixture
def required(browse: Browse) -> Browse:
    have_factor("owner")
    assert browse("owner").post(RULE, {"required": "true"})["Location"] == "/tenants/acme/people"
    assert Tenant.unscoped.get(name="acme").second_factor_required
    return browse


def test_nobody_locks_themselves_out(browse: Browse) -> None:
    page = browse("owner").post(RULE, {"required": "true"}, follow=True).content
    assert b"a second factor of your own first" in page
    assert not Tenant.unscoped.get(name="acme").second_factor_required


def test_pages_lead_whoever_has_none_to_setting_one_up(required: Browse) -> None:
    for username in ("teammate", "superuser"):
        answer = required(username).get("/tenants/acme/people")
        assert answer["Location"] == "/account/second-factor", username
    assert required("owner").get("/tenants/acme/people").status_code == 200
    assert required("stranger").get("/tenants/acme/people").status_code == 404, "it tells nobody that the tenant exists"
    fragment = required("teammate").get("/tenants/acme/people", headers={"HX-Request": "true"})
    assert (fragment.status_code, fragment["HX-Redirect"]) == (204, "/account/second-factor")
    denial = AuditRecord.unscoped.filter(action="denied", role="user:teammate").latest("id")
    assert "second factor" in str(denial.after)
    have_factor("teammate")
    assert required("teammate").get("/tenants/acme/people").status_code == 200
    Authenticator.objects.all().delete()
    assert required("teammate").get("/tenants/acme/people").status_code == 302


def test_rest_refuses_with_its_own_code_and_keys_are_not_asked(required: Browse) -> None:
    for path in ("/api/v1/tenants/acme", "/api/v1/tenants/acme/namespaces", "/admin/v2/namespaces/acme"):
        answer = required("teammate").get(path)
        assert answer.status_code == 403, path
        assert b"requires a second factor" in answer.content
    assert required("teammate").get("/api/v1/tenants/acme").json()["code"] == "second_factor_required"
    assert required("owner").get("/api/v1/tenants/acme").status_code == 200
    key = Actor(Principal(tenant_role("acme")))
    require(key, Action.TENANT_READ, Resource("acme"))
    with pytest.raises(SecondFactorMissing):
        require(Actor(Principal("user:teammate"), second_factor=False), Action.NAMESPACE_READ, Resource("acme", "acme/orders"))


def test_a_live_page_ends_when_the_rule_begins(required: Browse) -> None:
    scope = {"user": User.objects.get(username="teammate"), "url_route": {"kwargs": {"tenant": "acme", "namespace": "orders"}}}
    assert websocket_refusal(scope, "console:namespace_live") == NOT_VISIBLE
    assert required("owner").put("/api/v1/tenants/acme/sign-in", {"second_factor_required": False}, "application/json").json() == {
        "second_factor_required": False
    }
    assert websocket_refusal(scope, "console:namespace_live") == 0
    assert AuditRecord.unscoped.latest("id").action == "tenant.require_second_factor"


def test_only_administrators_of_the_tenant_change_the_rule(required: Browse) -> None:
    have_factor("teammate")
    assert required("teammate").post(RULE, {"required": "false"}).status_code == 403
    assert required("stranger").post(RULE, {"required": "false"}).status_code == 404
    rule = "/api/v1/tenants/acme/sign-in"
    assert required("teammate").put(rule, {"second_factor_required": False}, "application/json").status_code == 403
    assert required("teammate").get(rule).json() == {"second_factor_required": True}
    assert Tenant.unscoped.get(name="acme").second_factor_required


def test_an_administrator_of_the_platform_removes_factors_that_were_lost(browse: Browse) -> None:
    have_factor("owner")
    theirs = browse("owner")
    assert browse("owner").post("/people/owner/second-factor", {"confirm": "owner"}).status_code == 403
    assert browse("superuser").post("/people/owner/second-factor", {"confirm": "owner"}).status_code == 302
    assert not Authenticator.objects.exists()
    assert not User.objects.get(username="owner").has_second_factor
    assert theirs.get("/tenants/acme").status_code == 302, "their sessions are over"
    assert AuditRecord.unscoped.latest("id").action == "user.second_factor.remove"
