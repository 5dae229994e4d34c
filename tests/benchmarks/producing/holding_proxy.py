"""A proxy before a broker that passes everything on but what is sent to one partition: that never arrives, and has no receipt.

``python -m tests.benchmarks.producing.holding_proxy BROKER_PORT SUFFIX`` prints its port. It holds what goes to topics that end in
SUFFIX, and says its own address in answers to lookups.
"""

from __future__ import annotations

import asyncio
import sys

from messaging.protocol import frames
from messaging.protocol import pulsar_pb2 as pb

Command = pb.Command


class Proxy:
    def __init__(self, broker_port: int, suffix: str) -> None:
        self._broker_port = broker_port
        self._suffix = suffix
        self._url = ""

    async def run(self) -> None:
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        self._url = f"pulsar://127.0.0.1:{port}"
        print(port, flush=True)
        await server.serve_forever()

    async def _serve(self, client_in: asyncio.StreamReader, client_out: asyncio.StreamWriter) -> None:
        broker_in, broker_out = await asyncio.open_connection("127.0.0.1", self._broker_port)
        try:
            await asyncio.gather(self._there(client_in, broker_out), self._back(broker_in, client_out))
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            client_out.close()
            broker_out.close()

    async def _there(self, source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        held: set[int] = set()
        while True:
            frame = await _frame(source)
            command = frames.decode(frame[4:])
            if command.type == Command.PRODUCER and command.producer.topic.endswith(self._suffix):
                held.add(command.producer.producer_id)
            if command.type != Command.SEND or command.send.producer_id not in held:
                target.write(frame)
                await target.drain()

    async def _back(self, source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        while True:
            frame = await _frame(source)
            if len(frame) < 1000 and frame[9:10] == bytes([Command.LOOKUP_RESPONSE]):  # size | size | 08 type
                command = frames.decode(frame[4:])
                if command.lookup_response.broker_service_url:
                    command.lookup_response.broker_service_url = self._url
                frame = frames.encode(command)
            target.write(frame)
            await target.drain()


async def _frame(source: asyncio.StreamReader) -> bytes:
    head = await source.readexactly(4)
    return head + await source.readexactly(int.from_bytes(head, "big"))


if __name__ == "__main__":
    asyncio.run(Proxy(int(sys.argv[1]), sys.argv[2]).run())
