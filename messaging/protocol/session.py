"""The states of a connection, from its first byte to its end, and what a peer may send in each, as one table. Pure.

    CONNECTING -- CONNECT --> AUTHENTICATING -- the broker accepts the credential --> READY
    any state -- the peer breaks the protocol, or the broker closes the connection --> CLOSED

Before it is authenticated a peer may send a few small commands, and nothing that has to wait.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import NamedTuple

from messaging.protocol import pulsar_pb2 as pb
from messaging.protocol.frames import COMMAND_BYTES_MAX, OPEN_COMMAND_BYTES_MAX, ProtocolError

EARLY_COMMANDS_MAX = 8  # before authentication: CONNECT, an auth response, and a few PINGs of a waiting client
EARLY_BYTES_MAX = COMMAND_BYTES_MAX + 1024


class State(Enum):
    CONNECTING = auto()  # nothing received yet
    AUTHENTICATING = auto()  # CONNECT received, not answered yet
    READY = auto()
    CLOSED = auto()


class Rules(NamedTuple):
    """`accepts`: the commands allowed. `command_bytes_max`: the largest frame of one. `messages`: whether messages are allowed.
    `commands_max` and `bytes_max`: limits for everything before authentication; None: no separate limit."""

    accepts: frozenset[int]
    command_bytes_max: int
    messages: bool = False
    commands_max: int | None = EARLY_COMMANDS_MAX
    bytes_max: int | None = EARLY_BYTES_MAX


ALWAYS = frozenset({pb.Command.PING, pb.Command.PONG})
RULES: dict[State, Rules] = {
    State.CONNECTING: Rules(ALWAYS | {pb.Command.CONNECT}, COMMAND_BYTES_MAX),
    State.AUTHENTICATING: Rules(ALWAYS | {pb.Command.AUTH_RESPONSE}, COMMAND_BYTES_MAX),
    State.READY: Rules(
        frozenset(pb.Command.Type.values()) - {pb.Command.CONNECT},
        OPEN_COMMAND_BYTES_MAX,
        messages=True,
        commands_max=None,
        bytes_max=None,
    ),
    State.CLOSED: Rules(frozenset(), 0),
}


class TooMuchBeforeSignIn(ProtocolError):
    reason = "too much before sign-in"


def following(state: State, kind: int) -> State:
    """The state after this command. Raises `ProtocolError` if it is not allowed in `state`."""
    if kind not in RULES[state].accepts:
        if kind == pb.Command.CONNECT:
            raise ProtocolError("a second CONNECT on one connection")
        raise ProtocolError(f"{pb.Command.Type.Name(kind)} came before CONNECT was answered")
    return State.AUTHENTICATING if kind == pb.Command.CONNECT else state
