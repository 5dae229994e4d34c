"""Calls of the admin RPC from one broker to another."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from functools import partial

from messaging.adminrpc.base import A, Method, R
from messaging.adminrpc.calls import LOOK_S, LOOK_S_MAX
from messaging.adminrpc.changes import ChangeRef
from messaging.adminrpc.client import AdminRpc
from messaging.adminrpc.methods import CHANGES_OUTCOME
from messaging.broker.runtime.ownership.silence import Silence
from messaging.errors import MagnetarError, NotReady, UnderWay
from messaging.fairness.turns import FairTurns
from messaging.identity import service_token
from messaging.internal_tls import internal_client_tls
from messaging.settings import Settings

CALLS_MAX = 8  # at a time, a thread each, in turns by tenant
TIMEOUT_S = 7.0  # less than who asked this broker waits for it: so that it can say which one did not answer


class OtherBrokers:
    """Its threads are made as they are needed. `silence`: is told who was asked, and who answered. `name_of`: what errors call the
    broker at an address."""

    def __init__(self, settings: Settings, silence: Silence, name_of: Callable[[str], str]) -> None:
        self._name_of = name_of
        self.silence = silence
        self._settings = settings
        self._tls = internal_client_tls(settings, "broker")
        self._turns = FairTurns(CALLS_MAX)
        self._threads = ThreadPoolExecutor(CALLS_MAX, "other-brokers")

    async def call(self, rpc_url: str, method: Method[R, A], request: R, tenant: str, timeout_s: float = TIMEOUT_S) -> A:
        """What the broker at `rpc_url` answers, also to a long change, for which no thread waits. Raises its error, or `NotReady`
        if it does not answer."""
        try:
            return await self.perform(rpc_url, method, request, tenant, timeout_s)
        except UnderWay as goes_on:
            change, wait_s = ChangeRef(id=goes_on.change), LOOK_S
        outcome = CHANGES_OUTCOME.answering(method.answer)
        while True:
            await asyncio.sleep(wait_s)
            wait_s = min(2 * wait_s, LOOK_S_MAX)
            with suppress(UnderWay):
                return await self.perform(rpc_url, outcome, change, tenant, timeout_s)

    async def perform(self, rpc_url: str, method: Method[R, A], request: R, tenant: str, timeout_s: float = TIMEOUT_S) -> A:
        """One call, whatever it answers: `UnderWay` too. Who is cancelled has given up: a broker that stands still does not do it
        once it goes on."""
        async with self._turns.turn(tenant):
            self.silence.asked(rpc_url)
            # Its connection is of this call alone: there is nothing to close when a broker or a thread ends.
            token = partial(service_token, self._settings, "broker")
            client = AdminRpc(lambda: rpc_url, token, timeout_s, self._tls, name_of=self._name_of)
            try:
                answer = await asyncio.get_running_loop().run_in_executor(self._threads, _call, client, method, request)
            except asyncio.CancelledError:
                client.give_up()
                raise
            except NotReady:  # or it said so itself: the next answer tells
                raise
            except MagnetarError:
                self.silence.answered(rpc_url)
                raise
            self.silence.answered(rpc_url)
            return answer

    async def stop(self) -> None:
        """Calls under way go on to their end, or to their time-out; nobody waits for them."""
        self._threads.shutdown(wait=False, cancel_futures=True)


def _call(client: AdminRpc, method: Method[R, A], request: R) -> A:
    """Blocks."""
    with closing(client):
        return client.perform(method, request)
