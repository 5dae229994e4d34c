"""The two ASGI applications of the broker and their route table. The permission table has the same keys; a test compares them.

The RPC listener (loopback or mutual TLS) answers every HTTP route, the public listener all but the admin RPC, and the WebSocket
API. `Host` and `Origin` are checked before anything else is looked at.
"""

from __future__ import annotations

from typing import NamedTuple

from messaging.broker.http.asgi import App, Receive, Scope, Send, error_body, header, match_route, path_parts, respond
from messaging.broker.http.context import EdgeContext
from messaging.broker.http.handlers import RPC_PATTERN, Handler, HttpAnswer, HttpRequest, answer, healthz, metrics, readyz, rpc
from messaging.broker.http.websocket.binary import is_binary, serve_binary
from messaging.broker.http.websocket.upgrade import serve_websocket
from messaging.errors import InvalidValue, MagnetarError, NotAllowed, NotAuthorized, NotFound
from messaging.http_guard import refusal


class Route(NamedTuple):
    methods: tuple[str, ...]
    handler: Handler
    public: bool  # also on the public listener


HTTP_ROUTES: dict[str, Route] = {
    "/healthz": Route(("GET", "HEAD"), healthz, True),
    "/readyz": Route(("GET", "HEAD"), readyz, True),
    "/metrics": Route(("GET", "HEAD"), metrics, True),
    RPC_PATTERN: Route(("POST",), rpc, False),
}


def rpc_app(context: EdgeContext) -> App:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await _serve_http(context, HTTP_ROUTES, scope, receive, send)

    return app


def public_app(context: EdgeContext) -> App:
    routes = {pattern: route for pattern, route in HTTP_ROUTES.items() if route.public}

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            serve = serve_binary if is_binary(scope) else serve_websocket
            await serve(context, scope, receive, send)
        else:
            # One request a connection: nothing unknown may hold a connection open.
            await _serve_http(context, routes, scope, receive, send, (("connection", "close"),))

    return app


async def _serve_http(
    context: EdgeContext,
    routes: dict[str, Route],
    scope: Scope,
    receive: Receive,
    send: Send,
    headers: tuple[tuple[str, str], ...] = (),
) -> None:
    pattern, answer = await _dispatch(context, routes, scope, receive)
    context.counters.requests[pattern, str(answer.status)] += 1
    await respond(send, answer.status, answer.body, answer.content_type, headers)


async def _dispatch(context: EdgeContext, routes: dict[str, Route], scope: Scope, receive: Receive) -> tuple[str, HttpAnswer]:
    refused = refusal(header(scope, "host"), header(scope, "origin"), context.hosts)
    if refused is not None:
        status, reason = refused
        return "refused", HttpAnswer(status, error_body(NotAuthorized(reason)))
    try:
        parts = path_parts(scope)
    except InvalidValue as error:
        return "unknown", _failure(error)
    for pattern, route in routes.items():
        values = match_route(pattern, parts)
        if values is not None:
            if scope["method"] not in route.methods:
                return pattern, _failure(NotAllowed(f"{pattern} allows only {' and '.join(route.methods)}"))
            return pattern, await answer(route.handler, HttpRequest(context, scope, receive, values))
    return "unknown", _failure(NotFound("there is nothing at this path: the REST API and the console are on the web port"))


def _failure(error: MagnetarError) -> HttpAnswer:
    return HttpAnswer(error.http_status, error_body(error))
