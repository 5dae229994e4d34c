"""HTTP as raw bytes, for peers that send malformed, incomplete or no requests."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import cast


class Peer:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    def say(self, data: bytes) -> None:
        self.writer.write(data)

    def stop_reading(self) -> None:
        cast(asyncio.Transport, self.writer.transport).pause_reading()  # those of uvloop are no instances of it

    async def gone(self, timeout_s: float = 20) -> bytes:
        """What came until the server ended the connection."""
        collected = bytearray()
        try:
            async with asyncio.timeout(timeout_s):
                while data := await self.reader.read(1 << 16):
                    collected += data
        except ConnectionError:
            pass
        return bytes(collected)

    async def status(self, timeout_s: float = 20) -> int:
        """Of the next answer; 0 if the connection ended instead."""
        try:
            line = await asyncio.wait_for(self.reader.readline(), timeout_s)
        except ConnectionError:
            return 0
        return int(line.split()[1]) if line else 0


@asynccontextmanager
async def peers(port: int, count: int, *, small_window: bool = False, tls: bool = False) -> AsyncIterator[list[Peer]]:
    """`tls`: they believe any certificate."""
    opened: list[Peer] = []
    context = _believing() if tls else None
    try:
        for _ in range(count):
            sock = socket.socket()
            if small_window:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            sock.setblocking(False)
            await asyncio.get_running_loop().sock_connect(sock, ("127.0.0.1", port))
            name = "localhost" if tls else None
            opened.append(Peer(*await asyncio.open_connection(sock=sock, limit=1 << 16, ssl=context, server_hostname=name)))
        yield opened
    finally:
        for peer in opened:
            peer.writer.transport.abort()
        await asyncio.sleep(0)


def _believing() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def get(path: str, *headers: str) -> bytes:
    lines = [f"GET {path} HTTP/1.1", "Host: localhost", *headers]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


async def ask(port: int, path: str, *, tls: bool = False) -> int:
    async with peers(port, 1, tls=tls) as [peer]:
        peer.say(get(path, "Connection: close"))
        return await peer.status()
