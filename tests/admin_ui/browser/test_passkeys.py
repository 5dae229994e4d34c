"""A passkey, with the browser's own virtual device: added, used to sign in by itself, and used as a second factor."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from tests.admin_ui.people import PASSWORD
from tests.support.signing_in import sign_in

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("browser"), pytest.mark.django_db(transaction=True)]

DEVICE = {
    "protocol": "ctap2",
    "transport": "internal",
    "hasResidentKey": True,
    "hasUserVerification": True,
    "isUserVerified": True,
    "automaticPresenceSimulation": True,
}


def test_a_passkey_signs_in_alone_and_after_the_password(site: str, visit: Callable[..., Page]) -> None:
    # Keys belong to a host name: an IP address can have none. They are for who has just shown the password.
    page = visit("", "/sign-in?next=/account/second-factor", base_url=site.replace("127.0.0.1", "localhost"))
    sign_in(page, "owner", PASSWORD)
    device = page.context.new_cdp_session(page)
    device.send("WebAuthn.enable")
    added = device.send("WebAuthn.addVirtualAuthenticator", {"options": DEVICE})
    page.get_by_role("link", name="Add a passkey").click()
    page.get_by_label("Passwordless").check()
    page.get_by_role("button", name="Add").click()
    page.wait_for_url(re.compile(r"/account/second-factor(?!/keys/new)"))  # the device was asked, and its answer taken
    page.goto("/account/second-factor/keys")
    expect(page.get_by_role("cell", name="Passkey", exact=True)).to_be_visible()

    page.context.clear_cookies()
    page.goto("/sign-in")
    page.get_by_role("button", name="Sign in with a passkey").click()
    page.wait_for_url(re.compile("/now|/tenants"))

    page.context.clear_cookies()
    page.goto("/sign-in")
    sign_in(page, "owner", PASSWORD)
    page.wait_for_url("**/sign-in/second-factor*")
    page.get_by_role("button", name="Use a passkey or security key").click()
    page.wait_for_url(re.compile("/now|/tenants"))

    # Another device is nobody's.
    device.send("WebAuthn.removeVirtualAuthenticator", added)
    device.send("WebAuthn.addVirtualAuthenticator", {"options": DEVICE})
    page.context.clear_cookies()
    page.goto("/sign-in")
    page.get_by_role("button", name="Sign in with a passkey").click()
    expect(page.get_by_role("alert").filter(has_text="The device gave no key")).to_be_visible()
