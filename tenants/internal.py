"""/internal/v1: what processes of ours ask the web process, by their service identity."""

from __future__ import annotations

import msgspec
from django.http import HttpRequest, HttpResponse
from django.urls import path

from messaging.errors import InvalidValue
from tenants import feed
from tenants.pulsar.http import route

app_name = "internal"


def get_feed(request: HttpRequest) -> HttpResponse:
    """The feed after version `since`: a `messaging.adminrpc.schema.FeedApply`."""
    text = request.GET.get("since", "0")
    if not (text.isascii() and text.isdecimal() and len(text) <= 18):
        raise InvalidValue(f"since {text[:40]!r} is not a version")
    return HttpResponse(msgspec.json.encode(feed.since(int(text))), content_type="application/json")


urlpatterns = [path("feed", route(GET=get_feed), name="feed")]
