"""Times are shown and taken in the zone of whoever reads, across the change of clocks; addresses have them in UTC."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from django.template import Context, Template
from django.test import Client
from django.utils import timezone, translation

from admin_ui.moves.forms import ResetForm
from admin_ui.templatetags.console import moment
from admin_ui.time_zones import of_address, typed
from admin_ui.translation.figures import local_text
from messaging.times import TIME_MS_MAX
from tenants.models import User
from tests.admin_ui.pages import NAMESPACE, Browse, text

BERLIN = "Europe/Berlin"  # clocks change at 01:00 UTC: on 29 March 2026 to +2, on 25 October 2026 to +1
pytestmark = pytest.mark.django_db


def zone_of(username: str, name: str) -> None:
    User.objects.filter(username=username).update(time_zone=name)


@pytest.mark.parametrize(
    ("at", "shown"),
    [
        (datetime(2026, 3, 29, 0, 59, tzinfo=UTC), "2026-03-29 01:59 CET"),
        (datetime(2026, 3, 29, 1, 0, tzinfo=UTC), "2026-03-29 03:00 CEST"),
        (datetime(2026, 10, 25, 0, 30, tzinfo=UTC), "2026-10-25 02:30 CEST"),
        (datetime(2026, 10, 25, 1, 30, tzinfo=UTC), "2026-10-25 02:30 CET"),
    ],
)
def test_a_time_is_shown_with_its_zone(at: datetime, shown: str) -> None:
    with timezone.override(BERLIN):
        element = moment(at)
        assert f">{shown}<" in element and f'datetime="{at:%Y-%m-%dT%H:%M:%SZ}"' in element
        assert local_text(at).endswith(shown[-4:].strip())
        assert typed(f"{at:%Y-%m-%dT%H:%M:%SZ}") == shown.rpartition(" ")[0]


@pytest.mark.parametrize("at_ms", [TIME_MS_MAX, 10**17, 2**64 - 1])
@pytest.mark.parametrize("zone", [BERLIN, "Pacific/Kiritimati"])
def test_a_time_that_no_calendar_has_is_the_last_one(at_ms: int, zone: str) -> None:
    with timezone.override(zone):
        assert 'datetime="9999-12-30T23:59:59Z"' in moment(at_ms)


def reset_to(time: str) -> ResetForm:
    form = ResetForm({"to": "time", "time": time})
    form.is_valid()
    return form


@pytest.mark.parametrize(
    ("given", "utc"),
    [
        ("2026-03-29 01:30", datetime(2026, 3, 29, 0, 30, tzinfo=UTC)),
        ("2026-03-29 03:30", datetime(2026, 3, 29, 1, 30, tzinfo=UTC)),
        ("2026-07-01 12:00", datetime(2026, 7, 1, 10, 0, tzinfo=UTC)),
        ("2026-10-25T02:30:00+01:00", datetime(2026, 10, 25, 1, 30, tzinfo=UTC)),
    ],
)
def test_a_form_takes_the_zone_that_it_names(given: str, utc: datetime) -> None:
    with timezone.override(BERLIN):
        form = reset_to(given)
        assert form.timestamp_ms == int(utc.timestamp() * 1000)
        assert form["time"].label == "Time (Europe/Berlin)"
        assert local_text(utc) in form.target
    assert reset_to("2026-07-01 12:00").timestamp_ms == int(datetime(2026, 7, 1, 12, tzinfo=UTC).timestamp() * 1000)


@pytest.mark.parametrize("given", ["2026-03-29 02:30", "2026-10-25 02:30"])
def test_a_time_that_never_comes_or_comes_twice_is_refused_where_something_is_done(given: str) -> None:
    with timezone.override(BERLIN):
        assert "couldn’t be interpreted in time zone Europe/Berlin" in str(reset_to(given).errors["time"])


@pytest.mark.parametrize(
    ("utc", "given"),
    [
        ("2026-07-01 12:00:00", "2026-07-01 14:00:00+0200"),
        ("2026-10-25T00:30:00Z", "2026-10-25 02:30:00+0200"),
        ("2026-10-25T01:30:00Z", "2026-10-25 02:30:00+0100"),
        ("soon", "soon"),
    ],
)
def test_a_chart_gives_a_form_the_time_that_it_shows(utc: str, given: str) -> None:
    """In the hour that comes twice, too: a reset would go to another message otherwise."""
    with timezone.override(BERLIN):
        assert of_address(utc) == given
        if given != utc:
            assert local_text(reset_to(given).cleaned_data["time"]).startswith(given[:19])


def leads_to(client: Client, path: str, **query: str) -> dict[str, list[str]]:
    response = client.get(path, query)
    assert response.status_code == 302
    return parse_qs(urlsplit(response["Location"]).query)


def test_addresses_are_in_utc_and_forms_show_the_zone(browse: Browse) -> None:
    zone_of("owner", BERLIN)
    client = browse("owner")
    asked = leads_to(client, "/tenants/acme/audit", since="2026-03-29", until="2026-03-30 12:00", action="key.create")
    assert asked == {"since": ["2026-03-28T23:00:00Z"], "until": ["2026-03-30T10:00:00Z"], "action": ["key.create"]}
    page = text(client, "/tenants/acme/audit", since="2026-03-28T23:00:00Z")
    assert "From (Europe/Berlin)" in page and 'value="2026-03-29 00:00"' in page
    page = text(browse("superuser"), "/tenants/acme/audit", since="2026-03-28T23:00:00Z")
    assert "From (UTC)" in page and 'value="2026-03-28 23:00"' in page, "the same page for somebody elsewhere"


def test_searches_of_messages_are_in_utc_too(browse: Browse) -> None:
    zone_of("owner", BERLIN)
    path = f"{NAMESPACE}/topics/placed/messages"
    asked = leads_to(browse("owner"), path, begin="time", at="2026-07-01 14:00", published_until="2026-07-02 00:00")
    assert asked == {"begin": ["time"], "at": ["2026-07-01T12:00:00Z"], "published_until": ["2026-07-01T22:00:00Z"]}
    assert browse("owner").get(path, {"begin": "subscription", "at": "2026-07-01"}).status_code == 200, "the name of one"


def test_the_zone_is_that_of_the_browser_until_one_is_chosen(browse: Browse) -> None:
    client = browse("owner")
    client.cookies["time_zone"] = "Asia/Kolkata"
    assert "From (Asia/Kolkata)" in text(client, "/tenants/acme/audit")
    assert client.post("/account/time-zone", {"time_zone": BERLIN}).status_code == 302
    assert "From (Europe/Berlin)" in text(client, "/tenants/acme/audit")
    assert f'data-time-zone="{BERLIN}"' in text(client, "/now")
    assert client.post("/account/time-zone", {"time_zone": ""}).status_code == 302
    assert "From (Asia/Kolkata)" in text(client, "/tenants/acme/audit")


@pytest.mark.parametrize(
    "name", ["Mars/Base", "../etc/passwd", "/etc/passwd", "Europe/Berlin; x", "\x00", "posixrules", "e" * 10_000]
)
def test_no_other_name_is_a_zone(browse: Browse, name: str) -> None:
    client = browse("owner")
    client.cookies["time_zone"] = name
    assert "From (UTC)" in text(client, "/tenants/acme/audit")
    assert client.post("/account/time-zone", {"time_zone": name}).status_code == 200
    assert User.objects.get(username="owner").time_zone == ""


def test_what_is_billed_goes_by_utc_whoever_reads_it() -> None:
    """A month of bills began in the month before for readers in America, under a head that said UTC."""
    page = Template('{% load console %}{{ at|utc:"Y-m" }} {{ at|utc:"Y-m-d H:i" }} {{ day|utc:"F Y" }} {{ none|utc:"Y" }}|')
    at = datetime(2026, 3, 1, tzinfo=UTC)
    for zone in ("America/Los_Angeles", "Pacific/Kiritimati", "UTC"):
        with timezone.override(zone):
            shown = page.render(Context({"at": at, "day": at.date(), "none": None}))
            assert shown == "2026-03 2026-03-01 00:00 March 2026 |"
    with translation.override("de"):
        assert page.render(Context({"at": at, "day": at.date(), "none": None})).endswith("März 2026 |")


def test_no_page_shows_an_hour_in_the_zone_of_the_reader_without_saying_so() -> None:
    """Django's filter `date` does so with moments: `moment` names the zone, `utc` goes by UTC."""
    for path in (Path(__file__).parents[2] / "admin_ui" / "templates" / "admin_ui").rglob("*.html"):
        assert not re.search(r"""\|date:["'][^"']*[HGhgiP]""", path.read_text()), path
