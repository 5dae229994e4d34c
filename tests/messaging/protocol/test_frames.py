"""Commands through protobuf, stored payloads, and the vectors that were seen on the wire of stock clients."""

from __future__ import annotations

import importlib.util

import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from messaging.protocol import frames, generate
from messaging.protocol import pulsar_pb2 as pb
from messaging.protocol.frames import ProtocolError
from tests.messaging.protocol.frame_bytes import varint


@pytest.mark.parametrize(
    ("frame", "text"),
    [
        (frames.PING, "00000009 00000005 0812 920100"),
        (frames.PONG, "00000009 00000005 0813 9a0100"),
        (
            frames.command(pb.Command.CONNECT, connect=pb.Connect(client_version="t", protocol_version=20)),
            "0000000d 00000009 08021205 0a01742014",
        ),
    ],
)
def test_vectors_of_whole_frames(frame: bytes, text: str) -> None:
    assert frame == bytes.fromhex(text)


def test_the_checksum_is_castagnoli() -> None:
    assert crc32c(b"123456789") == 0xE3069283


@pytest.mark.parametrize(
    ("names", "hashed"),
    [
        ([], "00000000"),
        (["persistent://public/default/a"], "e4a876e3"),
        (["persistent://public/default/b", "persistent://public/default/a"], "c7559e98"),
    ],
)
def test_hash_of_a_topic_list(names: list[str], hashed: str) -> None:
    assert frames.topics_hash(names) == hashed


def test_the_body_of_a_command_has_the_number_of_its_type() -> None:
    """The protocol's own rule, and what the table of commands relies on."""
    for field in pb.Command.DESCRIPTOR.fields:
        if field.name != "type":
            assert pb.Command.Type.Name(field.number) == field.name.upper()


@pytest.mark.parametrize(
    "command",
    [
        pb.Command(),
        pb.Command(type=pb.Command.LOOKUP, lookup=pb.Lookup(topic="t")),
        pb.Command(
            type=pb.Command.ACK, ack=pb.Ack(consumer_id=1, ack_type=pb.Ack.Individual, message_id=[pb.MessageId(ledger_id=1)])
        ),
    ],
)
def test_a_command_that_lacks_something_is_refused(command: pb.Command) -> None:
    body = command.SerializePartialToString()
    with pytest.raises(ProtocolError, match="lacks"):
        frames.decode(len(body).to_bytes(4, "big") + body)


@given(st.binary(max_size=100))
def test_decoding_garbage_raises_nothing_else(garbage: bytes) -> None:
    for frame in (garbage, len(garbage).to_bytes(4, "big") + garbage, b"\xff\xff\xff\xff" + garbage):
        try:
            command = frames.decode(frame)
        except ProtocolError:
            continue
        assert command.IsInitialized()
        assert frames.encode(command)


def test_a_command_larger_than_its_frame() -> None:
    with pytest.raises(ProtocolError, match="does not fit"):
        frames.decode((6).to_bytes(4, "big") + b"\x08\x12\x92\x01\x00")


@pytest.mark.parametrize("kind", [0, 1, 41, 70, 81, 2**31 - 1])
def test_a_command_of_an_unknown_type_is_refused(kind: int) -> None:
    body = b"\x08" + varint(kind)
    with pytest.raises(ProtocolError):
        frames.decode(len(body).to_bytes(4, "big") + body)


@pytest.mark.parametrize("checksum", [True, False])
@given(st.binary(max_size=50))
def test_a_stored_payload_taken_apart(checksum: bool, payload: bytes) -> None:
    metadata = pb.Metadata(producer_name="p", sequence_id=1, publish_time=2)
    send = frames.build_send(1, 1, metadata, payload)
    stored = send[8 + int.from_bytes(send[4:8], "big") :]
    parsed = frames.parse_stored(memoryview(stored if checksum else stored[6:]))
    assert parsed == (metadata, payload)


@given(st.binary(max_size=60), st.booleans())
def test_a_stored_payload_of_garbage(garbage: bytes, checksum: bool) -> None:
    try:
        parsed = frames.parse_stored(b"\x0e\x01" + garbage if checksum else garbage)
    except ProtocolError:
        return
    assert len(parsed.payload) <= len(garbage)


@pytest.mark.parametrize(("partition", "text"), [(-1, ""), (0, "1800"), (1, "1801"), (300, "18ac02")])
def test_the_tail_of_a_message_id(partition: int, text: str) -> None:
    assert frames.message_id_tail(partition).hex() == text


def test_errors_carry_code_and_request() -> None:
    command = frames.decode(frames.error(7, pb.ServiceNotReady, "why")[4:])
    assert command.type == pb.Command.ERROR
    assert (command.error.request_id, command.error.error, command.error.message) == (7, pb.ServiceNotReady, "why")


def test_generated_code_is_that_of_the_schema() -> None:
    if importlib.util.find_spec("grpc_tools") is None:
        pytest.skip('the protobuf compiler is not installed: pip install -c constraints.txt -e ".[test]"')
    for target, text in generate.generated().items():
        assert (generate.ROOT / target).read_text() == text, f"{target} is old: run python -m messaging.protocol.generate"
