"""All connections of a client, by address, and the lookup of topics over them."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Iterator

from messaging.client.addresses import Address, parse_addresses
from messaging.client.errors import from_wire
from messaging.client.failures import ConnectionLost, Unreachable
from messaging.client.wire.connection import Connection, Token
from messaging.client.wire.transports import Connector
from messaging.errors import InvalidValue, MagnetarError, NotFound, NotReady, PlatformError
from messaging.protocol import pulsar_pb2 as pb

REDIRECTS_MAX = 20
PARTITIONS_MAX = 100_000  # of one topic: for each of them there is a producer or consumer
Command = pb.Command


class Connections:
    """One connection for each broker, to it or through a proxy.

    Over WebSockets there is only the service URL: the gateway is in a broker, which serves the topic itself, or passes a connection
    on to the broker that its answer to a lookup names."""

    def __init__(
        self,
        url: str,
        token: Token,
        connect: Connector,
        wall_ms: Callable[[], int],
        *,
        message_bytes_max: int,
        keep_alive_s: float,
        timeout_s: float,
    ) -> None:
        self.service = parse_addresses(url)
        self.timeout_s = timeout_s
        self._token = token
        self._connect = connect
        self._wall_ms = wall_ms
        self._message_bytes_max = message_bytes_max
        self._keep_alive_s = keep_alive_s
        self._opening: dict[tuple[Address, Address | None], asyncio.Task[Connection]] = {}
        self._turn: Iterator[Address] = itertools.cycle(self.service)
        self.closed = False

    async def to_service(self) -> Connection:
        """To any of the hosts of the service URL: the first that answers."""
        return await self._through_service(None)

    async def _through_service(self, broker: Address | None) -> Connection:
        for _ in self.service[1:]:
            try:
                return await self.to(next(self._turn), broker)
            except PlatformError:
                continue
        return await self.to(next(self._turn), broker)

    async def to(self, address: Address, broker: Address | None = None) -> Connection:
        """`broker`: whom the proxy at `address` shall connect to; None: `address` is no proxy, or the proxy shall answer itself.
        Those who ask meanwhile share the attempt. Raises `Unreachable`, or the error with which the broker refuses."""
        if self.closed:
            raise ConnectionLost("the client is closed")
        broker = None if broker == address else broker
        task = self._opening.get((address, broker))
        if task is not None and task.done() and (task.cancelled() or task.exception() or not task.result().usable):
            task = None
        if task is None:
            task = asyncio.create_task(self._open(address, broker), name=f"magnetar connect {broker or address}")
            self._opening[address, broker] = task
            task.add_done_callback(_look)
        return await asyncio.shield(task)

    async def _open(self, address: Address, broker: Address | None) -> Connection:
        connection = Connection(
            address,
            broker,
            self._token,
            self._wall_ms,
            message_bytes_max=self._message_bytes_max,
            keep_alive_s=self._keep_alive_s,
            timeout_s=self.timeout_s,
        )
        await connection.open(self._connect)
        return connection

    @property
    def usable(self) -> int:
        """How many are."""
        done = [task for task in self._opening.values() if task.done() and not task.cancelled() and task.exception() is None]
        return sum(task.result().usable for task in done)

    def forked(self) -> None:
        """In a new process: nothing of it is closed here."""
        self.closed = True
        for task in self._opening.values():
            if task.done() and not task.cancelled() and task.exception() is None:
                task.result().forked()
        self._opening = {}

    async def close(self) -> None:
        """Cancelled, it ends all connections at once."""
        self.closed = True
        opening, self._opening = self._opening, {}
        connections = []
        for task in opening.values():
            if not task.done():
                task.cancel()
            elif not task.cancelled() and task.exception() is None:
                connections.append(task.result())
        try:
            await asyncio.gather(*opening.values(), *(connection.close() for connection in connections), return_exceptions=True)
        finally:
            for connection in connections:
                connection.fail(ConnectionLost("the client is closed"))

    # --- lookups

    async def partitions(self, topic: str) -> int:
        """0: the topic has none."""
        connection = await self.to_service()
        request = pb.PartitionedMetadata(topic=topic, request_id=0)
        command = await connection.request(Command.PARTITIONED_METADATA, "partitioned_metadata", request)
        answer = command.partitioned_metadata_response
        if answer.response == pb.PartitionedMetadataResponse.Failed:
            raise from_wire(answer.error, answer.message)
        if answer.partitions > PARTITIONS_MAX:
            what = f"the broker says that {topic} has {answer.partitions} partitions"
            raise Unreachable(f"{what}; at most {PARTITIONS_MAX} are opened")
        return answer.partitions

    async def lookup(self, topic: str) -> Connection:
        """A connection to the broker that serves the topic. A broker that cannot answer now, since it is cut off from the others,
        says so: then the next one of the service URL is asked."""
        for _ in self.service[1:]:
            try:
                return await self._lookup_from(await self.to_service(), topic)
            except NotReady:
                continue
        return await self._lookup_from(await self.to_service(), topic)

    async def _lookup_from(self, connection: Connection, topic: str) -> Connection:
        authoritative = False
        for _ in range(REDIRECTS_MAX):
            request = pb.Lookup(topic=topic, request_id=0, authoritative=authoritative)
            answer = (await connection.request(Command.LOOKUP, "lookup", request)).lookup_response
            if answer.response == pb.LookupResponse.Failed:
                raise from_wire(answer.error, answer.message)
            if self.service[0].web_socket and not answer.proxy_through_service_url:
                return connection
            if answer.response == pb.LookupResponse.Connect and answer.proxy_through_service_url:
                return await self._through_service(self._named(answer))
            connection = await self.to(self._named(answer))
            if answer.response == pb.LookupResponse.Connect:
                return connection
            authoritative = answer.authoritative
        raise Unreachable(f"the lookup of {topic} was redirected more than {REDIRECTS_MAX} times")

    def _named(self, answer: pb.LookupResponse) -> Address:
        # Over WebSockets it is a name, by which the gateway knows the broker.
        tls = self.service[0].tls and not self.service[0].web_socket
        url = answer.broker_service_url_tls if tls else answer.broker_service_url
        if not url:
            raise Unreachable("the broker that serves the topic has no address for this kind of connection")
        try:
            address = parse_addresses(url)[0]
        except InvalidValue:
            raise Unreachable(f"the broker names an address of another one that is none: {url[:200]!r}") from None
        if tls and not address.tls:
            raise Unreachable(f"the broker names {address}: whoever connected with TLS gives no key to an address without")
        return address

    async def schema(self, topic: str) -> pb.Schema | None:
        """The newest of the topic; None if it has none, or does not exist."""
        connection = await self.lookup(topic)
        command = await connection.request(Command.GET_SCHEMA, "get_schema", pb.GetSchema(topic=topic, request_id=0))
        answer = command.get_schema_response
        if answer.HasField("error_code"):
            error = from_wire(answer.error_code, answer.error_message)
            if isinstance(error, NotFound):
                return None
            raise error
        return answer.schema

    async def topics_of(self, namespace: str, *, persistent: bool) -> list[str]:
        """All topics of a namespace, each partition on its own."""
        mode = pb.GetTopicsOfNamespace.PERSISTENT if persistent else pb.GetTopicsOfNamespace.NON_PERSISTENT
        request = pb.GetTopicsOfNamespace(request_id=0, namespace=namespace, mode=mode)
        connection = await self.to_service()
        command = await connection.request(Command.GET_TOPICS_OF_NAMESPACE, "get_topics_of_namespace", request)
        return list(command.get_topics_of_namespace_response.topics)


def _look(task: asyncio.Task[Connection]) -> None:
    """Whoever waits for the attempt is told; it may be that nobody waits any more."""
    if not task.cancelled():
        error = task.exception()
        assert error is None or isinstance(error, Exception | MagnetarError)
