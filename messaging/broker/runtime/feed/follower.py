"""Follows the control plane's feed: pages that are pushed or pulled are validated, saved, applied, and then sessions are rechecked.

This happens in that order for every page, one page at a time. A page that cannot be saved is neither applied nor confirmed; its
sender sends it again later. Only the revocation of a key takes effect earlier: its connections are closed even while nothing can
be saved.
"""

from __future__ import annotations

import asyncio
import http.client
from collections.abc import Callable, Coroutine
from typing import Any, Protocol

import msgspec
import structlog

from messaging.adminrpc.feed import FeedApply
from messaging.background import BackgroundLoop
from messaging.broker.core.control.feed_plan import FeedPlan, FullFeed, Key
from messaging.broker.core.control.view import ControlView
from messaging.broker.runtime.feed.store import FeedStore
from messaging.errors import InvalidValue, MagnetarError, StorageFailed

log = structlog.get_logger("broker.feed")

NOT_SAVED = "changes of the control plane cannot be saved"
PAGES_MAX = 100_000  # of one pull: 400 GiB; a feed without end is requested again later


class Fetch(Protocol):
    """Requests a page. Blocks, so it is called in a thread; see `messaging.broker.runtime.feed.client.fetch`."""

    def __call__(self, since: int, feed_id: str, after: str) -> FeedApply: ...


class FeedFollower:
    """`saving`: how saving fares."""

    def __init__(self, view: ControlView, store: FeedStore, fetch: Fetch, saving: BackgroundLoop) -> None:
        self.view = view
        self.saving = saving
        self.on_change: list[Callable[[set[Key]], None]] = []  # what changed takes effect at once there
        self.ignored_changes = 0  # of kinds that this release does not know
        self.refused_pages = 0
        self._store = store
        self._fetch = fetch
        self._unnotified: set[Key] = set()  # taken in, and not yet told to everybody
        self._taking = asyncio.Lock()
        self.compacting: asyncio.Task[None] | None = None
        self._away = False

    def why_not_ready(self) -> str:
        return f"{NOT_SAVED}: {self.saving.last_error}" if self.saving.failing else ""

    def load(self) -> None:
        """What was saved, as far as it can be read."""
        full: FullFeed | None = None
        try:
            for page in self._store.load():
                if page.full:
                    if full is None:
                        full = FullFeed(page)
                    else:
                        full.add(page)
                    if not full.complete:
                        continue
                plan = self.view.plan(full.feed() if page.full and full is not None else page)
                if plan is not None:
                    self.view.swap(plan)
        except (OSError, InvalidValue) as error:
            log.error("feed.unreadable", error=str(error), version=self.view.version)

    # --- taking pages in

    async def apply(self, feed: FeedApply) -> int:
        """Takes a page in and returns the version held of its feed. A gap leaves it where it was.

        Raises `InvalidValue` for a malformed page, `StorageFailed` for one that could not be saved; nothing has changed then."""
        return await asyncio.shield(asyncio.get_running_loop().create_task(self._apply(feed), name="apply feed"))

    async def _apply(self, feed: FeedApply) -> int:
        async with self._taking:
            self._notify(set())
            try:
                plan = self.view.plan(feed)
            except InvalidValue as error:
                self._refused(error)
                raise
            if plan is not None:
                if plan.revoked:
                    self._revoke_at_once(plan)
                await self.save(plan)
                self.ignored_changes += plan.ignored
                self.view.swap(plan)
                self._notify(plan.changed)
                await self._compact_when_due()
            return self.view.version_of(feed)

    def _refused(self, error: InvalidValue) -> None:
        self.refused_pages += 1
        log.error("feed.page_refused", error=error.message, version=self.view.version)

    def _revoke_at_once(self, plan: FeedPlan) -> None:
        self.view.revoke_early(plan)
        try:
            self._notify_connected({("key", key) for key in plan.revoked})
        except Exception as error:  # they are told again once the page is taken in
            self.saving.failed(error)

    def _notify_connected(self, changed: set[Key]) -> None:
        for tell in self.on_change:
            tell(changed)

    def _notify(self, changed: set[Key]) -> None:
        """If it raises, the page is not confirmed, and the next one tells them first."""
        self._unnotified |= changed
        if self._unnotified:
            self._notify_connected(self._unnotified)
            self._unnotified = set()

    async def save(self, plan: FeedPlan) -> None:
        """Writes the page to disk. Raises `StorageFailed`."""
        try:
            if plan.feed.full:
                if self.compacting is not None:
                    await self.compacting
                entities = [(change.kind, change.key, change.state) for change in plan.changes if change.state is not None]
                await asyncio.to_thread(self._store.write_state, self._store.next_number(), plan.feed, entities)
            else:
                page = msgspec.structs.replace(plan.feed, changes=plan.changes)
                await asyncio.to_thread(self._store.append, page)
        except OSError as error:
            self.saving.failed(error, version=plan.feed.to_version)
            raise StorageFailed(
                f"{NOT_SAVED} ({error}): only revoked keys take effect; free disk space or repair the disk"
            ) from error
        self.saving.succeeded()

    async def _compact_when_due(self) -> None:
        if self.compacting is None and self._store.compaction_is_due:
            head = FeedApply(from_version=0, to_version=self.view.version, feed_id=self.view.feed_id, changes=[])
            number, entities = self._store.next_number(), self.view.entities()
            work = asyncio.to_thread(self._store.write_state, number, head, entities)
            self.compacting = asyncio.get_running_loop().create_task(self._compact(work), name="compact feed")

    async def _compact(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except Exception as error:  # the journals hold everything; it is tried again when this one has grown as long
            self.saving.failed(error)
        finally:
            self.compacting = None

    def end_grants(self, now_ms: int) -> None:
        """Once a second: what was granted until now is granted no more, and who uses it is told."""
        self._notify(self.view.end_grants(now_ms))

    # --- asking for pages

    async def pull(self) -> bool:
        """Asks the web process until nothing is new. False: it could not be asked, or what it said could not be taken in."""
        try:
            for _ in range(PAGES_MAX):
                before = self.view.version
                page = await self._page(before)
                if page.full:
                    page = await self._whole(page)
                version = await self.apply(page)
                if version >= page.newest_version or version == before:
                    break
            self._away = False
            return True
        except (OSError, http.client.HTTPException, ValueError, MagnetarError) as error:
            why = "the web process has not started yet" if isinstance(error, FileNotFoundError) else str(error)
            # Said once: while the web process starts or is away, this repeats every second.
            (log.debug if self._away else log.info)("feed.not_pulled", why=why, version=self.view.version)
            self._away = True
            return False

    async def _page(self, since: int, after: str = "", feed_id: str | None = None) -> FeedApply:
        return await asyncio.to_thread(self._fetch, since, self.view.feed_id if feed_id is None else feed_id, after)

    async def _whole(self, first: FeedApply) -> FeedApply:
        """A full feed from its first page, with what changed while the others were asked for."""
        try:
            full = FullFeed(first)
            for _ in range(PAGES_MAX):
                if full.complete:
                    return full.feed()
                full.add(await self._page(0 if full.next_key else full.version, full.next_key, first.feed_id))
        except InvalidValue as error:
            self._refused(error)
            raise
        raise ValueError(f"a full feed has more than {PAGES_MAX} pages")
