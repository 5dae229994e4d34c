"""In which time zone a person sees times and gives them: the one that they chose, or that of their browser.

Addresses and files have times in UTC, so that they mean the same to whoever gets them. A form sends what was typed, in the person's
zone; `in_utc` leads to the address that says it in UTC. What is billed by days and months goes by UTC, and says so.
"""

from __future__ import annotations

from collections.abc import Collection
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from functools import cache
from urllib.parse import urlencode
from zoneinfo import ZoneInfo, available_timezones

from django.http import HttpRequest, HttpResponseRedirect
from django.utils import timezone
from django.utils.dateparse import parse_datetime
from django.utils.functional import lazy

from tenants.models import User

COOKIE = "time_zone"  # what local-time.js says of the browser
PLATFORM_ZONE = "UTC"


@cache
def names() -> list[str]:
    """Of the zones that somebody may choose, without those that only old programs use."""
    places = ("Africa", "America", "Antarctica", "Arctic", "Asia", "Atlantic", "Australia", "Europe", "Indian", "Pacific")
    return sorted({PLATFORM_ZONE, *(name for name in available_timezones() if name.startswith(tuple(f"{it}/" for it in places)))})


@cache
def _zone(name: str) -> ZoneInfo:
    return ZoneInfo(name if name in names() else PLATFORM_ZONE)


def chosen_zone(request: HttpRequest) -> str:
    """ "" for that of the browser."""
    user = getattr(request, "user", None)
    return user.time_zone if isinstance(user, User) else ""


def zone_of(request: HttpRequest) -> ZoneInfo:
    name = chosen_zone(request) or request.COOKIES.get(COOKIE, "")
    return _zone(name if name in names() else PLATFORM_ZONE)


def in_zone_of(request: HttpRequest) -> AbstractContextManager[None]:
    """Within it, templates show times in the person's zone and forms take them in it."""
    return timezone.override(zone_of(request))


def zone_name() -> str:
    """Of the zone in which times are shown now."""
    return timezone.get_current_timezone_name()


def _zoned_label(text: str) -> str:
    return f"{text} ({zone_name()})"


# Of a field that takes a time: with the zone in which it is meant, at the moment when it is shown.
zoned_label = lazy(_zoned_label, str)


def typed(text: str) -> str:
    """A time of an address as somebody would type it in their zone; what is none stays as it is."""
    at = _parsed(text)
    if at is None or at.tzinfo is None:
        return text
    local = timezone.localtime(at)
    return f"{local:%Y-%m-%d %H:%M:%S}" if local.second else f"{local:%Y-%m-%d %H:%M}"


def of_address(text: str) -> str:
    """A time of an address, in UTC if it names no zone, as a form takes it: in the person's zone, with the offset."""
    at = _parsed(text)
    if at is None:
        return text
    return f"{timezone.localtime(at if at.tzinfo else at.replace(tzinfo=UTC)):%Y-%m-%d %H:%M:%S%z}"


def in_utc(request: HttpRequest, fields: Collection[str]) -> HttpResponseRedirect | None:
    """The same page with the times of `fields` in UTC, if the address has one in the person's zone. A time that comes twice, or
    never, when clocks change is taken as the first of the two, or an hour later, which the form then shows."""
    query, changed = request.GET.dict(), False
    for name in fields:
        at = _parsed(query.get(name, ""))
        if at is not None and at.tzinfo is None:
            query[name] = f"{at.replace(tzinfo=timezone.get_current_timezone()).astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"
            changed = True
    return HttpResponseRedirect(f"{request.path}?{urlencode(query)}") if changed else None


def _parsed(text: str) -> datetime | None:
    text = text.strip()
    try:
        at = parse_datetime(f"{text} 00:00" if len(text) == 10 else text)
        return at if at is not None and 1970 < at.year < 9000 else None
    except ValueError:
        return None
