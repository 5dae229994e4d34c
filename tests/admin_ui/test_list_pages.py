"""Lists of roles, issuers, sessions and task runs: filter, order and pages on the server and in the address."""

from __future__ import annotations

import re
from datetime import timedelta

from allauth.usersessions.models import UserSession
from django.utils import timezone

from admin_ui.row_list import ROWS_A_PAGE
from tenants.access import platform_actor
from tenants.actions import set_custom_role
from tenants.models import TokenIssuer, User
from tests.admin_ui.pages import Browse, text
from workers.models import TaskRun
from workers.schedule import BY_NAME


def heads(page: str, table: str) -> list[str]:
    """The names of its rows."""
    body = page.partition(f'id="{table}"')[2].partition("</table>")[0]
    return [re.sub(r"<[^>]*>", "", head).strip() for head in re.findall(r'<th scope="row"[^>]*>([^<]*)', body)]


def test_roles_are_found_and_sorted(browse: Browse) -> None:
    for name in ("keeper", "auditor"):
        set_custom_role(platform_actor(), "acme", name, ["produce"], f"for {name}s of orders")
    owner, path = browse("owner"), "/tenants/acme/roles"
    assert sorted(heads(text(owner, path, q="OF ORDERS"), "roles")) == ["auditor", "keeper"]
    by_name = heads(text(owner, path, sort="-name"), "roles")
    assert by_name == sorted(by_name, reverse=True) and "keeper" in by_name
    assert heads(text(owner, path, sort="-members"), "roles")[0] in ("owner", "metadata")
    page = text(owner, path, q="nothing like it")
    assert "No role matches." in page and '<th scope="col">keeper</th>' in page  # what each may do stays whole


def test_issuers_are_found_and_sorted_and_paged(browse: Browse) -> None:
    TokenIssuer.unscoped.bulk_create(
        TokenIssuer(
            tenant_id="acme", name=f"corp-{number:03}", issuer=f"https://i{number}/", audience="a", jwks_url="https://i/", roles={}
        )
        for number in range(ROWS_A_PAGE + 1)
    )
    owner, path = browse("owner"), "/tenants/acme/issuers"
    assert heads(text(owner, path, q="corp-007"), "issuers") == ["corp-007"]
    assert heads(text(owner, path, sort="-name"), "issuers")[0] == f"corp-{ROWS_A_PAGE:03}"
    assert len(heads(text(owner, path), "issuers")) == ROWS_A_PAGE
    page = text(owner, path, sort="-name", page="2")
    assert heads(page, "issuers") == ["corp-000"] and 'href="?sort=-name#issuers"' in page
    assert "No issuer matches." in text(owner, path, q="nobody")


def test_sessions_are_found_and_sorted(browse: Browse) -> None:
    owner, now = browse("owner"), timezone.now()
    user = User.objects.get(username="owner")
    for number, browser in enumerate(("Firefox", "Chromium")):
        key = browse("owner").session.session_key  # in that browser, too
        UserSession.objects.create(
            user=user, session_key=key, ip=f"192.0.2.{number}", user_agent=browser,
            last_seen_at=now - timedelta(days=number),
        )  # fmt: skip
    path = "/account/sessions"
    assert heads(text(owner, path, q="fire"), "sessions") == ["Firefox"]
    assert heads(text(owner, path, q="192.0.2.1"), "sessions") == ["Chromium"]
    assert [name for name in heads(text(owner, path, sort="browser"), "sessions") if name in ("Firefox", "Chromium")] == [
        "Chromium",
        "Firefox",
    ]
    assert "No session matches." in text(owner, path, q="Netscape")


def test_task_runs_are_filtered_sorted_and_paged(browse: Browse) -> None:
    now, names = timezone.now(), [*BY_NAME][:2]
    TaskRun.objects.bulk_create(
        TaskRun(
            task_id=f"run-{number}", name=names[number % 2], outcome="succeeded", requested_by=f"ann-{number}",
            started_at=now - timedelta(minutes=number), finished_at=now - timedelta(minutes=number) + timedelta(seconds=number),
        )
        for number in range(2 * ROWS_A_PAGE + 2)
    )  # fmt: skip
    admin, path = browse("superuser"), "/tasks"
    assert len(heads(text(admin, path), "runs")) == ROWS_A_PAGE
    assert "Page 2 of 3" in text(admin, path, page="2")
    assert len(heads(text(admin, path, task=names[1], page="2"), "runs")) == 1
    assert len(heads(text(admin, path, q="ann-77"), "runs")) == 1
    longest = text(admin, f"{path}/detail", sort="-took")
    assert "3 min 21 s" in longest.partition('id="runs"')[2].partition("</tr>")[2].partition("</tr>")[0]
    page = text(admin, path, task=names[1], sort="took", q="ann")
    assert 'name="q" value="ann"' in page and f"?task={names[1]}&amp;sort=took&amp;q=ann" in page
