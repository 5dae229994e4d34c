"""Pages of token issuers: added, changed, removed; what came of fetching their keys; and nobody gives by them what they lack."""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec
import pytest
from django.conf import settings as django_settings

from tenants.access import actor_of_user, platform_actor
from tenants.actions import set_custom_role, set_member
from tenants.actions.grants import grant_permission
from tenants.actions.issuers import IssuerTerms, keep_issuer_keys, keep_issuer_problem, set_issuer
from tenants.models import AuditRecord, TokenIssuer, User
from tests.admin_ui.pages import Browse, text

LOGIN = "https://login.acme.example"
FORM = {
    "name": "corp",
    "issuer": LOGIN,
    "audience": "magnetar",
    "jwks_url": f"{LOGIN}/keys",
    "role_claim": "groups",
    "roles": "cn=orders,ou=x => app\r\nteam => reports",
    "clock_skew_s": "30",
}
ROLES = {"cn=orders,ou=x": "app", "team": "reports"}
AT = datetime(2026, 3, 10, 12, tzinfo=UTC)


@pytest.fixture(autouse=True)
def allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    changed = msgspec.structs.replace(django_settings.MAGNETAR, token_issuers_allowed=(f"acme={LOGIN}/",))
    monkeypatch.setattr(django_settings, "MAGNETAR", changed)


def test_an_issuer_from_its_beginning_to_its_end(browse: Browse) -> None:
    client = browse("owner")
    assert "No issuers yet" in text(client, "/tenants/acme/issuers")
    assert f"begins with {LOGIN}/" in text(client, "/tenants/acme/new-issuer")
    assert client.post("/tenants/acme/new-issuer", FORM).status_code == 302
    row = TokenIssuer.unscoped.get()
    assert (row.tenant_id, row.name, row.roles, row.role_claim, row.clock_skew_s) == ("acme", "corp", ROLES, "groups", 30)
    assert "There is an issuer of this name" in client.post("/tenants/acme/new-issuer", FORM).content.decode()
    page = text(client, "/tenants/acme/issuers")
    assert "Not fetched yet" in page and "groups: cn=orders,ou=x" in page and "has app@acme" in page
    keep_issuer_keys(platform_actor(), row.pk, row.jwks_url, [{"kid": "e1"}, {"kid": "e2"}], AT)
    assert "2 keys" in text(client, "/tenants/acme/issuers")
    keep_issuer_problem(platform_actor(), row.pk, "the server answered 503", AT)
    page = text(client, "/tenants/acme/issuers")
    assert "Keys of before" in page and "the server answered 503" in page
    page = text(client, "/tenants/acme/issuers/corp")
    assert "cn=orders,ou=x =&gt; app" in page  # as it was typed
    assert client.post("/tenants/acme/issuers/corp", {**FORM, "name": "other", "audience": "elsewhere"}).status_code == 302
    row.refresh_from_db()
    assert (row.name, row.audience, row.roles) == ("corp", "elsewhere", ROLES)
    assert client.post("/tenants/acme/issuers/corp/delete", {"confirm": "else"}).status_code == 200
    assert client.post("/tenants/acme/issuers/corp/delete", {"confirm": "corp"}).status_code == 302
    assert not TokenIssuer.unscoped.exists()
    recorded = [record.action for record in AuditRecord.unscoped.filter(action__startswith="issuer.").order_by("id")]
    assert recorded == ["issuer.set", "issuer.set_keys", "issuer.set", "issuer.delete"]


@pytest.mark.parametrize(
    ("field", "value", "why"),
    [
        ("jwks_url", "https://elsewhere.example/keys", "token_issuers_allowed"),
        ("roles", "orders", "is not like"),
        ("roles", "a => b\na => c", "is there twice"),
        ("roles", "a => b/c", "b/c"),
        ("clock_skew_s", "601", "600"),
        ("issuer", "", "required"),
    ],
)
def test_an_issuer_that_cannot_be(browse: Browse, field: str, value: str, why: str) -> None:
    assert why in browse("owner").post("/tenants/acme/new-issuer", {**FORM, field: value}).content.decode()
    assert not TokenIssuer.unscoped.exists()


def test_nobody_gives_by_an_issuer_what_they_lack(browse: Browse) -> None:
    owner = actor_of_user(User.objects.get(username="owner"))
    set_custom_role(owner, "acme", "people", ["tenant_admin"])
    set_member(owner, "acme", "teammate", "people")
    grant_permission(owner, "acme/orders", "app@acme", ["produce"])
    assert "can do more than you can" in browse("teammate").post("/tenants/acme/new-issuer", FORM).content.decode()
    assert not TokenIssuer.unscoped.exists()


def test_the_requests_follow_the_form(browse: Browse) -> None:
    page = text(browse("owner"), "/tenants/acme/new-issuer", calls="yes", **{**FORM, "roles": "orders => app"})
    assert "magnetar issuers set corp" in page and "--role orders=app" in page and "admin.issuers.set" in page
    assert not TokenIssuer.unscoped.exists()


def test_an_issuer_of_another_tenant_is_not_there(browse: Browse) -> None:
    owner = actor_of_user(User.objects.get(username="owner"))
    set_issuer(owner, "acme", "corp", IssuerTerms(LOGIN, "magnetar", f"{LOGIN}/keys", {"team": "app"}))
    for path in ("", "/delete"):
        assert browse("stranger").get(f"/tenants/globex/issuers/corp{path}").status_code == 404
    assert LOGIN not in text(browse("stranger"), "/tenants/globex/issuers")
