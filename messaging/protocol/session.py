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

EARLY_COMMANDS_MAX = 8  # before sign-in: CONNECT, an answer to a challenge, and a few PINGs of a client that waits
EARLY_BYTES_MAX = COMMAND_BYTES_MAX + 1024


class State(Enum):
    CONNECTING = auto()  # nothing was said yet
    AUTHENTICATING = auto()  # CONNECT came and is not answered yet
    READY = auto()
    CLOSED = auto()


class Rules(NamedTuple):
    """`accepts`: the commands that may come. `command_bytes_max`: the largest frame of one. `messages`: whether messages may come.
    `commands_max` and `bytes_max`: of all that comes before the peer is known; None: without a bound of their own."""

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
    """The state after this command. Raises `ProtocolError` for one that may not come in `state`."""
    if kind not in RULES[state].accepts:
        if kind == pb.Command.CONNECT:
            raise ProtocolError("a second CONNECT on one connection")
        raise ProtocolError(f"{pb.Command.Type.Name(kind)} came before CONNECT was answered")
    return State.AUTHENTICATING if kind == pb.Command.CONNECT else state
