"""The application that the web process serves: Django for HTTP, the console's consumers for WebSockets, the guard before both."""

from __future__ import annotations

import os

from controlplane import current
from controlplane.guard import Application, Guard, Receive, Scope, Send, internal_hosts
from messaging.http_server.request_queue import BodyBudget, RequestQueues, address_of

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "controlplane.web_settings")

import django

from controlplane.handler import Handler

BODIES_BYTES_MAX = 32 << 20  # of requests that wait for their turn; one has at most 1 MiB

django.setup(set_prefix=False)
_http: Application = Handler()  # type: ignore[assignment]
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


def _whose(scope: Scope) -> str:
    """Whose turns a request takes: those of the tenant whose key it shows, else those of its address."""
    from tenants.http.authentication import tenant_of_token

    tokens = [value for name, value in scope["headers"] if name == b"authorization"]
    if len(tokens) == 1 and tokens[0][:7].lower() == b"bearer ":
        tenant = tenant_of_token(tokens[0][7:].decode("latin-1").strip())
        if tenant:
            return f"tenant {tenant}"
    return address_of(scope)


_settings = current.settings()
request_queues = RequestQueues(
    _dispatch,
    _settings.http_requests_max,
    _settings.http_requests_waiting_max,
    BodyBudget(BODIES_BYTES_MAX),
    _whose,
    _settings.http_requests_of_caller_max,
)
application: Application = Guard(request_queues, _settings)
_of_processes: Application = Guard(request_queues, internal_hosts(_settings))


async def of_processes(scope: Scope, receive: Receive, send: Send) -> None:
    """The same on the listener for our own processes. Its certificates are of another authority than those of clients, and are
    nobody's but a process's."""
    state = scope.setdefault("state", {})
    state["process_certificate"] = state.pop("peer_certificate", None)
    await _of_processes(scope, receive, send)
