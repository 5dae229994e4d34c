"""Error pages say what is wrong in the language of whoever reads them."""

from __future__ import annotations

import re
from html import unescape
from typing import Any

import pytest
from django.test import Client
from django.utils import translation

from admin_ui.translation.languages import COOKIE
from admin_ui.translation.said import said
from messaging.errors import InvalidValue
from tenants.actions.people import check_password
from tenants.http import refusals
from tenants.models import User
from tests.admin_ui.browser.english import english_of
from tests.admin_ui.console_broker import ConsoleBroker
from tests.admin_ui.pages import NAMESPACE, Browse

POLICIES = f"{NAMESPACE}/policies"
LONG = "a=" + "x" * 2_000_000
MANY = "&".join(f"a{number}=1" for number in range(3_000))
FORM = "application/x-www-form-urlencoded"


def said_by(answer: Any) -> str:
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", answer.content.decode())).split())


def test_every_refusal_of_a_request_is_a_page_in_both_languages(browse: Browse, world: ConsoleBroker) -> None:
    forged = Client(enforce_csrf_checks=True)
    forged.force_login(User.objects.get(username="owner"))
    owner, teammate = browse("owner"), browse("teammate")
    cases = (
        (403, refusals.FORM_TOO_OLD, lambda: forged.post("/sign-out"), forged),
        (403, "", lambda: teammate.get("/tenants/acme/keys"), teammate),
        (403, "only platform administrators may do this", lambda: teammate.get("/people"), teammate),
        (404, "", lambda: owner.get("/nowhere"), owner),
        (405, refusals.FOR_A_FORM, lambda: owner.get("/sign-out"), owner),
        (413, refusals.TOO_LARGE, lambda: owner.post(POLICIES, LONG, content_type=FORM), owner),
        (400, refusals.NOT_UNDERSTOOD, lambda: owner.post(POLICIES, MANY, content_type=FORM), owner),
    )
    for status, why, ask, client in cases:
        in_english = ask()
        assert in_english.status_code == status
        assert why[1:] in said_by(in_english) and ".." not in said_by(in_english), why
        client.cookies[COOKIE] = "de"
        page = ask().content.decode()
        del client.cookies[COOKIE]
        assert 'lang="de"' in page and list(english_of(page)) == [], f"{status}, {why}"


def test_a_reason_that_is_a_sentence_already_ends_with_one_stop(browse: Browse) -> None:
    """It ended with two."""
    page = said_by(browse("owner").post("/tenants/acme/policies?policy=retention", {"retention_size_mb": "1"}))
    assert "administrators of the platform to set. Go to" in page


def test_an_amount_that_is_none_is_refused_in_german(browse: Browse) -> None:
    client = browse("superuser")
    client.cookies[COOKIE] = "de"
    plan = {"what": "publish", "plan": "team", "currency": "EUR", "base_fee": "0", "minimum": "0"}
    plan["in_force_from"] = "2026-05-01 00:00"
    for path, fields in (
        ("/tenants/acme/budgets", {"what": "budget", "name": "All", "thresholds": "50", "currency": "EUR", "amount": "zehn"}),
        ("/new-price-plan", {**plan, "base_fee": "zehn"}),
        ("/new-price-plan", {**plan, "minimum": "-1"}),
    ):
        page = client.post(path, fields).content.decode()
        assert "ist keine Zahl" in page and list(english_of(page)) == [], path


@pytest.mark.parametrize(
    ("path", "given", "focused"),
    [
        ("/new-tenant", {"name": "no spaces"}, "id_name"),
        ("/tenants/acme/new-invitation", {"email": "nobody", "role": "viewer"}, "id_email"),
        ("/tenants/acme/new-role", {"name": "", "actions": ["produce"]}, "id_name"),
        ("/tenants/acme/budgets", {"name": "All", "currency": "EUR", "thresholds": "50"}, "id_amount"),
        ("/account/password", {"old_password": "wrong", "new_password": "short"}, ""),
    ],
)
def test_the_first_wrong_field_gets_the_focus(browse: Browse, path: str, given: dict[str, str], focused: str) -> None:
    page = browse("superuser").post(path, given).content.decode()
    fields = re.findall(r"<[^>]* autofocus[^>]*>", page)
    assert len(fields) == 1, fields
    assert focused in fields[0] and ("aria-invalid" in fields[0] or not focused)


def test_what_parts_below_the_console_say_with_figures_is_german(browse: Browse, world: ConsoleBroker) -> None:
    """Decimals with a point, units of nothing, reasons of rights and kinds of clients were English."""
    client = browse("superuser")
    client.cookies[COOKIE] = "de"
    advised = "message_bytes=200&messages_per_s=20000&partitions=8&batch_messages_max=2000&pending_max=1000&gib_price=0.09"
    for path, expected in (
        (f"/tune?{advised}", "hat 1,5 MiB"),
        (f"/tune?{advised}", "200,0 Nachrichten in einem Eintrag"),
        (f"/tune?{advised}", ">0,00<"),
        (f"/tune?{advised}", "16,0 MiB"),
        ("/tenants/acme/ceilings", "0 Bytes/s"),
        ("/tenants/acme/readers", "Rolle owner"),
    ):
        page = client.get(path).content.decode()
        assert expected in page and list(english_of(page)) == [], expected
    gone = client.post(f"{NAMESPACE}/topics/placed/disconnect?kind=consumer&name=gone", follow=True)
    assert "Kein Consumer" in gone.content.decode()


def test_why_a_password_is_not_accepted_is_one_language(db: None) -> None:
    """Its beginning was English."""
    with translation.override("de"), pytest.raises(InvalidValue) as refused:
        check_password(User(username="new"), "kurz")
    with translation.override("de"):
        assert said(refused.value.message).startswith("das Passwort wird nicht angenommen: Dieses Passwort ist zu kurz")
