"""Signing in with a real OpenID provider: accounts, roles from claims, the end of access, and what a forged answer is worth."""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import msgspec
import pytest
import requests
from allauth.account.models import EmailAddress
from allauth.mfa.models import Authenticator
from django.conf import settings as django_settings
from django.test import Client
from django.utils import timezone

from admin_ui.access import SIGNED_OUT, websocket_refusal
from admin_ui.sign_in.backends import PATH as PROVIDER_BACKEND
from tenants.models import AuditRecord, Membership, ProviderLogin, User
from tenants.sign_in import secrecy
from tests.support.openid_provider import OpenIDProvider, openid_provider, write_file
from workers.tasks.provider_logins import refresh_provider_logins

# Of the package that is the provider, not of ours.
pytestmark = pytest.mark.filterwarnings("ignore:get_jwt_config:DeprecationWarning")

Browse = Callable[[str], Client]
Configure = Callable[..., None]
ROLES = """
[[provider.role]]
value = "operators"
tenant = "acme"
role = "operator"
[[provider.role]]
value = "staff"
tenant = "acme"
role = "viewer"
[[provider.role]]
claim = "realm.level"
value = "boss"
tenant = "globex"
role = "admin"
"""
EVA = {"email": "eva@corp.test", "email_verified": True, "groups": ["staff"]}


@pytest.fixture(scope="module")
def provider() -> Iterator[OpenIDProvider]:
    with openid_provider() as server:
        yield server


