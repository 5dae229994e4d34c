from __future__ import annotations

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from messaging.errors import InvalidValue
from messaging.message_id import MessageIdParts, decode_message_id, encode_message_id

ids = st.integers(-1, 2**63 - 1)
indexes = st.integers(-1, 2**31 - 1)


def test_known_texts() -> None:
    assert encode_message_id(3, 7) == "CAMQBw=="
    assert decode_message_id("CAMQBw==") == MessageIdParts(3, 7)
    assert decode_message_id("CAMQBxj///////////8BIP///////////wE=") == MessageIdParts(3, 7)


@given(ids, ids, indexes, indexes)
def test_text_and_back(ledger_id: int, entry_id: int, batch_index: int, partition: int) -> None:
    parts = MessageIdParts(ledger_id, entry_id, batch_index, partition)
    assert decode_message_id(encode_message_id(*parts)) == parts


def test_fields_of_later_versions_are_passed_over() -> None:
    later = bytes([0x08, 3, 0x10, 7, 0x30, 5, 0x3A, 2, 1, 2, 0x45, 1, 2, 3, 4, 0x49, 1, 2, 3, 4, 5, 6, 7, 8])
    assert decode_message_id(base64.b64encode(later).decode()) == MessageIdParts(3, 7)


@pytest.mark.parametrize(
    "text", ["", "CAM=", "no base64!", "CAMQBw", "é", "A" * 5000, "CA==", "CP//////////////AQ==", "CAMQBzoF", "DAMQBw=="]
)
def test_a_malformed_message_id_is_refused(text: str) -> None:
    with pytest.raises(InvalidValue, match="not a message id"):
        decode_message_id(text)


@given(st.binary(max_size=40))
def test_any_bytes_are_an_id_or_refused(data: bytes) -> None:
    try:
        parts = decode_message_id(base64.b64encode(data).decode())
    except InvalidValue:
        return
    assert all(isinstance(part, int) for part in parts)
