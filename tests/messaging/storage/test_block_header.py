"""The block header: encoding and decoding are inverse, and malformed bytes raise nothing but `ValueError`."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from messaging.storage.block_header import MARKER, BlockHeader, decode

INT64 = st.integers(-(2**63), 2**63 - 1)
HEADERS = st.builds(
    BlockHeader,
    st.integers(0, 2**64 - 1),
    st.integers(0, 2**32 - 1),
    INT64,
    INT64,
    st.binary(max_size=40),
    st.sampled_from([0, MARKER]),
    st.lists(st.tuples(st.integers(0, 255), st.binary(max_size=20)), max_size=3).map(tuple),
)


@given(HEADERS)
def test_there_and_back(header: BlockHeader) -> None:
    """Extensions that nobody knows come back as they are."""
    assert decode(header.encode()) == header


@given(HEADERS, st.data())
def test_cut_short(header: BlockHeader, data: st.DataObject) -> None:
    encoded = header.encode()
    size = data.draw(st.integers(0, len(encoded) - 1))
    try:
        cut = decode(encoded[:size])
    except ValueError:
        return
    assert cut.extensions == header.extensions[: len(cut.extensions)]  # it ends between two extensions
    assert cut._replace(extensions=()) == header._replace(extensions=())


@given(st.binary(max_size=80))
def test_garbage(garbage: bytes) -> None:
    try:
        decode(garbage)
    except ValueError:
        pass


@pytest.mark.parametrize("version", [0, 2, 255])
def test_another_version(version: int) -> None:
    with pytest.raises(ValueError, match="version"):
        decode(bytes([version]) + BlockHeader(1, 1, 0, 0, b"p").encode()[1:])
