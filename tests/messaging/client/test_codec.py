from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from messaging.broker.http.websocket.frames import message_frame, read_outgoing, read_position, receipt_frame, send_error_frame
from messaging.broker.runtime.local.messages import DeliveredMessage, MessagePosition
from messaging.client.codec import InvalidAnswer, decode_message, decode_receipt, encode_ack, encode_nack, encode_send
from messaging.client.errors import SendFailed
from messaging.client.message import MessageId, OutgoingMessage

times = st.integers(0, 4_000_000_000_000)


@given(
    st.binary(),
    st.none() | st.text(),
    st.dictionaries(st.text(), st.text()),
    st.none() | times,
    st.none() | times.filter(bool),
    st.none() | st.integers(0, 2**62),
)
def test_the_broker_reads_what_we_write(
    payload: bytes, key: str | None, properties: dict[str, str], event_ms: int | None, deliver_ms: int | None, sequence: int | None
) -> None:
    text = encode_send(7, OutgoingMessage(payload, key, properties, event_ms, deliver_ms), sequence)
    message, context = read_outgoing(text, 0)
    assert (message.payload, message.key, message.properties, context) == (payload, key, properties, "7")
    assert (message.event_time_ms, message.deliver_at_ms, message.sequence_id) == (event_ms or 0, deliver_ms or 0, sequence)


@given(st.binary(), st.none() | st.text(), st.dictionaries(st.text(), st.text()), times, times, st.integers(0, 99))
def test_we_read_what_the_broker_writes(
    payload: bytes, key: str | None, properties: dict[str, str], publish_ms: int, event_ms: int, count: int
) -> None:
    delivered = DeliveredMessage(MessagePosition(3, 7), payload, publish_ms, properties, key, event_ms, count)
    message = decode_message(message_frame(delivered))
    assert (message.payload, message.key, message.properties) == (payload, key, properties)
    assert (message.publish_time_ms, message.event_time_ms, message.redelivery_count) == (publish_ms, event_ms or None, count)
    assert message.id.parts == (3, 7, -1, -1) and str(message.id) == "CAMQBw=="


def test_receipts() -> None:
    receipt = decode_receipt(receipt_frame(MessagePosition(3, 7), "12"))
    assert (receipt.number, receipt.message_id, receipt.error) == (12, MessageId("CAMQBw=="), None)
    refused = decode_receipt(send_error_frame(6, "you may not", "13"))
    assert refused.number == 13 and isinstance(refused.error, SendFailed)
    assert (refused.error.message, refused.error.reason_code) == ("you may not", 6)


@pytest.mark.parametrize("text", ["", "[]", '{"result": "ok"}', '{"result": "ok", "context": "x"}', '{"endOfTopic": "true"}'])
def test_texts_that_are_no_answers_are_refused(text: str) -> None:
    with pytest.raises(InvalidAnswer):
        decode_receipt(text)


@pytest.mark.parametrize(
    "text",
    ["", "{}", '{"messageId": "a", "payload": "!", "publishTime": "x"}', '{"messageId": "a", "payload": "", "publishTime": "x"}'],
)
def test_texts_that_are_no_messages_are_refused(text: str) -> None:
    with pytest.raises(InvalidAnswer):
        decode_message(text)


def test_answers_name_the_message() -> None:
    assert read_position(json.loads(encode_ack(MessageId("CAMQBw==")))["messageId"]) == MessagePosition(3, 7)
    assert json.loads(encode_nack(MessageId("CAMQBw=="))) == {"type": "negativeAcknowledge", "messageId": "CAMQBw=="}
