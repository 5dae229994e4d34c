"""All commands off the hot path: their permission, their handler and their error response, in one table with one entry point,
`Commands.handle`.

A command whose type is not in the permission table is refused. Commands that name a topic are authorised on the parsed name and use
that same value. Those that wait (lookups, opening, closing) run as one task each, in order per producer or consumer id.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, NamedTuple

import structlog

from messaging.broker.core.clients.client_info import ClientInfo
from messaging.broker.runtime.broker import Broker
from messaging.broker.runtime.topics.services import refusal_of
from messaging.broker.runtime.wire import consumers as command_consumer
from messaging.broker.runtime.wire import lookup as command_lookup
from messaging.broker.runtime.wire import producers as command_producer
from messaging.broker.runtime.wire import schemas as command_schemas
from messaging.broker.runtime.wire import topic_lists
from messaging.broker.runtime.wire.connection import Connection
from messaging.broker.runtime.wire.handshake import authenticate, connect, fail
from messaging.broker.runtime.wire.pending_requests import TASK_BYTES
from messaging.errors import ConsumerNotFound, MagnetarError
from messaging.permissions.model import Action, Resource
from messaging.permissions.table import BINARY
from messaging.protocol import frames
from messaging.protocol import pulsar_pb2 as pb
from messaging.protocol.events import Command
from messaging.protocol.names import parse_namespace, parse_topic
from messaging.storage.ledger_store import StoreError

log = structlog.get_logger("broker.commands")

Work = Coroutine[Any, Any, None]
Handler = Callable[..., Coroutine[Any, Any, None] | None]  # of the broker, the connection, the body and its resource


class Row(NamedTuple):
    """`field`: the command's body; `handler` executes it; commands with equal keys from `order` run one after another. One that is
    `sized` is also told how many bytes its request counts."""

    field: str
    handler: Handler
    order: Callable[[Any], object] | None = None
    sized: bool = False


def _producer_key(body: Any) -> object:
    return "producer", body.producer_id


def _consumer_key(body: Any) -> object:
    return "consumer", body.consumer_id


def _list_key(body: Any) -> object:
    return "listing"


TABLE: dict[int, Row] = {
    pb.Command.PARTITIONED_METADATA: Row("partitioned_metadata", command_lookup.partitioned_metadata),
    pb.Command.LOOKUP: Row("lookup", command_lookup.lookup, sized=True),
    pb.Command.GET_TOPICS_OF_NAMESPACE: Row("get_topics_of_namespace", topic_lists.topics_of_namespace, _list_key),
    pb.Command.WATCH_TOPIC_LIST: Row("watch_topic_list", topic_lists.watch_topics, _list_key),
    pb.Command.WATCH_TOPIC_LIST_CLOSE: Row("watch_topic_list_close", topic_lists.close_watch, _list_key),
    pb.Command.GET_SCHEMA: Row("get_schema", command_schemas.get_schema),
    pb.Command.GET_OR_CREATE_SCHEMA: Row("get_or_create_schema", command_schemas.get_or_create_schema),
    pb.Command.PRODUCER: Row("producer", command_producer.open_producer, _producer_key),
    pb.Command.CLOSE_PRODUCER: Row("close_producer", command_producer.close_producer, _producer_key),
    pb.Command.SUBSCRIBE: Row("subscribe", command_consumer.subscribe, _consumer_key),
    pb.Command.CLOSE_CONSUMER: Row("close_consumer", command_consumer.close_consumer, _consumer_key),
    pb.Command.UNSUBSCRIBE: Row("unsubscribe", command_consumer.unsubscribe, _consumer_key),
    pb.Command.SEEK: Row("seek", command_consumer.seek, _consumer_key),
    pb.Command.GET_LAST_MESSAGE_ID: Row("get_last_message_id", command_consumer.last_message_id),
    pb.Command.CONSUMER_STATS: Row("consumer_stats", command_consumer.consumer_stats),
    pb.Command.FLOW: Row("flow", command_consumer.flow),
    pb.Command.ACK: Row("ack", command_consumer.acknowledge),
    pb.Command.REDELIVER_UNACKNOWLEDGED_MESSAGES: Row("redeliver_unacknowledged_messages", command_consumer.redeliver),
}
ACTIONS = {kind: BINARY[pb.Command.Type.Name(kind)] for kind in TABLE}
PING, PONG = int(pb.Command.PING), int(pb.Command.PONG)  # looked up for each command, and protobuf takes its time
CONNECT, AUTH_RESPONSE = int(pb.Command.CONNECT), int(pb.Command.AUTH_RESPONSE)


class Commands:
    def __init__(self, service: Broker) -> None:
        self.service = service
        self._tasks: set[asyncio.Task[None]] = set()

    def handle(self, connection: Connection, command: Command) -> None:
        """Executes a command. Raises `ProtocolError` if the peer violates the protocol; all other errors are sent as a response."""
        kind, message, size = command.kind, command.message, command.size
        if kind == PING:
            connection.send(frames.PONG)
            return
        if kind == PONG:
            return
        if command.violation is not None:
            self._refuse(connection, message, command.violation)
            return
        if kind == CONNECT:
            connection.client_version = message.connect.client_version or "unknown"
            connection.client_info = ClientInfo(connection.peer, connection.client_version)
            connection.connected_ms = self.service.now_ms()
            self._run(connection, connect(self.service, connection, message.connect), size, "handshake")
            return
        if kind == AUTH_RESPONSE:
            self._run(connection, authenticate(self.service, connection, message.auth_response), size, "handshake")
            return
        row = TABLE.get(kind)
        if row is None:
            self._unserved(connection, message)
            return
        body = getattr(message, row.field)
        action = ACTIONS[kind]
        if action is Action.SESSION:
            result = row.handler(self.service, connection, body, Resource())
            if result is not None:
                work = self._guarded(connection, kind, body, result)
                self._run(connection, work, size, row.order(body) if row.order else None, within=result)
            return
        handler = partial(row.handler, size_bytes=size + TASK_BYTES) if row.sized else row.handler
        work = self._authorised(connection, kind, body, action, handler)
        self._run(connection, work, size, row.order(body) if row.order else None)

    async def _authorised(self, connection: Connection, kind: int, body: Any, action: Action, handler: Handler) -> None:
        async def act() -> None:
            assert connection.principal is not None
            resource = resource_of(kind, body)
            await self.service.authorize(connection.principal, action, resource)
            result = handler(self.service, connection, body, resource)
            if result is not None:
                await result

        await self._guarded(connection, kind, body, act())

    async def _guarded(self, connection: Connection, kind: int, body: Any, work: Work) -> None:
        try:
            await work
        except MagnetarError as error:  # not kept in a variable: it would keep this frame, and the frame it
            self._say_no(connection, kind, body, error)
        except StoreError as error:
            self._say_no(connection, kind, body, refusal_of(error, "this cannot be done now"))
        except Exception:
            log.exception("command.failed", command=pb.Command.Type.Name(kind), peer=connection.peer)
            self._say_no(connection, kind, body, MagnetarError("an internal error occurred; see the broker's log"))

    def _say_no(self, connection: Connection, kind: int, body: Any, error: MagnetarError) -> None:
        if _answered(body):
            connection.send(refusal(kind, body, error))

    def _run(self, connection: Connection, work: Work, size: int, key: object = None, within: Work | None = None) -> None:
        """`within`: the coroutine that awaits `work`; both are closed if neither starts."""
        size += TASK_BYTES
        before = connection.requests.order.get(key) if key is not None else None
        task = asyncio.get_running_loop().create_task(_after(connection, before, work))
        task.add_done_callback(lambda done: _close(work, within))
        connection.requests.begin(size)
        self._tasks.add(task)
        task.add_done_callback(lambda done: self._done(connection, done, size))
        if key is not None:
            connection.requests.order[key] = task
            task.add_done_callback(lambda done: connection.requests.order.get(key) is done and connection.requests.order.pop(key))

    def _done(self, connection: Connection, task: asyncio.Task[None], size: int) -> None:
        self._tasks.discard(task)
        connection.requests.end(size)

    def _refuse(self, connection: Connection, command: pb.Command, error: MagnetarError) -> None:
        """A field exceeds its limit: sends an error if the request has a response, else closes the connection. Nothing was
        executed."""
        kind = command.type
        if kind in (pb.Command.CONNECT, pb.Command.AUTH_RESPONSE):
            fail(connection, error)
            return
        row = TABLE.get(kind)
        body = getattr(command, row.field) if row is not None else None
        if body is None or connection.principal is None or not _answered(body):
            raise frames.OverLimit(f"{pb.Command.Type.Name(kind)}: {error.message}")
        connection.send(refusal(kind, body, error))

    def _unserved(self, connection: Connection, command: pb.Command) -> None:
        name = pb.Command.Type.Name(command.type)
        for descriptor, value in command.ListFields():
            request_id = getattr(value, "request_id", None)
            if descriptor.name != "type" and request_id is not None:
                connection.send(frames.error(request_id, pb.NotAllowedError, f"{name} is not served by this broker"))
                return
        raise frames.ProtocolError(f"{name} is not a command that clients may send")

    async def stop(self) -> None:
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


async def _after(connection: Connection, before: asyncio.Task[None] | None, work: Work) -> None:
    """A request that waited until its connection was gone is not started: nobody would read the response."""
    if before is not None:
        await asyncio.wait([before])
        if connection.closed:
            return
    await work


def _close(work: Work, within: Work | None) -> None:
    """Closes the coroutine. Does nothing if it has ended; one that never started would cause a Python warning."""
    work.close()
    if within is not None:
        within.close()


def resource_of(kind: int, body: Any) -> Resource:
    """The resource that a command acts on, from its validated names. Raises `InvalidName`."""
    if kind in (pb.Command.GET_TOPICS_OF_NAMESPACE, pb.Command.WATCH_TOPIC_LIST):
        namespace = parse_namespace(body.namespace)
        return Resource(namespace.tenant, str(namespace))
    topic = parse_topic(body.topic)
    subscription = body.subscription if kind == pb.Command.SUBSCRIBE else ""
    return Resource(topic.tenant, str(topic.namespace), str(topic), subscription)


def refusal(kind: int, body: Any, error: MagnetarError) -> bytes:
    """The error response. Some commands have a response type of their own for errors; clients ignore a plain ERROR for these."""
    code: Any = error.wire_code
    message = error.message
    if kind == pb.Command.PARTITIONED_METADATA:
        failed = pb.PartitionedMetadataResponse.Failed
        answer = pb.PartitionedMetadataResponse(request_id=body.request_id, response=failed, error=code, message=message)
        return frames.command(pb.Command.PARTITIONED_METADATA_RESPONSE, partitioned_metadata_response=answer)
    if kind == pb.Command.LOOKUP:
        response = pb.LookupResponse(request_id=body.request_id, response=pb.LookupResponse.Failed, error=code, message=message)
        return frames.command(pb.Command.LOOKUP_RESPONSE, lookup_response=response)
    if kind == pb.Command.GET_SCHEMA:
        schema = pb.GetSchemaResponse(request_id=body.request_id, error_code=code, error_message=message)
        return frames.command(pb.Command.GET_SCHEMA_RESPONSE, get_schema_response=schema)
    if kind == pb.Command.GET_OR_CREATE_SCHEMA:
        made = pb.GetOrCreateSchemaResponse(request_id=body.request_id, error_code=code, error_message=message)
        return frames.command(pb.Command.GET_OR_CREATE_SCHEMA_RESPONSE, get_or_create_schema_response=made)
    if kind == pb.Command.CONSUMER_STATS:
        code = pb.ConsumerNotFound if isinstance(error, ConsumerNotFound) else code
        stats = pb.ConsumerStatsResponse(request_id=body.request_id, error_code=code, error_message=message)
        return frames.command(pb.Command.CONSUMER_STATS_RESPONSE, consumer_stats_response=stats)
    if kind == pb.Command.ACK:
        return command_consumer.ack_response(body.consumer_id, body.request_id, error)
    return frames.error(body.request_id, code, message)


def _answered(body: Any) -> bool:
    """Whether this request has a response that can carry an error."""
    field = body.DESCRIPTOR.fields_by_name.get("request_id")
    return field is not None and (field.is_required or body.HasField("request_id"))
