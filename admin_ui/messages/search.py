"""What the form above a topic's messages asks for."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import NamedTuple
from urllib.parse import urlencode

from django.utils.dateparse import parse_datetime

from admin_ui.messages.form import BEGINNINGS, FIELDS
from admin_ui.translation.texts import gettext
from messaging.errors import InvalidValue
from messaging.payloads.paths import Path, parse_path
from messaging.protocol.names import TopicName
from tenants.browsing.query import MessageQuery, message_query

SHOWN = 25
COLUMNS_MAX = 8


class Search(NamedTuple):
    """`parameters`: of the address, without the place where it goes on. `columns`: (title, path)."""

    query: MessageQuery
    parameters: dict[str, str]
    columns: list[tuple[str, Path]]

    def address(self, **more: str) -> str:
        return "?" + urlencode({**self.parameters, **more})


def search_of(topic: TopicName, given: Mapping[str, str]) -> Search:
    """Raises `InvalidValue`."""
    parameters = {name: given[name] for name in FIELDS if given.get(name, "") != ""}
    asked: dict[str, str] = {name: parameters[name] for name in ("key", "text", "path", "value", "format") if name in parameters}
    if "property_is" in parameters:
        asked["property"] = parameters["property_is"]
    if "path" in asked and "compare" in parameters:
        asked["compare"] = parameters["compare"]
        if "value" not in asked and asked["compare"] == "eq":
            del asked["compare"]  # whether there is one
    asked |= _beginning(parameters.get("begin", "newest"), parameters.get("at", "").strip())
    for name, parameter in (("published_from", "from_ms"), ("published_until", "until_ms")):
        if name in parameters:
            asked[parameter] = str(_milliseconds(parameters[name]))
    asked["limit"] = str(SHOWN)
    if given.get("after"):
        asked["after"] = given["after"]
    titles = [title.strip() for title in parameters.get("columns", "").split(",") if title.strip()]
    if len(titles) > COLUMNS_MAX:
        raise InvalidValue(
            gettext("{titles} columns are more than fit: name at most {columns_max}").format(
                titles=len(titles), columns_max=COLUMNS_MAX
            )
        )
    return Search(message_query(topic, asked), parameters, [(title, parse_path(title)) for title in titles])


def _beginning(begin: str, at: str) -> dict[str, str]:
    if begin in ("newest", "oldest"):
        return {"order": begin}
    if not at:
        raise InvalidValue(gettext("say where to begin: a time, a message id, or the name of a subscription"))
    if begin == "time":
        return {"publish_time_ms": str(_milliseconds(at)), "order": "oldest"}
    if begin == "message":
        return {"position": at, "order": "oldest"}
    if begin == "subscription":
        return {"subscription": at, "order": "oldest"}
    raise InvalidValue(
        gettext("{begin} is no beginning: use one of {beginnings}").format(
            begin=f"{begin[:20]!r}", beginnings=", ".join(name for name, _ in BEGINNINGS)
        )
    )


def _milliseconds(text: str) -> int:
    """Of a time in UTC, or milliseconds since 1970."""
    text = text.strip()
    if text.isascii() and text.isdecimal() and 10 < len(text) < 16:
        return int(text)
    try:
        at: datetime | None = parse_datetime(text if len(text) > 10 else f"{text} 00:00")
    except ValueError:
        at = None
    if at is None or not 1970 < at.year < 9999:
        raise InvalidValue(gettext("{text} is not a time: give one such as 2026-03-01 14:00").format(text=f"{text[:40]!r}"))
    return int((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() * 1000)
