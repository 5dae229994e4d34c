"""Decides what a page of the feed will change, before anything is changed, and assembles a full feed from its pages. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import msgspec

from messaging.adminrpc.feed import KINDS, FeedApply, FeedChange
from messaging.errors import InvalidValue
from messaging.json_types import converted

State = dict[str, Any]
Tables = Mapping[str, Mapping[str, State]]  # kind -> key -> state
Key = tuple[str, str]  # (kind, key)


class FeedPlan(NamedTuple):
    """A validated feed that continues the current state. `changes` are those that are new."""

    feed: FeedApply
    changes: list[FeedChange]
    changed: set[Key]
    revoked: set[str]  # ids of keys that are revoked
    ignored: int  # changes of kinds that this release does not know


def plan(feed: FeedApply, version: int, feed_id: str, tables: Tables) -> FeedPlan | None:
    """What `feed` changes in a view at `version` of `feed_id` with `tables`; None if it does not continue it or has nothing new.

    Raises `InvalidValue` if anything in the feed is malformed; then nothing of it is applied.
    """
    if not (_full_is_newer if feed.full else _joins)(feed, version, feed_id):
        return None
    checked(feed.changes, feed.to_version)
    fresh = feed.changes if feed.full else [change for change in feed.changes if change.version > version]
    known = [change for change in fresh if change.kind in KINDS]
    changed = _difference(known, tables) if feed.full else {(change.kind, change.key) for change in known}
    revoked = {key for kind, key in changed if kind == "key"} - _valid_keys(known)
    return FeedPlan(feed, known, changed, revoked, len(fresh) - len(known))


def _joins(feed: FeedApply, version: int, feed_id: str) -> bool:
    same = feed.feed_id == feed_id or not version
    return same and feed.from_version <= version < feed.to_version


def _full_is_newer(feed: FeedApply, version: int, feed_id: str) -> bool:
    """An older one is a late answer, unless it says that it knows what is held here: then a database was restored."""
    return feed.feed_id != feed_id or feed.to_version >= version or feed.from_version == version


def checked(changes: Iterable[FeedChange], to_version: int) -> None:
    """Raises `InvalidValue` that names the first malformed change."""
    for change in changes:
        shape = KINDS.get(change.kind)
        if shape is None:
            continue  # a kind of a newer control plane
        where = f"change {change.version} of the feed, of {change.kind} {change.key[:80]!r}, is malformed"
        if not change.key or change.version > to_version:
            raise InvalidValue(f"{where}: it has no key, or a version above {to_version}")
        if change.state is None:
            continue
        try:
            converted(change.state, shape)
        except msgspec.ValidationError as error:
            raise InvalidValue(f"{where}: {error}") from None


def _difference(changes: list[FeedChange], tables: Tables) -> set[Key]:
    """Where everything (`changes`) is not what `tables` hold."""
    new = {(change.kind, change.key): change.state for change in changes}
    gone = {(kind, key) for kind, table in tables.items() for key in table if (kind, key) not in new}
    return gone | {(kind, key) for (kind, key), state in new.items() if tables[kind].get(key) != state}


def _valid_keys(changes: list[FeedChange]) -> set[str]:
    last = {change.key: change.state for change in changes if change.kind == "key"}
    return {key for key, state in last.items() if state is not None and not state.get("revoked")}


class FullFeed:
    """A full feed, assembled from its pages and from the changes made while they were requested.

    Each page is as new as the moment when it was read, so the pages together may describe a state that never existed. The feed is
    complete once the changes made meanwhile have been added.
    """

    def __init__(self, first: FeedApply) -> None:
        self.next_key = first.next_key
        self.version, self.newest = first.to_version, max(first.newest_version, first.to_version)
        self._first = first
        self._states: dict[Key, State] = {}
        self._put(first)

    @property
    def complete(self) -> bool:
        return not self.next_key and self.version >= self.newest

    def add(self, page: FeedApply) -> None:
        """Adds the page at `next_key`, or the changes after `version`. Raises `InvalidValue` for any other page."""
        if page.feed_id != self._first.feed_id or page.full != bool(self.next_key):
            raise InvalidValue("a page of the feed does not follow the previous one: the feed is requested again")
        if page.full:
            self.next_key = page.next_key
            self.newest = max(self.newest, page.newest_version, page.to_version)
        elif page.from_version <= self.version < page.to_version:
            self.version = page.to_version
        else:
            raise InvalidValue(f"changes {page.from_version} to {page.to_version} do not follow version {self.version}")
        self._put(page)

    def _put(self, page: FeedApply) -> None:
        checked(page.changes, max(page.newest_version, page.to_version))
        for change in page.changes:
            if change.state is None:
                self._states.pop((change.kind, change.key), None)
            else:
                self._states[change.kind, change.key] = change.state

    def feed(self) -> FeedApply:
        """The whole feed, at the version at which it is complete."""
        changes = [FeedChange(version=self.version, kind=kind, key=key, state=state) for (kind, key), state in self._states.items()]
        return msgspec.structs.replace(self._first, to_version=self.version, changes=changes, next_key="", newest_version=0)
