"""Attempts are counted by all web processes together, and still counted while the shared server is not responding."""

from __future__ import annotations

import uuid

from admin_ui.sign_in.shared_cache import SharedCache

NOWHERE = "redis://127.0.0.1:1/0"


def test_web_processes_count_together(redis_server: str) -> None:
    here, there = SharedCache(redis_server, {}), SharedCache(redis_server, {})
    key = f"attempts:{uuid.uuid4().hex}"
    assert here.add(key, 0, 60)
    assert not there.add(key, 0, 60)
    assert [here.incr(key), there.incr(key), here.get(key)] == [1, 2, 2]
    there.delete(key)
    assert not here.has_key(key)


def test_a_process_counts_alone_while_the_server_does_not_respond() -> None:
    cache = SharedCache(NOWHERE, {})
    cache.clear()
    assert cache.add("attempts", 0, 60)
    assert not cache.add("attempts", 0, 60)
    assert [cache.incr("attempts"), cache.incr("attempts"), cache.get("attempts")] == [1, 2, 2]
    cache.set("history", [1.5], 60)
    assert cache.touch("history", 60) and cache.get("history") == [1.5]
    cache.delete("history")
    assert cache.get("history", "none") == "none"
