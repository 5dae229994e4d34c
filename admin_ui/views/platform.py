"""The state of the platform, for its administrators."""

from __future__ import annotations

import time
from typing import Any

from django.http import HttpResponse

from admin_ui import broker, platform_view
from admin_ui.access import ConsoleRequest, page
from admin_ui.pages import navigation, sentence, show
from messaging.adminrpc.brokers import BrokerAsked
from messaging.adminrpc.methods import STATUS
from tenants.models import FeedHead


def _look() -> dict[str, Any]:
    status, away = broker.ask_or_why(lambda rpc: rpc.call(STATUS, BrokerAsked()))
    children, children_why = platform_view.children(broker_answers=status is not None)
    return {
        "broker": status,
        "broker_away": sentence(away),
        "uptime_s": status.uptime_ms / 1000 if status else 0,
        "children": children,
        "children_why": children_why,
        "worker": platform_view.worker(),
        "feed_version": FeedHead.objects.values_list("version", flat=True).first(),
        "at_ms": time.time_ns() // 1_000_000,
    }


@page
def platform(request: ConsoleRequest) -> HttpResponse:
    return show(request, "pages/platform.html", navigation(request, "platform"), **_look())


@page
def platform_fragment(request: ConsoleRequest) -> HttpResponse:
    """The part of the page that is refreshed every three seconds."""
    return show(request, "parts/platform_status.html", **_look())
