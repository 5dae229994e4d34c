"""Addresses, the parser, and the state of a connection, without a socket."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from messaging.client.addresses import Address, parse_addresses
from messaging.client.backoff import Backoff, retryable
from messaging.client.errors import (
    AuthenticationFailed,
    Closed,
    ConnectionLost,
    InvalidValue,
    KeyUnavailable,
    NotAuthorized,
    NotReady,
    ProducerBusy,
    SendFailed,
    SendTimedOut,
    TopicNotFound,
    from_wire,
    may_be_stored,
    whose_fault,
)
from messaging.client.wire.parser import Parser
from messaging.client.wire.session import Session, State
from messaging.errors import MagnetarError
from messaging.protocol import frames
from messaging.protocol import pulsar_pb2 as pb
from messaging.protocol.frames import ProtocolError

Command = pb.Command
CONNECTED = frames.command(Command.CONNECTED, connected=pb.Connected(server_version="x", max_message_size=1000))


# --- addresses


def test_service_urls() -> None:
    assert parse_addresses("pulsar://h") == (Address("pulsar", "h", 6650),)
    assert parse_addresses("pulsar+ssl://a:1,b:2") == (Address("pulsar+ssl", "a", 1), Address("pulsar+ssl", "b", 2))
    assert str(parse_addresses("wss://h/broker/")[0]) == "wss://h:443/broker/ws/v2/binary"
    assert str(parse_addresses("pulsar://[::1]:7")[0]) == "pulsar://[::1]:7"


@pytest.mark.parametrize(
    "url", ["", "h:6650", "http://h", "pulsar://", "pulsar://h:x", "pulsar://h/path", "ws://h?a=b", "ws://u@h"]
)
def test_what_is_no_service_url_is_refused(url: str) -> None:
    with pytest.raises(InvalidValue, match="service URL"):
        parse_addresses(url)


# --- the parser


def deliveries() -> bytes:
    message = frames.command(Command.MESSAGE, message=pb.Message(consumer_id=1, message_id=pb.MessageId(ledger_id=1, entry_id=2)))
    body = message[4:] + b"payload"
    return len(body).to_bytes(4, "big") + body + frames.PING


@given(st.lists(st.integers(1, 40), max_size=30))
def test_frames_are_the_same_however_they_arrive(cuts: list[int]) -> None:
    data, parser, events, at = deliveries() * 3, Parser(1000), [], 0
    for size in cuts:
        events.extend(parser.receive(data[at : at + size]))
        at += size
    events.extend(parser.receive(data[at:]))
    assert [(event.command.type, event.rest) for event in events] == [(Command.MESSAGE, b"payload"), (Command.PING, b"")] * 3


@given(st.binary(max_size=100))
def test_any_bytes_are_frames_or_an_error(data: bytes) -> None:
    try:
        Parser(1000).receive(data)
    except ProtocolError:
        pass


def test_a_frame_is_refused_by_its_size_before_it_is_there() -> None:
    with pytest.raises(ProtocolError, match="2000000000 bytes"):
        Parser(1000).receive((2_000_000_000).to_bytes(4, "big"))


# --- the session


def ready() -> Session:
    session = Session(5 << 20, keep_alive_s=30, now_s=0.0)
    session.receive(CONNECTED, 0.0)
    return session


def test_the_handshake_says_the_token_and_takes_the_limit_of_the_broker() -> None:
    session = Session(5 << 20, keep_alive_s=30, now_s=0.0)
    session.connect("test", "secret")
    connect = frames.decode(session.outgoing.pop()[4:]).connect
    assert (connect.auth_method_name, connect.auth_data) == ("token", b"secret")
    assert session.receive(CONNECTED, 0.0) == []
    assert session.state is State.READY and session.message_bytes_max == 1000
    with pytest.raises(ProtocolError, match="second CONNECTED"):
        session.receive(CONNECTED, 0.0)
    assert session.state is State.FAILED


def test_a_refused_handshake_raises_the_error_of_the_broker() -> None:
    session = Session(5 << 20, keep_alive_s=30, now_s=0.0)
    with pytest.raises(AuthenticationFailed, match="who are you"):
        session.receive(frames.error(frames.UNSOLICITED, 3, "who are you"), 0.0)
    assert session.state is State.FAILED


def test_answers_find_their_requests_and_strangers_are_ignored() -> None:
    session = ready()
    answers: list[Any] = []
    first, second = session.new_request_id(), session.new_request_id()
    session.expect(first, Command.LOOKUP, answers.append)
    session.expect(second, Command.SUBSCRIBE, answers.append)
    session.receive(frames.success(second) + frames.error(first, 11, "gone") + frames.success(first) + frames.success(99), 1.0)
    assert answers[0].type == Command.SUCCESS and isinstance(answers[1], TopicNotFound) and len(answers) == 2


def test_a_producer_that_waits_for_exclusive_access_is_answered_twice() -> None:
    session = ready()
    answers: list[Any] = []
    number = session.new_request_id()
    session.expect(number, Command.PRODUCER, answers.append)
    for is_ready in (False, True, True):
        success = pb.ProducerSuccess(request_id=number, producer_name="p", producer_ready=is_ready)
        session.receive(frames.command(Command.PRODUCER_SUCCESS, producer_success=success), 1.0)
    assert [answer.producer_success.producer_ready for answer in answers] == [False, True]


def test_a_lost_connection_answers_every_request() -> None:
    session = ready()
    answers: list[Any] = []
    session.expect(session.new_request_id(), Command.SEEK, answers.append)
    session.fail(ConnectionLost("gone"))
    session.fail(ConnectionLost("again"))
    assert [str(answer) for answer in answers] == ["gone"]


def test_keep_alive_asks_a_silent_peer_and_then_counts_it_as_gone() -> None:
    session = ready()
    assert not session.tick(10.0) and session.outgoing == []
    assert not session.tick(30.0) and session.outgoing == [frames.PING]
    session.receive(frames.PONG, 31.0)
    assert not session.tick(60.0)
    assert session.tick(90.0)


def test_a_ping_is_answered_and_a_challenge_noticed() -> None:
    session = ready()
    session.receive(frames.PING + frames.command(Command.AUTH_CHALLENGE, auth_challenge=pb.AuthChallenge()), 1.0)
    assert session.outgoing == [frames.PONG] and session.challenged
    session.renew("test", "new")
    assert frames.decode(session.outgoing[1][4:]).auth_response.response.auth_data == b"new" and not session.challenged


# --- errors and retries


def test_delays_double_up_to_the_longest_and_begin_again_after_success() -> None:
    backoff = Backoff(lambda: 1.0, initial_s=1, max_s=10)
    assert [backoff.next_delay_s() for _ in range(6)] == [1, 2, 4, 8, 10, 10]
    backoff.reset()
    assert backoff.next_delay_s() == 1
    assert Backoff(lambda: 0.0, initial_s=1).next_delay_s() == 0.5


def test_what_is_tried_again() -> None:
    assert retryable(NotReady(""), opened_before=False) and retryable(ConnectionLost(""), opened_before=False)
    assert not retryable(ProducerBusy(""), opened_before=False) and retryable(ProducerBusy(""), opened_before=True)
    assert not retryable(NotAuthorized(""), opened_before=True)


def test_errors_say_whose_fault_they_are_and_whether_the_message_may_be_stored() -> None:
    def caused(error: MagnetarError, cause: MagnetarError) -> MagnetarError:
        error.__cause__ = cause
        return error

    assert whose_fault(InvalidValue("")) == "caller" and whose_fault(NotAuthorized("")) == "caller"
    assert whose_fault(TopicNotFound("")) == "refused"
    assert whose_fault(NotReady("")) == "broker"
    assert whose_fault(ConnectionLost("")) == whose_fault(SendTimedOut("")) == "network"
    assert whose_fault(caused(SendFailed(""), from_wire(8, ""))) == "refused"
    assert whose_fault(caused(Closed(""), NotAuthorized(""))) == "caller"
    no_key = caused(ConnectionLost(""), KeyUnavailable(""))
    assert whose_fault(no_key) == whose_fault(caused(SendTimedOut(""), no_key)) == "caller"
    assert whose_fault(caused(SendTimedOut(""), ConnectionLost(""))) == "network"
    assert may_be_stored(SendTimedOut("", written=True)) and not may_be_stored(SendTimedOut("", written=False))
    assert may_be_stored(Closed("", written=True)) and not may_be_stored(SendFailed(""))
