"""Frames of the WebSocket API field by field, as one client after the other sends its own.

What a client hears is a JSON object with the fields that are there; texts and figures that differ from run to run are there as
classes. A close frame is ``["closed", code]``, a refused upgrade ``["refused", status]``, and silence is ``"silence"``.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable
from contextlib import ExitStack
from datetime import datetime
from typing import Any
from urllib.parse import quote, urlencode

from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect

from messaging.message_id import decode_message_id
from tests.compat.scenarios.values import PATIENCE
from tests.compat.scenarios.world import Outcome, World, topic_path

WAIT_S = 10.0
SILENCE_S = 0.5
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?([+-]\d\d:\d\d|Z)")


class FrameClient:
    """One WebSocket. `refused` is the status with which its upgrade was refused, if it was."""

    def __init__(self, frames: Frames, url: str, headers: dict[str, str]) -> None:
        self._frames = frames
        self._connection: ClientConnection | None = None
        self._open = ExitStack()
        try:
            connecting = connect(url, additional_headers=headers, open_timeout=WAIT_S, max_size=None, proxy=None)
            self._connection = self._open.enter_context(connecting)
        except InvalidStatus as error:
            frames.heard.append(["refused", error.response.status_code])

    def say(self, frame: Any) -> None:
        """`frame`: JSON values, or a text as it is."""
        assert self._connection is not None, "refused"
        try:
            self._connection.send(frame if isinstance(frame, str) else json.dumps(frame))
        except ConnectionClosed:
            pass  # hearing says so

    def ask(self, frame: Any) -> None:
        self.say(frame)
        self.hear()

    def hear(self, count: int = 1) -> Any:
        """Records the next frames; the last of them as it came."""
        assert self._connection is not None, "refused"
        last: Any = None
        for _ in range(count):
            try:
                last = json.loads(self._connection.recv(WAIT_S))
                self._frames.heard.append(self._frames.plain(last))
            except ConnectionClosed as closed:
                self._frames.heard.append(["closed", closed.rcvd.code if closed.rcvd else None])
                break
        return last

    def hear_nothing(self) -> None:
        """Records that nothing comes, or what does."""
        assert self._connection is not None, "refused"
        try:
            self._frames.heard.append(self._frames.plain(json.loads(self._connection.recv(SILENCE_S * PATIENCE.get(1)))))
        except TimeoutError:
            self._frames.heard.append("silence")
        except ConnectionClosed as closed:
            self._frames.heard.append(["closed", closed.rcvd.code if closed.rcvd else None])

    def close(self) -> None:
        self._open.close()


class Frames:
    """The clients of a scenario and what they heard, in the order in which they asked."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.heard: list[Any] = []
        self._clients: list[FrameClient] = []

    def client(self, kind: str, topic: str, *more: str, **parameters: Any) -> FrameClient:
        """`kind`: producer, consumer or reader; `more`: the subscription; `parameters`: of the query."""
        path = "/".join([kind, topic_path(topic), *(quote(part, safe="") for part in more)])
        return self.open(f"/ws/v2/{path}", **parameters)

    def open(self, path: str, **parameters: Any) -> FrameClient:
        platform = self.world.platform
        headers = {} if platform.token is None else {"Authorization": f"Bearer {platform.token}"}
        query = urlencode(parameters)
        client = FrameClient(self, f"{platform.ws_url}{path}{'?' * bool(query)}{query}", headers)
        self._clients.append(client)
        return client

    def topics_consumer(self, *topics: str, name: str = "s", **parameters: Any) -> FrameClient:
        return self.open(f"/ws/v3/consumer/{name}", topics=",".join(topics), **parameters)

    def pattern_consumer(self, pattern: str, name: str = "s", **parameters: Any) -> FrameClient:
        return self.open(f"/ws/v3/consumer/{name}", topicsPattern=pattern, **parameters)

    def producer(self, topic: str, **parameters: Any) -> FrameClient:
        return self.client("producer", topic, **parameters)

    def consumer(self, topic: str, name: str = "s", **parameters: Any) -> FrameClient:
        return self.client("consumer", topic, name, **parameters)

    def reader(self, topic: str, **parameters: Any) -> FrameClient:
        return self.client("reader", topic, **parameters)

    def close(self) -> None:
        for client in self._clients:
            client.close()

    def plain(self, frame: Any) -> Any:
        """`frame` without what differs from run to run."""
        if not isinstance(frame, dict):
            return frame
        classes: dict[str, Callable[[Any], Any]] = {
            "messageId": _position,
            "publishTime": _moment,
            "errorMsg": lambda text: "<reason>" if text else text,
        }
        return {name: classes[name](value) if name in classes else value for name, value in sorted(frame.items())}


def payload(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def exchange(world: World, script: Callable[[Frames], None]) -> Outcome:
    """What the clients of `script` heard."""
    frames = Frames(world)
    try:
        script(frames)
    finally:
        frames.close()
    return frames.heard


def _position(text: str) -> Any:
    """Entry, batch index and partition of a message id."""
    identifier = decode_message_id(text)
    return list(identifier[1:])


def _moment(text: str) -> str:
    assert _TIME.fullmatch(text) and datetime.fromisoformat(text), text
    return "<time>"
