"""Permissions on this broker, and keeping them up to date: the copy of the feed, stored on disk, pushed by the web process and
pulled from it.

If a tenant, namespace or key is missing, the web process is asked before the request is refused; while it is unavailable, the
local copy decides. Before the very first feed, nobody is refused for lack of permission, because clients would not retry.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import structlog

from messaging.background import BackgroundLoops
from messaging.broker.core.control.view import ControlView
from messaging.broker.runtime.feed.client import fetch as fetch_page
from messaging.broker.runtime.feed.follower import FeedFollower, Fetch
from messaging.broker.runtime.feed.store import FeedStore
from messaging.broker.runtime.issuers import TrustedIssuers
from messaging.clock import boottime_ms
from messaging.errors import AuthenticationFailed, NotAuthorized, NotFound, NotReady
from messaging.identity import TokenVerifier
from messaging.identity.certificates import certificate_principal
from messaging.key_uses import KeyUses
from messaging.permissions.decision import require
from messaging.permissions.model import ANONYMOUS, Action, Principal, Resource
from messaging.policies.resolution import defaults
from messaging.settings import Settings
from messaging.storage.disk_reserve import NO_RESERVE, DiskReserve

log = structlog.get_logger("broker.access")

PULL_EVERY_S = 30.0  # at the latest, a missed push is made up for by then
PULL_SOON_S = 1.0  # while the web process is unavailable or nothing is known yet
PULL_PAUSE_MS = 1_000  # between two pulls caused by missing entries


class Access:
    """`fetch` requests a page of the feed; unless given, of the web process over HTTP."""

    def __init__(
        self,
        settings: Settings,
        now_ms: Callable[[], int],
        background: BackgroundLoops,
        reserve: DiskReserve = NO_RESERVE,
        fetch: Fetch | None = None,
    ) -> None:
        self.settings = settings
        self.now_ms = now_ms
        self.view = ControlView(
            superuser_roles=settings.superuser_roles,
            policy_defaults=defaults(settings),
            anonymous_public=settings.anonymous_public,
            topic_policies=settings.topic_level_policies_enabled,
        )
        self.verifier = TokenVerifier.from_settings(settings)
        self._certificate_roles = dict(text.split("=", 1) for text in settings.tls_client_roles)  # the settings saw to the "="
        self.issuers = TrustedIssuers(self.view)
        self.key_uses = KeyUses(now_ms())
        self.feed = FeedFollower(
            self.view,
            FeedStore(settings.broker_path / "feed", reserve),
            fetch or partial(fetch_page, settings),
            background.register("save_feed"),
        )
        self._pulling: asyncio.Task[bool] | None = None
        self._heard = False  # the last scheduled pull succeeded
        self._pulled_ms = -PULL_PAUSE_MS

    # --- the feed

    def load(self) -> None:
        """What was saved of it. Blocks."""
        self.feed.load()
        self.view.end_grants(self.now_ms())
        self.issuers.load()

    async def refresh(self) -> bool:
        """Asks the web process for new changes. Concurrent callers share one request. False: it did not respond."""
        if self._pulling is None:
            if boottime_ms() - self._pulled_ms < PULL_PAUSE_MS:
                return True  # asked a moment ago: it does not exist
            self._pulling = asyncio.get_running_loop().create_task(self.feed.pull(), name="pull feed")
            self._pulling.add_done_callback(self._pull_done)
        return await asyncio.shield(self._pulling)

    def pull_wait_s(self) -> float:
        return PULL_EVERY_S if self._heard and self.view.version else PULL_SOON_S

    async def pull_on_schedule(self) -> None:
        self._heard = False
        self._heard = await self.refresh()

    async def pull(self) -> int:
        """The same, regardless of when it was last asked. Returns the version after it."""
        if self._pulling is not None:
            await asyncio.shield(self._pulling)  # it may have started before the change that the caller waits for
        self._pulled_ms = -PULL_PAUSE_MS
        await self.refresh()
        return self.view.version

    def _pull_done(self, task: asyncio.Task[bool]) -> None:
        self._pulling = None
        answered = not task.cancelled() and task.exception() is None and task.result()
        # Without a response nothing is known to be missing; at a start the web process may be ready a moment later.
        self._pulled_ms = boottime_ms() if answered else -PULL_PAUSE_MS

    async def _ask(self) -> None:
        """Something is missing and may be new. Raises `NotReady` before the first feed."""
        try:
            await self.refresh()
        except Exception:  # an internal error must not reach the client; the scheduled pull counts it
            log.warning("feed.not_asked", exc_info=True)
        if not self.view.version:
            raise NotReady("this broker has just started and does not know the tenants and keys yet: try again in a moment")

    # --- who

    async def authenticate(self, token: str | None, local: bool, address: str = "") -> Principal:
        """`local`: the caller is on this machine (`messaging.local_caller`) and may be anonymous if that is allowed. Raises
        `AuthenticationFailed`, which says what to do, and `NotReady`."""
        if token is None:
            if self.settings.anonymous_public and local:
                return Principal(ANONYMOUS)
            raise AuthenticationFailed("a token is required: create a key in the console and connect with token authentication")
        principal = self.issuers.principal(token, self.now_ms()) or self.verifier.verify(token, self.now_ms())
        return await self.admitted(principal, address)

    async def admitted(self, principal: Principal, address: str) -> Principal:
        """Who is known, if its key still lets it in from there. Raises `AuthenticationFailed`, `NotReady`."""
        if not principal.key_id:
            return principal
        revoked = self.view.key_revoked(principal.key_id)
        if revoked is None:
            await self._ask()
            revoked = self.view.key_revoked(principal.key_id)
            if revoked is None:
                failed = AuthenticationFailed("the key of this token is unknown: it was deleted or belongs to another platform")
                raise failed.of(principal.role, principal.key_id)
        if revoked:
            raise AuthenticationFailed("the key of this token was revoked: create a new one").of(principal.role, principal.key_id)
        refusal = self.view.key_refusal(principal.key_id, address, self.now_ms())
        if refusal:
            raise AuthenticationFailed(refusal).of(principal.role, principal.key_id)
        expires_ms = self.view.key_expires_ms(principal.key_id)
        if expires_ms and not 0 < principal.expires_ms <= expires_ms:  # it is being replaced, and ends before its token
            principal = replace(principal, expires_ms=expires_ms)
        self.key_uses.note(principal.key_id, self.now_ms())
        return principal

    def authenticate_certificate(self, certificate: Mapping[str, Any] | None) -> Principal:
        """Of a peer of the TLS listener, `certificate` as `ssl` has it. Raises `AuthenticationFailed`."""
        return certificate_principal(certificate, self._certificate_roles, self.now_ms())

    async def authorize(self, principal: Principal, action: Action, resource: Resource) -> None:
        """Raises `NotAuthorized`, but asks the web process first. Raises `NotReady`."""
        try:
            require(self.view, principal, action, resource)
        except NotAuthorized:
            before = self.view.version
            await self._ask()
            if self.view.version == before:
                raise
            require(self.view, principal, action, resource)

    def may_exist(self, namespace: str) -> bool:
        """Whether there is such a namespace, also in the recycle bin, or whether that is not known."""
        known = bool(self.view.version) and not self.feed.why_not_ready()
        return not known or namespace in self.view.namespaces or namespace in self.view.recycled

    async def require_namespace(self, namespace: str) -> None:
        """Raises `NotFound` if the namespace does not exist, after asking the web process; `NotReady`."""
        if namespace not in self.view.namespaces:
            await self._ask()
            if namespace not in self.view.namespaces:
                raise NotFound(f"namespace {namespace} does not exist: create it first")
