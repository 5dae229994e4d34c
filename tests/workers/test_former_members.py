"""Who was told something as a member is told nothing more once they are none; who never was one may be told."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest
from allauth.account.models import EmailAddress
from django.db import connection
from django.test.utils import CaptureQueriesContext

from messaging.settings import Settings
from tenants.access import platform_actor
from tenants.actions.members import end_memberships, remove_member, set_member
from tenants.actions.people import set_active
from tenants.models import Invitation, Membership, Tenant, User
from tenants.scoping import platform_scope
from workers import mail
from workers.alerts import sentences
from workers.alerts.notices import TenantRef, send_mail
from workers.former_members import former, former_of

pytestmark = pytest.mark.django_db
NOW = datetime(2026, 3, 4, tzinfo=UTC)
TOLD = TenantRef("acme", "u1")
ADDRESSES = ["Tom@X.example", "boss@x.example", "accountant@y.example", "stranger@z.example"]


@pytest.fixture
def people() -> None:
    """`boss` owns acme, `tom` is a member, `accountant` has an account and never was one; nobody has the last address."""
    Tenant.unscoped.create(name="acme", uid="u1")
    for name, email in (("boss", "boss@x.example"), ("tom", "tom@x.example"), ("accountant", "accountant@y.example")):
        user = User.objects.create(username=name, email=email)
        EmailAddress.objects.create(user=user, email=email, verified=True, primary=True)
    set_member(platform_actor(), "acme", "boss", "owner")
    set_member(platform_actor(), "acme", "tom", "viewer")


def invited(email: str, accepted_by: str) -> None:
    given = {"email": email, "accepted_by": accepted_by, "role": "viewer", "created_by": "user:boss", "expires_at": NOW}
    with platform_scope():
        Invitation.objects.create(tenant_id="acme", secret_hash=email, **given)


@pytest.fixture
def mailed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    to: list[str] = []
    monkeypatch.setattr(mail, "send", lambda settings, told, *rest: to.extend(told) or f"mailed to {len(told)}")
    return to


def test_a_removed_member_gets_no_mail_and_one_who_is_back_does(
    people: None, mailed: list[str], settings_of: Callable[..., Settings]
) -> None:
    settings = settings_of(smtp_url="smtp://localhost:25")
    assert send_mail(settings, NOW, TOLD, ADDRESSES, "s", "t") == "mailed to 4"
    remove_member(platform_actor(), "acme", "tom")
    mailed.clear()
    assert send_mail(settings, NOW, TOLD, ADDRESSES, "s", "t") == "mailed to 3" and mailed == ADDRESSES[1:]
    assert send_mail(settings, NOW, TOLD, ["tom@x.example"], "s", "t") == sentences.NOBODY_LEFT
    assert former_of("acme", ADDRESSES) == ["Tom@X.example"] and former_of("gone", ADDRESSES) == []
    set_member(platform_actor(), "acme", "tom", "viewer")
    assert former("u1", ADDRESSES) == []


def test_a_membership_whose_time_is_over_counts_before_and_after_the_task_has_removed_it(people: None) -> None:
    Membership.ever.filter(user__username="tom").update(expires_at=NOW - timedelta(days=1))
    assert former("u1", ADDRESSES) == ["Tom@X.example"]
    assert end_memberships(platform_actor(), NOW) == 1
    assert former("u1", ADDRESSES) == ["Tom@X.example"]


def test_a_deactivated_account_gets_none_and_an_administrator_or_a_further_owner_of_the_address_does(people: None) -> None:
    set_active(platform_actor(), "tom", False)
    assert former("u1", ADDRESSES) == ["Tom@X.example"]
    set_active(platform_actor(), "tom", True)
    remove_member(platform_actor(), "acme", "tom")
    User.objects.filter(username="tom").update(is_superuser=True)
    assert former("u1", ADDRESSES) == []
    User.objects.filter(username="tom").update(is_superuser=False)
    User.objects.create(username="tom-too")
    invited("tom@x.example", "tom-too")
    assert former("u1", ADDRESSES) == []


def test_an_address_that_somebody_only_names_keeps_no_mail_from_whose_it_is(people: None) -> None:
    remove_member(platform_actor(), "acme", "tom")
    User.objects.filter(username="tom").update(email="stranger@z.example")
    EmailAddress.objects.filter(user__username="tom").update(email="stranger@z.example", verified=False)
    assert former("u1", ADDRESSES) == []
    invited("stranger@z.example", "tom")
    assert former("u1", ADDRESSES) == ["stranger@z.example"], "the tenant said itself that it is theirs"


def test_each_address_at_which_somebody_was_invited_counts_and_who_administers_the_tenant_by_role_is_told(people: None) -> None:
    remove_member(platform_actor(), "acme", "tom")
    for address in ("old@tom.example", "older@tom.example"):
        invited(address, "tom")
    assert former("u1", ["old@tom.example", "older@tom.example"]) == ["old@tom.example", "older@tom.example"]
    Tenant.unscoped.filter(name="acme").update(admin_roles=["user:tom"])
    assert former("u1", ["old@tom.example", "tom@x.example"]) == []


def test_an_index_finds_whose_an_address_is(people: None) -> None:
    """Not a look at each of 100,000 accounts, for every mail that is sent."""
    with CaptureQueriesContext(connection) as asked:
        former("u1", ADDRESSES)
    (sql,) = (query["sql"] for query in asked if "account_emailaddress" in query["sql"])
    with connection.cursor() as cursor:
        cursor.execute(f"explain query plan {sql}")
        plan = " ".join(row[-1] for row in cursor.fetchall())
    assert "SEARCH account_emailaddress USING INDEX" in plan and "(email=?" in plan
