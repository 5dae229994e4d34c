"""A block as one add: what was appended comes back, and anything else is refused."""

from __future__ import annotations

from array import array

import pytest

from messaging.storage.bookkeeper.block_format import OVERHEAD_BYTES, decode, encode, encoded_bytes


def test_a_block_comes_back() -> None:
    payload = b"".join(encode(b"header", b"onetwo", array("I", [3, 3, 6]), 100, 90, 5000))
    assert len(payload) == encoded_bytes(b"header", 6, 3)
    stored = decode(7, 12, payload)
    block = stored.block
    assert (stored.number, stored.after_entry, stored.end_bytes, stored.size_bytes) == (12, 90, 5000, 6)
    assert (block.ledger_id, block.first_entry, block.last_entry, block.header) == (7, 100, 102, b"header")
    assert (bytes(block.data), list(block.end_offsets)) == (b"onetwo", [3, 3, 6])


def test_offsets_are_stored_least_byte_first() -> None:
    payload = b"".join(encode(b"", b"x" * 258, array("I", [258]), 0, -1, 258))
    assert payload[OVERHEAD_BYTES : OVERHEAD_BYTES + 4] == b"\x02\x01\x00\x00"


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda payload: payload[:10], "less than every block has"),
        (lambda payload: b"\x02" + payload[1:], "format 2"),
        (lambda payload: payload[:-1], "contradicts itself"),
        (lambda payload: payload + b"!", "contradicts itself"),
        (lambda payload: payload[:1] + b"\xff\xff\xff\xff" + payload[5:], "contradicts itself"),
        (lambda payload: payload[:17] + payload[9:17] + payload[25:], "contradicts itself"),
    ],
)
def test_what_is_no_block_is_refused(change: object, says: str) -> None:
    payload = b"".join(encode(b"h", b"abc", array("I", [1, 3]), 5, 4, 3))
    with pytest.raises(ValueError, match=says):
        decode(1, 0, change(payload))  # type: ignore[operator]
