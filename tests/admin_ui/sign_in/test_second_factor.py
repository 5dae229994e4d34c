"""Codes of an authenticator app and recovery codes. Passkeys: `tests/admin_ui/browser/test_passkeys.py`."""

from __future__ import annotations

import base64
import hmac
import re
import struct
import time
from collections.abc import Callable
from typing import Any

import pytest
from allauth.mfa.models import Authenticator
from django.http import HttpResponse
from django.test import Client

from tenants.models import AuditRecord
from tests.admin_ui.people import PASSWORD

Browse = Callable[[str], Client]
Enrolled = Callable[[Client], tuple[str, list[str]]]
SECOND = "/sign-in/second-factor"


def code_of(secret: str, *, periods: int = 0) -> str:
    """RFC 6238: what an app shows now, or that many times 30 s later."""
    mac = hmac.digest(base64.b32decode(secret), struct.pack(">Q", int(time.time()) // 30 + periods), "sha1")
    start = mac[-1] & 15
    return f"{(int.from_bytes(mac[start : start + 4], 'big') & 0x7FFFFFFF) % 1_000_000:06}"


def with_password(client: Client) -> str:
    """Where the password of `owner` leads."""
    return client.post("/sign-in", {"username": "owner", "password": PASSWORD})["Location"]


@pytest.fixture
def enrolled(django_capture_on_commit_callbacks: Any) -> Callable[[Client], tuple[str, list[str]]]:
    """Sets up an app for `owner`: its secret, and the recovery codes that come with it."""

    def enroll(client: Client) -> tuple[str, list[str]]:
        with django_capture_on_commit_callbacks(execute=True):
            return enroll_app(client)

    return enroll


def enroll_app(client: Client) -> tuple[str, list[str]]:
    with_password(client)
    shown = client.get("/account/second-factor/app").content.decode()
    secret = re.search(r'id="secret"[^>]*>([A-Z2-7]+)<', shown)
    assert secret
    done = client.post("/account/second-factor/app", {"code": code_of(secret[1])})
    assert done["Location"] == "/account/second-factor/codes"
    codes = re.search(r'id="codes"[^>]*>([^<]+)<', client.get("/account/second-factor/codes").content.decode())
    assert codes
    return secret[1], codes[1].split()


def second_step(client: Client, code: str) -> HttpResponse:
    assert with_password(client).startswith(SECOND)
    return client.post(SECOND, {"code": code})  # type: ignore[return-value]


def is_in(client: Client) -> bool:
    return client.get("/tenants/acme").status_code == 200


def test_an_app_is_asked_for_after_the_password_and_each_code_works_once(browse: Browse, enrolled: Enrolled) -> None:
    secret, _ = enrolled(browse(""))
    client, code = browse(""), code_of(secret)
    assert with_password(client).startswith(SECOND)
    assert not is_in(client), "the password alone is not enough"
    assert client.post(SECOND, {"code": code}).status_code == 302
    assert is_in(client)
    again = browse("")
    assert b"Incorrect code" in second_step(again, code).content
    assert not is_in(again)
    assert again.post(SECOND, {"code": code_of(secret, periods=1)}).status_code == 302
    assert is_in(again)


def test_a_second_factor_is_set_up_with_its_code_and_recorded_without_its_secret(browse: Browse, enrolled: Enrolled) -> None:
    client = browse("")
    with_password(client)
    client.get("/account/second-factor/app")
    assert client.post("/account/second-factor/app", {"code": "000000"}).status_code == 200
    assert not Authenticator.objects.exists()
    secret, codes = enrolled(browse(""))
    assert secret not in str(list(Authenticator.objects.values_list("data", flat=True)))
    records = str(list(AuditRecord.unscoped.values()))
    assert "user.second_factor.add" in records
    assert not [text for text in (secret, *codes) if text in records]


def test_wrong_codes_are_throttled_whatever_session_they_come_from(browse: Browse, enrolled: Enrolled) -> None:
    secret, codes = enrolled(browse(""))
    for _ in range(5):
        assert b"Incorrect code" in second_step(browse(""), "000000").content
    client = browse("")
    for code in (code_of(secret, periods=1), codes[0]):
        assert b"Too many failed" in second_step(client, code).content
        assert not is_in(client)
    failed = AuditRecord.unscoped.filter(action="session.sign_in_failed", role="user:owner")
    assert failed.exists()


def test_a_recovery_code_lets_in_once(browse: Browse, enrolled: Enrolled) -> None:
    _, codes = enrolled(browse(""))
    client = browse("")
    assert second_step(client, codes[3]).status_code == 302
    assert is_in(client)
    assert b"9 of 10 codes" in client.get("/account/second-factor").content
    again = browse("")
    assert b"Incorrect code" in second_step(again, codes[3]).content
    assert not is_in(again)
    assert second_step(again, codes[4]).status_code == 302


@pytest.mark.django_db(transaction=True)
def test_new_recovery_codes_replace_the_old_ones(browse: Browse, enrolled: Enrolled) -> None:
    client = browse("")
    _, codes = enrolled(client)
    assert client.post("/account/second-factor/codes/new").status_code == 302
    assert b"Incorrect code" in second_step(browse(""), codes[0]).content


def test_changing_second_factors_asks_again_who_it_is(browse: Browse, enrolled: Enrolled) -> None:
    """A session that somebody left open is not enough."""
    enrolled(browse(""))
    session = browse("owner")  # signed in without having shown a password or a code
    for path in ("app/remove", "codes/new", "keys/new"):
        assert session.post(f"/account/second-factor/{path}")["Location"].startswith("/account/again"), path
    assert session.get("/account/second-factor/codes")["Location"].startswith("/account/again")
    assert Authenticator.objects.filter(type="totp").exists()


@pytest.mark.django_db(transaction=True)
def test_without_an_app_the_password_is_enough_again(browse: Browse, enrolled: Enrolled) -> None:
    client = browse("")
    enrolled(client)
    assert client.post("/account/second-factor/app/remove").status_code == 302
    assert not Authenticator.objects.exists(), "recovery codes go with the last factor"
    fresh = browse("")
    with_password(fresh)
    assert is_in(fresh)


def test_the_second_step_is_nothing_without_the_first(browse: Browse, enrolled: Enrolled) -> None:
    secret, _ = enrolled(browse(""))
    client = browse("")
    assert client.post(SECOND, {"code": code_of(secret)})["Location"].startswith("/sign-in")
    assert not is_in(client)


@pytest.mark.django_db(transaction=True)
def test_the_first_factor_ends_what_began_without_one(browse: Browse, enrolled: Enrolled) -> None:
    """Somebody who has the password and is in already does not stay in."""
    thief, here = browse(""), browse("")
    with_password(thief)
    assert is_in(thief)
    enrolled(here)
    assert not is_in(thief)
    assert is_in(here)
