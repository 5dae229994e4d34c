"""How addresses name topics; and where the live feeds are, which Django's URL configuration, for HTTP only, does not have."""

from __future__ import annotations

from urllib.parse import quote, unquote, urlencode

from django.urls.converters import StringConverter

from messaging.protocol.names import NON_PERSISTENT, PERSISTENT, TopicName

_UNSTORED = f"{NON_PERSISTENT}://"


def short_name(topic: str) -> str:
    """What the pages of a namespace call a topic (full name): its last part, for a non-persistent one after its domain."""
    last = topic.rpartition("/")[2]
    return f"{_UNSTORED}{last}" if topic.startswith(_UNSTORED) else last


def full_name(tenant: str, namespace: str, short: str) -> TopicName:
    """Not validated. The reverse of `short_name`: no last part of a name has a slash."""
    if short.startswith(_UNSTORED):
        return TopicName(NON_PERSISTENT, tenant, namespace, short.removeprefix(_UNSTORED))
    return TopicName(PERSISTENT, tenant, namespace, short)


class TopicConverter(StringConverter):
    """``topics/x`` for a persistent topic, ``non-persistent/x`` for another; views get the short name."""

    regex = f"(?:topics|{NON_PERSISTENT})/[^/]+"

    def to_python(self, value: str) -> str:
        kind, _, last = value.partition("/")
        return f"{_UNSTORED}{last}" if kind == NON_PERSISTENT else last

    def to_url(self, value: str) -> str:
        return f"{NON_PERSISTENT}/{value.removeprefix(_UNSTORED)}" if value.startswith(_UNSTORED) else f"topics/{value}"


class SubscriptionConverter(StringConverter):
    """A subscription may have any printable name. What would be another path is escaped once more than the address is."""

    def to_python(self, value: str) -> str:
        return unquote(value)

    def to_url(self, value: str) -> str:
        escaped = value.replace("%", "%25").replace("/", "%2F")
        return escaped.replace(".", "%2E") if escaped in (".", "..") else escaped


def live_url(tenant: str, namespace: str, **asked: str) -> str:
    """The WebSocket path of a namespace's live feed. `asked`: of which topics (`admin_ui.consumers`)."""
    path = f"/live/tenants/{quote(tenant, safe='')}/namespaces/{quote(namespace, safe='')}"
    given = {name: text for name, text in asked.items() if text}
    return f"{path}?{urlencode(given)}" if given else path
