"""One's own account: password reset, addresses, signing up, sessions. Mail goes to a real SMTP server."""

from __future__ import annotations

import re
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import timedelta

import msgspec
import pytest
from allauth.account.models import EmailAddress
from allauth.usersessions.models import UserSession
from django.conf import settings as django_settings
from django.contrib.sessions.models import Session
from django.db import connection
from django.test import Client
from django.utils import timezone

from admin_ui.sign_in import activity
from tenants.models import AuditRecord, User
from tests.admin_ui.people import PASSWORD
from tests.support.mail_server import MailServer, link_in, mail_server

Browse = Callable[[str], Client]
NEW = "mint-harbor-77-x"


@pytest.fixture
def mails(monkeypatch: pytest.MonkeyPatch) -> Iterator[MailServer]:
    with mail_server() as server:
        monkeypatch.setattr(django_settings, "MAGNETAR", msgspec.structs.replace(django_settings.MAGNETAR, smtp_url=server.url))
        yield server


@pytest.fixture
def sign_up(monkeypatch: pytest.MonkeyPatch, mails: MailServer) -> None:
    monkeypatch.setattr(django_settings, "MAGNETAR", msgspec.structs.replace(django_settings.MAGNETAR, sign_up=True))


def give_address(username: str, address: str, *, verified: bool = True) -> User:
    user = User.objects.get(username=username)
    user.email = address
    user.save()
    EmailAddress.objects.create(user=user, email=address, verified=verified, primary=True)
    return user


def sign_in(client: Client, username: str, password: str = PASSWORD) -> int:
    return client.post("/sign-in", {"username": username, "password": password}).status_code


def latest() -> AuditRecord:
    return AuditRecord.unscoped.latest("id")


def choose(client: Client, link: str, password: str = NEW) -> bytes:
    """Follows a link of a mail and chooses a password."""
    page = client.get(link, follow=True)
    form = client.post(page.request["PATH_INFO"], {"password1": password, "password2": password}, follow=True)
    return form.content


def test_a_forgotten_password_is_replaced_by_a_link_in_a_mail_that_works_once(browse: Browse, mails: MailServer) -> None:
    give_address("owner", "olga@acme.test")
    theirs, client = browse("owner"), browse("")
    assert client.post("/sign-in/reset", {"email": "olga@acme.test"})["Location"] == "/sign-in/reset/sent"
    link = link_in(mails.next())
    assert mails.next()["To"] == "olga@acme.test"
    assert b"Your password was changed" in choose(client, link)
    assert (latest().action, latest().role) == ("user.reset_password", "user:owner")
    assert theirs.get("/tenants/acme").status_code == 302, "their sessions are over"
    assert sign_in(browse(""), "olga@acme.test", NEW) == 302
    assert b"does not work" in browse("").get(link, follow=True).content
    assert link.rpartition("-")[2].strip("/") not in str(list(AuditRecord.unscoped.values()))


def test_asking_for_a_reset_tells_nobody_who_has_an_account(browse: Browse, mails: MailServer) -> None:
    give_address("owner", "olga@acme.test")
    provider = give_address("teammate", "tom@acme.test")
    provider.set_unusable_password()
    provider.save()
    answers = {
        address: browse("").post("/sign-in/reset", {"email": address}).headers["Location"]
        for address in ("nobody@acme.test", "tom@acme.test", "olga@acme.test")
    }
    assert set(answers.values()) == {"/sign-in/reset/sent"}
    assert mails.next()["To"] == "olga@acme.test"
    assert len(mails.messages) == 1, "none to strangers, and none to who has no password to reset"


def test_without_mail_an_administrator_shows_the_link(browse: Browse) -> None:
    assert b"This platform sends no mail" in browse("").get("/sign-in/reset").content
    page = browse("superuser").post("/people/owner/link", {"kind": "password"}).content.decode()
    match = re.search(r'<code id="link"[^>]*>https?://[^/]+([^<]+)</code>', page)
    assert match
    assert (latest().action, latest().resource) == ("person.link", "owner")
    assert b"Your password was changed" in choose(browse(""), match[1])
    assert sign_in(browse(""), "owner", NEW) == 302
    assert browse("owner").post("/people/owner/link", {"kind": "password"}).status_code == 403


