"""The feed under random faults: no web process, full disks, restarts of the broker, late responses, gaps, full feeds.

After any sequence of them, the broker decides by the state of the control plane at the version that it holds, a restart would give
it the same state, and everybody who is connected was told of each change.
"""

from __future__ import annotations

import asyncio
import copy
import errno
import shutil
import tempfile
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any
from unittest.mock import Mock

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from messaging import background
from messaging.adminrpc.feed import KINDS, FeedApply, FeedChange
from messaging.background import BackgroundLoop
from messaging.broker.core.control.view import ControlView
from messaging.broker.runtime.feed import store as feed_store
from messaging.broker.runtime.feed.follower import FeedFollower
from messaging.broker.runtime.feed.store import FeedStore
from messaging.errors import StorageFailed
from tests.support.examples import examples

PAGE_ENTITIES = 2
Truth = dict[tuple[str, str], dict[str, Any]]
FIRST: dict[str, dict[str, Any]] = {"isolation": {"namespaces": ["t/.*"], "primary": ["b"]}}  # what is not valid is not told
_ids = count()


class ControlPlane:
    """What `tenants.feed` does with a database, in memory."""

    def __init__(self) -> None:
        self.feed_id = f"feed-{next(_ids)}"
        self.changes: list[FeedChange] = []
        self.compacted = 0
        self.truths: list[Truth] = [{}]  # by version
        for kind in KINDS:
            for key in "ab":
                self.say(kind, key, FIRST.get(kind, {"role": "r"}))  # more than a page of everything holds

    @property
    def version(self) -> int:
        return len(self.changes)

    def say(self, kind: str, key: str, state: dict[str, Any] | None) -> None:
        truth = copy.deepcopy(self.truths[-1])
        truth.pop((kind, key), None)
        if state is not None:
            truth[kind, key] = state
        self.changes.append(FeedChange(version=self.version + 1, kind=kind, key=key, state=state))
        self.truths.append(truth)

    def restore(self, version: int) -> None:
        """From a backup."""
        del self.changes[version:], self.truths[version + 1 :]
        self.compacted = min(self.compacted, version)

    def since(self, version: int, feed_id: str = "", after: str = "") -> FeedApply:
        other = feed_id not in ("", self.feed_id)
        head: dict[str, Any] = {"feed_id": self.feed_id, "newest_version": self.version}
        if after or version <= 0 or version < self.compacted or version > self.version or other:
            rest = [item for item in sorted(self.truths[-1].items()) if f"{item[0][0]} {item[0][1]}" > after]
            page, more = rest[:PAGE_ENTITIES], rest[PAGE_ENTITIES:]
            changes = [FeedChange(version=self.version, kind=kind, key=key, state=state) for (kind, key), state in page]
            next_key = " ".join(page[-1][0]) if more else ""
            held = 0 if after or other else max(version, 0)
            return FeedApply(from_version=held, to_version=self.version, full=True, changes=changes, next_key=next_key, **head)
        changes = self.changes[version : version + PAGE_ENTITIES]
        to_version = changes[-1].version if changes else self.version
        return FeedApply(from_version=version, to_version=to_version, changes=changes, **head)


STATES: dict[str, st.SearchStrategy[dict[str, Any] | None]] = {
    "tenant": st.none() | st.builds(lambda role: {"admin_roles": [role]}, st.sampled_from("rst")),
    "namespace": st.none() | st.builds(lambda role: {"grants": {role: ["produce"]}}, st.sampled_from("rst")),
    "topic": st.none() | st.builds(lambda ttl_s: {"policies": {"message_ttl_s": ttl_s}}, st.integers(0, 9)),
    "broker": st.none() | st.builds(lambda ttl_s: {"settings": {"message_ttl_s": ttl_s}}, st.integers(0, 9)),
    "failure_domain": st.none() | st.builds(lambda broker_id: {"brokers": [broker_id]}, st.sampled_from("rst")),
    "isolation": st.none() | st.builds(lambda broker_id: {**FIRST["isolation"], "primary": [broker_id]}, st.sampled_from("rst")),
    "issuer": st.none() | st.builds(lambda audience: {"audience": audience}, st.sampled_from("rst")),
    "recycled": st.none() | st.builds(lambda uid: {"tenant_uid": uid}, st.sampled_from("rst")),
    "key": st.none() | st.builds(lambda revoked: {"role": "r", "revoked": revoked}, st.booleans()),
}
CHANGES = st.sampled_from(sorted(STATES)).flatmap(lambda kind: st.tuples(st.just(kind), st.sampled_from("abc"), STATES[kind]))


