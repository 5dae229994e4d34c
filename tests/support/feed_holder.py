"""The broker's side of the feed without its disk and its loop: the real `ControlView` takes pages in, as `FeedFollower` does."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from messaging.adminrpc.feed import FeedApply
from messaging.broker.core.control_view import ControlView
from messaging.broker.core.feed_plan import FullFeed

Entity = tuple[str, str]  # kind, key


class FeedHolder:
    def __init__(self) -> None:
        self.view = ControlView(superuser_roles=(), policy_defaults={}, anonymous_public=False)

    @property
    def version(self) -> int:
        return self.view.version

    @property
    def state(self) -> dict[Entity, dict[str, Any]]:
        return {(kind, key): state for kind, key, state in self.view.entities()}

    def hold(self, version: int, state: Mapping[Entity, dict[str, Any]] | None = None) -> None:
        """What another database, or an earlier time, has left here. `state` None: what is held already."""
        held = self.state if state is None else state
        self.view.version = version
        tables = {"tenant": self.view.tenants, "namespace": self.view.namespaces, "key": self.view.keys}
        for kind, table in tables.items():
            table.clear()
            table.update({key: value for (of, key), value in held.items() if of == kind})

    def apply(self, page: FeedApply) -> int:
        plan = self.view.plan(page)
        if plan is not None:
            self.view.swap(plan)
        return self.view.version_of(page)

    def pull(self, since: Callable[..., FeedApply]) -> int:
        """Everything, page by page, and what changed meanwhile."""
        full = FullFeed(since(0))
        while not full.complete:
            full.add(since(0, after=full.next_key) if full.next_key else since(full.version))
        return self.apply(full.feed())