def test_who_signs_up_confirms_the_address_before_signing_in(browse: Browse, mails: MailServer, sign_up: None) -> None:
    client = browse("")
    form = {"email": "new@acme.test", "password1": NEW, "password2": NEW}
    assert client.post("/sign-up", form)["Location"] == "/sign-up/verify"
    assert client.get("/tenants").status_code == 302
    assert browse("").post("/sign-in", {"username": "new@acme.test", "password": NEW})["Location"] == "/sign-up/verify"
    link = link_in(mails.next())
    assert browse("").get(link).status_code == 200, "looking at it confirms nothing: mail scanners do"
    assert User.objects.get(username="new@acme.test").must_verify_email
    browse("").post(link)
    assert sign_in(browse(""), "new@acme.test", NEW) == 302
    assert "user.sign_up" in AuditRecord.unscoped.values_list("action", flat=True)


def test_signing_up_with_an_address_that_has_an_account_looks_the_same(browse: Browse, mails: MailServer, sign_up: None) -> None:
    give_address("owner", "olga@acme.test")
    form = {"email": "olga@acme.test", "password1": NEW, "password2": NEW}
    assert browse("").post("/sign-up", form)["Location"] == "/sign-up/verify"
    assert "have an account" in mails.next()["Subject"]
    assert User.objects.filter(email="olga@acme.test").count() == 1


def test_nobody_signs_up_unless_the_setting_allows_it(browse: Browse) -> None:
    answer = browse("").post("/sign-up", {"email": "new@acme.test", "password1": NEW, "password2": NEW})
    assert b"made by administrators" in answer.content
    assert not User.objects.filter(email="new@acme.test").exists()


def test_an_address_counts_as_a_name_only_once_it_is_confirmed(browse: Browse) -> None:
    give_address("owner", "olga@acme.test", verified=False)
    assert sign_in(browse(""), "olga@acme.test") == 200
    EmailAddress.objects.update(verified=True)
    assert sign_in(browse(""), "olga@acme.test") == 302


def test_sessions_are_listed_and_ended_one_by_one_and_together(browse: Browse) -> None:
    here, there, elsewhere = browse(""), browse(""), browse("")
    for client, address in ((here, "192.0.2.1"), (there, "192.0.2.2"), (elsewhere, "192.0.2.3")):
        client.post("/sign-in", {"username": "owner", "password": PASSWORD}, REMOTE_ADDR=address)
    page = here.get("/account/sessions").content.decode()
    assert all(address in page for address in ("192.0.2.2", "192.0.2.3")) and page.count("this session") == 1
    number = re.search(r'value="(\d+)">Sign out<span class="visually-hidden"> 192.0.2.2', page)
    assert number
    assert browse("stranger").post("/account/sessions", {"session": number[1]}).status_code == 302, "not theirs: nothing ends"
    assert there.get("/tenants/acme").status_code == 200
    here.post("/account/sessions", {"session": number[1]})
    assert latest().action == "user.end_sessions"
    assert there.get("/tenants/acme").status_code == 302
    assert elsewhere.get("/tenants/acme").status_code == 200
    forced = browse("owner")
    here.post("/account/sessions", {"all": "1"})
    assert elsewhere.get("/tenants/acme").status_code == forced.get("/tenants/acme").status_code == 302
    assert here.get("/tenants/acme").status_code == 200


def test_an_administrator_signs_somebody_out_everywhere(browse: Browse) -> None:
    theirs = browse("owner")
    assert browse("superuser").post("/people/owner/sessions", {"confirm": "owner"}).status_code == 302
    assert theirs.get("/tenants/acme").status_code == 302
    assert (latest().action, latest().role, latest().resource) == ("user.end_sessions", "user:superuser", "owner")


def test_signing_in_begins_a_new_session(browse: Browse) -> None:
    """Whoever knew the session of a browser before its owner signed in has nothing of it after."""
    client = browse("")
    session = client.session
    session["planted"] = True
    session.save()
    before = session.session_key
    assert sign_in(client, "owner") == 302
    assert client.session.session_key != before
    thief = browse("")
    thief.cookies["magnetar_session"] = before or ""
    assert thief.get("/tenants/acme").status_code == 302


