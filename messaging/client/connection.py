"""Keeps one endpoint connected: connects, lets the endpoint communicate, and retries as the policy decides. One task each."""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from messaging.client.backoff import Backoff, GiveUp, ReconnectPolicy
from messaging.client.codec import InvalidAnswer
from messaging.client.failures import ChannelClosed, Refused
from messaging.client.transport import Channel, Connector
from messaging.errors import MagnetarError

logger = logging.getLogger("messaging.client")

HEALTHY_AFTER_S = 60.0  # a connection that lasted this long was a good one


@dataclass(frozen=True, slots=True)
class Timing:
    """Where time and chance come from; tests hand in their own."""

    now_s: Callable[[], float] = time.monotonic
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    random: Callable[[], float] = random.random


class Endpoint(Protocol):
    """What talks over the connection."""

    def connected(self) -> None: ...

    async def write_all(self, channel: Channel) -> None:
        """Writes what there is to write, forever."""

    def received(self, text: str) -> None:
        """Raises `InvalidAnswer` if the connection is of no more use."""

    async def ready_to_receive(self) -> None:
        """Returns when another frame may be read."""

    def disconnected(self, failure: Exception) -> None: ...

    def gave_up(self, error: MagnetarError) -> None:
        """There will be no connection any more."""


class ConnectionLoop:
    def __init__(
        self,
        name: str,
        url: str,
        headers: Callable[[], Awaitable[Mapping[str, str]]],
        connector: Connector,
        endpoint: Endpoint,
        timing: Timing,
        open_timeout_s: float,
    ) -> None:
        self._name = name  # for the log; the URL may hold what is not for it
        self._url = url
        self._headers = headers
        self._connector = connector
        self._endpoint = endpoint
        self._timing = timing
        self._policy = ReconnectPolicy(Backoff(timing.random), open_timeout_s, timing.now_s())
        self._channel: Channel | None = None
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name=f"magnetar {self._name}")

    async def stop(self) -> None:
        """Ends the task and closes the connection: when this returns, the broker has read what was written."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        try:
            await self._keep_connected()
        except Exception as error:  # of the key's function, or a bug: whoever waits must hear of it
            logger.exception("%s: failed unexpectedly", self._name)
            self._endpoint.gave_up(MagnetarError(f"{type(error).__name__}: {error}"))

    async def _keep_connected(self) -> None:
        while True:
            failure = await self._connect_and_talk()
            decision = self._policy.after(failure, self._timing.now_s())
            if isinstance(decision, GiveUp):
                # Whoever is opening is told by an exception; later there may be nobody who looks.
                logger.log(
                    logging.WARNING if self._policy.ever_connected else logging.DEBUG,
                    "%s: giving up: %s",
                    self._name,
                    decision.error,
                )
                self._endpoint.gave_up(decision.error)
                return
            logger.info("%s: no connection, next try in %.1f s: %s", self._name, decision.delay_s, failure)
            await self._timing.sleep(decision.delay_s)

    async def _connect_and_talk(self) -> Exception:
        """Returns why it ended."""
        try:
            channel = await self._connector(self._url, await self._headers())
        except (Refused, OSError, TimeoutError, MagnetarError) as refused:
            return refused
        logger.debug("%s: connected", self._name)
        self._policy.connected()
        began_s = self._timing.now_s()
        failure: Exception = ChannelClosed(1000, "stopped")
        try:
            self._endpoint.connected()
            failure = await self._talk(channel)
        finally:
            self._endpoint.disconnected(failure)
            await channel.close()
        if self._timing.now_s() - began_s > HEALTHY_AFTER_S:
            self._policy.healthy()
        return failure

    async def _talk(self, channel: Channel) -> Exception:
        tasks = {asyncio.create_task(self._read(channel)), asyncio.create_task(self._endpoint.write_all(channel))}
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        failures = [task.exception() for task in done]
        for failure in failures:
            if isinstance(failure, ChannelClosed | InvalidAnswer | OSError):
                return failure
        for failure in failures:
            if failure is not None:
                raise failure  # a bug in the SDK; the endpoint must not continue silently
        return ChannelClosed(1006, "")

    async def _read(self, channel: Channel) -> None:
        while True:
            await self._endpoint.ready_to_receive()
            text = await channel.recv()
            self._endpoint.received(text)
            self._policy.healthy()
