from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from messaging.broker.http.websocket.encryption import read_keys
from messaging.broker.http.websocket.frames import (
    BAD_JSON,
    BAD_PAYLOAD,
    ConsumerCommand,
    InvalidFrame,
    end_of_topic_frame,
    message_frame,
    read_command,
    read_outgoing,
    read_position,
    receipt_frame,
    send_error_code,
    send_error_frame,
)
from messaging.broker.runtime.local.messages import DeliveredMessage, EncryptionContext, EncryptionKey, MessagePosition
from messaging.errors import AuthenticationFailed, InvalidValue, NotAuthorized, NotReady
from messaging.times import time_text

NOW_MS = 1_700_000_000_000

_ZEROS = {"errorCode": 0, "schemaVersion": 0}  # of every answer to a producer


def outgoing(**frame: Any) -> Any:
    return read_outgoing(json.dumps(frame), NOW_MS)[0]


def failure(text: str) -> InvalidFrame:
    with pytest.raises(InvalidFrame) as caught:
        read_outgoing(text, NOW_MS)
    return caught.value


def test_a_full_producer_frame() -> None:
    frame = {
        "payload": "aGVsbG8=",
        "properties": {"a": "b", "n": 3, "f": 1.5, "t": True, "gone": None},
        "context": "c-1",
        "key": "k",
        "eventTime": "2023-11-14T22:13:20.123+01:00",
        "sequenceId": 42,
        "deliverAt": 1_800_000_000_000,
        "fieldOfALaterVersion": [],
    }
    message, context = read_outgoing(json.dumps(frame), NOW_MS)
    assert (message.payload, message.key, message.sequence_id, context) == (b"hello", "k", 42, "c-1")
    assert message.properties == {"a": "b", "n": "3", "f": "1.5", "t": "true"}
    assert message.event_time_ms == 1_700_000_000_123 - 3_600_000
    assert message.deliver_at_ms == 1_800_000_000_000


def test_defaults_and_relative_delay() -> None:
    message = outgoing(payload="")
    assert (message.payload, message.properties, message.key, message.sequence_id) == (b"", {}, None, None)
    assert (message.event_time_ms, message.deliver_at_ms) == (0, 0)
    assert outgoing(payload="", deliverAfterMs=5000).deliver_at_ms == NOW_MS + 5000
    assert outgoing(payload="", eventTime="2023-11-14T22:13:20").event_time_ms == 1_700_000_000_000


def test_base64_may_lack_its_padding() -> None:
    assert outgoing(payload="aGVsbG8").payload == b"hello"


@pytest.mark.parametrize(
    ("frame", "code"),
    [
        ("", BAD_JSON),
        ("[]", BAD_JSON),
        ("null", BAD_JSON),
        ('{"payload": 3}', BAD_PAYLOAD),  # "3"
        ('{"payload": []}', BAD_JSON),
        ('{"payload": "YQ="}', BAD_PAYLOAD),
        ('{"payload": "", "eventTime": "2026-01-31"}', BAD_PAYLOAD),
        ('{"payload": "", "sequenceId": "five"}', BAD_JSON),
        ('{"payload": "", "sequenceId": "5.5"}', BAD_JSON),
        ('{"payload": "", "sequenceId": true}', BAD_JSON),
        ('{"payload": "", "disableReplication": "no"}', BAD_JSON),
        ('{"payload": "", "disableReplication": 0.5}', BAD_JSON),
        ('{"payload": "", "key": {}}', BAD_JSON),
        ('{"payload": "", "properties": []}', BAD_JSON),
        ('{"payload": "", "properties": {"a": {}}}', BAD_JSON),
        ('{"payload": "", "eventTime": "yesterday"}', BAD_PAYLOAD),
        ('{"payload": "", "deliverAt": -1}', BAD_JSON),
        ('{"payload": "", "sequenceId": 1e400}', BAD_JSON),
        ('{"payload": "", "encryptionParam": "bm9uY2U="}', BAD_JSON),
        ('{"payload": "", "replicationClusters": ["other"]}', BAD_JSON),
        ("{}", BAD_PAYLOAD),
        ('{"payload": "not base64!"}', BAD_PAYLOAD),
        ('{"payload": "aGVsbG8=aGVs"}', BAD_PAYLOAD),
        ('{"payload": "é"}', BAD_PAYLOAD),
    ],
)
def test_bad_producer_frames_have_a_code(frame: str, code: int) -> None:
    assert failure(frame).code == code


