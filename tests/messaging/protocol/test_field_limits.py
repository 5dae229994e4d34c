"""Each limit of the table is enforced for each field of each command: one over it is refused by name, exactly at it is taken."""

from __future__ import annotations

from typing import Any

import pytest
from google.protobuf.descriptor import FieldDescriptor

from messaging.protocol import pulsar_pb2 as pb
from messaging.protocol.batch import implausible
from messaging.protocol.field_limits import over_limit, plan_of
from tests.support.clients.commands import Path, at_and_over, client_bodies, empty, limit_at, paths, put

CASES = [
    (body, path, what, at, over)
    for body in client_bodies()
    for path in paths(body.message_type)  # type: ignore[arg-type]
    if (limit := limit_at(path)) is not None and body.name != "send"
    for what, at, over in at_and_over(path[-1], limit)
]


def made(body: FieldDescriptor, path: Path, value: Any) -> pb.Command:
    command = empty(body)
    put(getattr(command, body.name), path, value)
    return pb.Command.FromString(command.SerializeToString())


@pytest.mark.parametrize(
    ("body", "path", "what", "at", "over"),
    CASES,
    ids=[".".join((case[0].name, *(field.name for field in case[1]), case[2])) for case in CASES],
)
def test_a_value_over_the_limit_is_refused_and_exactly_at_it_is_not(
    body: FieldDescriptor, path: Path, what: str, at: Any, over: Any
) -> None:
    assert over_limit(made(body, path, at)) is None
    error = over_limit(made(body, path, over))
    limit = limit_at(path)
    assert limit is not None and type(error) is limit.error
    assert error is not None and path[-1].name in error.message.replace("]", "").split(" ")[0]
    assert any(f"{number}" in error.message for number in limit[1:6] if number is not None)


def test_every_kind_of_command_with_texts_has_cases() -> None:
    assert {case[0].name for case in CASES} >= {"connect", "subscribe", "producer", "lookup", "ack", "get_or_create_schema"}
    assert len(CASES) > 60


@pytest.mark.parametrize("name", ["producer", "subscribe"])
def test_a_schema_of_hundreds_of_fields_is_taken(name: str) -> None:
    """A Protobuf schema lists its fields in one property, `__PARSING_INFO__`: with 80 of them that is more than labels have."""
    (body,) = (path for path in client_bodies() if path.name == name)
    command = empty(body)
    schema = getattr(command, name).schema
    schema.name, schema.type, schema.schema_data = "Order", 3, bytes(100_000)
    schema.properties.add(key="__PARSING_INFO__", value="x" * 100_000)
    assert over_limit(command) is None


def test_small_commands_are_not_looked_into() -> None:
    """What the hot commands cost: they are smaller than the smallest limit in them."""
    assert plan_of(pb.Ack.DESCRIPTOR).looked_at_bytes >= 2000
    assert plan_of(pb.RedeliverUnacknowledgedMessages.DESCRIPTOR).looked_at_bytes >= 2000
    assert not plan_of(pb.Flow.DESCRIPTOR).checks


@pytest.mark.parametrize(
    ("numbers", "named"),
    [
        ((2**63 - 1, 0, 1), None),
        ((2**63, 0, 1), "sequence_id"),
        ((0, 2**63, 1), "highest_sequence_id"),
        ((0, 0, 0), "num_messages"),
        ((0, 0, 131_073), "num_messages"),
        ((0, 0, 2**31 - 1), "num_messages"),
    ],
)
def test_the_numbers_of_a_send_have_limits(numbers: tuple[int, int, int], named: str | None) -> None:
    wrong = implausible(*numbers, bytes(10 << 20), 5 << 20)
    assert wrong is None if named is None else wrong is not None and wrong.startswith(f"{named} is ")


def stored(count: int, payload: bytes, **metadata: Any) -> bytes:
    head = pb.Metadata(producer_name="p", sequence_id=0, publish_time=0, num_messages_in_batch=count, **metadata)
    body = head.SerializeToString()
    return len(body).to_bytes(4, "big") + body + payload


def test_a_batch_holds_what_its_payload_can() -> None:
    assert implausible(0, 0, 100, stored(100, bytes(600)), 5 << 20) is None
    assert implausible(0, 0, 200, stored(200, bytes(600)), 5 << 20) == "num_messages is 200; 600 bytes hold at most 100"
    assert implausible(0, 0, 100_000, stored(100_000, bytes(459)), 5 << 20) is not None


def test_a_compressed_batch_holds_what_it_declares_up_to_what_the_broker_would_open() -> None:
    small = stored(100_000, bytes(459), compression=pb.ZSTD, uncompressed_size=600_000)
    assert implausible(0, 0, 100_000, small, 5 << 20) is None
    lying = stored(100_000, bytes(459), compression=pb.ZSTD, uncompressed_size=599_999)
    assert implausible(0, 0, 100_000, lying, 5 << 20) is not None
    beyond = stored(100_000, bytes(459), compression=pb.ZSTD, uncompressed_size=2**32 - 1)
    assert implausible(0, 0, 100_000, beyond, 100_000) is not None, "more than four of the largest messages"


def test_metadata_that_cannot_be_read_declares_nothing() -> None:
    assert implausible(0, 0, 2, b"\0\0\0\x01\xff", 5 << 20) is not None


TEXTS = [
    (body, path)
    for body in client_bodies()
    for path in paths(body.message_type)  # type: ignore[arg-type]
    if path[-1].type == FieldDescriptor.TYPE_STRING and body.name != "send"
]


@pytest.mark.parametrize(
    ("body", "path"), TEXTS, ids=[".".join((where[0].name, *(field.name for field in where[1]))) for where in TEXTS]
)
def test_bytes_that_are_no_text_are_refused_as_such(body: FieldDescriptor, path: Path) -> None:
    """Protobuf takes them, and every reader of the field met bytes where it expected a text."""
    data = made(body, path, "text").SerializeToString()
    error = over_limit(pb.Command.FromString(data.replace(b"text", b"te\xfft")))
    assert error is not None and "is not a text in UTF-8: b'te\\xfft'" in error.message


def test_the_body_that_is_acted_on_is_looked_at_whatever_other_bodies_there_are() -> None:
    """The first body of a command was looked at, and the one that its type names was not."""
    command = pb.Command(type=pb.Command.SUBSCRIBE, connect=pb.Connect(client_version="a client"))
    about = pb.Subscribe(topic="t" * 100_000, subscription="s", sub_type=pb.Subscribe.Exclusive, consumer_id=1, request_id=1)
    command.subscribe.CopyFrom(about)
    error = over_limit(command)
    assert error is not None and "topic" in error.message


def test_commands_that_only_brokers_send_are_not_looked_at() -> None:
    assert over_limit(pb.Command(type=pb.Command.CONNECTED, connected=pb.Connected(server_version="v" * 10_000))) is None
