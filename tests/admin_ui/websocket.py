"""A WebSocket client of an ASGI application, in process. (`channels.testing` cannot be imported without daphne.)"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from asgiref.testing import ApplicationCommunicator

ANSWER_S = 5


class Socket:
    def __init__(self, application: Any, path: str, headers: Sequence[tuple[bytes, bytes]] = ()) -> None:
        where, _, query = path.partition("?")
        scope = {"type": "websocket", "path": where, "query_string": query.encode(), "headers": list(headers), "subprotocols": []}
        self._communicator = ApplicationCommunicator(application, scope)

    async def connect(self) -> dict[str, Any]:
        """The answer to the handshake: websocket.accept or websocket.close."""
        await self._communicator.send_input({"type": "websocket.connect"})
        return await self.output()

    async def output(self) -> dict[str, Any]:
        message: dict[str, Any] = await self._communicator.receive_output(ANSWER_S)
        return message

    async def receive(self) -> dict[str, Any]:
        """The next JSON message."""
        message: dict[str, Any] = json.loads((await self.output())["text"])
        return message

    async def send(self, text: str) -> None:
        await self._communicator.send_input({"type": "websocket.receive", "text": text})

    async def closed(self) -> int:
        """The code that the application closes with, whatever it still says before."""
        while True:
            output = await self.output()
            if output["type"] == "websocket.close":
                code: int = output["code"]
                return code

    async def disconnect(self) -> None:
        await self._communicator.send_input({"type": "websocket.disconnect", "code": 1000})
        await self._communicator.wait(ANSWER_S)
