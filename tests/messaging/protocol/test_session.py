"""The table of the states of a connection: every command in every state, and how one leads to the next."""

from __future__ import annotations

import pytest

from messaging.protocol import pulsar_pb2 as pb
from messaging.protocol.frames import ProtocolError
from messaging.protocol.session import RULES, State, following

BEFORE = {
    State.CONNECTING: {pb.Command.CONNECT, pb.Command.PING, pb.Command.PONG},
    State.AUTHENTICATING: {pb.Command.AUTH_RESPONSE, pb.Command.PING, pb.Command.PONG},
}


@pytest.mark.parametrize("state", State)
def test_every_command_in_every_state(state: State) -> None:
    for kind in pb.Command.Type.values():
        allowed = kind in BEFORE.get(state, set()) or (state is State.READY and kind != pb.Command.CONNECT)
        if not allowed:
            with pytest.raises(
                ProtocolError, match="second CONNECT" if kind == pb.Command.CONNECT else "before CONNECT was answered"
            ):
                following(state, kind)
        elif kind == pb.Command.CONNECT:
            assert following(state, kind) is State.AUTHENTICATING
        else:
            assert following(state, kind) is state


def test_only_a_known_peer_may_send_messages_and_more_than_a_handful() -> None:
    assert [state for state in State if RULES[state].messages] == [State.READY]
    assert [state for state in State if RULES[state].commands_max is None] == [State.READY]
    assert [state for state in State if RULES[state].bytes_max is None] == [State.READY]
