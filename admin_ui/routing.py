"""WebSocket routes of the console, mounted by `controlplane.asgi`. Their rows of the permission table have the method WEBSOCKET."""

from __future__ import annotations

from django.urls import path

from admin_ui.consumers import NamespaceLiveConsumer

websocket_urlpatterns = [
    path("live/tenants/<str:tenant>/namespaces/<str:namespace>", NamespaceLiveConsumer.as_asgi(), name="namespace_live"),
]