def test_an_error_keeps_the_context_where_it_could_be_read() -> None:
    assert failure('{"payload": "!", "context": "c"}').context == "c"
    assert json.loads(send_error_frame(7, "bad", "c")) == _ZEROS | {"result": "send-error:7", "errorMsg": "bad", "context": "c"}
    assert json.loads(send_error_frame(7, "bad", None)) == _ZEROS | {"result": "send-error:7", "errorMsg": "bad"}
    assert [send_error_code(kind("x")) for kind in (AuthenticationFailed, NotAuthorized, NotReady)] == [5, 6, 8]


def test_the_answer_about_the_end_of_a_topic_is_a_truth_value() -> None:
    assert json.loads(end_of_topic_frame(True)) == {"endOfTopic": True}
    assert json.loads(end_of_topic_frame(False)) == {"endOfTopic": False}


def test_receipts() -> None:
    assert json.loads(receipt_frame(MessagePosition(3, 7), "c")) == _ZEROS | {
        "result": "ok",
        "messageId": "CAMQBw==",
        "context": "c",
    }
    assert json.loads(receipt_frame(MessagePosition(3, 7), None)) == _ZEROS | {"result": "ok", "messageId": "CAMQBw=="}


def test_messages_for_consumers_and_readers() -> None:
    message = DeliveredMessage(MessagePosition(3, 7), b"hello", 1_700_000_000_123, {"a": "ü"}, "k", 1_600_000_000_000, 2)
    full = {
        "messageId": "CAMQBw==",
        "payload": "aGVsbG8=",
        "properties": {"a": "ü"},
        "publishTime": "2023-11-14T22:13:20.123Z",
        "redeliveryCount": 2,
        "key": "k",
        "eventTime": "2020-09-13T12:26:40.000Z",
    }
    assert json.loads(message_frame(message)) == full
    bare = DeliveredMessage(MessagePosition(3, 7), b"", 0)
    assert json.loads(message_frame(bare)) == {
        "messageId": "CAMQBw==",
        "payload": "",
        "properties": {},
        "publishTime": "1970-01-01T00:00:00.000Z",
        "redeliveryCount": 0,
    }


def test_a_message_without_a_value_is_not_an_empty_one() -> None:
    tombstone, empty = outgoing(payload=None, key="k"), outgoing(payload="", key="k")
    assert (tombstone.payload, tombstone.null_value) == (b"", True) and not empty.null_value
    delivered = DeliveredMessage(MessagePosition(3, 7), b"", 0, key="k", null_value=True)
    frame = json.loads(message_frame(delivered))
    assert frame["payload"] is None and frame["key"] == "k"


def test_what_decrypting_needs_comes_with_an_encrypted_message() -> None:
    """By the names and in the form that Pulsar's WebSocket proxy gives it."""
    context = EncryptionContext({"app": EncryptionKey(b"key", {"version": "1"})}, b"nonce", "AES", "LZ4", 500, 10)
    message = DeliveredMessage(MessagePosition(3, 7), b"\x00", 0, encryption=context)
    assert json.loads(message_frame(message))["encryptionContext"] == {
        "keys": {"app": {"keyValue": "a2V5", "metadata": {"version": "1"}}},
        "param": "bm9uY2U=",
        "algorithm": "AES",
        "compressionType": "LZ4",
        "uncompressedMessageSize": 500,
        "batchSize": 10,
    }


KEYS = base64.b64encode(b'{"app": {"keyValue": "a2V5", "metadata": {"version": "1"}}, "old": {"keyValue": "b2xk"}}').decode()


def test_what_a_producer_encrypted_keeps_what_decrypting_it_needs() -> None:
    keys = read_keys(KEYS)
    assert keys == {"app": EncryptionKey(b"key", {"version": "1"}), "old": EncryptionKey(b"old", {})} and read_keys("") == {}
    frame = {"payload": "AA==", "encryptionParam": "bm9uY2U=", "compressionType": "LZ4", "uncompressedMessageSize": 7}
    message, _ = read_outgoing(json.dumps(frame), NOW_MS, keys)
    assert message.encryption == EncryptionContext(keys, b"nonce", "", "LZ4", 7, None)


@pytest.mark.parametrize(
    "frame",
    [
        {"payload": ""},
        {"payload": "", "encryptionParam": "x!"},
        {"payload": "", "encryptionParam": "bm9uY2U=", "compressionType": "LZ4"},
        {"payload": "", "encryptionParam": "bm9uY2U=", "compressionType": "RAR", "uncompressedMessageSize": 1},
    ],
)
def test_frames_of_a_producer_that_encrypts_are_complete(frame: dict[str, Any]) -> None:
    with pytest.raises(InvalidFrame) as refused:
        read_outgoing(json.dumps(frame), NOW_MS, read_keys(KEYS))
    assert refused.value.code == BAD_JSON


