"""API calls, which are metered: Pulsar's admin REST and our own, by tenant, namespace and topic and by the key they came with.

A call counts when it was carried out (a status below 400), for the tenant that its path names, else for the tenant of its key. What
people do at the console is no call, and neither is what the platform's administrators and its own processes do. The web process
records calls as a broker records its meters: minute by minute, durable, numbered without gaps, and with a file of its boot, by
which a crash shows as a hole with its bounds.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

from django.http import HttpRequest, HttpResponse

from controlplane.middleware import resource_of
from messaging import logs
from messaging.broker.usage.boot import next_epoch
from messaging.broker.usage.collector import UsageCollector
from messaging.broker.usage.record import DetailTotals, TopicTotals
from messaging.broker.usage.recorder import UsageRecorder
from messaging.permissions.model import USER_ROLE_PREFIX, Action, Resource
from messaging.settings import Settings
from messaging.usage_schema import API
from tenants.access import Actor
from tenants.http.request_state import state_of

_log = logs.get_logger("web")
COUNTED = frozenset(("api", "billing", "admin_v1", "admin_v2"))  # URL namespaces
OF_TENANT_MAX = 10_000  # topics, namespaces and keys told apart; calls beyond them are the tenant's, and nobody's in particular
IN_ALL_MAX = 100_000
RETRY_S = 5.0


class Caller(NamedTuple):
    """Whose call it is: `tenant_uid` tells the tenant from a former one of its name."""

    tenant_uid: str
    tenant: str
    namespace: str = ""  # tenant/namespace
    topic: str = ""  # full name
    key: str = ""  # the id of the key, else the role


class ApiCalls:
    """Running totals since the start. Safe to use from several threads."""

    def __init__(self) -> None:
        self._totals: Counter[Caller] = Counter()
        self._of_tenant: Counter[str] = Counter()
        self._changed: set[Caller] = set()
        self._lock = threading.Lock()

    def count(self, caller: Caller) -> None:
        with self._lock:
            if caller not in self._totals:
                if self._of_tenant[caller.tenant_uid] >= OF_TENANT_MAX or len(self._totals) >= IN_ALL_MAX:
                    caller = Caller(caller.tenant_uid, caller.tenant)
                self._of_tenant[caller.tenant_uid] += caller not in self._totals
            self._totals[caller] += 1
            self._changed.add(caller)

    def changed(self) -> list[TopicTotals]:
        """Totals of those that called since this was asked last; the others continue from what they had."""
        with self._lock:
            totals = [(caller, self._totals[caller]) for caller in sorted(self._changed)]
            self._changed.clear()
        return [
            TopicTotals(
                caller.tenant,
                caller.namespace,
                caller.topic,
                *(0, 0, 0, 0, 0, 0),
                caller.tenant_uid,
                (DetailTotals(API, "", caller.key, (count,)),),
            )
            for caller, count in totals
        ]


calls = ApiCalls()


class CountApiCalls:
    """Middleware, around whatever makes an error an answer."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self._get_response(request)
        match = request.resolver_match
        if match is not None and match.namespace in COUNTED and response.status_code < 400:
            caller = caller_of(state_of(request).actor, resource_of(match.kwargs))
            if caller is not None:
                calls.count(caller)
        return response


def caller_of(actor: Actor | None, resource: Resource) -> Caller | None:
    """Whose call it is that acted on `resource`; None for what does not count."""
    if actor is None or actor.principal.role.startswith(USER_ROLE_PREFIX) or actor.may(Action.SUPERUSER):
        return None
    tenant = resource.tenant or actor.principal.tenant
    tenant_uid = actor.grants.tenant_uid(tenant)
    key = actor.principal.key_id or actor.principal.role
    return Caller(tenant_uid, tenant, resource.namespace, resource.topic, key) if tenant_uid else None


class ApiMeter:
    """Writes the calls out, minute by minute. One owner, on an event loop."""

    def __init__(self, settings: Settings, counted: ApiCalls = calls, now_ms: Callable[[], int] | None = None) -> None:
        """Blocks on the disk."""
        self._now_ms = now_ms or (lambda: time.time_ns() // 1_000_000)
        raw, source, started_ms = settings.data_path / "usage" / "raw", f"{settings.broker_id}-web", self._now_ms()
        recorder = UsageRecorder(source, next_epoch(raw, source, started_ms), started_ms)
        self._collector = UsageCollector(recorder, raw, counted.changed, self._now_ms)
        self._running: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """The file of the boot is there when this returns, unless the disk refuses."""
        await self.collect()
        self._running = asyncio.create_task(self._run())

    async def collect(self, *, ended: bool = False) -> bool:
        """Whether it is written; what is not waits for the next time."""
        try:
            await self._collector.collect(ended=ended)
        except OSError as error:
            _log.error("usage of the API could not be written", error=str(error))
            return False
        return True

    async def end(self) -> None:
        """After the last request."""
        if self._running is not None:
            self._running.cancel()
            await asyncio.gather(self._running, return_exceptions=True)
        await self.collect(ended=True)

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(max(self._collector.wait_ms(self._now_ms()), 50) / 1000)
            if not self._collector.wait_ms(self._now_ms()) and not await self.collect():
                await asyncio.sleep(RETRY_S)
