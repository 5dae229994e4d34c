"""What a WebSocket client of the tests does by hand: raw frames, and the reason of a close."""

from __future__ import annotations

import asyncio

import pytest
import websockets


async def close_of(connection: websockets.ClientConnection) -> tuple[int, str]:
    """Code and reason of the server's close frame, after whatever it still sends."""
    with pytest.raises(websockets.ConnectionClosed) as caught:
        async with asyncio.timeout(10):
            while True:
                await connection.recv()
    assert caught.value.rcvd is not None, "no close frame"
    return caught.value.rcvd.code, caught.value.rcvd.reason


def masked_text_frame(text: str) -> bytes:
    data = text.encode()
    assert len(data) < 126
    return bytes([0x81, 0x80 | len(data), 0, 0, 0, 0]) + data