@pytest.fixture
def configure(provider: OpenIDProvider, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Configure:
    def set_up(more: str = "", roles: str = ROLES) -> None:
        file = write_file(tmp_path, provider, more + roles)
        monkeypatch.setattr(
            django_settings, "MAGNETAR", msgspec.structs.replace(django_settings.MAGNETAR, sign_in_providers_file=file)
        )

    set_up()
    return set_up


def to_provider(client: Client, after: str = "/tenants/acme") -> str:
    page = client.post("/sign-in/with/corp", {"next": after}).content.decode()
    address = re.search(r'http-equiv="refresh" content="0; url=([^"]+)"', page)
    assert address, page
    return html.unescape(address[1])


def come_back(client: Client, address: str) -> Any:
    parts = urlsplit(address)
    assert parts.path == "/sign-in/with/corp/return"
    return client.get(f"{parts.path}?{parts.query}")


def sign_in(client: Client, provider: OpenIDProvider, subject: str = "eva", **claims: Any) -> Any:
    provider.say(subject, **(claims or EVA))
    return come_back(client, provider.approve(to_provider(client), subject))


def is_in(client: Client) -> bool:
    return client.get("/tenants/acme").status_code == 200


def role_in(tenant: str, username: str = "eva@corp.test") -> str:
    return Membership.unscoped.filter(tenant=tenant, user__username=username).values_list("role", flat=True).first() or ""


class Environment:
    """What the task uses of the worker's."""

    @property
    def settings(self) -> Any:
        return django_settings.MAGNETAR


def refresh() -> dict[str, Any]:
    ProviderLogin.objects.filter(due_at__isnull=False).update(due_at=timezone.now())
    return refresh_provider_logins(Environment(), "task", lambda: None)  # type: ignore[arg-type]


def test_account_and_role_come_with_the_first_sign_in(browse: Browse, provider: OpenIDProvider, configure: Configure) -> None:
    assert b"Sign in with Corp" in browse("").get("/sign-in").content
    client = browse("")
    assert sign_in(client, provider)["Location"] == "/tenants/acme"
    user = User.objects.get(username="eva@corp.test")
    assert role_in("acme") == "viewer" and not user.has_usable_password()
    assert EmailAddress.objects.get(user=user).verified
    assert is_in(client)
    assert client.get("/tenants/acme/keys").status_code == 403
    actions = {record.action: record for record in AuditRecord.unscoped.order_by("id")}
    assert actions["member.set"].role == "service:provider-corp"
    assert actions["session.sign_in"].after == {"by": "corp"}
    again = browse("")
    assert sign_in(again, provider).status_code == 302 and is_in(again)
    assert User.objects.filter(email="eva@corp.test").count() == 1


def test_tokens_are_stored_only_encrypted(browse: Browse, provider: OpenIDProvider, configure: Configure) -> None:
    client = browse("")
    sign_in(client, provider)
    stored = ProviderLogin.objects.get().refresh_token
    token = secrecy.decrypt(stored)
    assert token and token not in stored
    assert token not in str(dict(client.session))


def test_roles_follow_the_claims_at_each_refresh(browse: Browse, provider: OpenIDProvider, configure: Configure) -> None:
    sign_in(browse(""), provider)
    provider.say("eva", **{**EVA, "groups": ["staff", "operators"], "realm": {"level": "boss"}})
    assert refresh() == {"refreshed": 1, "removed": 0, "not_reached": 0}
    assert (role_in("acme"), role_in("globex")) == ("operator", "admin"), "of several that match the first one counts"
    provider.say("eva", **{**EVA, "groups": []})
    refresh()
    assert (role_in("acme"), role_in("globex")) == ("", "")


def test_a_membership_that_people_gave_is_none_of_its_business(
    browse: Browse, provider: OpenIDProvider, configure: Configure
) -> None:
    sign_in(browse(""), provider, groups=["nobody"], email="eva@corp.test", email_verified=True)
    browse("owner").post("/tenants/acme/new-member", {"username": "eva@corp.test", "role": "developer"})
    provider.say("eva", **{**EVA, "groups": ["operators"]})
    refresh()
    assert role_in("acme") == "developer"
    provider.say("eva", **{**EVA, "groups": []})
    refresh()
    assert role_in("acme") == "developer"


def test_whom_the_provider_removed_loses_access_at_the_next_refresh(
    browse: Browse, provider: OpenIDProvider, configure: Configure
) -> None:
    client = browse("")
    sign_in(client, provider)
    scope = {
        "user": User.objects.get(username="eva@corp.test"),
        "session": client.session,
        "url_route": {"kwargs": {"tenant": "acme", "namespace": "orders"}},
    }
    assert websocket_refusal(scope, "console:namespace_live") == 0
    provider.remove("eva")
    assert is_in(client)
    assert refresh() == {"refreshed": 0, "removed": 1, "not_reached": 0}
    assert not is_in(client)
    assert websocket_refusal(scope, "console:namespace_live") == SIGNED_OUT
    assert role_in("acme") == ""
    assert "person.removed_by_provider" in AuditRecord.unscoped.values_list("action", flat=True)
    back = browse("")
    sign_in(back, provider)
    assert is_in(back), "whom it knows again gets in again"


def test_what_it_said_last_holds_for_a_while_when_it_is_not_responding(
    browse: Browse, provider: OpenIDProvider, configure: Configure, monkeypatch: pytest.MonkeyPatch
) -> None:
    configure("refresh_min = 10\ngrace_min = 20\n")
    client = browse("")
    sign_in(client, provider)

    def away(*_: Any, **__: Any) -> Any:
        raise requests.ConnectionError

    monkeypatch.setattr(requests, "request", away)
    assert refresh() == {"refreshed": 0, "removed": 0, "not_reached": 1}
    login = ProviderLogin.objects.get()
    assert (login.failures, login.why) == (1, "ConnectionError") and login.due_at and login.due_at > timezone.now()
    ProviderLogin.objects.update(refreshed_at=timezone.now() - timedelta(minutes=29))
    assert is_in(client)
    ProviderLogin.objects.update(refreshed_at=timezone.now() - timedelta(minutes=31))
    assert not is_in(client), "no worker, no provider: access ends by itself"


def test_a_passkey_does_not_outlive_what_the_provider_says(browse: Browse, provider: OpenIDProvider, configure: Configure) -> None:
    """Who has no password signs in by the provider's grace, however they show who they are."""
    sign_in(browse(""), provider)
    client = browse("")
    user = User.objects.get(username="eva@corp.test")
    client.force_login(user, backend=PROVIDER_BACKEND)
    assert is_in(client)
    ProviderLogin.objects.update(ended_at=timezone.now())
    assert not is_in(client)


@pytest.mark.parametrize("links", [False, True])
def test_an_address_of_an_account_lets_in_only_where_the_provider_may(
    browse: Browse, provider: OpenIDProvider, configure: Configure, links: bool
) -> None:
    configure("links_accounts = true\n" if links else "")
    EmailAddress.objects.create(user=User.objects.get(username="owner"), email="olga@acme.test", verified=True, primary=True)
    client = browse("")
    answer = sign_in(client, provider, "olga", email="olga@acme.test", email_verified=True, groups=[])
    if links:
        assert answer.status_code == 302, answer.content
        assert is_in(client) and role_in("acme", "owner") == "owner"
    else:
        assert answer.status_code == 403 and b"is the address of an account already" in answer.content
        assert not is_in(client) and not User.objects.filter(username="olga@acme.test").exists()


def test_an_address_that_is_not_proven_names_nobody(browse: Browse, provider: OpenIDProvider, configure: Configure) -> None:
    configure("links_accounts = true\n")
    EmailAddress.objects.create(user=User.objects.get(username="owner"), email="olga@acme.test", verified=True, primary=True)
    client = browse("")
    claims = {"email": "olga@acme.test", "email_verified": False, "preferred_username": "owner", "groups": ["staff"]}
    assert sign_in(client, provider, "mallory", **claims).status_code == 302
    made = User.objects.get(username="owner@corp")
    assert not made.email and not EmailAddress.objects.filter(user=made).exists()
    assert role_in("acme", "owner@corp") == "viewer"


def test_a_second_factor_of_ones_own_is_still_asked_for(browse: Browse, provider: OpenIDProvider, configure: Configure) -> None:
    sign_in(browse(""), provider)
    user = User.objects.get(username="eva@corp.test")
    Authenticator.objects.create(user=user, type="totp", data={"secret": "unread"})
    client = browse("")
    assert sign_in(client, provider)["Location"].startswith("/sign-in/second-factor")
    assert not is_in(client)


@pytest.mark.parametrize("asks", [False, True])
def test_a_provider_that_asks_for_a_second_factor_satisfies_a_tenant_that_requires_one(
    browse: Browse, provider: OpenIDProvider, configure: Configure, asks: bool
) -> None:
    configure("second_factor = true\n" if asks else "")
    Authenticator.objects.create(user=User.objects.get(username="owner"), type="totp", data={"secret": "unread"})
    browse("owner").post("/tenants/acme/people/second-factor", {"required": "true"})
    client = browse("")
    sign_in(client, provider)
    assert is_in(client) is asks


def test_an_answer_that_was_not_asked_for_is_refused(browse: Browse, provider: OpenIDProvider, configure: Configure) -> None:
    """A code of the attacker in the browser of a victim, a state of another browser, a code twice."""
    provider.say("eva", **EVA)
    attacker, victim = browse(""), browse("")
    back = provider.approve(to_provider(attacker), "eva")
    assert come_back(victim, back).status_code != 302
    assert not is_in(victim)
    to_provider(victim)
    assert come_back(victim, back).status_code != 302
    assert come_back(attacker, back).status_code == 302 and is_in(attacker)
    third = browse("")
    code = parse_qs(urlsplit(back).query)["code"][0]
    state = parse_qs(urlsplit(to_provider(third)).query)["state"][0]
    assert third.get(f"/sign-in/with/corp/return?code={code}&state={state}").status_code == 401
    assert AuditRecord.unscoped.latest("id").action == "session.sign_in_failed"
    assert code not in str(list(AuditRecord.unscoped.values()))


def test_leads_to_no_other_site_and_to_no_unknown_provider(browse: Browse, provider: OpenIDProvider, configure: Configure) -> None:
    client = browse("")
    provider.say("eva", **EVA)
    answer = come_back(client, provider.approve(to_provider(client, "https://evil.test/"), "eva"))
    assert answer.status_code == 302 and "evil" not in answer["Location"]
    assert browse("").post("/sign-in/with/other").status_code == 404
    cancelled = browse("")
    assert come_back(cancelled, provider.deny(to_provider(cancelled)))["Location"] == "/sign-in/cancelled"
    assert b"did not go on" in cancelled.get("/sign-in/cancelled").content


def test_without_providers_there_are_no_such_pages(browse: Browse) -> None:
    assert browse("").post("/sign-in/with/corp").status_code == 404
    assert browse("").get("/sign-in/with/corp/return?code=x").status_code == 404
    assert b"Sign in with Corp" not in browse("").get("/sign-in").content