@pytest.mark.parametrize("address", ["https://evil.test/", "//evil.test", "/\\evil.test", "javascript:alert(1)"])
def test_no_page_of_the_account_leads_elsewhere(browse: Browse, address: str) -> None:
    client = browse("owner")
    answer = client.post("/account/again", {"password": PASSWORD, "next": address})
    assert answer.status_code == 302
    assert "evil" not in answer["Location"] and "javascript" not in answer["Location"]


def test_the_help_of_a_field_is_a_link_and_not_its_markup(browse: Browse) -> None:
    page = browse("owner").get("/account/again").content.decode()
    assert '<a href="/sign-in/reset">' in page and "&lt;a" not in page


def test_nobody_has_more_sessions_than_are_read_at_each_sign_in(browse: Browse, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(activity, "SESSIONS_MAX", 3)
    clients = [browse("") for _ in range(5)]
    for client in clients:
        sign_in(client, "owner")
    assert [client.get("/tenants/acme").status_code for client in clients] == [302, 302, 200, 200, 200]
    assert UserSession.objects.count() == 3


def test_expired_sessions_are_forgotten_as_people_sign_in(browse: Browse, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(activity, "EXPIRED_A_SIGN_IN", 2)
    for _ in range(3):
        sign_in(browse(""), "owner")
    long_ago = timezone.now() - timedelta(seconds=1)
    Session.objects.update(expire_date=long_ago)
    client = browse("")
    sign_in(client, "owner")
    assert (Session.objects.filter(expire_date=long_ago).count(), UserSession.objects.count()) == (1, 1)
    sign_in(browse(""), "owner")
    assert (Session.objects.filter(expire_date=long_ago).count(), UserSession.objects.count()) == (0, 2)
    assert client.get("/tenants/acme").status_code == 200


def test_behind_a_trusted_proxy_each_client_is_counted_by_itself(
    browse: Browse, mails: MailServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    behind = msgspec.structs.replace(django_settings.MAGNETAR, trusted_proxies=("127.0.0.1",))
    monkeypatch.setattr(django_settings, "MAGNETAR", behind)

    def ask(address: str, number: int) -> int:
        form = {"email": f"n{number}@acme.test"}
        return browse("").post("/sign-in/reset", form, headers={"X-Forwarded-For": address}).status_code

    assert [ask("192.0.2.1", number) for number in range(21)] == [302] * 20 + [429]
    assert ask("192.0.2.2", 21) == 302


def test_forged_proxy_headers_do_not_change_whose_attempts_are_counted(browse: Browse, mails: MailServer) -> None:
    """20 requests a minute and address: a peer that is no proxy of ours may write into its header what it likes."""
    statuses = [
        browse("").post("/sign-in/reset", {"email": f"n{number}@acme.test"}, headers={"X-Forwarded-For": f"192.0.2.{number}"})
        for number in range(21)
    ]
    assert [answer.status_code for answer in statuses] == [302] * 20 + [429]


@pytest.mark.django_db(transaction=True)
@pytest.mark.skipif(connection.vendor != "sqlite", reason="only SQLite has one writer at a time")
def test_a_page_does_not_wait_for_whoever_writes_to_the_database(browse: Browse, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once a minute each session wrote when it was seen: beside a long transaction its page took 20 s."""
    client = browse("")
    sign_in(client, "owner")
    monkeypatch.setattr(activity, "EVERY_S", 0)
    assert client.get("/tenants/acme").status_code == 200
    UserSession.objects.update(last_seen_at=timezone.now() - timedelta(hours=1))
    before = UserSession.objects.get().last_seen_at
    with closing(sqlite3.connect(connection.settings_dict["NAME"], isolation_level=None)) as writer:
        writer.execute("begin immediate")
        began_s = time.monotonic()
        assert client.get("/tenants/acme").status_code == 200
        assert time.monotonic() - began_s < 10, "half of what a statement waits for a lock"
        assert UserSession.objects.get().last_seen_at == before
        writer.execute("rollback")
    with connection.cursor() as cursor:
        assert cursor.execute("pragma busy_timeout").fetchone() == (20_000,), "what has to be written waits as before"
    assert client.get("/tenants/acme").status_code == 200
    assert UserSession.objects.get().last_seen_at > before