@pytest.mark.parametrize("text", ["app", "e30=", "!", "eyJhIjoge319", "eyJhIjogeyJrZXlWYWx1ZSI6ICIifX0="])
def test_keys_that_are_only_named_are_refused(text: str) -> None:
    with pytest.raises(InvalidValue):
        read_keys(text)


def test_frames_with_too_many_values_are_not_parsed() -> None:
    many = "[" + "[]," * 10_000 + "[]]"
    assert "more than 10000 values" in str(failure('{"payload": "", "unknown": ' + many + "}"))
    with pytest.raises(InvalidFrame, match="more than 10000 values"):
        read_command('{"type": "permit", "unknown": ' + many + "}")


@given(st.integers(-(2**63), 2**64))
def test_any_time_has_a_text(time_ms: int) -> None:
    assert time_text(time_ms).endswith("Z")


def test_commands() -> None:
    assert read_command('{"type": "permit", "permitMessages": 3}').permit_messages == 3
    assert read_position(read_command('{"messageId": "CAMQBw=="}').message_id) == MessagePosition(3, 7)
    for text in ("", "[]", '"x"', "null", *(f'{{"permitMessages": {permits}}}' for permits in ('"three"', "true", 1 << 31))):
        with pytest.raises(InvalidFrame):
            read_command(text)
    for message_id in (None, "", "x"):
        with pytest.raises(InvalidFrame):
            read_position(message_id)


def test_scalars_of_another_type_are_read_as_pulsar_reads_them() -> None:
    given = """{"payload": "", "sequenceId": " 5 ", "deliverAt": 6.9, "deliverAfterMs": "", "context": 1.50, "key": 1e2,
               "properties": {"number" : 12345678901234567890, "truth": true, "none": null}, "disableReplication": 0}"""
    message, context = read_outgoing(given, NOW_MS)
    assert (message.sequence_id, message.deliver_at_ms, message.key, context) == (5, 6, "1e2", "1.50")
    assert message.properties == {"number": "12345678901234567890", "truth": "true"}
    for permits in '"3"', "3.9", '" 3 "', '"+3"':
        assert read_command(f'{{"type": "permit", "permitMessages": {permits}}}').permit_messages == 3
    assert read_command('{"type": 5, "messageId": 6}') == ConsumerCommand("5", "6")
    for truth in '"true"', '"True"', '"TRUE"', "1", "-7":
        with pytest.raises(InvalidFrame, match="replication is not supported"):
            read_outgoing(f'{{"payload": "", "disableReplication": {truth}}}', NOW_MS)


@given(st.text(), st.binary(), st.dictionaries(st.text(), st.text()), st.none() | st.text())
def test_what_a_producer_sends_arrives(text: str, payload: bytes, properties: dict[str, str], key: str | None) -> None:
    frame = {"payload": base64.b64encode(payload).decode(), "properties": properties, "key": key, "context": text}
    message, context = read_outgoing(json.dumps(frame), NOW_MS)
    assert (message.payload, message.properties, message.key, context) == (payload, properties, key, text)


@given(st.text())
def test_any_text_is_read_or_refused(text: str) -> None:
    for read in (lambda: read_outgoing(text, NOW_MS), lambda: read_command(text)):
        try:
            read()
        except InvalidFrame:
            pass


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("sequenceId", -1),
        ("sequenceId", 2**63),
        ("context", "c" * 1025),
        ("key", "k" * 65_537),
        ("properties", {"k": "v" * 65_537}),
        ("properties", {f"k{number}": "" for number in range(1001)}),
        ("eventTime", "1969-12-31T23:59:59Z"),
        ("eventTime", "2" * 65),
        ("deliverAt", -1),
        ("deliverAfterMs", 253_402_300_800_000),
    ],
)
def test_a_field_over_its_limit_is_refused_by_name(name: str, value: object) -> None:
    """A sequence id of -1 was taken, and the messages that came with it were neither stored nor answered."""
    context = {} if name == "context" else {"context": "c"}
    with pytest.raises(InvalidFrame) as caught:
        read_outgoing(json.dumps({"payload": "", **context, name: value}), NOW_MS)
    assert name in str(caught.value)
    assert caught.value.context == context.get("context")
