"""/internal/v1: requests of our own processes to the web process, authenticated by their service identity."""

from __future__ import annotations

import msgspec
from django.http import HttpRequest, HttpResponse
from django.urls import path

from messaging.adminrpc.feed import KINDS
from messaging.errors import InvalidValue
from tenants import feed
from tenants.http.views import route

app_name = "internal"


def get_feed(request: HttpRequest) -> HttpResponse:
    """A page of the feed after version `since` of `feed_id`, or of everything after the key `after`: a `FeedApply`."""
    text = request.GET.get("since", "0")
    if not (text.isascii() and text.isdecimal() and len(text) <= 18):
        raise InvalidValue(f"since {text[:40]!r} is not a version")
    after = request.GET.get("after", "")
    if after and after.partition(" ")[0] not in KINDS:
        raise InvalidValue(f"after {after[:40]!r} is not the next_key of a page")
    page = feed.since(int(text), request.GET.get("feed_id", ""), after)
    return HttpResponse(msgspec.json.encode(page), content_type="application/json")


urlpatterns = [path("feed", route(GET=get_feed), name="feed")]
