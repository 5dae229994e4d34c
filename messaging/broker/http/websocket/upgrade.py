"""Decides whether a WebSocket may be opened, opens what is behind it, and answers refusals with an HTTP status instead of 101.

Order: Host and Origin, path, parameters, who it is, the broker's own checks and opening, the permission table once more.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from typing import NamedTuple
from urllib.parse import quote

import msgspec

from messaging.broker.core.partition_routing import PartitionRouter
from messaging.broker.core.topics.pattern import namespace_of
from messaging.broker.http.asgi import (
    Receive,
    Scope,
    Send,
    bearer_token,
    caller_is_local,
    client_address,
    header,
    path_parts,
    peer_certificate,
)
from messaging.broker.http.context import EdgeContext
from messaging.broker.http.websocket.consumer import ConsumerSession, ReaderSession
from messaging.broker.http.websocket.dead_letters import WebSocketDeadLetters
from messaging.broker.http.websocket.link import INTERNAL, POLICY, Link, Session
from messaging.broker.http.websocket.memory import MemoryReservation, MessageThrottle, SessionThrottle, TenantMemory
from messaging.broker.http.websocket.parameters import (
    ConsumerParameters,
    ProducerParameters,
    ReaderParameters,
    TopicsParameters,
    parse_query,
    read_parameters,
)
from messaging.broker.http.websocket.producer import ProducerSession
from messaging.broker.http.websocket.window import PushWindow
from messaging.broker.runtime.detach import detach_all
from messaging.broker.runtime.local.messages import InitialPosition, MessagePosition, ProducerHandle, ProducerListener
from messaging.errors import (
    AuthenticationFailed,
    InvalidValue,
    MagnetarError,
    NotAuthorized,
    NotFound,
    QuotaExceeded,
    TopicTerminated,
)
from messaging.http_guard import refusal
from messaging.message_id import decode_message_id
from messaging.permissions.decision import require
from messaging.permissions.model import Action, Principal, Resource
from messaging.permissions.table import WEBSOCKET
from messaging.protocol.names import NON_PERSISTENT, PERSISTENT, TopicName, parse_topic, subscription_name

logger = logging.getLogger(__name__)


class Target(NamedTuple):
    """What the path names. `subscription` is empty for producers and readers. `resources`: what is asked for, each of which must be
    allowed; of a consumer of several topics, which its query names, there are none before it is opened."""

    name: str
    subscription: str
    resources: list[Resource]

    @property
    def topic(self) -> TopicName:
        """Of what has one."""
        return parse_topic(self.name)

    def add(self, topic: TopicName) -> None:
        self.resources.append(Resource(topic.tenant, str(topic.namespace), str(topic), self.subscription))


class Opening(NamedTuple):
    context: EdgeContext
    target: Target
    query: dict[str, str]
    principal: Principal
    link: Link

    @property
    def memory(self) -> TenantMemory:
        """For what waits until this peer takes it."""
        return TenantMemory(self.context.broker.memory_limiter.egress, self.principal.tenant)

    @property
    def positions(self) -> MemoryReservation:
        """For what is remembered of messages that were sent."""
        return MemoryReservation(TenantMemory(self.context.broker.memory_limiter.sessions, self.principal.tenant))


class Endpoint(NamedTuple):
    """`open` returns the session with its producer or consumer opened, or raises. `open_failure_status` overrides the status of
    errors of opening other than 401 and 403; Pulsar answers every failed reader with 500."""

    name: str
    open: Callable[[Opening], Awaitable[Session]]
    open_failure_status: int | None = None


async def open_producer(opening: Opening) -> Session:
    context = opening.context
    parameters = read_parameters(ProducerParameters, opening.query)
    throttle = SessionThrottle(context.broker.ingress_limiter, opening.principal.tenant, opening.link.wake)
    sessions, topic, encrypts = context.edge.sessions, str(opening.target.topic), bool(parameters.encryption_keys)

    async def open_one(partition: int | None, name: str | None, listener: ProducerListener) -> ProducerHandle:
        where = topic if partition is None else str(opening.target.topic.of_partition(partition))
        return await sessions.open_producer(opening.principal, where, name, listener, encrypts=encrypts)

    router, count = None, await sessions.partitions(opening.principal, topic)
    if count:
        in_turn = parameters.message_routing_mode == "RoundRobinPartition"
        router = PartitionRouter(count, secrets.randbelow(count), in_turn=in_turn, hashing=parameters.hashing_scheme)
    session = ProducerSession(
        opening.link,
        parameters,
        context.counters,
        context.settings.message_bytes_max,
        context.clock_ms,
        throttle,
        open_one,
        opening.positions,
        router,
        partial(detach_all, context.broker.peers.turn_loop, opening.principal.tenant),
    )
    if count:
        session.unfollow = sessions.follow_partitions(topic, session.grown)
    try:
        await session.open()
    except BaseException:
        session.close()
        raise
    return session


async def open_consumer(opening: Opening) -> Session:
    parameters = read_parameters(ConsumerParameters, opening.query)
    session = _consumer_session(opening, parameters, _dead_letters(opening, parameters, opening.target.name))
    handle = await opening.context.edge.sessions.subscribe(
        opening.principal,
        opening.target.name,
        opening.target.subscription,
        parameters.subscription_type,
        parameters.initial,
        parameters.subscription_mode == "Durable",
        None,
        session,
        consumer_name=parameters.consumer_name,
        priority=parameters.priority_level,
    )
    session.attach(handle)
    return session


async def open_consumer_of_topics(opening: Opening) -> Session:
    several = read_parameters(TopicsParameters, opening.query)
    parameters = read_parameters(ConsumerParameters, opening.query)
    if several.topics_pattern:
        return await _open_pattern(opening, several.topics_pattern, parameters)
    target = opening.target
    names = [parse_topic(name) for name in several.names]
    for name in names:
        target.add(name)
    if parameters.dead_letter_topic and parse_topic(parameters.dead_letter_topic) in names:
        raise InvalidValue("deadLetterTopic is one of the topics: choose another")
    session = _consumer_session(opening, parameters, _dead_letters(opening, parameters, str(names[0])))
    handle = await opening.context.edge.sessions.subscribe_topics(
        opening.principal,
        [str(name) for name in names],
        target.subscription,
        parameters.subscription_type,
        parameters.initial,
        parameters.subscription_mode == "Durable",
        session,
        consumer_name=parameters.consumer_name,
        priority=parameters.priority_level,
    )
    session.attach(handle)
    return session


async def _open_pattern(opening: Opening, pattern: str, parameters: ConsumerParameters) -> Session:
    namespace, target = namespace_of(pattern), opening.target
    if parameters.max_redeliver_count is not None and not parameters.dead_letter_topic:
        raise InvalidValue("deadLetterTopic is missing: name one, as a pattern is no topic that one could be named after")
    session = _consumer_session(opening, parameters, _dead_letters(opening, parameters, ""))
    handle = await opening.context.edge.sessions.subscribe_pattern(
        opening.principal,
        pattern,
        target.subscription,
        parameters.subscription_type,
        parameters.initial,
        parameters.subscription_mode == "Durable",
        session,
        consumer_name=parameters.consumer_name,
        priority=parameters.priority_level,
        without=str(parse_topic(parameters.dead_letter_topic)) if parameters.dead_letter_topic else "",
    )
    session.attach(handle)
    for name in handle.topics:
        target.add(parse_topic(name))
    if not handle.topics:
        target.resources.append(Resource(namespace.tenant, str(namespace), "", target.subscription))
    return session


def _consumer_session(
    opening: Opening, parameters: ConsumerParameters, dead_letters: WebSocketDeadLetters | None
) -> ConsumerSession:
    return ConsumerSession(
        opening.link,
        PushWindow(parameters.window, pull=parameters.pull_mode),
        opening.context.counters,
        opening.memory,
        parameters.crypto_failure_action,
        positions=opening.positions,
        nack_delay_s=parameters.negative_ack_redelivery_delay / 1000,
        ack_timeout_s=parameters.ack_timeout_millis / 1000,
        dead_letters=dead_letters,
    )


def _dead_letters(opening: Opening, parameters: ConsumerParameters, source: str) -> WebSocketDeadLetters | None:
    """`source`: the topic that theirs is named after. Raises `NotAuthorized` for who may not publish to the dead letter topic,
    before there is something to publish."""
    if parameters.max_redeliver_count is None:
        return None
    target, sessions = opening.target, opening.context.edge.sessions
    topic = parse_topic(parameters.dead_letter_topic or f"{source}-{quote(target.subscription, safe='')}-DLQ")
    resource = Resource(topic.tenant, str(topic.namespace), str(topic))
    require(opening.context.broker.grants, opening.principal, Action.PRODUCE, resource)

    async def open_producer(listener: ProducerListener, encrypts: bool) -> ProducerHandle:
        count = await sessions.partitions(opening.principal, str(topic))
        where = topic.of_partition(secrets.randbelow(count)) if count else topic
        return await sessions.open_producer(opening.principal, str(where), None, listener, encrypts=encrypts)

    throttle = partial(SessionThrottle, opening.context.broker.ingress_limiter, opening.principal.tenant)
    return WebSocketDeadLetters(parameters.max_redeliver_count, source, open_producer, throttle)


async def open_reader(opening: Opening) -> Session:
    parameters = read_parameters(ReaderParameters, opening.query)
    window, on_failure = PushWindow(parameters.window), parameters.crypto_failure_action
    session = ReaderSession(opening.link, window, opening.context.counters, opening.memory, on_failure)
    initial: InitialPosition = "earliest" if parameters.message_id == "earliest" else "latest"
    start = None if parameters.message_id in ("earliest", "latest") else MessagePosition(*decode_message_id(parameters.message_id))
    topic, name, sessions = str(opening.target.topic), f"reader-{secrets.token_hex(5)}", opening.context.edge.sessions
    handle = await sessions.subscribe(
        opening.principal, topic, name, "Exclusive", initial, False, start, session, consumer_name=parameters.reader_name
    )
    session.attach(handle)
    return session


WEBSOCKET_ROUTES: dict[str, Endpoint] = {
    "/ws/v2/producer/{domain}/{tenant}/{namespace}/{topic}": Endpoint("producer", open_producer),
    "/ws/v2/consumer/{domain}/{tenant}/{namespace}/{topic}/{subscription}": Endpoint("consumer", open_consumer),
    "/ws/v2/reader/{domain}/{tenant}/{namespace}/{topic}": Endpoint("reader", open_reader, open_failure_status=500),
    "/ws/v3/consumer/{subscription}": Endpoint("topics_consumer", open_consumer_of_topics),
}


class _Refused(Exception):
    def __init__(self, status: int, error: MagnetarError) -> None:
        super().__init__(error.message)
        self.status = status
        self.error = error


async def serve_websocket(context: EdgeContext, scope: Scope, receive: Receive, send: Send) -> None:
    """Handles one WebSocket from upgrade to close."""
    query = scope["query_string"]
    scope["query_string"] = b""  # it may hold a token, and uvicorn logs what it finds here
    if (await receive())["type"] != "websocket.connect":
        return
    endpoint_name = "unknown"
    link = Link()
    try:
        pattern, endpoint, target = _route(context, scope)
        endpoint_name = endpoint.name
        session, principal = await _open(context, scope, query, pattern, endpoint, target, link)
    except _Refused as refused:
        context.broker.peers.shares.leave(link)
        context.counters.refused[endpoint_name, str(refused.status)] += 1
        await _refuse(send, refused.status, refused.error)
        return
    counters = context.counters
    counters.opened[endpoint.name] += 1
    counters.connections[endpoint.name] += 1
    try:
        await send({"type": "websocket.accept"})
        if principal.expires_ms:
            left_s = max(0.0, (principal.expires_ms - context.clock_ms()) / 1000)
            link.after(left_s, lambda: link.end(POLICY, "the token has expired: connect again with a new one"))
        await link.run(session, receive, send)
    except OSError:
        pass  # the peer went away
    except Exception:
        logger.exception("websocket failed unexpectedly", extra={"endpoint": endpoint.name, "topic": target.name})
        await _close_quietly(send)
    finally:
        session.close()
        counters.connections[endpoint.name] -= 1
        context.broker.peers.shares.leave(link)


def _route(context: EdgeContext, scope: Scope) -> tuple[str, Endpoint, Target]:
    refused = refusal(header(scope, "host"), header(scope, "origin"), context.hosts)
    if refused is not None:
        raise _Refused(refused[0], NotAuthorized(refused[1]))
    try:
        parts = path_parts(scope)
        for pattern, endpoint in WEBSOCKET_ROUTES.items():
            wanted = pattern.split("/")[1:]
            if parts[:3] == wanted[:3]:
                return pattern, endpoint, _target(wanted, parts)
    except MagnetarError as error:
        raise _Refused(400, error) from None
    raise _Refused(404, NotFound("there is no such WebSocket: use /ws/v2/producer, consumer or reader, or /ws/v3/consumer"))


def _target(wanted: list[str], parts: list[str]) -> Target:
    if len(parts) < len(wanted):
        raise InvalidValue(f"the path has too few parts: use /{'/'.join(wanted)}")
    subscription = subscription_name(parts.pop()) if wanted[-1] == "{subscription}" else ""
    if "{topic}" not in wanted:
        if len(parts) >= len(wanted):
            raise InvalidValue(f"the path has too many parts: use /{'/'.join(wanted)}, and %2F for a slash")
        return Target("", subscription, [])
    domain, tenant, namespace, *local = parts[3:]
    if domain not in (PERSISTENT, NON_PERSISTENT):
        raise InvalidValue(f"the domain {domain[:40]!r} is not {PERSISTENT} or {NON_PERSISTENT}")
    topic = parse_topic(f"{domain}://{tenant}/{namespace}/{quote('/'.join(local), safe='')}")
    if parse_topic(str(topic)) != topic:  # a name that the next reader would take for another
        raise InvalidValue(f"topic name {topic.local[:80]!r} is not valid: remove %")
    target = Target(str(topic), subscription, [])
    target.add(topic)
    return target


async def _open(
    context: EdgeContext, scope: Scope, query_string: bytes, pattern: str, endpoint: Endpoint, target: Target, link: Link
) -> tuple[Session, Principal]:
    session: Session | None = None
    try:
        query = parse_query(query_string)
        token = bearer_token(scope)
        query_token = query.pop("token", "")
        local = caller_is_local(scope, context.settings.host)
        address = client_address(scope, context.settings.trusted_proxies)
        token = token if token is not None else query_token or None
        certificate = peer_certificate(scope)
        if token is None and certificate:
            principal = context.broker.authenticate_certificate(certificate)
        else:
            principal = await context.broker.authenticate(token, local, address)
        principal = replace(principal, address=address)
        _take_place(context, scope, link, principal)
        session = await endpoint.open(Opening(context, target, query, principal, link))
        for resource in target.resources:
            require(context.broker.grants, principal, _action(pattern), resource)
        return session, principal
    except MagnetarError as error:
        if session is not None:
            session.close()
        if isinstance(error, AuthenticationFailed):
            context.broker.sign_in_failed(error, client_address(scope, context.settings.trusted_proxies))
        raise _Refused(_status(error, endpoint), error) from None
    except Exception:
        if session is not None:
            session.close()
        logger.exception("websocket could not be opened", extra={"endpoint": endpoint.name, "topic": target.name})
        raise _Refused(500, MagnetarError("an internal error occurred; see the broker's log")) from None


def _take_place(context: EdgeContext, scope: Scope, link: Link, principal: Principal) -> None:
    """A WebSocket is a connection like those of the binary protocol: in its tenant's and its key's share. Raises `NotReady`."""
    peers = context.broker.peers
    leaves = peers.shares.arrive(link, client_address(scope, context.settings.trusted_proxies))
    if leaves is not None:
        leaves.refuse("made room for others", "it was the oldest without a sign-in, of the address that has most of them")
    peers.signed_in(link, principal, superuser=context.broker.grants.is_superuser(principal.role))
    counts_begun = scope.get("state", {}).get("counts_begun")
    if counts_begun is not None:
        bytes_max = context.settings.message_bytes_max
        counts_begun(lambda on_resume: MessageThrottle(context.broker.ingress_limiter, principal.tenant, bytes_max, on_resume))


def _action(pattern: str) -> Action:
    return WEBSOCKET[pattern]


def _status(error: MagnetarError, endpoint: Endpoint) -> int:
    """Pulsar's statuses: 503 where a quota or the end of a topic blocks, 400 for what is spelled wrong."""
    if error.http_status in (401, 403, 400):
        return error.http_status
    if endpoint.open_failure_status is not None:
        return endpoint.open_failure_status
    if isinstance(error, QuotaExceeded | TopicTerminated):
        return 503
    return 400 if error.code == "invalid_name" else error.http_status


async def _refuse(send: Send, status: int, error: MagnetarError) -> None:
    body = msgspec.json.encode({"code": error.code, "message": error.message, "reason": error.message})
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    if status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    try:
        await send({"type": "websocket.http.response.start", "status": status, "headers": headers})
        await send({"type": "websocket.http.response.body", "body": body})
    except OSError:
        pass  # it did not wait for the answer


async def _close_quietly(send: Send) -> None:
    try:
        await send({"type": "websocket.close", "code": INTERNAL, "reason": "the broker failed; its log says why"})
    except (OSError, RuntimeError):
        pass  # closed already
