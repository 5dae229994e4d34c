"""The state of the platform, for its administrators."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from django.http import HttpResponse

from admin_ui import broker, platform_view
from admin_ui.access import ConsoleRequest, page
from admin_ui.pages import navigation, sentence, show
from admin_ui.platform_view import BrokerRow
from admin_ui.translation.texts import gettext
from messaging.adminrpc.base import Request
from messaging.adminrpc.brokers import BrokerAsked, BrokerSeen
from messaging.adminrpc.calls import TypedCalls
from messaging.adminrpc.methods import BROKERS_LIST, STATUS
from messaging.adminrpc.status import BrokerStatus
from tenants.models import FeedHead


def _broker_rows(seen: Sequence[BrokerSeen], known: BrokerStatus | None) -> list[BrokerRow]:
    """`known`: the status of the one that was asked for the list. Those that are known to be away are not waited for."""
    asked = [each.broker_id for each in seen if each.live and (known is None or known.broker_id != each.broker_id)]
    told = dict(zip(asked, broker.ask_each_or_why([partial(_status, each) for each in asked]), strict=True))
    return [_broker_row(each, known, told) for each in seen]


def _status(broker_id: str, rpc: TypedCalls) -> BrokerStatus:
    return rpc.call(STATUS, BrokerAsked(broker_id=broker_id))


def _broker_row(seen: BrokerSeen, known: BrokerStatus | None, told: Mapping[str, tuple[BrokerStatus | None, str]]) -> BrokerRow:
    if known is not None and known.broker_id == seen.broker_id:
        return BrokerRow(seen.broker_id, seen.broker_url, known, "")
    if seen.broker_id not in told:
        away = sentence(seen.problem) if seen.problem else gettext("Away: it has not renewed its session.")
        return BrokerRow(seen.broker_id, seen.broker_url, None, away)
    status, away = told[seen.broker_id]
    return BrokerRow(seen.broker_id, seen.broker_url, status, sentence(away))


def _look() -> dict[str, Any]:
    status, away = broker.ask_or_why(lambda rpc: rpc.call(STATUS, BrokerAsked()))
    seen, _ = broker.ask_or_why(lambda rpc: rpc.call(BROKERS_LIST, Request()))
    brokers = _broker_rows(seen.brokers, status) if seen is not None and len(seen.brokers) > 1 else []
    silent = {platform_view.process_of(row.broker_id) for row in brokers if row.status is None} - {""}
    children, children_why = platform_view.children(silent if brokers or status is not None else {"broker"})
    return {
        "broker": status,
        "brokers": brokers,
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
