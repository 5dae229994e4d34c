"""Single messages of a topic, as Pulsar's admin API has them."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse

from messaging.adminrpc.messages import MessageExamine, MessageFind, MessageGet
from messaging.adminrpc.methods import MESSAGES_EXAMINE, MESSAGES_FIND, MESSAGES_GET
from tenants import broker
from tenants.http.views import actor, number, route
from tenants.masking import require_unmasked
from tenants.pulsar.subscriptions import message_response
from tenants.pulsar.topics import existing, message_id


def _get(request: HttpRequest, ledger: str, entry: str, **parts: str) -> HttpResponse:
    topic = existing(parts)
    require_unmasked(actor(request), topic)
    asked = MessageGet(topic=str(topic), ledger_id=number(ledger, "ledger"), entry_id=number(entry, "entry"))
    return message_response(broker.rpc().call(MESSAGES_GET, asked))


def _examine(request: HttpRequest, **parts: str) -> HttpResponse:
    """Counted from the earliest message if the query says so, else from the latest."""
    position = number(request.GET.get("messagePosition", "1"), "messagePosition", 1)
    from_latest = request.GET.get("initialPosition", "latest") != "earliest"
    topic = existing(parts)
    require_unmasked(actor(request), topic)
    asked = MessageExamine(topic=str(topic), position=position, from_latest=from_latest)
    return message_response(broker.rpc().call(MESSAGES_EXAMINE, asked))


def _find(request: HttpRequest, timestamp: str, **parts: str) -> dict[str, Any]:
    asked = MessageFind(topic=str(existing(parts)), timestamp_ms=number(timestamp, "timestamp"))
    return message_id(broker.rpc().call(MESSAGES_FIND, asked))


message_view = route(GET=_get)
examine_view = route(GET=_examine)
find_view = route(GET=_find)
