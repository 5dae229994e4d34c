"""People: added by an administrator of the platform, shut out at once, and a password that is shown one time."""

from __future__ import annotations

import re
from collections.abc import Callable

from django.test import Client

from tenants.models import AuditRecord, User
from tests.admin_ui.people import PASSWORD

Browse = Callable[[str], Client]


def shown_password(page: bytes) -> str:
    found = re.search(r'<code id="password"[^>]*>([^<]+)</code>', page.decode())
    assert found
    return found[1]


def sign_in(client: Client, username: str, password: str) -> int:
    return client.post("/sign-in", {"username": username, "password": password}).status_code


def test_somebody_is_added_and_signs_in_with_the_password_that_was_shown(browse: Browse) -> None:
    page = browse("superuser").post("/new-person", {"username": "ada"})
    password = shown_password(page.content)
    client = browse("")
    assert sign_in(client, "ada", password) == 302
    assert client.get("/people").status_code == 403
    assert AuditRecord.unscoped.filter(action="person.create", resource="ada", role="user:superuser").exists()
    assert password not in str(list(AuditRecord.unscoped.values()))


def test_a_name_that_is_taken_and_one_that_is_none_are_refused(browse: Browse) -> None:
    client = browse("superuser")
    assert b"already exists" in client.post("/new-person", {"username": "OWNER"}).content
    assert b"valid username" in client.post("/new-person", {"username": "a b"}).content
    assert User.objects.count() == 4


def test_two_spellings_of_one_name_are_one_name(browse: Browse) -> None:
    """A wide OWNER became `OWNER` only after the look for somebody called owner."""
    wide = "".join(chr(ord(letter) + 0xFEE0) for letter in "OWNER")
    assert b"already exists" in browse("superuser").post("/new-person", {"username": wide}).content
    assert not User.objects.filter(username="OWNER").exists()


def test_a_new_password_ends_the_former_one_and_its_sessions(browse: Browse) -> None:
    theirs = browse("owner")
    page = browse("superuser").post("/people/owner/password", {"confirm": "owner"})
    assert theirs.get("/tenants/acme").status_code == 302
    assert sign_in(browse(""), "owner", PASSWORD) == 200
    assert sign_in(browse(""), "owner", shown_password(page.content)) == 302


def test_somebody_is_shut_out_and_let_in_again(browse: Browse) -> None:
    theirs, administrator = browse("owner"), browse("superuser")
    assert administrator.post("/people/owner/active", {"confirm": "owner"}).status_code == 302
    assert theirs.get("/tenants/acme").status_code == 302
    assert sign_in(browse(""), "owner", PASSWORD) == 200
    assert administrator.post("/people/owner/active", {"confirm": "owner"}).status_code == 302
    assert sign_in(browse(""), "owner", PASSWORD) == 302


def test_the_last_administrator_stays(browse: Browse) -> None:
    page = browse("superuser").post("/people/superuser/active", {"confirm": "superuser"})
    assert page.status_code == 200 and b"only platform administrator" in page.content
    assert User.objects.get(username="superuser").is_active


def test_a_row_leads_to_the_person_where_everything_stands_that_can_be_done(browse: Browse) -> None:
    administrator = browse("superuser")
    rows = administrator.get("/people").content.decode()
    assert 'href="/people/owner"' in rows and "/people/owner/" not in rows
    page = administrator.get("/people/owner").content.decode()
    for what in ("password", "link", "sessions", "administrator", "active"):
        assert f'"/people/owner/{what}"' in page
    assert 'href="/tenants/acme/members/owner"' in page and "/people/owner/second-factor" not in page
    assert 'value="email"' not in page, "no address waits to be confirmed"
    User.objects.filter(username="owner").update(has_second_factor=True, must_verify_email=True)
    page = administrator.get("/people/owner").content.decode()
    assert "/people/owner/second-factor" in page and 'value="email"' in page
    done = administrator.post("/people/owner/active", {"confirm": "owner"})
    assert done["Location"] == "/people/owner" and "Activate…" in administrator.get("/people/owner").content.decode()
    assert browse("teammate").get("/people/owner").status_code == 403
    assert administrator.get("/people/nobody").status_code == 404
