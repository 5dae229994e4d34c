"""Telling the other brokers of a fleet the same, each as soon as it has answered what it was told before.

One that does not answer keeps none of the others waiting, and no more than one request of a kind is on its way to it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any, Generic, TypeVar

import structlog

from messaging.adminrpc.base import Method, Request
from messaging.background import BackgroundLoops
from messaging.broker.runtime.ownership.fleet_member import FleetMember
from messaging.broker.runtime.ownership.other_brokers import OtherBrokers
from messaging.errors import MagnetarError

log = structlog.get_logger("broker.ownership")

R = TypeVar("R", bound=Request)


class Telling(Generic[R]):
    """By one method. `others`: for what is told alone, so that nothing else keeps it waiting. `next_for` has what the broker at an
    address that has answered, or failed to, is told at once, if anything. `log_level`: of what says that one did not hear it."""

    def __init__(
        self,
        owners: FleetMember,
        others: OtherBrokers,
        background: BackgroundLoops,
        method: Method[R, Any],
        next_for: Callable[[str], R | None] = lambda rpc_url: None,
        log_level: int = logging.DEBUG,
    ) -> None:
        self._owners = owners
        self._others = others
        self._background = background
        self._method = method
        self._next_for = next_for
        self._log_level = log_level
        self._under_way: dict[str, asyncio.Task[None]] = {}  # by the address of the broker that has not answered yet

    def tell(self, told: R) -> list[str]:
        """Begins to tell whoever has answered, and returns the addresses of the others, who do not hear it."""
        busy = []
        for rpc_url in self._owners.others("rpc_url"):
            if rpc_url in self._under_way:
                busy.append(rpc_url)
            else:
                self._begin(rpc_url, told)
        return busy

    async def wait(self, wait_s: float) -> None:
        """For the answers, or so long."""
        if self._under_way:
            await asyncio.wait(self._under_way.values(), timeout=wait_s)

    def _begin(self, rpc_url: str, told: R) -> None:
        self._under_way[rpc_url] = self._background.spawn(self._tell_one(rpc_url, told), self._method.name)

    async def _tell_one(self, rpc_url: str, told: R) -> None:
        following: R | None = told
        try:
            while following is not None:
                try:
                    await self._others.call(rpc_url, self._method, following, rpc_url)
                except MagnetarError as error:
                    log.log(self._log_level, f"{self._method.name}.failed", rpc_url=rpc_url, error=error.message)
                following = self._next_for(rpc_url)
        finally:
            del self._under_way[rpc_url]
