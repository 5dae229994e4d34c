"""The application that the web process serves: Django for HTTP, the console's consumers for WebSockets, the guard before both."""

from __future__ import annotations

import os

from controlplane import current
from controlplane.guard import Application, Guard, Receive, Scope, Send
from messaging.http_server.request_queue import BodyBudget, RequestQueues

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "controlplane.web_settings")

from django.core.asgi import get_asgi_application

BODIES_BYTES_MAX = 32 << 20  # of requests that wait for their turn; one has at most 1 MiB

_http: Application = get_asgi_application()  # type: ignore[assignment]
_websocket: Application | None = None


def _websocket_application() -> Application:
    """Made when the first page opens one: Channels and its Redis client are 15 MiB that an unwatched console does not need."""
    global _websocket
    if _websocket is None:
        from channels.auth import AuthMiddlewareStack
        from channels.routing import URLRouter

        from admin_ui.routing import websocket_urlpatterns

        _websocket = AuthMiddlewareStack(URLRouter(websocket_urlpatterns))
    return _websocket


async def _dispatch(scope: Scope, receive: Receive, send: Send) -> None:
    if scope["type"] == "http":
        await _http(scope, receive, send)
    elif scope["type"] == "websocket":
        await _websocket_application()(scope, receive, send)
    else:
        raise ValueError(f"ASGI scope {scope['type']!r} is not served here")


_settings = current.settings()
request_queues = RequestQueues(
    _dispatch, _settings.http_requests_max, _settings.http_requests_waiting_max, BodyBudget(BODIES_BYTES_MAX)
)
application: Application = Guard(request_queues, _settings)
