"""A connection of a hostile peer, up to where its attack begins."""

from __future__ import annotations

import asyncio
from typing import NamedTuple

from messaging.protocol import frames
from messaging.protocol import pulsar_pb2 as pb

TOPIC = "persistent://hostile/mob/t"


class Target(NamedTuple):
    host: str
    port: int
    ws_port: int
    token: str
    data_dir: str = ""  # of the broker, for what administrators ask


class Count:
    """What came of an attack."""

    def __init__(self) -> None:
        self.done = 0
        self.cut_off = 0


async def opened(target: Target) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    return await asyncio.open_connection(target.host, target.port, limit=1 << 20)


async def answer(reader: asyncio.StreamReader) -> pb.Command:
    total = int.from_bytes(await reader.readexactly(4), "big")
    return frames.decode(await reader.readexactly(total))


def connect_frame(token: str, version: str = "hostile") -> bytes:
    body = pb.Connect(client_version=version, protocol_version=20, auth_method_name="token", auth_data=token.encode())
    return frames.command(pb.Command.CONNECT, connect=body)


async def signed_in(target: Target) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await opened(target)
    writer.write(connect_frame(target.token))
    await answer(reader)
    return reader, writer


async def consumer(target: Target, topic: str = TOPIC) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await signed_in(target)
    body = pb.Subscribe(topic=topic, subscription="s", sub_type=pb.Subscribe.Shared, consumer_id=1, request_id=1)
    writer.write(frames.command(pb.Command.SUBSCRIBE, subscribe=body))
    while (await answer(reader)).type != pb.Command.SUCCESS:
        pass
    return reader, writer
