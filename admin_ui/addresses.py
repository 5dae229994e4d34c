"""Addresses of the live feeds. They are not in Django's URL configuration, which knows HTTP only."""

from __future__ import annotations

from urllib.parse import quote, urlencode


def live_url(tenant: str, namespace: str, topic: str = "") -> str:
    """The WebSocket path of a namespace's live feed; `topic` (full name): of that topic alone."""
    path = f"/live/tenants/{quote(tenant, safe='')}/namespaces/{quote(namespace, safe='')}"
    return f"{path}?{urlencode({'topic': topic})}" if topic else path
