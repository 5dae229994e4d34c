"""The state of a client's connection without a socket, a loop or a clock: the handshake, the requests that wait, keep-alive. Pure.

    connecting -- CONNECTED --> ready -- the peer breaks the protocol, or is silent for too long --> failed
         \\-- ERROR --> failed

The shell hands in what arrived and the time, sends what `outgoing` holds, and acts on the events that are returned.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum, auto

from messaging.client.addresses import Address
from messaging.client.errors import from_wire
from messaging.client.wire.parser import Parser, Received
from messaging.errors import MagnetarError
from messaging.protocol import frames
from messaging.protocol import pulsar_pb2 as pb

Command = pb.Command
Answered = Callable[[pb.Command | MagnetarError], None]

# The field that carries the request id, by the type of an answer.
_ANSWERS: dict[int, str] = {
    Command.SUCCESS: "success",
    Command.ERROR: "error",
    Command.PRODUCER_SUCCESS: "producer_success",
    Command.PARTITIONED_METADATA_RESPONSE: "partitioned_metadata_response",
    Command.LOOKUP_RESPONSE: "lookup_response",
    Command.GET_LAST_MESSAGE_ID_RESPONSE: "get_last_message_id_response",
    Command.GET_TOPICS_OF_NAMESPACE_RESPONSE: "get_topics_of_namespace_response",
    Command.GET_SCHEMA_RESPONSE: "get_schema_response",
    Command.GET_OR_CREATE_SCHEMA_RESPONSE: "get_or_create_schema_response",
    Command.ACK_RESPONSE: "ack_response",
    Command.CONSUMER_STATS_RESPONSE: "consumer_stats_response",
}


# The types of answers, by those of requests; besides ERROR.
_EXPECTED: dict[int, int] = {
    Command.PRODUCER: Command.PRODUCER_SUCCESS,
    Command.SUBSCRIBE: Command.SUCCESS,
    Command.UNSUBSCRIBE: Command.SUCCESS,
    Command.SEEK: Command.SUCCESS,
    Command.CLOSE_PRODUCER: Command.SUCCESS,
    Command.CLOSE_CONSUMER: Command.SUCCESS,
    Command.ACK: Command.ACK_RESPONSE,
    Command.PARTITIONED_METADATA: Command.PARTITIONED_METADATA_RESPONSE,
    Command.LOOKUP: Command.LOOKUP_RESPONSE,
    Command.GET_LAST_MESSAGE_ID: Command.GET_LAST_MESSAGE_ID_RESPONSE,
    Command.GET_TOPICS_OF_NAMESPACE: Command.GET_TOPICS_OF_NAMESPACE_RESPONSE,
    Command.GET_SCHEMA: Command.GET_SCHEMA_RESPONSE,
}
# What the broker says of its limit is not trusted beyond it: so much of one frame would be kept in memory.
MESSAGE_BYTES_CEILING = 256 << 20


class State(Enum):
    CONNECTING = auto()
    READY = auto()
    FAILED = auto()


class Session:
    """`message_bytes_max`: the limit until the broker says its own. `keep_alive_s`: after so long a silence the peer is asked for a
    sign of life, after twice as long it counts as gone."""

    def __init__(self, message_bytes_max: int, keep_alive_s: float, now_s: float) -> None:
        self.state = State.CONNECTING
        self.outgoing: list[bytes] = []
        self.challenged = False  # the broker asks for a new token
        self._parser = Parser(message_bytes_max)
        self._keep_alive_s = keep_alive_s
        self._heard_s = now_s
        self._asked = False
        self._next_request_id = 0
        self._requests: dict[int, tuple[int, Answered]] = {}  # with the type of the answer

    @property
    def message_bytes_max(self) -> int:
        return self._parser.message_bytes_max

    # --- what we send

    def connect(self, version: str, token: str | None, broker: Address | None = None) -> None:
        """`broker`: whom the proxy that is asked shall connect to."""
        connect = pb.Connect(
            client_version=version,
            protocol_version=frames.PROTOCOL_VERSION,
            feature_flags=pb.FeatureFlags(supports_auth_refresh=True, supports_broker_entry_metadata=False),
        )
        if token is not None:
            connect.auth_method_name, connect.auth_data = "token", token.encode()
        if broker is not None:
            connect.proxy_to_broker_url = broker.host_and_port
        self.outgoing.append(frames.command(Command.CONNECT, connect=connect))

    def renew(self, version: str, token: str | None) -> None:
        """Answers a challenge with the token that is valid now."""
        self.challenged = False
        data = pb.AuthData(auth_method_name="token", auth_data=(token or "").encode())
        answer = pb.AuthResponse(client_version=version, response=data, protocol_version=frames.PROTOCOL_VERSION)
        self.outgoing.append(frames.command(Command.AUTH_RESPONSE, auth_response=answer))

    def new_request_id(self) -> int:
        self._next_request_id += 1
        return self._next_request_id

    def expect(self, request_id: int, kind: pb.Command.Type, answered: Answered) -> None:
        """`kind`: of the request. `answered` is called once, with the answer or with why there is none; of a producer that waits
        for exclusive access it is called twice."""
        self._requests[request_id] = _EXPECTED[kind], answered

    def forget(self, request_id: int) -> None:
        """An answer that comes later is ignored."""
        self._requests.pop(request_id, None)

    # --- what arrives

    def receive(self, data: bytes, now_s: float) -> list[Received]:
        """Returns what concerns producers and consumers. Raises `ProtocolError`, or the error with which the broker refuses the
        connection; the session has then failed."""
        self._heard_s, self._asked = now_s, False
        try:
            return [event for event in self._parser.receive(data) if not self._took(event.command)]
        except (frames.ProtocolError, MagnetarError):
            self.state = State.FAILED
            raise

    def _took(self, command: pb.Command) -> bool:
        kind = command.type
        if kind == Command.PING:
            self.outgoing.append(frames.PONG)
        elif kind == Command.CONNECTED:
            if self.state is not State.CONNECTING:
                raise frames.ProtocolError("the broker sent a second CONNECTED")
            self.state = State.READY
            if command.connected.max_message_size > 0:
                self._parser.message_bytes_max = min(command.connected.max_message_size, MESSAGE_BYTES_CEILING)
        elif kind == Command.AUTH_CHALLENGE:
            self.challenged = True
        elif kind in _ANSWERS:
            self._answer(command, getattr(command, _ANSWERS[kind]).request_id)
        else:
            return kind == Command.PONG
        return True

    def _answer(self, command: pb.Command, request_id: int) -> None:
        expected, answered = self._requests.pop(request_id, (command.type, None))
        if command.type == Command.ERROR:
            error = from_wire(command.error.error, command.error.message)
            if answered is None:
                if request_id == frames.UNSOLICITED or self.state is State.CONNECTING:
                    raise error
                return
            answered(error)
        elif answered is not None:
            if command.type != expected:
                self._requests[request_id] = expected, answered
                given, wanted = pb.Command.Type.Name(command.type), pb.Command.Type.Name(expected)
                raise frames.ProtocolError(f"the broker answered with {given} where {wanted} is the answer")
            if command.type == Command.PRODUCER_SUCCESS and not command.producer_success.producer_ready:
                self._requests[request_id] = expected, answered  # it waits for exclusive access; the answer comes again
            answered(command)

    # --- time

    def tick(self, now_s: float) -> bool:
        """To be called every `keep_alive_s`. Returns whether the peer counts as gone."""
        silent_s = now_s - self._heard_s
        if silent_s < self._keep_alive_s * 0.9:
            return False
        if self._asked:
            return True
        self._asked = True
        self.outgoing.append(frames.PING)
        return False

    def fail(self, error: MagnetarError) -> None:
        """The connection is gone: every request that waits is answered with `error`."""
        self.state = State.FAILED
        requests, self._requests = self._requests, {}
        for _, answered in requests.values():
            answered(error)
