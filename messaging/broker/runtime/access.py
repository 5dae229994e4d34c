"""Who may do what on this broker, and keeping that knowledge fresh: the snapshot of the feed, kept on disk, pushed by the web
process and pulled from it.

A missing tenant, namespace or key is asked for before anything is refused; while the web process is away, what is known decides.
Before anything is known at all, at the very first start, nobody is told that they may not: clients would believe it for good.
"""

from __future__ import annotations

import asyncio
import http.client
import json
import os
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

import msgspec
import structlog

from messaging.adminrpc.schema import FeedApply
from messaging.broker.core.view import ControlView
from messaging.clock import passed_ms
from messaging.errors import AuthenticationFailed, NotAuthorized, NotFound, NotReady
from messaging.identity import TokenVerifier, service_token
from messaging.permissions.model import ANONYMOUS, Action, Principal, Resource, require
from messaging.policies import defaults
from messaging.settings import Settings

log = structlog.get_logger("broker.access")

PULL_TIMEOUT_S = 3.0
PULL_PAUSE_MS = 1_000  # between two pulls that were caused by something missing
PULL_BYTES_MAX = 256 << 20


class Access:
    def __init__(self, settings: Settings, now_ms: Callable[[], int]) -> None:
        self.settings = settings
        self.now_ms = now_ms
        self.view = ControlView(
            superuser_roles=settings.superuser_roles,
            policy_defaults=defaults(settings),
            anonymous_public=settings.anonymous_public,
        )
        self.verifier = TokenVerifier.from_settings(settings)
        self.on_change: Callable[[set[tuple[str, str]]], None] = lambda _: None
        self._file = settings.data_path / "broker" / "feed.json"
        self._pulling: asyncio.Task[bool] | None = None
        self._pulled_ms = -PULL_PAUSE_MS
        self._away = False
        self._saving = asyncio.Lock()

    # --- the feed

    def load(self) -> None:
        """The snapshot of the last run, if there is one that can be read."""
        try:
            saved = msgspec.json.decode(self._file.read_bytes(), type=FeedApply)
        except FileNotFoundError:
            return
        except (OSError, msgspec.DecodeError) as error:
            log.warning("feed.snapshot_unreadable", file=str(self._file), error=str(error))
            return
        self.view.apply(0, saved.to_version, saved.changes, full=True)

    async def apply(self, feed: FeedApply) -> int:
        """Takes changes in, keeps them on disk, and returns the version held. A gap leaves it where it was."""
        changed = self.view.apply(feed.from_version, feed.to_version, feed.changes, full=feed.full)
        if changed:
            await self._save()
            self.on_change(changed)
        return self.view.version

    async def _save(self) -> None:
        async with self._saving:
            held = FeedApply(from_version=0, to_version=self.view.version, full=True, changes=self.view.dump())
            await asyncio.to_thread(_replace, self._file, msgspec.json.encode(held))

    async def refresh(self) -> bool:
        """Asks the web process for what is new. Several callers share one request. False: it could not be asked."""
        if self._pulling is None:
            if passed_ms() - self._pulled_ms < PULL_PAUSE_MS:
                return True  # asked a moment ago; what was missing is missing
            self._pulling = asyncio.get_running_loop().create_task(self._pull(), name="pull feed")
            self._pulling.add_done_callback(self._pull_done)
        return await asyncio.shield(self._pulling)

    def _pull_done(self, task: asyncio.Task[bool]) -> None:
        self._pulling = None
        answered = not task.cancelled() and task.result()
        # Without an answer nothing is known to be missing: at a start the web process may be there a moment later.
        self._pulled_ms = passed_ms() if answered else -PULL_PAUSE_MS

    async def _pull(self) -> bool:
        try:
            url = _internal_url(self.settings)
            token = service_token(self.settings, "broker")
            data = await asyncio.to_thread(_get, f"{url}/internal/v1/feed?since={self.view.version}", token)
            await self.apply(msgspec.json.decode(data, type=FeedApply))
            self._away = False
            return True
        except (OSError, http.client.HTTPException, ValueError, msgspec.DecodeError) as error:
            # Said once: while the web process starts or is away, this repeats every second.
            (log.debug if self._away else log.info)("feed.web_away", error=str(error), version=self.view.version)
            self._away = True
            return False

    async def _ask(self) -> None:
        """Something is missing: it may be new. Raises `NotReady` while nothing was ever heard."""
        await self.refresh()
        if not self.view.version:
            raise NotReady(
                "this broker has not yet heard which tenants and keys there are: it has just started; try again in a moment"
            )

    # --- who

    async def authenticate(self, token: str | None, local: bool) -> Principal:
        """`local`: the caller is on this machine (`messaging.local_caller`), and may be nobody where that is allowed. Raises
        `AuthenticationFailed`, which says what to do, and `NotReady`."""
        if token is None:
            if self.settings.anonymous_public and local:
                return Principal(ANONYMOUS)
            raise AuthenticationFailed("a token is needed here: make a key in the console and connect with token authentication")
        principal = self.verifier.verify(token, self.now_ms())
        if not principal.key_id:
            return principal
        revoked = self.view.key_revoked(principal.key_id)
        if revoked is None:
            await self._ask()
            revoked = self.view.key_revoked(principal.key_id)
            if revoked is None:
                raise AuthenticationFailed("the key of this token is not known: it was deleted, or belongs to another platform")
        if revoked:
            raise AuthenticationFailed("the key of this token was revoked: make a new one")
        return principal

    async def authorize(self, principal: Principal, action: Action, resource: Resource) -> None:
        """Raises `NotAuthorized`; asks the web process first. Raises `NotReady`."""
        try:
            require(self.view, principal, action, resource)
        except NotAuthorized:
            before = self.view.version
            await self._ask()
            if self.view.version == before:
                raise
            require(self.view, principal, action, resource)

    async def require_namespace(self, namespace: str) -> None:
        """Raises `NotFound` for a namespace that does not exist, also as far as the web process knows; `NotReady`."""
        if namespace not in self.view.namespaces:
            await self._ask()
            if namespace not in self.view.namespaces:
                raise NotFound(f"namespace {namespace} does not exist: create it first")


def _internal_url(settings: Settings) -> str:
    if settings.web_internal_url:
        return settings.web_internal_url.rstrip("/")
    run = json.loads((settings.data_path / "run" / "web.json").read_text())
    return str(run["internal_url"]).rstrip("/")


def _get(url: str, token: str) -> bytes:
    """Blocking GET; runs in a thread."""
    parts = urlsplit(url)
    make = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    connection = make(parts.hostname or "", parts.port, timeout=PULL_TIMEOUT_S)
    try:
        connection.request("GET", f"{parts.path}?{parts.query}", headers={"Authorization": f"Bearer {token}"})
        response = connection.getresponse()
        data = response.read(PULL_BYTES_MAX)
        if response.status != 200:
            raise OSError(f"the web process answered {response.status} for {parts.path}")
        return data
    finally:
        connection.close()


def _replace(path: Path, data: bytes) -> None:
    """Writes a file whole or not at all, and durably."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_suffix(".draft")
    with draft.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)
