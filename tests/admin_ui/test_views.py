"""Saved views: kept for oneself or shared with a tenant, never a way to another site."""

from __future__ import annotations

import pytest

from tenants.access import platform_actor
from tenants.actions import saved_views, set_custom_role, set_member, set_policies
from tenants.models import AuditRecord, SavedView, Tenant
from tests.admin_ui.pages import NAMESPACE, Browse, text

pytestmark = pytest.mark.django_db
ADDRESS = f"{NAMESPACE}?q=placed&sort=-rate_in"


def save(browse: Browse, person: str, name: str, address: str = ADDRESS, **more: str) -> str:
    """What the page says; "" where it leads to the view."""
    response = browse(person).post("/new-view", {"name": name, "address": address, **more})
    if response.status_code == 302:
        assert response["Location"] == address
        return ""
    return response.content.decode()


def jumped(browse: Browse, person: str, words: str) -> dict[str, str]:
    entries = browse(person).get("/jump", {"q": words}).json()["found"]
    return {entry["label"]: entry["url"] for entry in entries if entry["kind"] == "view"}


def test_a_view_is_found_by_its_name_by_whoever_saved_it(browse: Browse) -> None:
    assert save(browse, "owner", "Busy orders") == ""
    assert jumped(browse, "owner", "busy") == {"Busy orders": ADDRESS}
    assert jumped(browse, "teammate", "busy") == jumped(browse, "superuser", "busy") == {}
    assert "Busy orders" in text(browse("owner"), "/views")
    record = AuditRecord.unscoped.latest("id")
    assert (record.action, record.tenant) == ("view.save", ""), "what somebody keeps for themselves is not of the tenant"


def test_a_shared_view_is_found_by_those_who_may_see_the_tenant(browse: Browse) -> None:
    assert save(browse, "owner", "Busy orders", shared="on") == ""
    assert jumped(browse, "teammate", "busy") == {"Busy orders by owner": ADDRESS}
    Tenant.unscoped.filter(name="acme").update(second_factor_required=True)
    assert jumped(browse, "teammate", "busy") == {}, "they have none"
    Tenant.unscoped.filter(name="acme").update(second_factor_required=False)
    assert jumped(browse, "stranger", "busy") == {} and "Busy orders" not in text(browse("stranger"), "/views")
    record = AuditRecord.unscoped.latest("id")
    assert (record.action, record.tenant, record.role, record.resource) == ("view.save", "acme", "user:owner", "Busy orders")
    view = SavedView.objects.get()
    assert "somebody else" in browse("teammate").post(f"/views/{view.pk}/delete", follow=True).content.decode()
    assert SavedView.objects.count() == 1
    browse("owner").post(f"/views/{view.pk}/delete")
    assert SavedView.objects.count() == 0 and AuditRecord.unscoped.latest("id").action == "view.delete"


@pytest.mark.parametrize(("roles", "seen"), [(["message_read"], False), (["message_read", "consume"], True)])
def test_a_shared_view_that_looks_for_what_is_masked_is_not_shown_to_whom_it_is_masked(
    browse: Browse, roles: list[str], seen: bool
) -> None:
    set_policies(platform_actor(), "acme/orders", {"masked_fields": ["key"]})
    set_custom_role(platform_actor(), "acme", "reader", roles)
    set_member(platform_actor(), "acme", "teammate", "reader")
    sought, plain = f"{NAMESPACE}/topics/placed/messages?key=eve%40x.com", f"{NAMESPACE}/topics/placed/messages?limit=7"
    for name, address in (("Of Eve", sought), ("Of all", plain)):
        assert save(browse, "owner", name, address, shared="on") == ""
    assert jumped(browse, "owner", "of ") == {"Of Eve": sought, "Of all": plain}
    of_eve = {"Of Eve by owner": sought} if seen else {}
    assert jumped(browse, "teammate", "of ") == {**of_eve, "Of all by owner": plain}
    page = text(browse("teammate"), "/views")
    assert ("Of Eve" in page) is seen and "Of all" in page


def test_nobody_shares_a_view_of_a_tenant_that_is_not_theirs_to_see(browse: Browse) -> None:
    assert save(browse, "stranger", "Theirs", shared="on") != ""
    assert SavedView.objects.count() == 0


@pytest.mark.parametrize(
    "address",
    [
        "https://evil.example/",
        "//evil.example/",
        "/\\evil.example",
        "javascript:alert(1)",
        "/no-such-page",
        "tenants",
        "/sign-out",
        "",
    ],
)
def test_what_is_no_page_of_the_console_is_no_view(browse: Browse, address: str) -> None:
    assert save(browse, "owner", "x", address) != ""
    assert SavedView.objects.count() == 0


def test_what_is_wrong_with_a_view_is_said(browse: Browse, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "nobody to share it with" in save(browse, "owner", "Now", "/now", shared="on")
    assert save(browse, "owner", "Now", "/now") == ""
    assert "already" in save(browse, "owner", "Now", "/tenants")
    monkeypatch.setattr(saved_views, "VIEWS_MAX", 1)
    assert "delete some first" in save(browse, "owner", "Tenants", "/tenants")
    assert save(browse, "teammate", "Now", "/now") == "", "names are of one person"
