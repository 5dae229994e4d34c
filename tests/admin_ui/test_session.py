"""Signing in: the same answer for every wrong pair, a limit on guessing, and no way to be sent to another site."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import msgspec
import pytest
import time_machine
from django.conf import settings as django_settings
from django.test import Client
from django.utils import timezone

from admin_ui import sign_in_throttle as sign_in_throttle
from admin_ui.sign_in_throttle import ATTEMPTS_A_NAME, ATTEMPTS_A_NAME_AND_ADDRESS, ATTEMPTS_AN_ADDRESS, WINDOW_S
from admin_ui.views.session import TOO_MANY, WRONG
from tenants.models import User
from tests.admin_ui.console_broker import ConsoleBroker
from tests.admin_ui.people import PASSWORD

Browse = Callable[[str], Client]


def attempt(client: Client, username: str, password: str, address: str = "192.0.2.1", **more: str) -> tuple[int, str]:
    response = client.post("/sign-in", {"username": username, "password": password, **more}, REMOTE_ADDR=address)
    return response.status_code, response.content.decode()


def test_the_right_password_lets_in(browse: Browse) -> None:
    client = browse("")
    assert attempt(client, "owner", PASSWORD)[0] == 302
    assert client.get("/tenants/acme").status_code == 200
    assert client.post("/sign-out")["Location"] == "/sign-in"
    assert client.get("/tenants/acme").status_code == 302


@pytest.mark.parametrize("username", ["owner", "nobody-of-this-name", "gone"])
def test_wrong_pairs_look_alike(username: str, browse: Browse) -> None:
    User.objects.create_user("gone", password="x", is_active=False)
    status, page = attempt(browse(""), username, "wrong")
    assert status == 200
    assert str(WRONG) in page
    assert page.count(username) == 1  # in the field that they typed it into, and nowhere else


def test_guessing_is_slowed_down_and_forgiven_after_the_window(world: ConsoleBroker, browse: Browse) -> None:
    client = browse("")
    start = timezone.now()
    with time_machine.travel(start, tick=False) as clock:
        for _ in range(ATTEMPTS_A_NAME_AND_ADDRESS):
            assert attempt(client, "owner", "wrong")[0] == 200
        status, page = attempt(client, "owner", PASSWORD)  # even the right one, or the limit would tell that it is
        assert status == 429 and str(TOO_MANY) in page
        assert attempt(client, "OWNER", PASSWORD)[0] == 429
        assert attempt(client, "teammate", PASSWORD)[0] == 302  # others are not locked out
        clock.shift(timedelta(seconds=WINDOW_S + 1))
        assert attempt(client, "owner", PASSWORD)[0] == 302


def test_one_address_cannot_try_many_names(browse: Browse) -> None:
    client = browse("")
    for number in range(ATTEMPTS_AN_ADDRESS):
        assert attempt(client, f"name-{number}", "wrong")[0] == 200
    assert attempt(client, "owner", PASSWORD)[0] == 429
    assert attempt(client, "owner", PASSWORD, address="192.0.2.2")[0] == 302


def test_a_success_forgets_the_failures_of_that_name(browse: Browse) -> None:
    client = browse("")
    for _ in range(3):
        for _ in range(ATTEMPTS_A_NAME_AND_ADDRESS - 1):
            attempt(client, "owner", "wrong")
        assert attempt(client, "owner", PASSWORD)[0] == 302


def test_a_name_is_bound_over_all_addresses_and_its_owner_is_not_locked_out(browse: Browse) -> None:
    own_browser = browse("")
    assert attempt(own_browser, "owner", PASSWORD)[0] == 302
    own_browser.post("/sign-out")
    for number in range(ATTEMPTS_A_NAME):
        assert attempt(browse(""), "owner", "wrong", address=f"198.51.100.{number}")[0] == 200
    assert attempt(browse(""), "owner", PASSWORD, address="203.0.113.1")[0] == 429
    assert attempt(own_browser, "owner", PASSWORD, address="203.0.113.1")[0] == 302


def test_one_address_cannot_lock_a_name_out_for_everybody(browse: Browse) -> None:
    """Attempts beyond the bound of an address still counted against the name: 51 requests from one place shut its owner out."""
    for _ in range(ATTEMPTS_A_NAME + 1):
        attempt(browse(""), "owner", "wrong", address="198.51.100.7")
    assert attempt(browse(""), "owner", PASSWORD, address="203.0.113.1")[0] == 302


def test_an_address_beyond_its_bound_adds_nothing_to_what_is_remembered(browse: Browse, monkeypatch: pytest.MonkeyPatch) -> None:
    """Thousands of made-up names would push the counts of others out of the cache."""
    counted: set[str] = set()
    monkeypatch.setattr(
        sign_in_throttle, "count_attempt", lambda key, count=sign_in_throttle.count_attempt: counted.add(key) or count(key)
    )
    for number in range(3 * ATTEMPTS_AN_ADDRESS):
        attempt(browse(""), f"name-{number}", "wrong")
    assert len(counted) == 1 + 2 * ATTEMPTS_AN_ADDRESS


def test_a_known_browser_is_bound_too_and_known_for_one_name_only(browse: Browse) -> None:
    client = browse("")
    assert attempt(client, "owner", PASSWORD)[0] == 302
    client.post("/sign-out")
    for _ in range(ATTEMPTS_A_NAME_AND_ADDRESS):
        assert attempt(client, "owner", "wrong")[0] == 200
    assert attempt(client, "owner", PASSWORD)[0] == 429
    for _ in range(ATTEMPTS_A_NAME_AND_ADDRESS):
        assert attempt(client, "teammate", "wrong")[0] == 200
    assert attempt(client, "teammate", PASSWORD)[0] == 429


def test_a_new_password_ends_what_is_known_of_a_browser(browse: Browse) -> None:
    client = browse("")
    assert attempt(client, "owner", PASSWORD)[0] == 302
    owner = User.objects.get(username="owner")
    owner.set_password("another-lantern-77")
    owner.save()
    for number in range(ATTEMPTS_A_NAME):
        assert attempt(browse(""), "owner", "wrong", address=f"198.51.100.{number}")[0] == 200
    assert attempt(client, "owner", "another-lantern-77")[0] == 429


def test_successes_do_not_use_up_what_an_address_may_try(browse: Browse) -> None:
    for _ in range(ATTEMPTS_AN_ADDRESS + 5):
        assert attempt(browse(""), "owner", PASSWORD)[0] == 302
    assert attempt(browse(""), "teammate", PASSWORD)[0] == 302


def test_addresses_of_one_ipv6_network_count_as_one(browse: Browse) -> None:
    for number in range(ATTEMPTS_AN_ADDRESS):
        assert attempt(browse(""), f"name-{number}", "wrong", address=f"2001:db8:0:7::{number:x}")[0] == 200
    assert attempt(browse(""), "owner", PASSWORD, address="2001:db8:0:7:ffff::1")[0] == 429
    assert attempt(browse(""), "owner", PASSWORD, address="2001:db8:0:8::1")[0] == 302


def test_behind_a_trusted_proxy_the_client_is_counted_and_not_the_proxy(browse: Browse, monkeypatch: pytest.MonkeyPatch) -> None:
    def forwarded(client: Client, username: str, password: str, address: str) -> int:
        form = {"username": username, "password": password}
        return client.post("/sign-in", form, REMOTE_ADDR="10.0.0.1", headers={"X-Forwarded-For": address}).status_code

    for number in range(ATTEMPTS_AN_ADDRESS):  # not trusted: whatever the header says, this is one address
        assert forwarded(browse(""), f"name-{number}", "wrong", f"203.0.113.{number}") == 200
    assert forwarded(browse(""), "owner", PASSWORD, "203.0.113.200") == 429
    trusting = msgspec.structs.replace(django_settings.MAGNETAR, trusted_proxies=("10.0.0.1",))
    monkeypatch.setattr(django_settings, "MAGNETAR", trusting)
    assert forwarded(browse(""), "owner", PASSWORD, "203.0.113.200") == 302


@pytest.mark.parametrize(
    "address", ["https://elsewhere.example/", "//elsewhere.example", "javascript:alert(1)", "/\\elsewhere.example"]
)
def test_signing_in_never_leads_elsewhere(address: str, browse: Browse) -> None:
    response = browse("").post("/sign-in", {"username": "owner", "password": PASSWORD, "next": address})
    assert response["Location"] == "/"
    assert address not in browse("").get("/sign-in", {"next": address}).content.decode()


def test_signing_in_leads_where_one_wanted_to_go(browse: Browse) -> None:
    wanted = browse("").get("/tenants/acme/keys")["Location"]
    assert wanted == "/sign-in?next=%2Ftenants%2Facme%2Fkeys"
    response = browse("").post("/sign-in", {"username": "owner", "password": PASSWORD, "next": "/tenants/acme/keys"})
    assert response["Location"] == "/tenants/acme/keys"


def test_a_form_of_another_site_is_refused(world: ConsoleBroker) -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(User.objects.get(username="owner"))
    assert client.post("/sign-out").status_code == 403
    assert client.post("/tenants/acme/new-key", {"name": "k", "expiry": "never"}).status_code == 403


def test_a_fragment_asked_for_signed_out_sends_the_page_to_sign_in(browse: Browse) -> None:
    response = browse("").get("/platform/detail", headers={"HX-Request": "true"})
    assert response.status_code == 204 and response["HX-Redirect"] == "/sign-in"


def test_changing_the_password(browse: Browse) -> None:
    client, elsewhere = browse("owner"), browse("owner")
    new = "another-lantern-77"
    form = {"old_password": "wrong", "new_password1": new, "new_password2": new}
    assert client.post("/account/password", form).status_code == 200
    assert (
        client.post(
            "/account/password", {**form, "old_password": PASSWORD, "new_password1": "short", "new_password2": "short"}
        ).status_code
        == 200
    )
    assert User.objects.get(username="owner").check_password(PASSWORD)
    assert client.post("/account/password", {**form, "old_password": PASSWORD}).status_code == 302
    assert client.get("/tenants/acme").status_code == 200
    assert elsewhere.get("/tenants/acme").status_code == 302  # other sessions end
    assert attempt(browse(""), "owner", new)[0] == 302
