"""Handlers of the broker's plain HTTP requests: health, readiness, metrics, admin RPC."""

from __future__ import annotations

import contextlib
import logging
import uuid
from collections.abc import Awaitable, Callable
from itertools import chain
from typing import NamedTuple

import msgspec

from messaging.adminrpc.callers import require_call
from messaging.adminrpc.methods import FEED_APPLY, METHODS
from messaging.broker.http.asgi import (
    JSON,
    Receive,
    Scope,
    bearer_token,
    caller_is_local,
    client_address,
    error_body,
    peer_certificate,
    peer_left,
    read_body,
    while_connected,
)
from messaging.broker.http.context import EdgeContext
from messaging.errors import AuthenticationFailed, InvalidValue, MagnetarError, NotReady
from messaging.identity.certificates import check_process_certificate
from messaging.json_types import decoder_of
from messaging.limits.structs import check
from messaging.metrics import CONTENT_TYPE, exposition
from messaging.permissions.decision import allowed, require
from messaging.permissions.model import SERVICE_ROLE_PREFIX, Action
from messaging.permissions.table import BROKER_HTTP

logger = logging.getLogger(__name__)

RPC_BODY_BYTES_MAX = 16 << 20
RPC_BODY_TIMEOUT_S = 30.0
RPC_PATTERN = "/rpc/v1/{method}"


class HttpAnswer(NamedTuple):
    status: int
    body: bytes
    content_type: str = JSON


class HttpRequest(NamedTuple):
    context: EdgeContext
    scope: Scope
    receive: Receive
    values: dict[str, str]  # of the {names} in the route


Handler = Callable[[HttpRequest], Awaitable[HttpAnswer]]


async def healthz(request: HttpRequest) -> HttpAnswer:
    return HttpAnswer(200, b'{"status":"live"}')


async def readyz(request: HttpRequest) -> HttpAnswer:
    ready, why = request.context.broker.ready()
    if ready:
        return HttpAnswer(200, b'{"status":"ready"}')
    return HttpAnswer(503, msgspec.json.encode({"status": "not ready", "reason": why}))


async def metrics(request: HttpRequest) -> HttpAnswer:
    broker = request.context.broker
    private = False
    token = bearer_token(request.scope)
    if token is not None:
        # Who it is may not be known while the web process is away: then there are the figures that are for everybody.
        with contextlib.suppress(NotReady):
            local = caller_is_local(request.scope, request.context.settings.host)
            address = client_address(request.scope, request.context.settings.trusted_proxies)
            principal = await broker.authenticate(token, local, address)
            private = allowed(broker.grants, principal, Action.SUPERUSER)
    samples = chain(request.context.edge.samples(private=private), request.context.counters.samples())
    return HttpAnswer(200, exposition(samples, private=private), CONTENT_TYPE)


async def rpc(request: HttpRequest) -> HttpAnswer:
    """One call of the admin RPC. The caller is authenticated before the body is read."""
    context = request.context
    token = bearer_token(request.scope)
    if token is None:
        raise AuthenticationFailed("the admin RPC requires a service token: use the public API instead")
    principal = context.verifier.verify(token, context.clock_ms())
    if context.settings.internal_tls:
        check_process_certificate(principal, peer_certificate(request.scope), context.clock_ms())
    name = request.values["method"]
    method = METHODS.get(name)
    require(context.broker.grants, principal, method.permission if method is not None else BROKER_HTTP[RPC_PATTERN])
    if method is None or name not in context.edge.methods:
        # Not that anything is absent: a page of a newer web process would say so of the topic that it asks for.
        raise NotReady(f"this broker has no call {name[:80]!r}: it is of an earlier release than who asks, upgrade it first")
    require_call(principal, name)
    body = await read_body(request.receive, RPC_BODY_BYTES_MAX, RPC_BODY_TIMEOUT_S)
    try:
        message = decoder_of(method.request).decode(body or b"{}")
    except msgspec.DecodeError as error:
        raise InvalidValue(f"the request of {name} is not valid: {error}") from None
    if method != FEED_APPLY:  # may carry all of the control plane, whose size bounds it
        check(message)
    # Whoever gave up on a broker that stood still was told so, and may have asked for it again since, or for the contrary.
    if not method.changes_nothing and peer_left(request.scope):
        raise NotReady(f"the caller left before {name} was begun, so nothing was done")
    handler = context.edge.methods[name]
    if principal.role == f"{SERVICE_ROLE_PREFIX}broker":
        handler = context.edge.own_methods.get(name, handler)
    work = handler(message)
    return HttpAnswer(200, msgspec.json.encode(await (while_connected(request.receive, work) if method.long_read else work)))


async def answer(handler: Handler, request: HttpRequest) -> HttpAnswer:
    """The handler's response. Errors of ours become ``{"code", "message"}``, anything else 500 with an id that is in the log."""
    try:
        return await handler(request)
    except MagnetarError as error:
        if isinstance(error, AuthenticationFailed):
            address = client_address(request.scope, request.context.settings.trusted_proxies)
            request.context.broker.sign_in_failed(error, address)
        if error.http_status >= 500:
            logger.warning("request failed", extra={"path": request.scope["path"], "code": error.code, "reason": error.message})
        return HttpAnswer(error.http_status, error_body(error))
    except Exception:
        request_id = uuid.uuid4().hex
        logger.exception("request failed unexpectedly", extra={"path": request.scope["path"], "request_id": request_id})
        message = f"the broker failed to answer; its log has the cause under request id {request_id}"
        return HttpAnswer(500, error_body(MagnetarError(message)))
