"""Messages of a topic, found and decoded."""

from __future__ import annotations

from drf_spectacular.utils import OpenApiParameter
from rest_framework.request import Request
from rest_framework.response import Response

from messaging.payloads.filters import COMPARISONS
from messaging.payloads.reading import FORMATS
from tenants import broker
from tenants.browsing.pages import MessageRow, MessagesPage, browse, message_at, messages_read, require_reading
from tenants.browsing.query import LIMIT, LIMIT_MAX, ORDERS, message_query
from tenants.http.request_state import state_of
from tenants.masking import masks_of
from tenants.names import topic_of
from tenants.rest.base import View, existing_namespace
from tenants.rest.schema import describe

WHOLE_BYTES_MAX = 1 << 20  # of a payload that is opened
FORMAT = OpenApiParameter(
    "format", str, enum=FORMATS, description="How payloads are read; auto: by their schema, or what they look like."
)
BROWSING = [
    OpenApiParameter("position", str, description="Where to begin: earliest (the default), latest, or a message id."),
    OpenApiParameter("publish_time_ms", int, description="Or at the first message published then or later: ms since 1970."),
    OpenApiParameter("subscription", str, description="Or at the first message that this subscription has not acknowledged."),
    OpenApiParameter("order", str, enum=ORDERS, description="Which come first: oldest, or from latest on newest."),
    OpenApiParameter("key", str, description="Only messages with this key."),
    OpenApiParameter("property", str, description="Only messages with this property: NAME, or NAME=VALUE."),
    OpenApiParameter("text", str, description="Only messages whose payload contains this; large and small letters differ."),
    OpenApiParameter("path", str, description="Only messages in whose payload this path leads to a value: $.order.items[*].id"),
    OpenApiParameter("compare", str, enum=COMPARISONS, description="How that compares with `value`; eq is the default."),
    OpenApiParameter("value", str, description="What it is compared with."),
    OpenApiParameter("from_ms", int, description="Only messages published from this time on: ms since 1970."),
    OpenApiParameter("until_ms", int, description="Only messages published before this time."),
    FORMAT,
    OpenApiParameter("limit", int, description=f"1 to {LIMIT_MAX}; default {LIMIT}."),
    OpenApiParameter("after", str, description="The value of `next` from the previous page, with the same parameters."),
]


class MessagesBrowsing(View):
    @describe("Browse the messages of a topic, or search them: so much with each request", MessagesPage, parameters=BROWSING)
    def get(self, request: Request, **parts: str) -> Response:
        topic = topic_of(parts)
        query = message_query(topic, request.query_params)
        existing_namespace(topic.tenant, topic.namespace_local)
        require_reading(self.actor(), topic, query)
        page = browse(broker.rpc(), topic, query, masks_of(self.actor(), topic))
        self.actor().trail.after = messages_read(row.message_id for row in page.items)
        state_of(request._request).nothing_read = query.going_on and not page.items
        return Response(page)


class MessageBrowsing(View):
    @describe("A message by its id, found and decoded", MessageRow, parameters=[FORMAT])
    def get(self, request: Request, message_id: str, **parts: str) -> Response:
        topic = topic_of(parts)
        query = message_query(topic, {"position": message_id, "format": request.query_params.get("format", "")})
        existing_namespace(topic.tenant, topic.namespace_local)
        row = message_at(broker.rpc(), topic, query, masks_of(self.actor(), topic), WHOLE_BYTES_MAX)
        self.actor().trail.after = messages_read([row.message_id])
        return Response(row)