class Following(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.folder = Path(tempfile.mkdtemp())
        self.plane = ControlPlane()
        self.planes = {self.plane.feed_id: self.plane}
        self.web_away = self.disk_full = False
        self.between_pages: list[tuple[str, str, dict[str, Any] | None]] = []
        self.late: list[FeedApply] = []  # answers that are still under way
        self.start()

    def teardown(self) -> None:
        self.runner.close()
        shutil.rmtree(self.folder)

    def start(self) -> None:
        self.view = ControlView(superuser_roles=(), policy_defaults={}, anonymous_public=False)
        store = FeedStore(self.folder)
        for name in ("append", "write_state"):
            setattr(store, name, self.failing(getattr(store, name)))
        self.follower = FeedFollower(self.view, store, self.fetch, BackgroundLoop("save_feed"))
        self.follower.on_change.append(self.tell)
        self.follower.load()
        self.known = self.held()  # what those who are connected go by

    def failing(self, write: Callable[..., None]) -> Callable[..., None]:
        def maybe(*arguments: Any) -> None:
            if self.disk_full:
                raise OSError(errno.ENOSPC, "No space left on device")
            write(*arguments)

        return maybe

    def fetch(self, since: int, feed_id: str, after: str) -> FeedApply:
        if self.web_away:
            raise OSError("away")
        if after and self.between_pages:
            self.plane.say(*self.between_pages.pop())
        return self.plane.since(since, feed_id, after)

    def held(self) -> Truth:
        return {(kind, key): state for kind, key, state in self.view.entities()}

    def tell(self, changed: set[tuple[str, str]]) -> None:
        held = self.held()
        for one in changed:
            self.known.pop(one, None)
            if one in held:
                self.known[one] = held[one]

    def deliver(self, page: FeedApply) -> int:
        """Pushes a page. Raises `StorageFailed`."""
        plan = self.view.plan(page)
        try:
            return self.runner.run(self.follower.apply(page))
        finally:
            for key in plan.revoked if plan is not None else ():
                assert self.view.key_revoked(key) is not False, "a revoked key opens something"

    # --- what happens

    @rule(change=CHANGES)
    def change(self, change: tuple[str, str, dict[str, Any] | None]) -> None:
        self.plane.say(*change)

    @precondition(lambda self: self.plane.version)
    @rule()
    def push(self) -> None:
        """As `tenants.feed.confirm` does, after the newest change."""
        version = self.plane.version
        after = version - 1
        try:
            for _ in range(50):
                page = self.plane.since(after)
                if page.full and page.next_key:
                    self.runner.run(self.follower.pull())
                    after = self.view.version if self.view.feed_id == self.plane.feed_id else 0
                    if after < version and (self.web_away or self.disk_full):
                        return
                else:
                    after = self.deliver(page)
                if after == version:
                    break
            else:
                raise AssertionError(f"never confirmed: at {after} of {version}")
        except StorageFailed:
            assert self.disk_full
            return
        assert (self.view.feed_id, self.view.version) == (self.plane.feed_id, version)
        assert self.held() == self.plane.truths[version]

    @rule(between=st.lists(CHANGES, max_size=4))
    def pull(self, between: list[tuple[str, str, dict[str, Any] | None]]) -> None:
        self.between_pages = between
        answered = self.runner.run(self.follower.pull())
        self.between_pages = []
        assert answered or self.web_away or self.disk_full
        if answered:
            assert (self.view.feed_id, self.view.version) == (self.plane.feed_id, self.plane.version)

    @rule(data=st.data())
    def an_answer_is_under_way(self, data: st.DataObject) -> None:
        version = data.draw(st.integers(0, self.plane.version))
        page = self.plane.since(version, data.draw(st.sampled_from(["", self.plane.feed_id])))
        if not page.next_key:  # one of several pages is joined to the others by who asked for it
            self.late.append(page)

    @precondition(lambda self: self.late)
    @rule(data=st.data())
    def a_late_answer_comes(self, data: st.DataObject) -> None:
        page = self.late.pop(data.draw(st.integers(0, len(self.late) - 1)))
        if page.feed_id != self.plane.feed_id:
            return  # nobody speaks for a database that is gone
        version = self.view.version if self.view.feed_id == page.feed_id else 0
        try:
            self.deliver(page)
        except StorageFailed:
            assert self.disk_full
        assert self.view.version >= version, "a late answer takes nothing back"

    @rule()
    def the_disk_is_full_or_has_space_again(self) -> None:
        self.disk_full = not self.disk_full

    @rule()
    def the_web_process_goes_or_comes_back(self) -> None:
        self.web_away = not self.web_away

    @rule()
    def the_broker_is_restarted(self) -> None:
        if self.follower.compacting is not None:  # a crash in the midst of it: test_feed_store.py
            self.runner.run(self._compacted())
        before = (self.view.feed_id, self.view.version, self.held())
        self.start()
        assert (self.view.feed_id, self.view.version, self.held()) == before

    async def _compacted(self) -> None:
        if self.follower.compacting is not None:
            await self.follower.compacting

    @rule()
    def old_changes_are_dropped(self) -> None:
        self.plane.compacted = self.plane.version

    @rule()
    def the_database_is_another_one(self) -> None:
        self.plane = ControlPlane()
        self.planes[self.plane.feed_id] = self.plane
        self.late.clear()

    @precondition(lambda self: self.plane.version and not self.web_away and not self.disk_full)
    @rule(data=st.data())
    def the_database_is_restored_from_a_backup(self, data: st.DataObject) -> None:
        self.plane.restore(data.draw(st.integers(0, self.plane.version - 1)))
        self.late.clear()
        self.runner.run(self.follower.pull())
        assert self.view.version == self.plane.version or self.view.feed_id != self.plane.feed_id

    # --- what holds

    @invariant()
    def the_broker_decides_by_the_truth_of_its_version(self) -> None:
        if self.view.version:
            assert self.held() == self.planes[self.view.feed_id].truths[self.view.version]

    @invariant()
    def whoever_is_connected_was_told(self) -> None:
        assert self.known == self.held()


assert set(STATES) == set(KINDS)


def test_any_sequence_of_failures(monkeypatch: Any) -> None:
    monkeypatch.setattr(feed_store, "COMPACTED_FROM_BYTES", 1_000)
    monkeypatch.setattr(feed_store, "PAGE_ENTITIES", 2)
    monkeypatch.setattr(background, "log", Mock())  # a traceback for each full disk takes longer than all the rest
    run_state_machine_as_test(
        Following,
        settings=settings(
            max_examples=examples(40), stateful_step_count=40, deadline=None, database=None, suppress_health_check=list(HealthCheck)
        ),
    )
