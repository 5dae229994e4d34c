"""Scripted clients, one connection each, which connect again whenever they lose it: what producers and consumers have in common.

They are driven by the operations and by what the broker says; they never wait. What they do and are told goes to the checker.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any, Protocol

from messaging.protocol import frames
from messaging.protocol import pulsar_pb2 as pb
from tests.simulation.checker import Checker
from tests.simulation.network import Link
from tests.support.clients.raw_client import Received

RETRY_S = 0.02  # before a client tries again what the broker refused or cut off


class World(Protocol):
    """What clients need of the simulation."""

    random: Random
    checker: Checker
    deduplicates: bool  # the broker stores what is sent again once

    def link(
        self, written: Callable[[Received], None], received: Callable[[Received], None], lost: Callable[[], None]
    ) -> Link | None:
        """A new connection; None while there is no broker."""

    def later(self, seconds: float, act: Callable[[], None]) -> None: ...
    def note(self, line: str) -> None: ...


class Client:
    """Connects and keeps connected. `_opens` sends what opens the producer or consumer."""

    def __init__(self, world: World, name: str, topic: str) -> None:
        self.world = world
        self.name = name
        self.topic = topic
        self.link: Link | None = None
        self.ready = False
        self.stopped = False
        self.connect()

    def connect(self) -> None:
        if self.link is None and not self.stopped:
            self.link = self.world.link(self._written, self._received, self._lost)
            if self.link is None:
                self.world.later(RETRY_S, self.connect)
            else:
                self.say(pb.Command.CONNECT, connect=pb.Connect(client_version="simulated", protocol_version=20))

    def disconnect(self) -> None:
        if self.link is not None:
            self.link.close_by_peer()

    def stop(self) -> None:
        self.stopped = True
        self.disconnect()

    def say(self, kind: pb.Command.Type, **body: Any) -> None:
        if self.link is not None:
            self.link.send(frames.command(kind, **body))

    def _lost(self) -> None:
        self.link = None
        self._closed()
        self.world.later(RETRY_S, self.connect)

    def _written(self, received: Received) -> None:
        """The broker wrote `received`: it has promised what that says."""

    def _received(self, received: Received) -> None:
        if received.name == "PING" and self.link is not None:
            self.link.send(frames.PONG)
        elif received.name == "CONNECTED":
            self._open()
        elif received.name in ("CLOSE_PRODUCER", "CLOSE_CONSUMER", "ERROR"):
            self.world.later(RETRY_S, self._open_again(self.link))

    def _open_again(self, link: Link | None) -> Callable[[], None]:
        def again() -> None:
            if self.link is link and link is not None and not self.ready and not self.stopped:
                self._open()

        return again

    def _open(self) -> None:
        raise NotImplementedError

    def _closed(self) -> None:
        """What was open is not any more."""
        self.ready = False
